"""Names of a package whose files are loaded when one of them is first used (PEP 562).

    _LAZY = {"parse_module": "parser", "print_op": "printer"}
    __getattr__ = lazy_names(__name__, globals(), _LAZY)

Fingerprints and `load_dialect` read the tables, which are written out and called `_LAZY` for that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, namespace: dict[str, Any], table: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `table` has the file in it for each name."""

    def load(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = namespace[name] = getattr(importlib.import_module(f"{package}.{table[name]}"), name)
        return value

    return load
