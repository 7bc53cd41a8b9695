"""Sources of a recording: Python's audit events (PEP 578) for opened files, listed folders, foreign libraries and
processes, and a module finder that precedes the others.  Other functions are wrapped (`wrappers`)."""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from tileiras.inputs import FILE, FOLDER, LIBRARY
from tileiras.support.files import read_if_there

from . import frames, wrappers
from .recording import A_PROCESS, A_SOCKET, Recording, activate, is_active, notify, path_text


@contextlib.contextmanager
def record(recording: Recording, text: bytes) -> Iterator[None]:
    """Record the reads of the block and of threads that it starts, for a source with this text; one at a time.

    Restores the working directory and the variables that the user's modules have set.
    """
    folder, variables = os.getcwd(), dict(os.environ)
    _install_hook()
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        with wrappers.install():
            wrappers.watch_clock(text)
            activate(recording)
            try:
                yield
            finally:
                activate(None)
    finally:
        sys.meta_path[:] = [each for each in sys.meta_path if each is not finder]
        for name in recording.own_variables:
            if name in variables:
                os.environ[name] = variables[name]
            else:
                os.environ.pop(name, None)
        if os.getcwd() != folder:
            os.chdir(folder)


class _Finder:
    """The first module finder: delegates to the others, and records the result."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        spec = None
        for finder in [each for each in sys.meta_path if each is not self]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                break
        frame = sys._getframe(1)
        notify(lambda recording: recording.looks_for(name, path, spec, frame))
        if is_active() and spec is not None and frames.origin_of(spec.origin or "<none>") is frames.USER:
            wrappers.watch_clock(read_if_there(spec.origin or "") or b"")
        return spec


# ---- audit events ----------------------------------------------------------------------------------------------------


def _opened(recording: Recording, args: tuple, frame: FrameType) -> None:
    path, _, flags = args
    recording.opens(path, flags if isinstance(flags, int) else 0, frame)


def _listed(recording: Recording, args: tuple, frame: FrameType) -> None:
    recording.reads(FOLDER, args[0] if args[0] is not None else os.curdir, frame)


def _library(recording: Recording, args: tuple, frame: FrameType) -> None:
    name = path_text(args[0])
    if name is None:
        return
    if os.sep not in name:
        recording.reads_variable("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH"), frame)
    recording.reads(LIBRARY, _loaded_from(name) or name, frame)


def _loaded_from(name: str) -> str | None:
    """The file of a library that the loader looks for, by the list that it keeps (ld.so.cache)."""
    if os.sep in name:
        return name
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), "/lib", "/usr/lib", "/lib64", "/usr/lib64"]
    folders += [os.path.join(folder, sys.implementation._multiarch) for folder in ("/lib", "/usr/lib")
                if getattr(sys.implementation, "_multiarch", "")]  # fmt: skip
    for folder in filter(None, folders):
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return None


def _database(recording: Recording, args: tuple, frame: FrameType) -> None:
    recording.reads(FILE, args[0], frame)


def _uses(origin: str) -> Callable[[Recording, tuple, FrameType], None]:
    return lambda recording, args, frame: recording.starts(origin, frame)


def _makes_folder(recording: Recording, args: tuple, frame: FrameType) -> None:
    path = path_text(args[0])
    if path is not None and frames.reader(frame) is not None:
        recording.written.add(os.path.normpath(os.path.join(os.getcwd(), path)))


_EVENTS: Mapping[str, Callable[[Recording, tuple, FrameType], None]] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _listed,
    "os.mkdir": _makes_folder,
    "ctypes.dlopen": _library,
    "sqlite3.connect": _database,
    **{f"os.{name}": _uses(A_PROCESS) for name in ("system", "exec", "fork", "forkpty", "posix_spawn", "spawn")},
    "subprocess.Popen": _uses(A_PROCESS),
    **{f"socket.{name}": _uses(A_SOCKET)
       for name in ("__new__", "connect", "getaddrinfo", "gethostbyname", "gethostname")},
}  # fmt: skip
"""Audit event -> handler."""

_has_hook = False


def _hook(event: str, args: tuple) -> None:
    if not is_active():
        return
    handle = _EVENTS.get(event)
    if handle is not None:
        frame = sys._getframe(1)
        notify(lambda recording: handle(recording, args, frame))


def _install_hook() -> None:
    """Install the audit hook once; Python cannot remove one."""
    global _has_hook
    if not _has_hook:
        frames.know_folders()
        _has_hook = True
        sys.addaudithook(_hook)
