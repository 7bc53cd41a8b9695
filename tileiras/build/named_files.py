"""Rows of files that a stage read besides its input, and reading what they name.

Rows come from a team's server as well.  A name is opened only in the source's tree or where Python finds installed
packages, as a regular file, and no further than the row says that it is long: whoever could have other files opened
would learn from the key that is asked for next what they hold, and devices and pipes have no end.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable

from tileiras.files import regular_digest
from tileiras.named_tuple import NamedTuple

ENDING = ":files"
"""What follows a record's key in the key of its row."""

LIMIT = 1 << 20
"""Bytes of a row."""

SIZE_LIMIT = 256 << 20
"""Bytes of a file: more is not read for a key."""

ABSENT = "absent"
"""The state of a file that is not there, or none that may be opened."""

TOPS = ("SConstruct", "sconstruct", "pyproject.toml", ".git", ".hg")
"""What the top of a source tree has."""


class NamedFile(NamedTuple):
    name: str
    """From the source's folder, with `/` between folders."""
    size: int
    """In bytes, as it was read."""


def observed(names: Iterable[str], base: str) -> list[NamedFile]:
    """The row of files as they are now; `base` is the source's folder.  A file that is not there has no bytes."""
    found = []
    for name in names:
        try:
            size = os.stat(os.path.join(base, name)).st_size
        except OSError:
            size = 0
        found.append(NamedFile(name, size))
    return found


def write(files: Iterable[NamedFile]) -> bytes:
    """`SIZE NAME`, a line each."""
    return "\n".join(f"{file.size} {file.name}" for file in files).encode("utf-8", "surrogateescape")


def parse(data: bytes) -> tuple[NamedFile, ...]:
    """The inverse; raises ValueError for anything else."""
    if len(data) > LIMIT:
        raise ValueError(f"a row of files of {len(data)} bytes")
    found: dict[str, NamedFile] = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n") if data else ():
        size, _, name = line.partition(" ")
        if not (size.isascii() and size.isdigit() and len(size) < 16) or int(size) > SIZE_LIMIT or name in found:
            raise ValueError("a row of files that is none")
        check_name(name)
        found[name] = NamedFile(name, int(size))
    return tuple(found.values())


def check_name(name: str) -> None:
    """Raises ValueError for what no file is called."""
    if not name or "\0" in name or "\n" in name:
        raise ValueError("a name of a file that is none")


def digests(files: Iterable[NamedFile], base: str) -> dict[str, str] | None:
    """The states of files of a row; None when one may not be opened or has become larger: the row is of others."""
    found: dict[str, str] = {}
    for file in files:
        path = os.path.join(base, file.name)
        if not may_be_opened(path, base):
            return None
        try:
            found[file.name] = regular_digest(path, file.size) or ABSENT
        except ValueError:
            return None
    return found


def states(names: Iterable[str], base: str) -> dict[str, str]:
    """The states of files that a stage has read here."""
    return {name: regular_digest(os.path.join(base, name)) or ABSENT for name in names}


def may_be_opened(path: str, base: str) -> bool:
    """Whether a path is in the tree of the sources in a folder, or where installed packages are.

    By name: a link in the user's own tree may lead out of it, but no `..` goes back through one.
    """
    whole = os.path.normpath(path)
    back = [part for part in path.split(os.sep) if part == os.pardir]
    if back and os.path.realpath(whole) != os.path.realpath(path):
        return False
    return any(whole.startswith(os.path.join(root, "")) for root in (_top(base), *_installed()))


@functools.lru_cache(64)
def _top(base: str) -> str:
    """The nearest folder that looks like the top of a source tree; the folder itself where none does."""
    current = os.path.abspath(base)
    while not any(os.path.exists(os.path.join(current, name)) for name in TOPS):
        above = os.path.dirname(current)
        if above == current:
            return os.path.abspath(base)
        current = above
    return current


def _installed() -> list[str]:
    """Folders that Python imports from, but the working directory."""
    return [os.path.abspath(folder) for folder in sys.path if folder]
