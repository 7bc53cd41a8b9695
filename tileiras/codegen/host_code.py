"""The host's part of a cubin for tile launches: the object file in section `.nv.host`, which ptxas puts there.

The vendor's cubins (13.5) have one, with a table of callbacks by which the CUDA driver is to find what it must do for
each kernel before a launch: fill the tensor maps of hidden parameters.  Our kernels have no such parameters, so nothing
is left to do, and the table says so in the vendor's form.  That a driver needs it is not proven; that ours is read as
the vendor's is not, either.  What is known of the form was read off its objects:

    __CUDA_TILEIR_CALLBACKS                 2, 0, 0, 0, 64, table of kernels, their number, 2, on_pre_load
    an entry of the table, of 64 bytes      name, 0, 0, 0, 0, on_arguments_change, 0, 0
    on_pre_load(.., .., version, &result)   0, and *result is a copy of the callbacks; 1 where the version is 0
    on_arguments_change(...)                0

All numbers have 8 bytes.  Layout, section names and relocations are those of LLVM's large code model on x86-64 and of
its small one on AArch64.  The code below was compiled from `tests/codegen/host_code.ll`, as a test does again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from tileiras.named_tuple import NamedTuple

PRE_LOAD = "__CUDA_TILEIR_ON_PRE_LOAD"
CALLBACKS = "__CUDA_TILEIR_CALLBACKS"
ARGUMENTS_CHANGE = "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE"
COPY = "__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD"
FUNCTIONS = "__CUDA_TILEIR_FUNC_CALLBACKS"
NAMES = "__CUDA_TILEIR_FUNC_NAMES"
GLOBAL_OFFSETS = "_GLOBAL_OFFSET_TABLE_"

REVISION = 2
KERNEL_BYTES = 64
CALLBACKS_BYTES = 72

# Types of relocations: System V ABI for AMD64, table 4.9; ELF for the Arm 64-bit Architecture, "Relocation types".
R_X86_64_64, R_X86_64_GOTOFF64, R_X86_64_GOT64, R_X86_64_GOTPC64 = 1, 25, 27, 29
R_AARCH64_ABS64, R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADD_ABS_LO12_NC = 257, 275, 277
R_AARCH64_ADR_GOT_PAGE, R_AARCH64_LD64_GOT_LO12_NC = 311, 312


class HostCode(NamedTuple):
    """Machine code of `on_arguments_change`, at 0, and `on_pre_load`, at `pre_load`, for one platform.

    `relocations` are (offset, type, symbol, addend); `prefix` and `flags` are what names and flags of its sections have
    more than usual; `address` is the type of a relocation of eight bytes by a symbol.
    """

    machine: int
    prefix: str
    flags: int
    address: int
    pre_load: int
    code: str
    relocations: tuple[tuple[int, int, str, int], ...]


_LARGE = 0x10000000
"""SHF_X86_64_LARGE: the section may be further away than 2 GB."""

_AARCH64 = HostCode(
    183, "", 0, R_AARCH64_ABS64, 8,
    "e0031f2a c0035fd6"  # return 0
    "c2010034 08000090 09000090 29010091 080140f9 e0031f2a 000541ad 0a2140f9 2a2100f9 200501ad 010140ad 210100ad"
    "690000f9 c0035fd6 20008052 c0035fd6",
    (
        (12, R_AARCH64_ADR_GOT_PAGE, CALLBACKS, 0),
        (16, R_AARCH64_ADR_PREL_PG_HI21, COPY, 0),
        (20, R_AARCH64_ADD_ABS_LO12_NC, COPY, 0),
        (24, R_AARCH64_LD64_GOT_LO12_NC, CALLBACKS, 0),
    ),
)  # fmt: skip

CODE: dict[tuple[str, str], HostCode] = {
    ("x86_64", "linux"): HostCode(
        62, "l", _LARGE, R_X86_64_64, 16,
        "31c0 c3 662e0f1f840000000000 0f1f00"  # return 0
        "488d35f9ffffff 48b80000000000000000 4801f0 85d2 744c 48ba0000000000000000 488b1410 488b7240"
        "48bf0000000000000000 4889743840 0f2802 0f284a10 0f285220 0f285a30 0f295c3830 0f29543820 0f294c3810 0f290438"
        "4801f8 488901 31c0 c3 b801000000 c3",
        (
            (25, R_X86_64_GOTPC64, GLOBAL_OFFSETS, 9),
            (42, R_X86_64_GOT64, CALLBACKS, 0),
            (60, R_X86_64_GOTOFF64, COPY, 0),
        ),
    ),
    ("x86_64", "windows"): HostCode(
        62, "l", _LARGE, R_X86_64_64, 16,
        "31c0 c3 662e0f1f840000000000 0f1f00"
        "488d0df9ffffff 48b80000000000000000 4801c8 4585c0 744c 48b90000000000000000 488b5140"
        "49b80000000000000000 4a89540040 0f2801 0f284910 0f285120 0f285930 420f295c0030 420f29540020 420f294c0010"
        "420f290400 4c01c0 498901 31c0 c3 b801000000 c3",
        (
            (25, R_X86_64_GOTPC64, GLOBAL_OFFSETS, 9),
            (43, R_X86_64_64, CALLBACKS, 0),
            (57, R_X86_64_GOTOFF64, COPY, 0),
        ),
    ),
    # Both systems pass these arguments alike.
    ("aarch64", "linux"): _AARCH64,
    ("aarch64", "windows"): _AARCH64,
}  # fmt: skip

_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


def platform_of(architecture: str | None, system: str | None) -> tuple[str, str] | None:
    """The platform that is asked for, this machine's where nothing is said; None for one that has no code here."""
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


def host_object(kernels: Sequence[str], architecture: str, system: str) -> bytes:
    """The relocatable ELF file for kernels of these names."""
    code = CODE[architecture, system]
    text = bytes.fromhex(code.code)
    names = b"".join(kernel.encode() + b"\0" for kernel in kernels)
    table = len(kernels) * KERNEL_BYTES
    callbacks = (REVISION, 0, 0, 0, KERNEL_BYTES, 0, len(kernels), 2, 0)
    data = bytes(table) + struct.pack("<9Q", *callbacks)

    # The order of the sections, which symbols and relocations refer to.
    text_at, bss_at, names_at, data_at, symbols_at, strings_at = 1, 3, 4, 5, 8, 9
    # Each at the start of its section, by whose symbol LLVM relocates.
    own = [
        (ARGUMENTS_CHANGE, _FUNC, text_at, 0, code.pre_load),
        (COPY, _OBJECT, bss_at, 0, CALLBACKS_BYTES),
        (NAMES, _OBJECT, names_at, 0, len(names)),
        (FUNCTIONS, _OBJECT, data_at, 0, table),
    ]
    locals_ = [("", _NOTYPE, 0, 0, 0), *(("", _SECTION, symbol[2], 0, 0) for symbol in own), *own]
    globals_ = [
        (PRE_LOAD, _FUNC, text_at, code.pre_load, len(text) - code.pre_load),
        (CALLBACKS, _OBJECT, data_at, table, CALLBACKS_BYTES),
    ]
    if any(symbol == GLOBAL_OFFSETS for _, _, symbol, _ in code.relocations):
        globals_.append((GLOBAL_OFFSETS, _NOTYPE, 0, 0, 0))
    number = {symbol[0]: index for index, symbol in enumerate(own, 1)}
    number |= {symbol[0]: index for index, symbol in enumerate(globals_, len(locals_))}
    strings = b"".join(b"\0" + symbol[0].encode() for symbol in (*own, *globals_)) + b"\0"
    symbols = b"".join(
        struct.pack("<IBBHQQ", strings.index(b"\0" + name.encode() + b"\0") + 1 if name else 0, scope | kind, 0, *place)
        for scope, rows in ((_LOCAL, locals_), (_GLOBAL, globals_))
        for name, kind, *place in rows
    )

    pointers = []
    start = 0
    for index, kernel in enumerate(kernels):
        pointers.append((index * KERNEL_BYTES, NAMES, start))
        pointers.append((index * KERNEL_BYTES + 40, ARGUMENTS_CHANGE, 0))
        start += len(kernel.encode()) + 1
    pointers += [(table + 40, FUNCTIONS, 0), (table + 64, PRE_LOAD, 0)]

    def relocations(rows: Sequence[tuple[int, int, str, int]]) -> bytes:
        return b"".join(struct.pack("<QQq", at, number[name] << 32 | kind, addend) for at, kind, name, addend in rows)

    addresses = [(at, code.address, name, addend) for at, name, addend in pointers]
    rela = {"alignment": 8, "link": symbols_at, "entry": _RELA_BYTES}
    sections = [
        _Part(f".{code.prefix}text", _PROGBITS, _ALLOC | _EXEC | code.flags, text, 16),
        _Part(f".rela.{code.prefix}text", _RELA, _INFO_LINK, relocations(code.relocations), info=text_at, **rela),
        _Part(f".{code.prefix}bss", _NOBITS, _WRITE | _ALLOC | code.flags, b"", 16, size=CALLBACKS_BYTES),
        _Part(f".{code.prefix}rodata", _PROGBITS, _ALLOC | code.flags, names),
        _Part(".data.rel.ro", _PROGBITS, _WRITE | _ALLOC, data, 16),
        _Part(".rela.data.rel.ro", _RELA, _INFO_LINK, relocations(addresses), info=data_at, **rela),
        _Part(".note.GNU-stack", _PROGBITS, 0, b""),
        _Part(".symtab", _SYMTAB, 0, symbols, 8, strings_at, len(locals_), _SYMBOL_BYTES),
        _Part(".strtab", _STRTAB, 0, strings),
    ]
    return _elf(code.machine, sections)


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
