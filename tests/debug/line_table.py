"""Line tables read back from cubins with nvdisasm."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

import pytest

from tileiras.codegen import toolkit


class Row(NamedTuple):
    """One machine instruction and the position that the line table gives for it."""

    function: str
    instruction: str
    file: str
    line: int
    inlined: tuple[tuple[str, int], ...] = ()
    """Where the position was inlined, from the inside out, as (file, line)."""


_SECTION = re.compile(r"^\s*\.section\s+\.text\.([\w$]+)")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ +)?([A-Z][\w.]*)")


def line_table(cubin: bytes, folder) -> list[Row]:
    """The instructions of all functions in order; skips the test without nvdisasm."""
    program = toolkit.find_program("nvdisasm")
    if program is None:
        pytest.skip("no nvdisasm")
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    shown = subprocess.run([program, "-gi", str(path)], capture_output=True, text=True, check=True).stdout
    rows: list[Row] = []
    function, places, fresh = "", [], True
    for line in shown.split("\n"):
        section = _SECTION.match(line)
        if section is not None:
            function, places = section[1], []
            continue
        place = _PLACE.search(line)
        if place is not None:
            # The chain of a position is on successive lines.
            places = [place] if fresh else [*places, place]
            fresh = False
            continue
        instruction = _INSTRUCTION.search(line)
        if instruction is not None and function:
            fresh = True
            file, number = (places[0][1], int(places[0][2])) if places else ("", 0)
            chain = tuple((p[3], int(p[4])) for p in places if p[3])
            rows.append(Row(function, instruction[1], file, number, chain))
    return rows
