"""Source positions of a line of PTX, from its `.loc` directives (PTX ISA, "Debugging Directives")."""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"\s*(?:\.(?:visible|weak|extern)\s+)?\.(?:entry|func)\b")
_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,\s*function_name\s+\S+\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)


def source_positions(ptx: str, line: int) -> list[tuple[str, int, int]]:
    """File, line and column of the source for a 1-based line of PTX, then those of the calls that inlined it.

    Empty if the PTX has no position for it.
    """
    items: list[tuple[str, ...]] = []
    for text in reversed(ptx.split("\n")[:line]):
        if _FUNCTION.match(text):
            break
        match = _LOC.match(text)
        # The position of a call has a separate directive, before that of the inlined code.
        if match is not None and (not items or match.group(1, 2, 3) == items[-1][3:]):
            items.append(match.groups())
            if match[4] is None:
                break
    files = dict(_FILE.findall(ptx))
    return [(files[number], int(row), int(column)) for number, row, column, *_ in items if number in files]
