"""Registers that each machine instruction reads and writes, from the live ranges that nvdisasm prints beside it.

`nvdisasm -plr` has a column for each register: `^` where it is written, `v` where it is read, `x` for both.  Operands
in the text name the first register of several only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tileiras.codegen import nvdisasm
from tileiras.codegen.machine_code.listing import section_of

FILES = ("R", "P", "UR", "UP")
"""Register files in the order of the columns: general, predicates, uniform, uniform predicates."""
_ADDRESS = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/")
_LEFT = "// |"
_PACKS = re.compile(r"\bP2R\b.*\bPR, [^,]+, 0x([0-9a-f]+)")
"""An instruction that reads the predicates of a mask; its columns have none of them."""


class Uses(NamedTuple):
    """By names such as `R4`, `UP0`."""

    reads: frozenset[str]
    writes: frozenset[str]


def register_uses(cubin: bytes, entry: str) -> dict[int, Uses]:
    """The registers of each instruction of an entry by its address.  Raises CompileError without nvdisasm."""
    return parse(section_of(nvdisasm.disassemble(cubin, f"{nvdisasm.PROGRAM} -c -plr"), entry))


def parse(lines: list[str]) -> dict[int, Uses]:
    """The registers of each instruction of a section's lines."""
    columns: list[tuple[int, str]] = []
    result: dict[int, Uses] = {}
    for line in lines:
        at = line.find(_LEFT)
        if at < 0:
            continue
        table = line[at + len(_LEFT) :]
        if "# 0" in table:
            columns = _columns(table)
        match = _ADDRESS.match(line)
        if match is None:
            continue
        packed = _PACKS.search(line)
        mask = int(packed.group(1), 16) if packed is not None else 0
        marks = [(name, table[place : place + 1]) for place, name in columns]
        result[int(match.group(1), 16)] = Uses(
            frozenset(name for name, mark in marks if mark in ("v", "x"))
            | {f"P{bit}" for bit in range(mask.bit_length()) if mask >> bit & 1},
            frozenset(name for name, mark in marks if mark in ("^", "x")),
        )
    return result


def _columns(header: str) -> list[tuple[int, str]]:
    """The place of each register's mark, below the last digit of its number, and its name."""
    result, start = [], 0
    for file, group in zip(FILES, header.split("|")):
        result += [(start + each.end() - 1, f"{file}{each.group()}") for each in re.finditer(r"\d+", group)]
        start += len(group) + 1
    return result
