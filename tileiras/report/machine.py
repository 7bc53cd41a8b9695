"""Machine code for the report: nvdisasm's text of one entry, with the lines of the PTX and the registers in use."""

from __future__ import annotations

import re

from tileiras.codegen import nvdisasm
from tileiras.codegen.machine_code import MachineCode, read
from tileiras.codegen.machine_code.listing import section_of
from tileiras.codegen.object_file import Cubin
from tileiras.diagnostics import CompileError
from tileiras.sim.estimate import images
from tileiras.support.named_tuple import NamedTuple

_ADDRESS = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/")
_LIVE = re.compile(r"//\s*\|\s*(\d+)\s")
"""The first column of `nvdisasm -plr`: general registers in use."""
_INDENT, _GAP = re.compile(r"^ {8}"), re.compile(r"(?<=\*/) {10}(?= )")
"""Blanks of the listing that carry no information."""
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)


class MachineText(NamedTuple):
    """The listing of an entry."""

    text: str
    ptx_lines: tuple[int, ...]
    """For each line, the PTX line that it was assembled from, 0 if unknown; empty if the machine code has no lines."""
    registers: tuple[tuple[int, int], ...]
    """(line, general registers in use) of each instruction except padding at the end; lines count from 1."""
    code: MachineCode


def listing(cubin: bytes, entry: str) -> MachineText:
    """The machine code of an entry. Raises CompileError if the data is not a cubin, nvdisasm is missing, or the
    entry does not exist."""
    code = read(cubin, entry)
    rows = section_of(nvdisasm.disassemble(cubin), entry)
    ptx_lines = [0] * len(rows)
    by_address: dict[int, int] = {}
    for number, row in enumerate(rows):
        match = _ADDRESS.match(row)
        if match is not None:
            by_address[int(match.group(1), 16)] = number
    for instruction in code.instructions:
        if instruction.address in by_address:
            ptx_lines[by_address[instruction.address]] = instruction.ptx_line
    live = []
    for row in section_of(nvdisasm.disassemble(cubin, f"{nvdisasm.PROGRAM} -c -plr"), entry):
        match = _ADDRESS.match(row)
        count = _LIVE.search(row)
        if match is not None and count is not None and int(match.group(1), 16) in by_address:
            live.append((by_address[int(match.group(1), 16)] + 1, int(count.group(1))))
    rows = [_INDENT.sub("", _GAP.sub("", row, count=1), count=1) for row in rows]
    return MachineText("\n".join(rows) + "\n", (*ptx_lines, 0), tuple(live), code)


def with_lines(ptx: str, cubin: bytes | None, level: int) -> bytes:
    """A cubin of the PTX with its line information: the given one, if it has it, else one that ptxas assembles with
    line information, which changes no instruction.

    Raises CompileError if ptxas rejects the PTX.
    """
    if cubin is not None:
        try:
            if Cubin(cubin).embedded_ptx() is not None:
                return cubin
        except ValueError as error:
            raise CompileError.at(None, f"not a cubin: {error}") from None
    target = _TARGET.search(ptx)
    if target is None:
        raise CompileError.at(None, "no PTX: it has no .target")
    return images.assemble(ptx, target.group(1), level)
