"""The current state of a row, compared with the recorded one.  One table maps each kind to its function."""

from __future__ import annotations

import importlib.machinery
import os
import stat
import sys
from collections.abc import Callable, Iterable

from tileiras.inputs import (
    ABSENT,
    DISTRIBUTION,
    FILE,
    FOLDER,
    LIBRARY,
    MODE,
    MODULE,
    OF_PATHS,
    PROCESS,
    SIZE,
    STATUS,
    TIMES,
    UNSEEN,
    VARIABLE,
    VARIABLES,
    Input,
    places,
)
from tileiras.support.files import content_digest

NOT_A_FILE = "not a file"
"""The state of a file without comparable content: a folder, a device, a pipe, or an unreadable file."""

CACHES = "__pycache__"
"""Name of Python's bytecode folders; listings omit them."""

PROPERTIES: dict[str, Callable[[], object]] = {
    "os.getcwd": os.getcwd,
    "os.cpu_count": os.cpu_count,
    **{f"os.{name}": getattr(os, name) for name in ("uname", "getuid", "getgid", "getlogin") if hasattr(os, name)},
}
"""Functions that return properties of the process, captured before a tracer wraps them."""


def observe(kind: str, name: str, base: str, where: tuple[str, ...] = ()) -> Input:
    """Build a row with its current state; `base` is the source's folder."""
    state, size = _STATES[kind](name, base, where)
    return Input(kind, name, state, where, size)


def now(rows: Iterable[Input], base: str) -> list[Input]:
    """Return the rows with their current states."""
    return [observe(row.kind, row.name, base, row.where) for row in rows]


def holds(row: Input, base: str) -> bool:
    """Whether the state of a row is unchanged."""
    return row.kind != UNSEEN and observe(row.kind, row.name, base, row.where).state == row.state


def changes(rows: Iterable[Input], base: str) -> list[str]:
    """List the titles and current states of the rows that changed."""
    result = [(row, observe(row.kind, row.name, base, row.where)) for row in rows]
    return [f"{row.title}: {is_now.state}" for row, is_now in result if is_now.state != row.state]


def files(rows: Iterable[Input], base: str) -> list[str]:
    """List the existing files and folders that rows depend on, for a rule of make."""
    return [path for row in rows for path in _files(row, base)]


def _files(row: Input, base: str) -> list[str]:
    if row.kind in OF_PATHS:
        path = places.path_of(row.name, base)
        return [path] if os.path.exists(path) else []
    if row.kind == MODULE:
        place = locate(row.name, row.where, base)
        return [place] if place is not None else []
    if row.kind == DISTRIBUTION:
        from tileiras.inputs import distributions

        return distributions.files(row.name)
    return []


def digest(data: bytes) -> str:
    import xxhash

    return xxhash.xxh3_128_hexdigest(data)


def content(path: str) -> tuple[str, int | None]:
    """Return the state and the size of a file.  Only regular files are opened: reading a pipe would not end."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return NOT_A_FILE, None
        return content_digest(path), status.st_size
    except FileNotFoundError:
        return ABSENT, None
    except (OSError, ValueError):
        return NOT_A_FILE, None


def value(text: str, base: str) -> str:
    """Return the state of a variable; its paths are written as in rows, so that states agree between machines."""
    parts = [_portable(part, base) for part in text.split(os.pathsep)]
    return digest(os.pathsep.join(parts).encode(errors="surrogateescape"))


def locate(name: str, where: Iterable[str], base: str) -> str | None:
    """Return the file of a module in the first folder that has it, else the first folder of a namespace package."""
    last = name.rpartition(".")[2]
    namespace = None
    for place in where:
        for folder in sys.path if place == places.SEARCH_PATH else (places.path_of(place, base),):
            stem = os.path.join(folder or os.getcwd(), last)
            is_folder = os.path.isdir(stem)
            for start in (os.path.join(stem, "__init__"), stem) if is_folder else (stem,):
                for suffix in importlib.machinery.all_suffixes():
                    if os.path.isfile(start + suffix):
                        return os.path.realpath(start + suffix)
            if is_folder and namespace is None:
                namespace = os.path.realpath(stem)
    return namespace


def module_state(path: str | None, base: str, content_state: str | None = None) -> str:
    """Return the state of a module: its location and its content."""
    if path is None:
        return ABSENT
    return f"{places.name_of(path, base)} {content_state or content(path)[0]}"


# ---- states by kind --------------------------------------------------------------------------------------------------

_State = tuple[str, int | None]


def _portable(part: str, base: str) -> str:
    return "\0" + places.name_of(part, base, from_home=True) if os.path.isabs(part) else part


def _file(name: str, base: str, where: tuple[str, ...]) -> _State:
    return content(places.path_of(name, base))


def _folder(name: str, base: str, where: tuple[str, ...]) -> _State:
    try:
        with os.scandir(places.path_of(name, base)) as entries:
            names = [f"{entry.name}\0{_kind(entry)}" for entry in entries if entry.name != CACHES]
    except OSError:
        return ABSENT, None
    return digest("\0".join(sorted(names)).encode(errors="surrogateescape")), None


def _kind(entry: os.DirEntry[str]) -> str:
    return "link" if entry.is_symlink() else "folder" if entry.is_dir() else "file"


def _status(*fields: str) -> Callable[[str, str, tuple[str, ...]], _State]:
    """Build the state function for `stat`: the file type and the given fields; for a link also its target."""

    def state(name: str, base: str, where: tuple[str, ...]) -> _State:
        path = places.path_of(name, base)
        words: list[str] = []
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                words.append(f"link to {os.readlink(path)}")
                status = os.stat(path)
        except (OSError, ValueError):
            return " ".join([*words, ABSENT]), None
        words.append(f"{stat.S_IFMT(status.st_mode):o}")
        for field in fields:
            number = getattr(status, field)
            words.append(f"{stat.S_IMODE(number):o}" if field == "st_mode" else str(number))
        return " ".join(words), None

    return state


def _variable(name: str, base: str, where: tuple[str, ...]) -> _State:
    text = os.environ.get(name)
    return (ABSENT if text is None else value(text, base)), None


def _variables(name: str, base: str, where: tuple[str, ...]) -> _State:
    rows = sorted(f"{key}={value(text, base)}" for key, text in os.environ.items())
    return digest("\n".join(rows).encode(errors="surrogateescape")), None


def _process(name: str, base: str, where: tuple[str, ...]) -> _State:
    try:
        result = PROPERTIES[name]()
    except (KeyError, OSError):
        return ABSENT, None
    return digest(repr(_portable(result, base) if isinstance(result, str) else result).encode()), None


def _module(name: str, base: str, where: tuple[str, ...]) -> _State:
    return module_state(locate(name, where, base), base), None


def _distribution(name: str, base: str, where: tuple[str, ...]) -> _State:
    from tileiras.inputs import distributions

    return distributions.state(name), None


def _unseen(name: str, base: str, where: tuple[str, ...]) -> _State:
    return "another", None


_STATES: dict[str, Callable[[str, str, tuple[str, ...]], _State]] = {
    FILE: _file,
    LIBRARY: _file,
    FOLDER: _folder,
    STATUS: _status(),
    SIZE: _status("st_size"),
    MODE: _status("st_mode"),
    TIMES: _status("st_mode", "st_size", "st_mtime_ns"),
    VARIABLE: _variable,
    VARIABLES: _variables,
    PROCESS: _process,
    MODULE: _module,
    DISTRIBUTION: _distribution,
    UNSEEN: _unseen,
}
