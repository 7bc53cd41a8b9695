"""The host code in the reference compiler's cubins, which fills hidden parameters (tensor maps) before a launch.

The section `.nv.host` of such a cubin is an object file of the machine that launches.  For each kernel it has a
function that the driver calls with the parameters in the layout of the constant bank, and that writes the hidden ones
after the others.  This module calls it, on x86-64 Linux, where the code needs no relocation.  Its interface was read
off the compiler's objects (13.5); no document describes it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Callable, Sequence

from tileiras.codegen.object_file import Cubin, ObjectFile

TENSOR_MAP_BYTES = 128
ARENA_BYTES = 8
"""A hidden pointer: memory in which a kernel makes tensor maps itself where the driver has no per-CTA memory."""
_FUNCTION = "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_"
_NAME = "__CUDA_TILEIR_FUNC_NAME_"


class HostCodeUnusable(RuntimeError):
    """Host code that cannot be called here."""


def _function(cubin: Cubin, entry: str) -> bytes:
    """The machine code that fills the hidden parameters of a kernel."""
    host = ObjectFile(cubin.section(".nv.host"))
    symbols = host.symbols()
    for name, (section, at, size) in symbols.items():
        if not name.startswith(_NAME):
            continue
        start = host.headers[section][4] + at
        if host.data[start : start + size].rstrip(b"\0").decode() != entry:
            continue
        section, at, size = symbols[_FUNCTION + name.removeprefix(_NAME)]
        if any(at <= place < at + size for place in host.relocations(section)):
            raise HostCodeUnusable(f"the host's code of {entry} needs the driver")
        start = host.headers[section][4] + at
        return host.data[start : start + size]
    raise HostCodeUnusable(f"no host's code for {entry}")


def hidden_parameters(data: bytes, entry: str) -> Callable[[Sequence[bytes], Sequence[int]], list[bytes]]:
    """A function from the values of a kernel's declared parameters, and the sizes of the hidden ones, to the values of
    these.  Raises HostCodeUnusable where this machine cannot call the code."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise HostCodeUnusable("the host's code is for x86-64 Linux")
    cubin = Cubin(data)
    base = cubin.parameter_base(entry)
    if base is None:
        raise HostCodeUnusable("no parameters in the constant bank")

    def fill(values: Sequence[bytes], sizes: Sequence[int]) -> list[bytes]:
        if any(size not in (TENSOR_MAP_BYTES, ARENA_BYTES) for size in sizes):
            raise HostCodeUnusable("a hidden parameter that is neither a tensor map nor a pointer")
        if set(sizes) <= {ARENA_BYTES}:
            return [bytes(ARENA_BYTES)] * len(sizes)  # the emulator has per-CTA memory: the pointer is not used
        code = _function(cubin, entry)
        bank = bytearray()
        for value in values:
            bank += bytes(-len(bank) % len(value)) + value
        # Alignment counts in the constant bank, not from the first parameter on.
        places, end = [], len(bank)
        for size in sizes:
            end = -(-(base + end) // min(size, 64)) * min(size, 64) - base
            places.append(end)
            end += size
        whole = bytes(bank).ljust(end, b"\0")
        # The second argument: the code copies pointers from it that are not used here.
        out_value = ctypes.create_string_buffer(256)
        buffer = ctypes.create_string_buffer(len(whole) + 64)
        # The code stores 16 bytes at once where they are aligned in the constant bank.
        start = (base - ctypes.addressof(buffer)) % 64
        buffer[start : start + len(whole)] = whole
        with mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as pages:
            pages.write(code)
            anchor = ctypes.c_char.from_buffer(pages)
            call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 6)(ctypes.addressof(anchor))
            failed = call(None, ctypes.addressof(out_value), None, ctypes.addressof(buffer) + start, None, None)
            del anchor, call
        if failed:
            raise HostCodeUnusable(f"the host's code returned {failed}")
        return [buffer.raw[start + at : start + at + size] for at, size in zip(places, sizes)]

    return fill
