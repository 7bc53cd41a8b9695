"""Attribution of a read to the user's modules, a library, Python, or the import of one of these.

A read is the user's when the frames between it and a module of the user's belong to Python, the front end or a library
that the module calls.  Reads of an import itself (a library's own variables and files, folders that are searched for
modules) are not: there, modules and packages are inputs as a whole.
"""

from __future__ import annotations

import functools
import os
import site
import sysconfig
from types import FrameType

USER, LIBRARY, PYTHON, IMPORT, LOADER, EXPORT = "user", "library", "python", "import", "loader", "export"

_HERE = os.path.dirname(os.path.realpath(__file__)) + os.sep

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_HERE))) + os.sep
"""This compiler: a library for kernels in its own tree as well."""

_WRAPPERS = ("wrappers.py", "events.py")
"""Files of this folder whose frames lie between the user's modules and Python; they count as Python."""

_QUIET = ("linecache.py", "inspect.py", "tempfile.py")
"""Modules of Python that read the source of functions, already an input as a module, or files that they create."""

_OF_VALUES = ("random.py", "secrets.py", "uuid.py", "datetime.py", "_pydatetime.py", "_strptime.py", "calendar.py")
"""Modules of Python that return the time or random values to their caller."""


@functools.lru_cache(4096)
def origin_of(file: str) -> str:
    """The owner of a code file, named as in `co_filename`."""
    if file.startswith("<"):
        return _FROZEN.get(file, PYTHON)
    return _of_path(file) or _of_path(os.path.realpath(file)) or USER


def _of_path(path: str) -> str | None:
    """The owner if the path alone decides; only for other files are links followed, which is slow."""
    if path.startswith(_HERE):
        return PYTHON if path.endswith(_WRAPPERS) else EXPORT
    if path.startswith(_libraries()) or "/site-packages/" in path or "/dist-packages/" in path:
        return LIBRARY
    return PYTHON if path.startswith(_standard()) else None


_FROZEN = {"<frozen importlib._bootstrap>": IMPORT, "<frozen importlib._bootstrap_external>": LOADER}


def know_folders() -> None:
    """Find the folders of libraries and of Python, before the first event: `sysconfig` reads files of its own at its
    first call, and in Python 3.13 fails at a second one meanwhile."""
    _libraries()
    _standard()


@functools.cache
def _libraries() -> tuple[str, ...]:
    items = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    return _folders([_PACKAGE.rstrip(os.sep), *items, site.getusersitepackages()])


@functools.cache
def _standard() -> tuple[str, ...]:
    return _folders([sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)])


def _folders(paths: list[str]) -> tuple[str, ...]:
    """Prefixes of paths below the folders, with links resolved and unresolved."""
    return tuple({item + os.sep for path in paths for item in (path, os.path.realpath(path))})


def reader(frame: FrameType | None) -> FrameType | None:
    """The frame of the user's module that a read is made for; None for a read that is not the user's.

    A thread has no frame of its starter: if all its frames are Python's, the result is the outermost.
    """
    last = None
    only_python = True
    while frame is not None:
        origin = origin_of(frame.f_code.co_filename)
        if origin is USER:
            return frame
        if origin is IMPORT or origin is EXPORT or frame.f_code.co_filename.endswith(_QUIET):
            return None
        only_python &= origin is PYTHON
        last, frame = frame, frame.f_back
    return last if only_python else None


def user_of_value(frame: FrameType | None) -> FrameType | None:
    """The frame of the user's module that requests a value, directly or through Python's modules for such values."""
    while frame is not None and frame.f_code.co_filename.endswith(_OF_VALUES) and _origin(frame) is PYTHON:
        frame = frame.f_back
    return frame if frame is not None and _origin(frame) is USER else None


def importer(frame: FrameType | None) -> FrameType | None:
    """The frame of the user's module that causes the search for a module."""
    while frame is not None and _origin(frame) in (IMPORT, LOADER, EXPORT, PYTHON):
        if frame.f_code.co_filename.endswith(_QUIET):
            return None
        frame = frame.f_back
    return frame if frame is not None and _origin(frame) is USER else None


def python_calls(frame: FrameType | None) -> list[str]:
    """The functions of Python between a read and the caller of the outermost, innermost first."""
    names = []
    while frame is not None and _origin(frame) is PYTHON:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def position(frame: FrameType) -> tuple[str, int, int]:
    """File, line and column (from 1) of the instruction that a frame executes."""
    positions = list(frame.f_code.co_positions())
    index = frame.f_lasti // 2
    line, _, column, _ = positions[index] if 0 <= index < len(positions) else (None, None, None, None)
    return frame.f_code.co_filename, line or frame.f_lineno or 1, (column or 0) + 1


def _origin(frame: FrameType) -> str:
    return origin_of(frame.f_code.co_filename)
