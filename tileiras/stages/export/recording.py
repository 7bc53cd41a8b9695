"""Inputs of the user's modules: their reads during import and export, as rows.

`events` and `wrappers` report reads; a recording attributes them and derives the rows.  Each row has the state at the
time of the read.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from tileiras.inputs import (
    ABSENT,
    DISTRIBUTION,
    FILE,
    MODULE,
    PROCESS,
    STATUS,
    UNSEEN,
    VARIABLE,
    VARIABLES,
    Input,
    distributions,
    kinds,
    places,
)
from tileiras.support.named_tuple import NamedTuple

from . import frames
from .loaded import Hidden

A_PROCESS, A_SOCKET, THE_CLOCK, CHANCE = "a process", "a socket", "the clock", "unseeded randomness"


class Seen(NamedTuple):
    """A use of something that is no input."""

    origin: str
    file: str
    line: int
    column: int


class Recording:
    """The reads of one source; `source` is its real path.

    `earlier` hides modules that the process has loaded before and that the user's modules import.
    """

    def __init__(self, source: str, earlier: Hidden) -> None:
        self.source = source
        self._earlier = earlier
        self.base = os.path.dirname(source)
        self.unseen: dict[str, Seen] = {}
        self.is_seeded = False
        """Whether the user's modules have seeded Python's or NumPy's generator."""
        self.imported: set[str] = set()
        """Names of modules that the user's modules import."""
        self.written: set[str] = set()
        """Files and folders that the user's modules have made themselves."""
        self.own_variables: set[str] = set()
        """Variables that they have set."""
        self.threads = set(threading.enumerate())
        """Threads from before the recording; not their numbers, which new threads take over from ended ones."""
        self._folder = os.getcwd()
        self._path = list(sys.path)
        self._read: dict[tuple[str, str], Input] = {}
        """By kind and path; paths are absolute, or start from the working directory where the program named it so."""
        self._modules: dict[str, tuple[Input, str | None]] = {}
        """Rows of modules by name, with the files that Python has found."""
        self._origins: dict[str, str] = {}
        """The files, or folders, of modules that were looked for."""

    # ---- reads -------------------------------------------------------------------------------------------------------

    def reads(self, kind: str, path: Any, frame: FrameType | None) -> None:
        """Note a read of a path, if it is the user's."""
        path = path_text(path)
        if path is None or self._reader(frame) is None:
            return
        absolute = os.path.normpath(os.path.join(os.getcwd(), path))
        if absolute in self.written or absolute == self.source:
            return
        if kind == STATUS and places.is_below(self.base, absolute):
            return  # the folders that the source is in, wherever that is
        relative = not os.path.isabs(path) and os.getcwd() == self._folder
        key = (kind, path if relative else absolute)
        if key not in self._read:
            self._read[key] = kinds.observe(kind, absolute, self.base)

    def opens(self, path: Any, flags: int, frame: FrameType | None) -> None:
        """Note that a file is opened."""
        loads = frame is not None and frames.origin_of(frame.f_code.co_filename) is frames.LOADER
        text = path_text(path)
        if text is None:
            return
        if loads and text.endswith(tuple(importlib.machinery.BYTECODE_SUFFIXES)):
            # Neither a name outside of a cache, nor a Python that caches no bytecode, has a source to note instead.
            with contextlib.suppress(ValueError, NotImplementedError):
                path = text = importlib.util.source_from_cache(text)
        if loads and frames.origin_of(text) is not frames.USER:
            return
        only_writes = flags & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY or flags & os.O_TRUNC or flags & os.O_EXCL
        if only_writes:
            if self._reader(frame) is not None:
                self.written.add(os.path.normpath(os.path.join(os.getcwd(), text)))
            return
        if text in ("/dev/urandom", "/dev/random"):
            self.uses(CHANCE, self._reader(frame))
            return
        self.reads(FILE, path, frame)

    def reads_variable(self, name: str | None, text: str | None, frame: FrameType | None) -> None:
        """Note a read of an environment variable, which has a value or none; without a name, of all of them."""
        if name in self.own_variables or self._reader(frame) is None:
            return
        kind = VARIABLE if name else VARIABLES
        if (kind, name or "") not in self._read:
            row = kinds.observe(VARIABLES, "", self.base) if name is None else None
            state = ABSENT if text is None else kinds.value(text, self.base)
            self._read[kind, name or ""] = row or Input(kind, name or "", state)

    def sets_variable(self, name: str, frame: FrameType | None) -> None:
        """Note that a variable is the user's own from here on."""
        if self._reader(frame) is not None:
            self.own_variables.add(name)

    def reads_property(self, name: str, frame: FrameType | None) -> None:
        """Note a read of something that the process is or has."""
        if self._reader(frame) is not None and (PROCESS, name) not in self._read:
            self._read[PROCESS, name] = kinds.observe(PROCESS, name, self.base)

    def uses(self, origin: str, frame: FrameType | None) -> None:
        """Note a use of something that is no input, by the user's module that a frame is of."""
        if frame is not None and origin not in self.unseen:
            self.unseen[origin] = Seen(origin, *frames.position(frame))

    def starts(self, origin: str, frame: FrameType | None) -> None:
        """The same where it may be a library that does it for the user's module."""
        self.uses(origin, self._reader(frame))

    def _reader(self, frame: FrameType | None) -> FrameType | None:
        reader = frames.reader(frame)
        if reader is None or frames.origin_of(reader.f_code.co_filename) is frames.USER:
            return reader
        return reader if threading.current_thread() not in self.threads else None

    def imports(self, name: str) -> None:
        """Note that a module of the user's is about to import one."""
        self.imported.add(name)
        self._earlier.hide(name)

    # ---- modules -----------------------------------------------------------------------------------------------------

    def looks_for(
        self, name: str, path: Any, spec: importlib.machinery.ModuleSpec | None, frame: FrameType | None
    ) -> None:
        """Note the search for a module, in the folders of `path` or on the import path, and its result."""
        is_user = frames.importer(frame) is not None
        if is_user:
            self.imported.add(name)
        origin = _origin(spec)
        if origin is not None:
            self._origins[name] = origin
        if origin is None and (spec is not None or not is_user or name.partition(".")[0] in sys.stdlib_module_names):
            return
        if origin is None or frames.origin_of(origin) is frames.USER:
            real = os.path.realpath(origin) if origin is not None else None
            state = kinds.module_state(real, self.base)
            self._modules.setdefault(name, (Input(MODULE, name, state, self._where(path, origin)), real))

    def _where(self, path: Any, origin: str | None) -> tuple[str, ...]:
        """The folders that were searched until one had the module."""
        searched: dict[str, None] = {}
        for entry in sys.path if path is None else path:
            if path is None and entry in self._path:
                searched[places.SEARCH_PATH] = None
            elif os.path.isabs(entry):
                searched[places.name_of(os.path.realpath(entry), self.base)] = None
            else:
                searched[places.relative_name(entry)] = None
            if origin is not None and _holder(origin) in (entry, os.path.abspath(entry)):
                break
        return tuple(searched)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def rows(self) -> list[Input]:
        """All reads, by kind and name; to be called after the import path is restored."""
        rows = {}
        from_home = (VARIABLE, "HOME") in self._read
        for (kind, path), row in self._read.items():
            name = path
            if kind not in (VARIABLE, VARIABLES, PROCESS):
                name = places.name_of(path, self.base, from_home) if os.path.isabs(path) else places.relative_name(path)
            rows[kind, name] = row._replace(name=name)
        for kind, name in list(rows):
            # The row of a file implies its existence, and the row of all variables includes each.
            if (kind == STATUS and (FILE, name) in rows) or (kind == VARIABLE and (VARIABLES, "") in rows):
                del rows[kind, name]
        for row in self._module_rows():
            rows[row.kind, row.name] = row
        for origin in self.unseen:
            rows[UNSEEN, origin] = Input(UNSEEN, origin, "")
        return sorted(rows.values(), key=lambda row: (row.kind, row.name))

    def _module_rows(self) -> Iterator[Input]:
        for row, file in self._modules.values():
            if kinds.locate(row.name, row.where, self.base) == file:
                yield row
            elif file is not None:  # found by a finder that is not Python's
                yield kinds.observe(FILE, places.name_of(file, self.base), self.base)
        packages: dict[str, None] = {}
        for name in sorted(self.imported):
            yield from self._library_rows(name, packages)
        for package in packages:
            yield kinds.observe(DISTRIBUTION, package, self.base)

    def _library_rows(self, name: str, packages: dict[str, None]) -> Iterator[Input]:
        """Add the installed packages that a module is of; the row of a module that no package has installed.

        The front end is part of the stage's key.
        """
        parts = name.split(".")
        if parts[0] in sys.stdlib_module_names or parts[0] == "tileiras" or parts[:2] == ["cuda", "tile"]:
            return
        top = parts[0]
        file = self._file_of(top)
        if file is not None and os.path.isdir(file) and len(parts) > 1:  # a namespace, which several packages share
            top = ".".join(parts[:2])
            file = self._file_of(top)
        if file is None or frames.origin_of(file) is not frames.LIBRARY or os.path.isdir(file):
            return
        folder = _holder(file)
        for _ in top.split(".")[1:]:
            folder = os.path.dirname(folder)
        owner = distributions.owner(top.replace(".", "/"), folder)
        if owner is not None:
            packages.update(dict.fromkeys(distributions.with_required(owner)))
        elif "." not in top:
            yield kinds.observe(MODULE, top, self.base, (places.SEARCH_PATH,))

    def _file_of(self, name: str) -> str | None:
        """The file of a module that was imported or looked for, or the first folder of a namespace."""
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        return file or next(iter(getattr(module, "__path__", ())), None) or self._origins.get(name)


_active: Recording | None = None

_busy = threading.local()
"""Has `now` set while a row is observed, which itself reads files."""


def activate(recording: Recording | None) -> None:
    """Set the recording that `notify` calls; None stops recording."""
    global _active
    _active = recording


def is_active() -> bool:
    return _active is not None


def notify(tell: Callable[[Recording], None]) -> None:
    """Call `tell` with the recording, if there is one and it is not observing by itself."""
    result = _active
    if result is None or getattr(_busy, "now", False):
        return
    _busy.now = True
    try:
        tell(result)
    except OSError:
        pass  # the read itself raises it
    finally:
        _busy.now = False


def path_text(path: Any) -> str | None:
    """A path that names a file; None for a file descriptor and for paths that no system call accepts."""
    if isinstance(path, int):
        return None
    try:
        text = os.fsdecode(path)
    except TypeError:
        return None
    return text if text and "\0" not in text else None


def _origin(spec: importlib.machinery.ModuleSpec | None) -> str | None:
    """The file of a module, or the first folder of a namespace."""
    if spec is None:
        return None
    if spec.has_location and spec.origin is not None:
        return spec.origin
    return next(iter(spec.submodule_search_locations or ()), None)


def _holder(origin: str) -> str:
    """The folder in which a module was found, by its file or the folder of a namespace."""
    is_package = os.path.basename(origin).partition(".")[0] == "__init__"
    return os.path.dirname(os.path.dirname(origin) if is_package else origin)
