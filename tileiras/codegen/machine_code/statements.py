"""Lines of PTX by statement: ptxas's line table names the line on which an instruction ends, the emulator and people
the one on which it begins."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r'(?P<skip>[ \t\r]+|//[^\n]*|/\*.*?\*/)|\n|"(?:[^"\\]|\\.)*"|[;{}]|[^\s;{}:"/]+(?:::[^\s;{}:"/]+)*|.', re.DOTALL
)

_ONE_LINE = (".loc", ".file", ".section", ".version", ".target", ".address_size")
"""Directives that end with their line; others end with a semicolon or a body."""


def first_lines(ptx: str) -> list[int]:
    """For each line of the PTX, counted from 1, the line on which the statement on it begins; for lines between
    statements their own.  The element 0 is 0."""
    lines = list(range(ptx.count("\n") + 2))
    line, words, first, vectors = 1, 0, "", 0
    for match in _TOKEN.finditer(ptx):
        token = match.group()
        if match.group("skip") is not None:
            ends = token.count("\n")
        elif token == "\n":
            ends = 1
            words = 0 if first in _ONE_LINE else words
        else:
            ends = 0
            if not words and token not in ";{}:":
                first, start = token, line
            if token == "{" and words and not first.startswith("."):
                vectors += 1  # operands of an instruction; other braces are around statements
            elif token == "}" and vectors:
                vectors -= 1
            elif token in ";{}" or (token == ":" and words == 1):  # a label
                words = 0
            else:
                words += 1
        for _ in range(ends):
            line += 1
            if words:
                lines[line] = start
    return lines


_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_PRODUCT = re.compile(r"\bwgmma\.mma_async\.[\w.]*?\.m(\d+)n(\d+)k(\d+)\b")


def warpgroup_products(ptx: str, entry: str) -> list[tuple[int, str]]:
    """The lines on which the products of warpgroups (wgmma.mma_async) of an entry begin, with their shapes as machine
    instructions have them: `64x128x16`."""
    starts = [(match.group(1), match.start()) for match in _ENTRY.finditer(ptx)]
    ends = [at for _, at in starts[1:]] + [len(ptx)]
    for (name, start), end in zip(starts, ends):
        if name == entry:
            products = _PRODUCT.finditer(ptx, start, end)
            return [(ptx.count("\n", 0, each.end()) + 1, "x".join(each.groups())) for each in products]
    return []
