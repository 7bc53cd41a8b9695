"""Lazy names of a package: the file of a name is loaded at its first use (PEP 562).

    _LAZY = {"parse_module": "parser", "print_op": "printer"}
    __getattr__ = lazy_names(__name__, globals(), _LAZY)

Fingerprints and `load_dialect` read the tables, so each is a literal called `_LAZY`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, namespace: dict[str, Any], table: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `table` maps each name to its file in the package."""

    def load(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = namespace[name] = getattr(importlib.import_module(f"{package}.{table[name]}"), name)
        return value

    return load
