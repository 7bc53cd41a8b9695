"""The one registry: names of operations, attributes and types to the classes that declare them.

Filled when a class is created and never changed afterwards.  A dialect is imported the first time one of its names is
looked up, so that reading a kernel loads the dialects that the kernel uses and no others.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attributes import Attribute
    from .operation import Operation

OPERATIONS: dict[str, type["Operation"]] = {}
ATTRIBUTES: dict[str, type["Attribute"]] = {}
TYPES: dict[str, type["Attribute"]] = {}

TYPE_DIRECTIVES: dict[str, str] = {}
"""Name of a `custom<Name>(type(...))` directive of assembly formats -> the dialect whose prefix it leaves out."""

class GeneratedOperations(dict[str, type["Operation"]]):
    """Classes of operations made from the rows of a table, each when it is first asked for.

    `prefix` and the row's key are the operation's name; `make(key, row)` gives the class.
    """

    def __init__(self, prefix: str, rows: Mapping[str, Any], make: Callable[[str, Any], type["Operation"]]) -> None:
        super().__init__()
        self._rows = rows
        self._make = make
        _generated[prefix] = self

    def __missing__(self, key: str) -> type["Operation"]:
        value = self[key] = self._make(key, self._rows[key])
        return value

    def make_all(self) -> None:
        for key in self._rows:
            self[key]


_generated: dict[str, GeneratedOperations] = {}
_loaded: set[str] = set()


def register_type_directive(name: str, dialect: str) -> None:
    TYPE_DIRECTIVES[name] = dialect


def load_dialect(namespace: str) -> bool:
    """Imports all of `tileiras.dialects.<namespace>`; False when there is no such dialect."""
    if namespace in _loaded:
        return True
    module = f"tileiras.dialects.{namespace}"
    if not namespace.isidentifier() or importlib.util.find_spec(module) is None:
        return False
    package = importlib.import_module(module)
    for part in sorted(set(getattr(package, "_LAZY", {}).values())):
        importlib.import_module(f"{module}.{part}")
    for prefix, operations in _generated.items():
        if prefix.partition(".")[0] == namespace:
            operations.make_all()
    _loaded.add(namespace)
    return True


def lookup_operation(name: str) -> type["Operation"] | None:
    entry = OPERATIONS.get(name)
    if entry is None and load_dialect(name.partition(".")[0]):
        entry = OPERATIONS.get(name)
    return entry


def similar_operation(name: str) -> str:
    """The operation of the same dialect that is spelled most like this; empty when none is alike."""
    import difflib

    dialect, _, word = name.partition(".")
    names = sorted(other.partition(".")[2] for other in OPERATIONS if other.startswith(f"{dialect}."))
    near = difflib.get_close_matches(word, names, 1, 0.75)
    return f"{dialect}.{near[0]}" if near else ""


def lookup_attribute(name: str) -> type["Attribute"] | None:
    entry = ATTRIBUTES.get(name)
    if entry is None and load_dialect(name.partition(".")[0]):
        entry = ATTRIBUTES.get(name)
    return entry


def lookup_type(name: str) -> type["Attribute"] | None:
    entry = TYPES.get(name)
    if entry is None and load_dialect(name.partition(".")[0]):
        entry = TYPES.get(name)
    return entry
