"""Writing attributes: those of an operation as its declaration says, and self-contained ones with their tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    Location,
    StringAttr,
    SymbolRefAttr,
    Type,
    VerifyError,
    element_size,
    i1,
    lookup_attribute,
    tf32,
)

from .attributes import (
    ARRAY,
    BOUNDED,
    DICTIONARY,
    DIV_BY,
    FLOAT,
    HINTS,
    INTEGER,
    SAME_ELEMENTS,
    STRING,
    TF32_BYTES,
    TYPE,
)
from .output import Buffer, Numbering, StringNumbering
from .versions import Version
from .write_types import TypeNumbering

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.dialects.cuda_tile.constraints import TileConstant, TypedArray, TypedInteger


class OutputTables:
    """The numberings that all sections of a file share."""

    __slots__ = ("version", "strings", "types", "constants")

    def __init__(self, version: Version) -> None:
        self.version = version
        self.strings = StringNumbering()
        self.types = TypeNumbering(version)
        self.constants = Numbering()

    def constant(self, value: DenseElementsAttr) -> int:
        """The number of the elements of a constant; equal bytes are kept once."""
        raw = _raw_elements(value)
        run = Buffer()
        run.varint(len(raw))
        run.extend(raw)
        return self.constants[bytes(run)]


def _raw_elements(value: DenseElementsAttr) -> bytes:
    element = value.element_type
    if element is i1:
        if value.is_splat:
            return b"\xff" if value.data[0] else b"\x00"
        packed = bytearray((len(value.data) + 7) // 8)
        for number, bit in enumerate(value.data):
            packed[number >> 3] |= bit << (number & 7)
        return bytes(packed)
    if element is tf32:
        size = element_size(element)
        return b"".join(value.data[at : at + TF32_BYTES] for at in range(0, len(value.data), size))
    return value.data


Writer = Callable[[OutputTables, Buffer, Any, "Location | None"], None]


def writer_of(constraint: TileConstant | TypedArray | TypedInteger | type[Attribute]) -> Writer:
    """How an attribute with this constraint is written inside an operation; the counterpart of `reader_of`."""
    attribute_class = constraint if isinstance(constraint, type) else getattr(constraint, "attribute_class", None)
    if attribute_class is None:
        return write_tagged
    if issubclass(attribute_class, EnumAttr):
        return _write_enum
    if attribute_class is lookup_attribute("cuda_tile.optimization_hints"):
        return _write_hints
    value_type = getattr(constraint, "value_type", None)
    if value_type is not None:
        if attribute_class is DenseArrayAttr:
            width = {1: 1, 32: 4, 64: 8}[value_type.width]
            return lambda tables, out, value, location: out.integers(value.elements, width)
        return lambda tables, out, value, location: out.varint(value.unsigned)
    return _BY_CLASS.get(attribute_class, write_tagged)


def _write_enum(tables: OutputTables, out: Buffer, value: EnumAttr, location: Location | None) -> None:
    since = value.case_since.get(value.value)
    if since is not None and tables.version < Version.parse(since):
        mnemonic = value.name.partition(".")[2]
        raise VerifyError(
            f"enum value for attribute '{mnemonic}' is not available in bytecode version {tables.version}", prefix=False
        )
    out.varint(value.number)


def _write_string(tables: OutputTables, out: Buffer, value: StringAttr, location: Location | None) -> None:
    out.varint(tables.strings.of(value.value))


def _write_symbol(tables: OutputTables, out: Buffer, value: SymbolRefAttr, location: Location | None) -> None:
    out.varint(tables.strings.of(value.root))


def _write_dense(tables: OutputTables, out: Buffer, value: DenseElementsAttr, location: Location | None) -> None:
    out.varint(tables.constant(value))


def _write_array(tables: OutputTables, out: Buffer, value: ArrayAttr, location: Location | None) -> None:
    out.varint(len(value))
    for element in value:
        write_tagged(tables, out, element, location)


def _write_dictionary(tables: OutputTables, out: Buffer, value: DictAttr, location: Location | None) -> None:
    out.varint(len(value.items))
    for key, element in value.items:
        out.varint(tables.strings.of(key))
        write_tagged(tables, out, element, location)


def _write_hints(
    tables: OutputTables, out: Buffer, value: cuda_tile.OptimizationHintsAttr, location: Location | None
) -> None:
    _write_dictionary(tables, out, value.value, location)


_BY_CLASS: dict[type, Writer] = {
    StringAttr: _write_string,
    SymbolRefAttr: _write_symbol,
    DenseElementsAttr: _write_dense,
    ArrayAttr: _write_array,
    DictAttr: _write_dictionary,
}

_TAGGED: dict[type, tuple[int, Writer]] = {
    StringAttr: (STRING, _write_string),
    ArrayAttr: (ARRAY, _write_array),
    DictAttr: (DICTIONARY, _write_dictionary),
}


def write_tagged(tables: OutputTables, out: Buffer, value: Attribute, location: Location | None) -> None:
    """A self-contained attribute: tag, then contents."""
    tagged = _TAGGED.get(type(value))
    # A location may replace an attribute in the text; here it is invalid, though it may have a name.
    name = value.name if isinstance(value, Attribute) else ""
    if tagged is not None:
        out.varint(tagged[0])
        tagged[1](tables, out, value, location)
    elif isinstance(value, IntegerAttr):
        out.varint(INTEGER)
        out.varint(tables.types.of(value.type))
        out.varint(value.unsigned)
    elif isinstance(value, FloatAttr):
        out.varint(FLOAT)
        out.varint(tables.types.of(value.type))
        if value.type.width <= 8:
            out.append(value.bits)
        else:
            out.signed_varint(value.bits - (1 << 64) if value.bits >> 63 else value.bits)
    elif isinstance(value, Type):
        out.varint(TYPE)
        out.varint(tables.types.of(value))
    elif name == "cuda_tile.div_by":
        out.varint(DIV_BY)
        out.varint(value.divisor)  # type: ignore[attr-defined]
        _write_optional_pair(out, value.every, value.along)  # type: ignore[attr-defined]
    elif name == "cuda_tile.bounded":
        out.varint(BOUNDED)
        _write_optional_pair(out, value.lb, value.ub)  # type: ignore[attr-defined]
    elif name == "cuda_tile.same_elements":
        out.varint(SAME_ELEMENTS)
        out.integers(value.values[0], 8)
    elif name == "cuda_tile.optimization_hints":
        out.varint(HINTS)
        _write_hints(tables, out, value, location)
    else:
        raise VerifyError(f"unsupported attribute type encountered during serialization: {value}", location=location)


def _write_optional_pair(out: Buffer, first: int | None, second: int | None) -> None:
    out.append((first is not None) | (second is not None) << 1)
    for value in (first, second):
        if value is not None:
            out.signed_varint(value)
