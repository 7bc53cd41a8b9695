"""The inputs of a stage besides its source file: one row for each observed read.

A row has a kind, a name and a state, a digest of the input when it was read.  `kinds` computes the current state of a
row, `places` the name of a file in a row, `distributions` the state of an installed package.  Rows are stored in the
artifact store, on a team's server and in a build directory, so `parse` rejects malformed rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tileiras.support.lazy import lazy_names
from tileiras.support.named_tuple import NamedTuple

FORMAT = 1
"""Format of serialized rows; other formats are rejected."""

LIMIT = 4 << 20
"""Maximum size of serialized rows in bytes."""

FILE, FOLDER, STATUS, SIZE, MODE, TIMES = "file", "folder", "status", "size", "mode", "times"
"""Content of a file, names in a folder, and results of `stat`: the type of the file alone, or further fields."""

VARIABLE, VARIABLES, PROCESS = "variable", "variables", "process"
"""One environment variable, all of them, and properties of the process (`kinds.PROPERTIES`)."""

MODULE, DISTRIBUTION, LIBRARY = "module", "distribution", "library"
"""A Python module by content, an installed package by version and RECORD, a foreign library by content."""

UNSEEN = "unseen"
"""An input that cannot be compared and always counts as changed: a clock, a process, a network or a random source."""

OF_PATHS = (FILE, FOLDER, STATUS, SIZE, MODE, TIMES, LIBRARY)
KINDS = (*OF_PATHS, VARIABLE, VARIABLES, PROCESS, MODULE, DISTRIBUTION, UNSEEN)

ABSENT = "absent"
"""The state of a missing input."""

_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_DISTRIBUTION_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class Input(NamedTuple):
    """One row."""

    kind: str
    name: str
    """A path in the notation of `places`, or the name of a variable, a module or a package."""
    state: str
    where: tuple[str, ...] = ()
    """The folders in which a module was searched, in order."""
    size: int | None = None
    """The size in bytes of a file when it was read."""

    @property
    def title(self) -> str:
        """The row's name in keys and messages; `with_title` parses it."""
        return " ".join(filter(None, (self.kind, self.name, _join(self.where) and "in " + _join(self.where))))


def with_title(title: str, state: str = "", size: int | None = None) -> Input:
    """Parse a title into a row; raises ValueError if it is malformed."""
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
    """Serialize rows with their states."""
    return json.dumps(to_json(rows), sort_keys=True).encode()


def parse(data: bytes) -> tuple[Input, ...]:
    """Parse the rows that `write` serialized; raises ValueError for other data."""
    if len(data) > LIMIT:
        raise ValueError(f"rows of inputs of {len(data)} bytes")
    try:
        return from_json(json.loads(data))
    except RecursionError:
        raise ValueError("rows of inputs are nested") from None


def to_json(rows: Iterable[Input]) -> dict[str, Any]:
    """Convert rows to a JSON document."""
    return {"format": FORMAT, "rows": [[row.title, row.state, row.size] for row in rows]}


def from_json(document: Any) -> tuple[Input, ...]:
    """Parse the rows of a JSON document from `to_json`; raises ValueError for other documents."""
    if not isinstance(document, dict) or document.keys() != {"format", "rows"} or document["format"] != FORMAT:
        raise ValueError("rows of inputs have another format")
    rows = document["rows"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise ValueError("rows of inputs are lists of three values")
    result = []
    for title, state, size in rows:
        if not isinstance(title, str) or not isinstance(state, str):
            raise ValueError("the title and the state of an input are strings")
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
            raise ValueError("the size of an input is a number of bytes")
        result.append(with_title(title, state, size))
    return tuple(result)


def states(rows: Iterable[Input]) -> dict[str, str]:
    """Map the titles of rows to their states, as used in keys."""
    return {row.title: row.state for row in rows}


def _join(where: tuple[str, ...]) -> str:
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


__getattr__ = lazy_names(__name__, globals())
