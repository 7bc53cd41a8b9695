"""Lazy packages: a file of a package is loaded at the first use of one of its names (PEP 562).

    _LAZY = {"parse_module": "parser", "print_op": "printer"}
    __getattr__ = lazy_names(__name__, globals(), _LAZY)

Names outside the table are the package's files: after `from tileiras import synchronization` a function
may use `synchronization.barriers.insert_barriers`, which loads the file when it is evaluated.  Fingerprints read both:
each table is a literal called `_LAZY`, and files are named where they are used.

Type checkers read neither: a package repeats its table as imports below `if TYPE_CHECKING:`
(`tests/test_typed_names.py` compares both), and `lazy_dir` shows the names to `dir`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to load than a command's start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(package: str, namespace: dict[str, Any], table: Mapping[str, str] = {}) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `table` maps names to their files in the package."""

    def load(name: str) -> Any:
        import importlib

        if name in table:
            value = namespace[name] = getattr(importlib.import_module(f"{package}.{table[name]}"), name)
            return value
        file = f"{package}.{name}"
        try:
            if not name.startswith("_"):
                return importlib.import_module(file)
        except ModuleNotFoundError as error:
            if error.name != file:
                raise
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    return load


def lazy_dir(namespace: dict[str, Any], table: Mapping[str, str]) -> Callable[[], list[str]]:
    """The `__dir__` of a package: the names that it defines, and those of `table` that are not loaded yet."""

    def names() -> list[str]:
        return sorted({*namespace, *table})

    return names
