"""A faster import of llvmlite's binding, without modules that this compiler does not use.

It takes more time to import than LLVM's library takes to load: it asks `importlib.resources` for the library's path,
which brings `tempfile`, `zipfile` and `urllib` along, and loads llvmlite's builder of IR, which one method of the
binding uses and a table names.  So both are replaced by stubs during the import.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType

_BINDING = "llvmlite.binding"


def load() -> None:
    """Import `llvmlite.binding`; for single-threaded processes, since `sys.modules` is changed meanwhile.

    Raises the exceptions of the import.
    """
    if _BINDING in sys.modules:
        return
    try:
        builder, resources = _Builder("llvmlite.ir"), _Resources("importlib.resources")
        with _in_place_of("llvmlite", "ir", builder), _in_place_of("importlib", "resources", resources):
            import llvmlite.binding  # noqa: F401
        builder.is_needed = True
    except Exception:  # another release of llvmlite may ask for more
        for name in [name for name in sys.modules if name.startswith(_BINDING)]:
            del sys.modules[name]
        import llvmlite.binding  # noqa: F401


@contextlib.contextmanager
def _in_place_of(package: str, name: str, stand_in: ModuleType) -> Iterator[None]:
    """Until the end of the block a module of a package is another one, unless it is loaded already."""
    parent = __import__(package)
    if stand_in.__name__ in sys.modules:
        yield
        return
    sys.modules[stand_in.__name__] = stand_in
    setattr(parent, name, stand_in)
    try:
        yield
    finally:
        del sys.modules[stand_in.__name__]
        delattr(parent, name)


class _Builder(ModuleType):
    """`llvmlite.ir`, loaded when it is needed; until then it has names, for annotations and tables."""

    is_needed = False

    def __getattr__(self, name: str) -> object:
        return _of_builder(name) if self.is_needed else _Named(name)


class _Named:
    """A class of `llvmlite.ir`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        return getattr(_of_builder(self._name), attribute)


def _of_builder(name: str) -> object:
    import llvmlite.ir

    return getattr(llvmlite.ir, name)


class _Resources(ModuleType):
    """`importlib.resources`, as far as llvmlite asks for its library in a folder (`llvmlite/binding/ffi.py`)."""

    @staticmethod
    def files(package: str) -> _Place:
        return _Place(os.path.dirname(sys.modules[package].__file__ or ""))

    as_file = staticmethod(contextlib.nullcontext)


class _Place(str):
    """A path."""

    def __truediv__(self, name: str) -> _Place:
        return _Place(os.path.join(self, name))
