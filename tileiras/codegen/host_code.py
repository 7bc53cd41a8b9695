"""The host's part of a cubin for tile launches: the object file in section `.nv.host`, which ptxas puts there.

The vendor's cubins (13.5) have one, with a table of callbacks that prepare the CUDA driver
before a launch of each kernel: fill the tensor maps of hidden parameters.  It is not proven that a driver needs the
table for kernels without tensor maps, nor that it accepts ours.  The format was read off the vendor's objects:

    __CUDA_TILEIR_CALLBACKS                 2, 0, 0, 0, 64, table of kernels, their number, 2, on_pre_load
    an entry of the table, of 64 bytes      name, 0, 0, 0, 0, on_arguments_change, 0, 0
    on_pre_load(.., .., version, &result)   0, and *result is a copy of the callbacks; 1 where the version is 0
    on_arguments_change(.., .., .., parameters)   0, and the hidden parameters are filled (`host_tensor_maps`)

All numbers have 8 bytes.  The machine code is in `host_machine_code`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from tileiras.codegen.host_machine_code import CALLBACKS, CODE, COPY, GLOBAL_OFFSETS, HostCode
from tileiras.support.named_tuple import NamedTuple

PRE_LOAD = "__CUDA_TILEIR_ON_PRE_LOAD"
ARGUMENTS_CHANGE = "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_"
FUNCTIONS = "__CUDA_TILEIR_FUNC_CALLBACKS"
NAME = "__CUDA_TILEIR_FUNC_NAME_"

REVISION = 2
KERNEL_BYTES = 64
CALLBACKS_BYTES = 72

_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def platform_of(architecture: str | None, system: str | None) -> tuple[str, str] | None:
    """The requested platform, by default that of this machine; None for a platform without code."""
    if architecture is None:
        machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
        architecture = _ALIASES.get(machine.lower(), machine.lower())
    if system is None:
        system = "windows" if os.name == "nt" else "linux"
    return (architecture, system) if (architecture, system) in CODE else None


# ELF (System V gABI, chapter 4): types and flags of sections, kinds of symbols.
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 1, 2, 3, 4, 8
_WRITE, _ALLOC, _EXEC, _INFO_LINK = 1, 2, 4, 0x40
_LOCAL, _GLOBAL = 0, 0x10
_NOTYPE, _OBJECT, _FUNC, _SECTION = 0, 1, 2, 3
_HEADER_BYTES, _SYMBOL_BYTES, _RELA_BYTES = 64, 24, 24


class HostKernel(NamedTuple):
    """A kernel by its name; `maps` is the table of its tensor maps (`host_tensor_maps.table`), empty without."""

    name: str
    maps: bytes = b""


class _Part(NamedTuple):
    name: str
    kind: int
    flags: int
    data: bytes
    alignment: int = 1
    link: int = 0
    info: int = 0
    entry: int = 0
    size: int = -1


class _Symbol(NamedTuple):
    """`section` is a number, 0 for an undefined symbol; `at` and `size` are in bytes.  Section symbols have no name."""

    name: str
    kind: int
    section: int = 0
    at: int = 0
    size: int = 0


_TEXT, _BSS, _NAMES, _DATA, _SYMBOLS, _STRINGS = 1, 3, 4, 5, 8, 9
"""The order of the sections, which symbols and relocations refer to."""


def host_object(kernels: Sequence[HostKernel], architecture: str, system: str) -> bytes:
    """The relocatable ELF file for kernels."""
    code = CODE[architecture, system]
    text, functions, pre_load = _text(kernels, code)
    names = [kernel.name.encode() + b"\0" for kernel in kernels]
    table = len(kernels) * KERNEL_BYTES
    data = bytes(table) + struct.pack("<9Q", REVISION, 0, 0, 0, KERNEL_BYTES, 0, len(kernels), 2, 0)

    locals_ = [
        _Symbol("", _NOTYPE), _Symbol("text", _SECTION, _TEXT), _Symbol("bss", _SECTION, _BSS),
        _Symbol("names", _SECTION, _NAMES), _Symbol("data", _SECTION, _DATA),
    ]  # fmt: skip
    addresses = []
    start = 0
    for index, ((at, size), name) in enumerate(zip(functions, names)):
        locals_.append(_Symbol(f"{ARGUMENTS_CHANGE}{index}", _FUNC, _TEXT, at, size))
        locals_.append(_Symbol(f"{NAME}{index}", _OBJECT, _NAMES, start, len(name)))
        addresses += [(index * KERNEL_BYTES, "names", start), (index * KERNEL_BYTES + 40, "text", at)]
        start += len(name)
    locals_ += [_Symbol(COPY, _OBJECT, _BSS, 0, CALLBACKS_BYTES), _Symbol(FUNCTIONS, _OBJECT, _DATA, 0, table)]
    globals_ = [
        _Symbol(PRE_LOAD, _FUNC, _TEXT, pre_load, len(text) - pre_load),
        _Symbol(CALLBACKS, _OBJECT, _DATA, table, CALLBACKS_BYTES),
    ]
    if any(symbol == GLOBAL_OFFSETS for _, _, symbol, _ in code.relocations):
        globals_.append(_Symbol(GLOBAL_OFFSETS, _NOTYPE))
    addresses += [(table + 40, "data", 0), (table + 64, PRE_LOAD, 0)]

    number = {symbol.name: index for index, symbol in enumerate((*locals_, *globals_))}
    # LLVM relocates local symbols by the symbol of their section.
    number[COPY] = number["bss"]

    def relocations(rows: Sequence[tuple[int, int, str, int]]) -> bytes:
        return b"".join(struct.pack("<QQq", at, number[name] << 32 | kind, addend) for at, kind, name, addend in rows)

    symbols, strings = _symbol_table(locals_, globals_)
    own = [(pre_load + at, kind, name, addend) for at, kind, name, addend in code.relocations]
    pointers = [(at, code.address, name, addend) for at, name, addend in addresses]
    rela = {"alignment": 8, "link": _SYMBOLS, "entry": _RELA_BYTES}
    sections = [
        _Part(f".{code.prefix}text", _PROGBITS, _ALLOC | _EXEC | code.flags, text, 16),
        _Part(f".rela.{code.prefix}text", _RELA, _INFO_LINK, relocations(own), info=_TEXT, **rela),
        _Part(f".{code.prefix}bss", _NOBITS, _WRITE | _ALLOC | code.flags, b"", 16, size=CALLBACKS_BYTES),
        _Part(f".{code.prefix}rodata", _PROGBITS, _ALLOC | code.flags, b"".join(names)),
        _Part(".data.rel.ro", _PROGBITS, _WRITE | _ALLOC, data, 16),
        _Part(".rela.data.rel.ro", _RELA, _INFO_LINK, relocations(pointers), info=_DATA, **rela),
        _Part(".note.GNU-stack", _PROGBITS, 0, b""),
        _Part(".symtab", _SYMTAB, 0, symbols, 8, _STRINGS, len(locals_), _SYMBOL_BYTES),
        _Part(".strtab", _STRTAB, 0, strings),
    ]
    return _elf(code.machine, sections)


def _symbol_table(locals_: Sequence[_Symbol], globals_: Sequence[_Symbol]) -> tuple[bytes, bytes]:
    """The symbols, and the strings of their names."""
    rows, strings = [], bytearray(b"\0")
    for scope, symbols in ((_LOCAL, locals_), (_GLOBAL, globals_)):
        for symbol in symbols:
            name = b"" if symbol.kind in (_SECTION, _NOTYPE) and scope == _LOCAL else symbol.name.encode() + b"\0"
            place = (symbol.section, symbol.at, symbol.size)
            rows.append(struct.pack("<IBBHQQ", len(strings) if name else 0, scope | symbol.kind, 0, *place))
            strings += name
    return b"".join(rows), bytes(strings)


def _text(kernels: Sequence[HostKernel], code: HostCode) -> tuple[bytes, list[tuple[int, int]], int]:
    """The section of code: a function for each kernel, with where it is and its bytes, and where on_pre_load is."""
    text = bytearray()
    functions = []
    for kernel in kernels:
        text += bytes(-len(text) % _FUNCTION_ALIGNMENT)
        start = len(text)
        if kernel.maps:
            fill = bytes.fromhex(code.fill)
            behind = len(code.table(0)) + len(fill)
            table = behind + -behind % _FUNCTION_ALIGNMENT
            text += (code.table(table) + fill).ljust(table, b"\0") + kernel.maps
        else:
            text += bytes.fromhex(code.nothing)
        functions.append((start, len(text) - start))
    text += bytes(-len(text) % _FUNCTION_ALIGNMENT)
    return bytes(text) + bytes.fromhex(code.pre_load), functions, len(text)


_FUNCTION_ALIGNMENT = 16


def _elf(machine: int, sections: Sequence[_Part]) -> bytes:
    """A relocatable file of these sections, and one of their names at the end."""
    names = b"\0" + b"".join(section.name.encode() + b"\0" for section in sections) + b".shstrtab\0"
    body = bytearray(_HEADER_BYTES)
    headers = [bytes(64)]
    at = 1
    for section in (*sections, _Part(".shstrtab", _STRTAB, 0, names)):
        body += bytes(-len(body) % section.alignment)
        size = len(section.data) if section.size < 0 else section.size
        headers.append(struct.pack(
            "<IIQQQQIIQQ", at, section.kind, section.flags, 0, len(body), size, section.link, section.info,
            section.alignment, section.entry,
        ))  # fmt: skip
        at += len(section.name) + 1
        body += section.data
    body += bytes(-len(body) % 8)
    count = len(headers)
    body[:_HEADER_BYTES] = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, len(body), 0, _HEADER_BYTES, 0, 0, 64, count, count - 1
    )
    return bytes(body) + b"".join(headers)
