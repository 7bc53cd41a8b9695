"""The rows of all codes."""

from __future__ import annotations

from collections.abc import Mapping

from . import agents, chained, dots, kernel, loops, maps, memory, pairs, turns
from .row import Row

ROWS: Mapping[str, Row] = {
    code: row
    for module in (agents, chained, dots, kernel, loops, maps, memory, pairs, turns)
    for code, row in module.ROWS.items()
}
"""Code -> row."""

SUBJECTS = frozenset(code.partition(".")[0] for code in ROWS)
