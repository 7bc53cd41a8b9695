"""The half of the printer that knows no operations: types, attributes and locations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..attributes import (
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from ..float_format import encode_float, format_float
from ..location import CallSiteLoc, FileLineColLoc, FusedLoc, Location, NameLoc, OpaqueLoc, SourceLoc, UnknownLoc
from ..types import (
    DYNAMIC,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    NoneType,
    TensorType,
    Type,
    VectorType,
    f64,
    i1,
    i64,
)
from . import lexer

if TYPE_CHECKING:
    from ..attributes import Attribute
    from .asm_names import AliasNames


class AttributePrinter:
    """Writes attributes, types and locations, by their aliases where the text defines some."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.write = self.out.append
        self._aliases: AliasNames | None = None
        self._alias_names: dict[Any, str] = {}
        self._types: dict[Any, str] = {}
        self._elided_types: dict[Any, str] = {}

    # ---- for hooks ---------------------------------------------------------------------------------------------------

    def print_type(self, type: Type) -> None:
        self.write(self._types.get(type) or self.type_text(type))

    def print_types(self, types: Iterable[Any]) -> None:
        self.write(", ".join([self.type_text(type) for type in types]))

    def print_dialect_type(self, type: Type) -> None:
        """A type without the `!dialect.` in front."""
        self.write(self.elided_type_text(type))

    def print_attribute(self, attribute: Attribute, elide_type: bool = False) -> None:
        """An attribute; with `elide_type` numbers come without their type."""
        self.write(self.attribute_text(attribute, "must" if elide_type else "never"))

    def print_keyword_or_string(self, word: str) -> None:
        self.write(word if lexer.IS_BARE_ID(word) else lexer.quote(word))

    def print_symbol_name(self, name: str) -> None:
        self.write(symbol_text(name))

    def capture(self, action: Callable[[], None]) -> str:
        """The text that `action` writes."""
        out, write = self.out, self.write
        self.out = []
        self.write = self.out.append
        action()
        text = "".join(self.out)
        self.out, self.write = out, write
        return text

    # ---- types -------------------------------------------------------------------------------------------------------

    def type_text(self, type: Type) -> str:
        entry = self._types.get(type)
        if entry is None:
            entry = self._types[type] = self._alias_names.get(type) or self._spell_type(type)
        return entry

    def elided_type_text(self, type: Type) -> str:
        result = self._elided_types.get(type)
        if result is None:
            text = self.type_text(type)
            prefix = f"!{type.dialect}."
            result = self._elided_types[type] = text[len(prefix) :] if text.startswith(prefix) else text
        return result

    def _spell_type(self, type: Type) -> str:
        if isinstance(type, (IntegerType, FloatType, IndexType)):
            return str(type)
        if isinstance(type, NoneType):
            return "none"
        if isinstance(type, FunctionType):
            return f"({', '.join(map(self.type_text, type.inputs))}) -> {self.results_text(type.results)}"
        if isinstance(type, (VectorType, TensorType)):
            shape = dimensions_text(type.shape)
            encoding = getattr(type, "encoding", None)
            tail = f", {self.attribute_text(encoding)}" if encoding is not None else ""
            word = "vector" if isinstance(type, VectorType) else "tensor"
            return f"{word}<{shape}{self.type_text(type.element_type)}{tail}>"
        return f"!{type.name}{self.parameters_text(type)}"

    def results_text(self, types: Sequence[Any]) -> str:
        """Result types after an arrow: parentheses unless there is exactly one that is no function type."""
        if len(types) == 1 and not isinstance(types[0], FunctionType):
            return self.type_text(types[0])
        return f"({', '.join(map(self.type_text, types))})"

    # ---- attributes --------------------------------------------------------------------------------------------------

    def parameters_text(self, item: Location | Attribute) -> str:
        """The text after the mnemonic of a dialect attribute or type."""
        if item.print_parameters is not None:
            return self.capture(lambda: item.print_parameters(self))
        if isinstance(item, EnumAttr):
            return f"<{item.value}>"
        if not item.parameters:
            return ""
        return f"<{', '.join(map(self._parameter_text, item.values))}>"

    def _parameter_text(self, value: object) -> str:
        if value is None:
            return "?"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            return lexer.quote(value)
        if isinstance(value, tuple):
            return f"[{', '.join(map(self._parameter_text, value))}]"
        return self.attribute_text(value)

    def attribute_text(self, attribute: Attribute, elision: str = "never") -> str:
        """An attribute, type or location; `elision` says whether numbers lose their type: "never", "may" (i64 and
        f64 only), "must"."""
        alias = self._alias_names.get(attribute) if self._alias_names else None
        return alias if alias is not None else self._spell(attribute, elision)

    def _spell(self, attribute: Location | Attribute, elision: str) -> str:
        if isinstance(attribute, Type):
            return self._spell_type(attribute)
        spell = _SPELLINGS.get(attribute.__class__)
        if spell is not None:
            return spell(self, attribute, elision)
        if is_plain_location(attribute):
            return self._location_text(attribute)
        if isinstance(attribute, EnumAttr) and attribute.as_integer:
            return f"{attribute.number} : i32"
        return f"#{attribute.name}{self.parameters_text(attribute)}"

    def _unit_text(self, attribute: UnitAttr, elision: str) -> str:
        return "unit"

    def _string_text(self, attribute: StringAttr, elision: str) -> str:
        return lexer.quote(attribute.value)

    def _integer_text(self, attribute: IntegerAttr, elision: str) -> str:
        type = attribute.type
        if type is i1:
            return "true" if attribute.value else "false"
        if elision == "must" or elision == "may" and type is i64:
            return str(attribute.value)
        return f"{attribute.value} : {self.type_text(type)}"

    def _float_text(self, attribute: FloatAttr, elision: str) -> str:
        text = format_float(attribute.bits, attribute.type)
        if elision == "must" or elision == "may" and attribute.type is f64 and not text.startswith("0x"):
            return text
        return f"{text} : {self.type_text(attribute.type)}"

    def _array_text(self, attribute: ArrayAttr, elision: str) -> str:
        return f"[{', '.join([self.attribute_text(x, 'may') for x in attribute.elements])}]"

    def _dict_text(self, attribute: DictAttr, elision: str) -> str:
        return self._dictionary_text(attribute.items)

    def _dictionary_text(self, items: Iterable[tuple[str, Any]]) -> str:
        parts = []
        for name, value in items:
            key = name if lexer.IS_BARE_ID(name) else lexer.quote(name)
            parts.append(key if isinstance(value, UnitAttr) else f"{key} = {self.attribute_text(value)}")
        return "{" + ", ".join(parts) + "}"

    def _symbol_reference_text(self, attribute: SymbolRefAttr, elision: str) -> str:
        return "::".join([symbol_text(name) for name in (attribute.root, *attribute.nested)])

    def array_elements_text(self, attribute: DenseArrayAttr) -> str:
        type = attribute.element_type
        if isinstance(type, FloatType):
            return ", ".join([format_float(encode_float(x, type), type) for x in attribute.elements])
        if type is i1:
            return ", ".join(["true" if x else "false" for x in attribute.elements])
        return ", ".join(map(str, attribute.elements))

    def _dense_array_text(self, attribute: DenseArrayAttr, elision: str) -> str:
        if not attribute.elements:
            return f"array<{self.type_text(attribute.element_type)}>"
        return f"array<{self.type_text(attribute.element_type)}: {self.array_elements_text(attribute)}>"

    def _dense_text(self, attribute: DenseElementsAttr, elision: str) -> str:
        from .dense_format import dense_text

        return f"dense<{dense_text(attribute)}> : {self.type_text(attribute.type)}"

    # ---- locations ---------------------------------------------------------------------------------------------------

    def print_location(self, location: Location) -> None:
        """A location in attribute position: its alias, or `loc(...)`."""
        self.write(self.location_text(location))

    def location_text(self, location: Location) -> str:
        location = self._canonical(location)
        return self._alias_names.get(location) or (
            self._location_text(location) if is_plain_location(location) else self._spell(location, "never")
        )

    def _print_trailing_location(self, location: Location) -> None:
        location = self._canonical(location)
        self.write(f" loc({self._alias_names.get(location) or self._bare_location_text(location)})")

    def _canonical(self, location: Location) -> Location:
        if self._aliases is not None:
            return self._aliases.canonical(location)
        while isinstance(location, OpaqueLoc):
            location = location.fallback
        return location.file_line_col() if isinstance(location, SourceLoc) else location

    def _location_text(self, location: Location) -> str:
        return f"loc({self._bare_location_text(location)})"

    def _inner_location_text(self, location: Location) -> str:
        location = self._canonical(location)
        return self._alias_names.get(location) or self._bare_location_text(location)

    def _bare_location_text(self, location: Location) -> str:
        """The text inside `loc(...)`."""
        location = self._canonical(location)
        if isinstance(location, UnknownLoc):
            return "unknown"
        if isinstance(location, FileLineColLoc):
            text = f"{lexer.quote(location.filename)}:{location.line}:{location.column}"
            if not location.end_line:
                return text
            if location.end_line == location.line:
                return f"{text} to :{location.end_column}" if location.end_column != location.column else text
            return f"{text} to {location.end_line}:{location.end_column}"
        if isinstance(location, NameLoc):
            child = location.child
            if isinstance(child, UnknownLoc):
                return lexer.quote(location.name)
            return f"{lexer.quote(location.name)}({self._inner_location_text(child)})"
        if isinstance(location, CallSiteLoc):
            callee, caller = map(self._inner_location_text, (location.callee, location.caller))
            return f"callsite({callee} at {caller})"
        if isinstance(location, FusedLoc):
            inner = ", ".join(map(self._inner_location_text, location.locations))
            metadata = location.metadata
            return f"fused{f'<{self.attribute_text(metadata)}>' if metadata is not None else ''}[{inner}]"
        if _is_dialect_location(location):
            return f"#{location.name}{self.parameters_text(location)}"  # type: ignore[attr-defined]
        # A position that has no textual form (an offset in a bytecode file) keeps its description as a name.
        return lexer.quote(str(location))


_SPELLINGS: dict[type, Callable[[AttributePrinter, Any, str], str]] = {
    UnitAttr: AttributePrinter._unit_text,
    StringAttr: AttributePrinter._string_text,
    IntegerAttr: AttributePrinter._integer_text,
    FloatAttr: AttributePrinter._float_text,
    ArrayAttr: AttributePrinter._array_text,
    DictAttr: AttributePrinter._dict_text,
    SymbolRefAttr: AttributePrinter._symbol_reference_text,
    DenseArrayAttr: AttributePrinter._dense_array_text,
    DenseElementsAttr: AttributePrinter._dense_text,
}


def is_plain_location(item: Location | Attribute) -> bool:
    """Whether a location is written `loc(...)`, also where an attribute stands."""
    return isinstance(item, Location) and not _is_dialect_location(item)


def _is_dialect_location(location: Location) -> bool:
    """Locations that dialects declare have a name and parameters, as attributes do."""
    return isinstance(location, Location) and getattr(location, "print_parameters", None) is not None


def symbol_text(name: str) -> str:
    return f"@{name}" if lexer.IS_SUFFIX_ID(name) else "@" + lexer.quote(name)


def dimensions_text(shape: Iterable[int]) -> str:
    """`4x?x`, with the trailing `x`."""
    return "".join(["?x" if size == DYNAMIC else f"{size}x" for size in shape])
