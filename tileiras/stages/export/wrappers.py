"""Wrappers for reads without audit events: `stat`, environment variables, imports of loaded modules, clocks, chance.

A wrapper that a library has imported (`from os import stat`) stays there, and is inert without a recording.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import importlib.util
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

from tileiras.inputs import MODE, SIZE, STATUS, TIMES, kinds

from . import frames
from .recording import CHANCE, THE_CLOCK, Recording, notify

_FACETS = {
    **dict.fromkeys(
        ("exists", "lexists", "isfile", "isdir", "islink", "isjunction", "ismount", "is_file", "is_dir", "is_symlink",
         "is_mount", "realpath", "_joinrealpath", "resolve", "makedirs", "mkdir", "glob", "rglob", "iglob", "walk"),
        STATUS),
    "getsize": SIZE,
}  # fmt: skip
"""Functions of Python that use only a part of the result of `stat`."""

_Tell = Callable[[Recording, tuple, FrameType], None]


def _status(kind: str | None) -> _Tell:
    def tell(recording: Recording, args: tuple, frame: FrameType) -> None:
        result = next((_FACETS[name] for name in frames.python_calls(frame) if name in _FACETS), TIMES)
        recording.reads(kind or result, args[0] if args else None, frame)

    return tell


def _value(origin: str) -> _Tell:
    return lambda recording, args, frame: recording.uses(origin, frames.user_of_value(frame))


def _moment(recording: Recording, args: tuple, frame: FrameType) -> None:
    """Of functions that take a moment, or the present one."""
    if not args or args[0] is None:
        recording.uses(THE_CLOCK, frames.user_of_value(frame))


def _property(name: str) -> _Tell:
    return lambda recording, args, frame: recording.reads_property(name, frame)


def _draws(recording: Recording, args: tuple, frame: FrameType) -> None:
    if not recording.is_seeded:
        recording.uses(CHANCE, frames.user_of_value(frame))


def _seeds(recording: Recording, args: tuple, frame: FrameType) -> None:
    if args and args[0] is not None and frames.user_of_value(frame) is not None:
        recording.is_seeded = True


def _seeds_one(recording: Recording, args: tuple, frame: FrameType) -> None:
    """`random.Random.seed`: without a number it takes one from the system."""
    if len(args) < 2 or args[1] is None:
        recording.uses(CHANCE, frames.user_of_value(frame))


def _imports(recording: Recording, args: tuple, frame: FrameType) -> None:
    name = args[0] if args else None
    level = args[4] if len(args) > 4 else 0
    if not isinstance(name, str):
        return
    if isinstance(level, int) and level:
        return  # of the module's own package
    recording.imports(name)
    for each in args[3] or () if len(args) > 3 and isinstance(args[3], (tuple, list)) else ():
        recording.imported.add(f"{name}.{each}")


def _looks_up(recording: Recording, args: tuple, frame: FrameType) -> None:
    if args and isinstance(args[0], str) and frames.reader(frame) is not None:
        recording.imports(args[0])


def _is_users(frame: FrameType) -> bool:
    return frames.origin_of(frame.f_code.co_filename) is frames.USER


_OF_MODULES: dict[ModuleType | type, dict[str, _Tell]] = {
    os: {
        "stat": _status(None),
        "lstat": _status(None),
        "readlink": _status(STATUS),
        "access": _status(MODE),
        **{name.partition(".")[2]: _property(name) for name in kinds.PROPERTIES},
        **dict.fromkeys(("urandom", "getrandom", "getpid", "getppid"), _value(CHANCE)),
        **dict.fromkeys(("times", "getloadavg"), _value(THE_CLOCK)),
    },
    time: {
        **{f"{clock}{unit}": _value(THE_CLOCK) for clock in ("time", "monotonic", "perf_counter", "process_time",
           "thread_time", "clock_gettime") for unit in ("", "_ns")},
        **dict.fromkeys(("localtime", "gmtime", "ctime"), _moment),
    },
    random.Random: {"seed": _seeds_one},
    random: {"_urandom": _value(CHANCE)},
    builtins: {"__import__": _imports},
    importlib: {"import_module": _looks_up},
    importlib.util: {"find_spec": _looks_up},
}  # fmt: skip

_GENERATORS = {"random": "_inst", "numpy.random": "mtrand._rand"}
"""Modules whose functions draw from one generator of the process, and where that is."""

_SEEDS = ("seed", "setstate", "set_state")


class _Wrapped:
    """The wrapped functions, with their originals."""

    def __init__(self) -> None:
        self._undone: list[tuple[Any, str, Any]] = []
        self._generators: set[str] = set()

    def wrap(self, owner: Any, tells: dict[str, _Tell]) -> None:
        for name, tell in tells.items():
            original = vars(owner).get(name)
            if original is not None and not hasattr(original, "tileiras_wraps"):
                setattr(owner, name, _wrapper(original, tell))
                self._undone.append((owner, name, original))
                for names in _SUPPORTS if owner is os else ():
                    if original in names:
                        names.add(vars(owner)[name])

    def wrap_generators(self) -> None:
        """Wrap the functions of loaded modules that draw from a generator."""
        for name, place in _GENERATORS.items():
            module = sys.modules.get(name)
            generator: Any = module
            for part in place.split("."):
                generator = getattr(generator, part, None)
            if module is None or generator is None or name in self._generators:
                continue
            self._generators.add(name)
            own = [key for key, value in vars(module).items() if getattr(value, "__self__", None) is generator]
            self.wrap(module, {**dict.fromkeys(own, _draws), **dict.fromkeys(_SEEDS, _seeds)})

    def undo(self) -> None:
        for owner, name, original in reversed(self._undone):
            setattr(owner, name, original)


_SUPPORTS = tuple(getattr(os, name) for name in dir(os) if name.startswith("supports_")
                  and isinstance(getattr(os, name), set))  # fmt: skip
"""Sets of functions in which programs look whether one takes further parameters."""

_wrapped = _Wrapped()


def _wrapper(original: Callable[..., Any], tell: _Tell) -> Callable[..., Any]:
    existing = _wrappers.get((original, tell))
    if existing is not None:
        return existing

    @functools.wraps(original)
    def wrapper(*args: Any, **keywords: Any) -> Any:
        frame = sys._getframe(1)
        if "dir_fd" not in keywords and (tell is not _imports or _is_users(frame)):
            notify(lambda recording: tell(recording, args, frame))
        result = original(*args, **keywords)
        if tell is _imports and args[0] in _GENERATORS:
            _wrapped.wrap_generators()  # NumPy loads this one when a program asks for it
        return result

    wrapper.tileiras_wraps = original  # type: ignore[attr-defined]
    return _wrappers.setdefault((original, tell), wrapper)


_wrappers: dict[tuple[Callable[..., Any], _Tell], Callable[..., Any]] = {}


@contextlib.contextmanager
def install() -> Iterator[None]:
    """Wrap functions as long as the block lasts."""
    global _wrapped
    _wrapped = _Wrapped()
    mappings = [each for each in (os.environ, getattr(os, "environb", None)) if type(each) is _PLAIN_ENVIRONMENT]
    for owner, tells in _OF_MODULES.items():
        _wrapped.wrap(owner, tells)
    _wrapped.wrap_generators()
    for mapping in mappings:
        mapping.__class__ = _Environment
    try:
        yield
    finally:
        if sys.getprofile() is _profile:
            sys.setprofile(None)
        for mapping in mappings:
            mapping.__class__ = _PLAIN_ENVIRONMENT
        _wrapped.undo()


# ---- environment variables -------------------------------------------------------------------------------------------


_PLAIN_ENVIRONMENT: Any = type(os.environ)


class _Environment(_PLAIN_ENVIRONMENT):
    """`os.environ` and `os.environb`, whose reads are noted; everything else is made of these methods."""

    def __getitem__(self, key: Any) -> Any:
        frame = sys._getframe(1)
        entry = self._data.get(_encode(self, key))
        value = os.fsdecode(entry) if entry is not None else None
        notify(lambda recording: recording.reads_variable(os.fsdecode(key), value, frame))
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._note(key, sys._getframe(1))

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._note(key, sys._getframe(1))

    def __iter__(self) -> Iterator[Any]:
        self._reads_all(sys._getframe(1))
        return super().__iter__()

    def __len__(self) -> int:
        self._reads_all(sys._getframe(1))
        return super().__len__()

    def _note(self, key: Any, frame: FrameType) -> None:
        notify(lambda recording: recording.sets_variable(os.fsdecode(key), frame))

    def _reads_all(self, frame: FrameType) -> None:
        notify(lambda recording: recording.reads_variable(None, None, frame))


def _encode(mapping: Any, key: Any) -> Any:
    try:
        return mapping.encodekey(key)
    except (TypeError, ValueError):
        return None  # refused by the mapping itself


# ---- datetime --------------------------------------------------------------------------------------------------------

_NOW = re.compile(rb"\b(?:utc)?now\b")


def watch_clock(text: bytes) -> None:
    """From here on, note calls of `datetime.now`, if the module's text names it.

    The class is C code that cannot be wrapped; only profilers see calls of C functions, and they cost time.
    """
    if _NOW.search(text) and sys.getprofile() is None:
        sys.setprofile(_profile)


def _profile(frame: FrameType, event: str, arg: Any) -> None:
    if event == "c_call" and getattr(arg, "__name__", "") in ("now", "utcnow"):
        import datetime

        owner = getattr(arg, "__self__", None)
        if isinstance(owner, type) and issubclass(owner, datetime.datetime):
            notify(lambda recording: recording.uses(THE_CLOCK, frames.user_of_value(frame)))
