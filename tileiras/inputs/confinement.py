"""Restricts the rows of inputs from a team's server whose states are computed on this machine.

The next requested key contains the states of the rows, so the author of a row learns from the key about this machine.
A state is therefore computed only if a stage of this source could have read the input: files in the source's tree or in
the folders of installed packages, if regular and no larger than the size in the row (devices and pipes have no end);
environment variables that a module of the tree names.  Rows written by stages on this machine are not confined.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import sys
from collections.abc import Iterable

from tileiras.inputs import DISTRIBUTION, FILE, LIBRARY, MODULE, OF_PATHS, PROCESS, VARIABLE, Input, places
from tileiras.inputs.kinds import locate

SIZE_LIMIT = 256 << 20
"""Maximum size in bytes of a file that is read for a key."""

TOPS = ("SConstruct", "sconstruct", "pyproject.toml", ".git", ".hg")
"""Entries of a folder that mark the top of a source tree."""


def admits(rows: Iterable[Input], base: str, source: bytes) -> bool:
    """Whether the states of all rows may be computed; `base` is the folder of the source, `source` its content."""
    rows = tuple(rows)
    variables = frozenset(row.name for row in rows if row.kind == VARIABLE)
    return all(_is_confined(row, base) for row in rows) and (not variables or variables <= _names(rows, base, source))


def _is_confined(row: Input, base: str) -> bool:
    if row.kind in OF_PATHS:
        path = places.path_of(row.name, base)
        return is_in_reach(path, base) and (row.kind not in (FILE, LIBRARY) or _is_small(path, row.size))
    if row.kind == MODULE:
        return all(place == places.SEARCH_PATH or is_in_reach(places.path_of(place, base), base) for place in row.where)
    return row.kind in (DISTRIBUTION, VARIABLE, PROCESS)


def _is_small(path: str, size: int | None) -> bool:
    """Whether reading a file ends after at most `size` bytes; true of an absent file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return True
    return not stat.S_ISREG(status.st_mode) or status.st_size <= min(size or 0, SIZE_LIMIT)


def _names(rows: Iterable[Input], base: str, source: bytes) -> frozenset[str]:
    """Return the identifiers in the source and in the modules of its tree: an environment variable is read by name."""
    texts = [source]
    for row in rows:
        path = locate(row.name, row.where, base) if row.kind == MODULE else None
        if path is not None and places.is_below(path, _top(base)) and os.path.isfile(path):
            with open(path, "rb") as file:
                texts.append(file.read(SIZE_LIMIT))
    return frozenset(word.decode() for text in texts for word in re.findall(rb"[A-Za-z_][A-Za-z0-9_]*", text))


def is_in_reach(path: str, base: str) -> bool:
    """Whether an absolute path is in the source's tree or in a folder of installed packages.

    Paths are compared by name, without resolving links: a link in the user's own tree may lead out of it.
    """
    return any(places.is_below(path, root) for root in (_top(base), *_installed()))


@functools.lru_cache(64)
def _top(base: str) -> str:
    """Return the nearest enclosing folder with an entry of `TOPS`; the folder itself if no folder has one."""
    current = os.path.abspath(base)
    while not any(os.path.exists(os.path.join(current, name)) for name in TOPS):
        above = os.path.dirname(current)
        if above == current:
            return os.path.abspath(base)
        current = above
    return current


def _installed() -> list[str]:
    """List the folders of the import path, except the working directory."""
    return [os.path.abspath(folder) for folder in sys.path if folder]
