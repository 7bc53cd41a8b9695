"""The inputs of a stage besides the file that it is given: one row for everything that it was seen to read.

A row has a kind, a name and a state, which is a digest of what was read.  `kinds` says the state of a row as it is now,
`places` how a row names files, `distributions` the state of an installed package.  Rows are kept in the artifact store,
on a team's server and in a build directory, so that `parse` takes nothing for a row that is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tileiras.named_tuple import NamedTuple

FORMAT = 1
"""Of the rows as they are written; others are not read."""

LIMIT = 4 << 20
"""Bytes of rows."""

FILE, FOLDER, STATUS, SIZE, MODE, TIMES = "file", "folder", "status", "size", "mode", "times"
"""Content of a file, names in a folder, and what `stat` says: the kind of file alone, or further numbers."""

VARIABLE, VARIABLES, PROCESS = "variable", "variables", "process"
"""One environment variable, all of them, and properties of the process (`kinds.PROPERTIES`)."""

MODULE, DISTRIBUTION, LIBRARY = "module", "distribution", "library"
"""A Python module by its content, an installed package by its version and RECORD, a foreign library by content."""

UNSEEN = "unseen"
"""No input: a clock, a process, a network or chance, whose state is never as it was."""

OF_PATHS = (FILE, FOLDER, STATUS, SIZE, MODE, TIMES, LIBRARY)
KINDS = (*OF_PATHS, VARIABLE, VARIABLES, PROCESS, MODULE, DISTRIBUTION, UNSEEN)

ABSENT = "absent"
"""The state of what was looked for in vain."""

_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DISTRIBUTION_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class Input(NamedTuple):
    """One row."""

    kind: str
    name: str
    """A path as `places` writes it, or what a variable, a module or a package is called."""
    state: str
    where: tuple[str, ...] = ()
    """Of a module, the folders in which it was looked for, in order."""
    size: int | None = None
    """Of a file, as it was read: bytes."""

    @property
    def title(self) -> str:
        """What keys and messages call the row; `with_title` makes a row of it."""
        return " ".join(filter(None, (self.kind, self.name, _joined(self.where) and "in " + _joined(self.where))))


def with_title(title: str, state: str = "", size: int | None = None) -> Input:
    """The row with a title; raises ValueError for what is no title."""
    kind, _, name = title.partition(" ")
    where: tuple[str, ...] = ()
    if kind == MODULE:
        name, _, places = name.partition(" in ")
        where = tuple(place.replace("%3A", ":").replace("%25", "%") for place in places.split(":")) if places else ()
    row = Input(kind, name, state, where, size)
    if not _is_sound(row) or row.title != title:
        raise ValueError(f"no input of a stage: {title!r}")
    return row


def write(rows: Iterable[Input]) -> bytes:
    """Rows as bytes, with their states."""
    return json.dumps(to_json(rows), sort_keys=True).encode()


def parse(data: bytes) -> tuple[Input, ...]:
    """The rows that `write` wrote; raises ValueError for anything else."""
    if len(data) > LIMIT:
        raise ValueError(f"rows of inputs of {len(data)} bytes")
    try:
        return from_json(json.loads(data))
    except RecursionError:
        raise ValueError("rows of inputs are nested") from None


def to_json(rows: Iterable[Input]) -> dict[str, Any]:
    """Rows as a JSON document has them."""
    return {"format": FORMAT, "rows": [[row.title, row.state, row.size] for row in rows]}


def from_json(found: Any) -> tuple[Input, ...]:
    """The rows of a JSON document that `to_json` made; raises ValueError for anything else."""
    if not isinstance(found, dict) or found.keys() != {"format", "rows"} or found["format"] != FORMAT:
        raise ValueError("rows of inputs have another format")
    rows = found["rows"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise ValueError("rows of inputs are lists of three values")
    made = []
    for title, state, size in rows:
        if not isinstance(title, str) or not isinstance(state, str):
            raise ValueError("the title and the state of an input are strings")
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
            raise ValueError("the size of an input is a number of bytes")
        made.append(with_title(title, state, size))
    return tuple(made)


def states(rows: Iterable[Input]) -> dict[str, str]:
    """The states of rows by title, as keys have them."""
    return {row.title: row.state for row in rows}


def _joined(where: tuple[str, ...]) -> str:
    return ":".join(place.replace("%", "%25").replace(":", "%3A") for place in where)


def _is_sound(row: Input) -> bool:
    if row.kind not in KINDS or any("\0" in text for text in (row.name, row.state, *row.where)):
        return False
    if row.kind == VARIABLES:
        return not row.name
    if row.kind == MODULE:
        return bool(_MODULE_NAME.fullmatch(row.name)) and all(row.where)
    if row.kind == DISTRIBUTION:
        return bool(_DISTRIBUTION_NAME.fullmatch(row.name))
    return bool(row.name) and (row.kind != VARIABLE or "=" not in row.name)
