"""Modules that the process has loaded already: those of the user's are imported anew for each export."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Iterable
from types import ModuleType

from . import frames

_OURS = {"__main__", "__mp_main__", "tileiras"}


def with_names_of(folder: str) -> list[str]:
    """Loaded modules with the names of modules in a folder; the standard library's and our own stay."""
    names = {key.partition(".")[0] for key in sys.modules}
    names -= {"cuda", *_OURS, *sys.stdlib_module_names}
    beside = set()
    for entry in os.listdir(folder) if os.path.isdir(folder) else ():
        stem, suffix = os.path.splitext(entry)
        package = os.path.join(folder, entry, "__init__.py")
        if stem in names and (suffix == ".py" or (not suffix and os.path.isfile(package))):
            beside.add(stem)
    return [key for key in sys.modules if key.partition(".")[0] in beside]


def users(names: Iterable[str]) -> list[str]:
    """Those of some loaded modules that are the user's.

    A package with modules in machine code stays, since Python cannot load these a second time.
    """
    result, value = [], set(_OURS)
    for name in names:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        places = [file] if isinstance(file, str) else [str(folder) for folder in getattr(module, "__path__", ())]
        if not places or any(frames.origin_of(each) is not frames.USER for each in places):
            continue
        result.append(name)
        if places[0].endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            value.add(name.partition(".")[0])
    return [name for name in result if name.partition(".")[0] not in value]


class Hidden:
    """Modules of the user's that were loaded before, and that an import would take as they were then."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self._before = dict(sys.modules)
        self._seen: set[str] = set()

    def hide(self, name: str) -> None:
        """Have a module, its package and the other modules of that package imported again."""
        top = name.partition(".")[0]
        if top in self._seen or top in sys.stdlib_module_names:
            return
        self._seen.add(top)
        group = [key for key in sys.modules if key.partition(".")[0] == top]
        for key in users(group):
            if sys.modules[key] is self._before.get(key):
                self.modules[key] = sys.modules.pop(key)
