"""PTX under two releases of ptxas: resources and machine code of each function, side by side.

A check ends at PTX.  If a kernel is right under one assembler and wrong, or slower, under another, the differences
between their machine code show where to look.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileiras.codegen import nvdisasm, ptxas, toolkit
from tileiras.codegen.object_file import Cubin
from tileiras.codegen.tile_launch import TILE_LANGUAGE
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.support.named_tuple import NamedTuple

RESOURCES = ("registers", "stack", "spill_stores", "spill_loads", "shared", "barriers", "constant")


class Assembler(NamedTuple):
    path: str
    version: str


class Function(NamedTuple):
    """A function under each of the assemblers; None for an assembler whose output lacks it."""

    name: str
    resources: tuple[ptxas.Resources | None, ...]
    """Of entries."""
    instructions: tuple[int | None, ...]
    """None without nvdisasm."""
    first_difference: int | None
    """The first instruction that differs; -1 if only the bytes differ, None if the code is equal."""

    @property
    def differs(self) -> bool:
        return self.first_difference is not None or len(set(self.resources)) > 1


def find(word: str) -> Assembler:
    """The ptxas at a path, or the installed one of a version: `13.0` is any 13.0.x.  Raises CompileError."""
    if "/" in word or "\\" in word:
        path = ptxas.find(word)
        return Assembler(path, ptxas.version(path))
    installed = [Assembler(path, ptxas.version(path)) for path in toolkit.find_programs("ptxas")]
    for each in installed:
        if f"{each.version}.".startswith(f"{word}."):
            return each
    versions = ", ".join(dict.fromkeys(each.version for each in installed)) or "none"
    note = Diagnostic.note(
        None, "one that is elsewhere is named by its path: --ptxas-versions 13.0,./cuda-12.9/bin/ptxas"
    )
    raise CompileError.at(None, f"ptxas {word} is not installed; installed: {versions}", ExitCode.CONFIGURATION, [note])


def compare(ptx: str, chip: str, opt_level: int, assemblers: Sequence[Assembler]) -> list[Function]:
    """The functions of PTX under each assembler.  Raises CompileError for PTX that one of them refuses."""
    # Static shared memory beyond 48 KB, which kernels for tile launches have.
    flags = ("--enable-extended-smem", "true") if f"\n.language {TILE_LANGUAGE}\n" in ptx else ()
    items = []
    for each in assemblers:
        try:
            items.append(ptxas.assemble(ptx, chip, opt_level=opt_level, options=flags, ptxas=each.path))
        except CompileError as error:
            raise CompileError([_with_version(item, each) for item in error.diagnostics], error.code) from None
    codes = [_code(each.cubin) for each in items]
    return [
        Function(
            name, tuple(each.resources.get(name) for each in items),
            tuple(len(code[name][1]) or None if name in code else None for code in codes),
            _first_difference([code.get(name) for code in codes]),
        )
        for name in dict.fromkeys(name for code in codes for name in code)
    ]  # fmt: skip


def _with_version(diagnostic: Diagnostic, by: Assembler) -> Diagnostic:
    message = f"ptxas {by.version}: {diagnostic.message}"
    return Diagnostic(diagnostic.severity, diagnostic.location, message, diagnostic.notes)


_Code = tuple[bytes, list[str]]
"""The bytes of a function, and its instructions as nvdisasm prints them; an empty list without nvdisasm."""

_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")


def _code(cubin: bytes) -> dict[str, _Code]:
    elf = Cubin(cubin)
    listed: dict[str, list[str]] = {}
    if toolkit.find_program(nvdisasm.PROGRAM) is not None:
        name = None
        for line in nvdisasm.disassemble(cubin).split("\n"):
            section = re.match(r"\s*\.section\s+\.text\.([\w$.]+)", line)
            name = section[1] if section is not None else None if line.lstrip().startswith(".section") else name
            match = _INSTRUCTION.match(line)
            if match is not None and name is not None:
                listed.setdefault(name, []).append(" ".join(match[1].split()))
    return {name: (elf.section(f".text.{name}"), listed.get(name, [])) for name in elf.entries()}


def _first_difference(codes: Sequence[_Code | None]) -> int | None:
    first, *others = codes
    if first is None or None in others:
        return 0
    first_difference = []
    for other in others:
        assert other is not None
        if other[0] == first[0]:
            continue
        pairs = enumerate(zip(first[1], other[1]))
        shorter = min(len(first[1]), len(other[1]))
        at = next((number for number, (one, two) in pairs if one != two), shorter)
        first_difference.append(-1 if at == len(first[1]) == len(other[1]) else at)
    return min(first_difference, default=None)


def table(functions: Sequence[Function], assemblers: Sequence[Assembler]) -> str:
    """The output of each assembler, in a block of lines per function, and the names of the functions that differ."""
    rows: list[Sequence[str]] = [("", *(f"ptxas {each.version}" for each in assemblers))]
    for function in functions:
        rows.append((function.name, *[""] * len(assemblers)))
        for name in RESOURCES:
            values = [None if each is None else getattr(each, name) for each in function.resources]
            if any(value is not None for value in values):
                rows.append((f"  {name.replace('_', ' ')}", *map(_text, values)))
        rows.append(("  instructions", *map(_text, function.instructions)))
        rows.append(("  machine code", "", *[""] * (len(assemblers) - 2), _difference(function)))
    different = [each.name for each in functions if each.differs]
    widths = [max(len(row[column]) for row in rows) for column in range(len(assemblers) + 1)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines) + f"\n\nfunctions that differ: {', '.join(different) or 'none'}"


def _text(value: int | None) -> str:
    return "not known" if value is None else str(value)


def _difference(function: Function) -> str:
    if function.first_difference is None:
        return "equal"
    if function.first_difference < 0:
        return "equal instructions, other encodings"
    if None in function.instructions:
        return "differs"
    return f"differs from instruction {function.first_difference} on"


def to_json(functions: Sequence[Function], assemblers: Sequence[Assembler]) -> dict:
    """The same as data.  It names no path of the machine."""
    return {
        "ptxas": [each.version for each in assemblers],
        "functions": [
            {
                "name": each.name, "differs": each.differs, "first_difference": each.first_difference,
                "resources": [None if row is None else row._asdict() for row in each.resources],
                "instructions": list(each.instructions),
            }
            for each in functions
        ],
    }  # fmt: skip
