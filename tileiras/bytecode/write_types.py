"""Writing the type section, from the tables that reading uses."""

from __future__ import annotations

from typing import Any, NoReturn

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import FunctionType, Location, Type

from .output import Buffer
from .types import COMPOSITE_TYPES, FUNCTION_TAG, OPTIONAL_KINDS, SIMPLE_TYPES
from .versions import UNIFIED_FLAGS, Version

_SIMPLE = {type: (tag, name, since) for tag, (name, since, type) in SIMPLE_TYPES.items()}
_COMPOSITE = {registered: (tag, name, since, parameters)
              for tag, (name, since, registered, parameters) in COMPOSITE_TYPES.items()}  # fmt: skip


class TypeNumbering:
    """Types numbered in the order of first use, the components of a type before the type."""

    __slots__ = ("version", "numbers", "runs", "location")

    def __init__(self, version: Version) -> None:
        self.version = version
        self.numbers: dict[Any, int] = {}
        self.runs: list[bytes] = []
        self.location: Location | None = None
        """The location of the operation whose types are requested, for messages."""

    def of(self, type: Type) -> int:
        result = self.numbers.get(type)
        if result is None:
            run = bytes(self._encode(type))
            result = self.numbers[type] = len(self.runs)
            self.runs.append(run)
        return result

    def _encode(self, type: Type) -> Buffer:
        out = Buffer()
        simple = _SIMPLE.get(type)
        if simple is not None:
            tag, name, since = simple
            self._require(name, since)
            out.varint(tag)
            return out
        if isinstance(type, FunctionType):
            out.varint(FUNCTION_TAG)
            for types in (type.inputs, type.results):
                out.varint(len(types))
                for item in types:
                    out.varint(self.of(item))
            return out
        composite = _COMPOSITE.get(getattr(type, "name", ""))
        if composite is None:
            self._fail(f"unsupported type in bytecode writer: '{type}'")
        tag, name, since, parameters = composite
        self._require(name, since)
        out.varint(tag)
        present = [p for p in parameters if len(p) == 2 or self.version >= p[2]]
        for key, _, *needs in parameters:
            if needs and self.version < needs[0] and getattr(type, key) is not None:
                self._fail(f"parameter '{key}' requires bytecode version {needs[0]}+, but targeting {self.version}")
        optional = [key for key, kind, *_ in present if kind in OPTIONAL_KINDS]
        unified = self.version >= UNIFIED_FLAGS
        if optional and unified:
            out.varint(sum(1 << bit for bit, key in enumerate(optional) if getattr(type, key) is not None))
        for key, kind, *_ in present:
            value = getattr(type, key)
            if kind in ("type", "tensor_view"):
                out.varint(self.of(value))
            elif kind == "i64s":
                out.integers(value, 8)
            elif kind == "i32s":
                out.integers(value, 4)
            elif kind == "uint":
                out.varint(value)
            else:
                if not unified:
                    out.append(value is not None)
                if value is not None:
                    out.varint(value.number)
        return out

    def _require(self, name: str, since: Version) -> None:
        if self.version < since:
            self._fail(f"type '{name}' requires bytecode version {since}+, targeting {self.version}")

    def _fail(self, message: str) -> NoReturn:
        raise CompileError.at(self.location, message, ExitCode.INVALID_INPUT)
