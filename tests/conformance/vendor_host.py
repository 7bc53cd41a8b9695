"""What the vendor's cubins have the host do before a launch: fill hidden parameters, which are tensor maps.

The section `.nv.host` of such a cubin is an object file of the machine that launches.  For each kernel it has a
function that the driver calls with the parameters as they lie in the constant bank, and that writes the hidden ones
behind the others.  Here it is called, on x86-64 Linux, where the code needs no relocation.  What is known of it was
read off the vendor's objects (13.5); no document describes it.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from collections.abc import Callable, Sequence

TENSOR_MAP_BYTES = 128
ARENA_BYTES = 8
"""A hidden pointer: memory in which a kernel makes tensor maps itself where the driver has no per-CTA memory."""
_PARAM_CBANK = 0x0A
"""EIATTR_PARAM_CBANK of `.nv.info.ENTRY`: where in the constant bank parameters start."""
_SIZED = 4
_FUNCTION = "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_"
_NAME = "__CUDA_TILEIR_FUNC_NAME_"


class HostCodeUnusable(RuntimeError):
    """Host code that cannot be called here."""


class ObjectFile:
    """A 64-bit little-endian ELF file (System V ABI, "Object Files"): sections by name, symbols as (section's number,
    offset, size) by name."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (offset,) = struct.unpack_from("<Q", data, 40)
        count, names = struct.unpack_from("<HH", data, 60)
        self.headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * number) for number in range(count)]
        self.names = [self._string(names, header[0]) for header in self.headers]

    def _string(self, section: int, at: int) -> str:
        start = self.headers[section][4] + at
        return self.data[start : self.data.index(b"\0", start)].decode()

    def section(self, name: str) -> bytes:
        """The content of a section.  Raises KeyError when the file has none of this name."""
        if name not in self.names:
            raise KeyError(name)
        header = self.headers[self.names.index(name)]
        return self.data[header[4] : header[4] + header[5]]

    def symbols(self) -> dict[str, tuple[int, int, int]]:
        (header,) = (header for header in self.headers if header[1] == 2)
        found = {}
        for at in range(header[4], header[4] + header[5], 24):
            name, _, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            found[self._string(header[6], name)] = (section, value, size)
        return found

    def relocations(self, section: int) -> list[int]:
        """The offsets in a section that are relocated."""
        tables = [header for header in self.headers if header[1] == 4 and header[7] == section]
        return [
            struct.unpack_from("<Q", self.data, at)[0]
            for header in tables
            for at in range(header[4], header[4] + header[5], 24)
        ]


def parameter_base(info: bytes) -> int:
    """Where the first parameter is in the constant bank, out of `.nv.info.ENTRY`."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == _SIZED and attribute == _PARAM_CBANK:
            return struct.unpack_from("<H", info, at + 8)[0]
        at += 4 + (size if form == _SIZED else 0)
    raise HostCodeUnusable("no parameters in the constant bank")


def _function(cubin: ObjectFile, entry: str) -> bytes:
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
    cubin = ObjectFile(data)
    base = parameter_base(cubin.section(f".nv.info.{entry}"))

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
        # Of the second argument, words of which it copies pointers that are not used here.
        unused = ctypes.create_string_buffer(256)
        buffer = ctypes.create_string_buffer(len(whole) + 64)
        # The code stores 16 bytes at once where they are aligned in the constant bank.
        start = (base - ctypes.addressof(buffer)) % 64
        buffer[start : start + len(whole)] = whole
        with mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as pages:
            pages.write(code)
            anchor = ctypes.c_char.from_buffer(pages)
            call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 6)(ctypes.addressof(anchor))
            failed = call(None, ctypes.addressof(unused), None, ctypes.addressof(buffer) + start, None, None)
            del anchor, call
        if failed:
            raise HostCodeUnusable(f"the host's code returned {failed}")
        return [buffer.raw[start + at : start + at + size] for at, size in zip(places, sizes)]

    return fill
