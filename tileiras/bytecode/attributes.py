"""Attributes: those of an operation, untagged and read as its declaration says, and self-contained ones with a tag."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    ShapedType,
    StringAttr,
    SymbolRefAttr,
    Type,
    UnitAttr,
    VerifyError,
    element_size,
    i1,
    i32,
    i64,
    lookup_attribute,
    tf32,
)

from .encoding import Cursor
from .sections import ByteTable, StringTable
from .types import TypeTable
from .versions import Version

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir.fields import AnyConstraint

# Tags of self-contained attributes (BytecodeAttrOpcodes.td).
INTEGER, FLOAT, BOOL, TYPE, STRING, ARRAY, DENSE, DIV_BY, SAME_ELEMENTS, DICTIONARY, HINTS, BOUNDED = range(1, 13)

MAX_NESTING = 16
"""Arrays and dictionaries inside each other; optimization hints have two levels."""

FORBIDDEN_ELEMENTS = {4: (-(2**31), 2**31 - 1), 8: (-(2**63), 2**63 - 1)}
"""Hash-map sentinels of the reference implementation, which it refuses in integer arrays."""

TF32_BYTES = 3
"""A dense tf32 element: 19 bits, rounded up to whole bytes."""


class Tables:
    """The contents of a file's sections, shared by all readers."""

    __slots__ = ("version", "previews", "strings", "types", "constants", "_dense")

    def __init__(
        self, version: Version, previews: bool, strings: StringTable, types: TypeTable, constants: ByteTable | None
    ) -> None:
        self.version = version
        self.previews = previews
        self.strings = strings
        self.types = types
        self.constants = constants
        self._dense: dict[tuple[int, Any], DenseElementsAttr] = {}

    def dense(self, cursor: Cursor, type: FloatType | cuda_tile.TileType, label: str) -> DenseElementsAttr:
        """The constant whose index is at `cursor`, as elements of `type` (a tile)."""
        start = cursor.pos
        index = cursor.varint(f"{label} constant index")
        size = len(self.constants) if self.constants is not None else 0
        if index >= size:
            cursor.fail(f"constant index {index} out of bounds", start)
        result = self._dense.get((index, type))
        if result is None:
            result = self._dense[index, type] = _read_dense(self.constants.run(index), type)  # type: ignore[union-attr]
        return result


def _read_dense(run: Cursor, type: cuda_tile.TileType) -> DenseElementsAttr:
    element = getattr(type, "element_type", None)
    if not isinstance(type, ShapedType) or not isinstance(element, (IntegerType, FloatType)):
        run.fail(f"expect Cuda Tile integer or float type but got: {type}")
    length = run.varint("the size of the data buffer")
    raw = run.take(length, "the raw byte data")
    if run.remaining:
        run.fail(f"{run.remaining} bytes are left over after the constant")
    count = type.num_elements
    if element is i1:
        # One byte of all zeros or all ones is a splat, otherwise elements are packed, lowest bit first.
        if raw in (b"\x00", b"\xff"):
            return DenseElementsAttr(type, b"\x01" if raw[0] else b"\x00", True)
        if length == (count + 7) // 8:
            return DenseElementsAttr(type, bytes([raw[n >> 3] >> (n & 7) & 1 for n in range(count)]))
    else:
        size = TF32_BYTES if element is tf32 else element_size(element)
        if length == size or length == size * count:
            data = _widen_tf32(raw) if element is tf32 else raw
            if element.width < 8:
                # An element takes a byte, and its upper bits are ignored.
                data = bytes([byte & (1 << element.width) - 1 for byte in data])
            return DenseElementsAttr(type, data, True if length == size else None)
    run.fail("failed to validate buffer size and format", 0)


def _widen_tf32(raw: bytes) -> bytes:
    return b"".join(raw[at : at + TF32_BYTES] + b"\x00" for at in range(0, len(raw), TF32_BYTES))


# ---- untagged encodings ----------------------------------------------------------------------------------------------
# A reader takes (tables, cursor, name, result types of the operation) and returns an attribute.

Reader = Callable[[Tables, Cursor, str, Any], Any]


def _read_string(tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None) -> StringAttr:
    return StringAttr(tables.strings.read(cursor, label))


def _read_symbol(tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None) -> SymbolRefAttr:
    start = cursor.pos
    name = tables.strings.read(cursor, label)
    if not name:
        cursor.fail("empty symbol reference is invalid", start)
    return SymbolRefAttr(name)


def _read_bool(tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None) -> IntegerAttr:
    return IntegerAttr(cursor.byte(label) != 0, i1)


def _read_dense_of_result(
    tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None
) -> DenseElementsAttr:
    return tables.dense(cursor, results[0] if results else tables.types.read(cursor, label), label)


TYPED = (IntegerAttr, FloatAttr, DenseElementsAttr)
"""The elements of an array inside an operation."""


def _read_array(
    tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None, depth: int = 0,
    of: type | tuple[type, ...] = TYPED,
) -> ArrayAttr:  # fmt: skip
    elements = []
    for number in range(cursor.count(f"elements of {label}")):
        start = cursor.pos
        element = read_tagged(tables, cursor, f"element {number} of {label}", depth + 1)
        if not isinstance(element, of):
            cursor.fail("ArrayAttr contains non-TypedAttr elements or is null", start)
        elements.append(element)
    return ArrayAttr(elements)


def _read_dictionary(
    tables: Tables,
    cursor: Cursor,
    label: str,
    results: Sequence[Type] | None,
    depth: int = 0,
) -> DictAttr:
    items: dict[str, Any] = {}
    for number in range(cursor.count(f"entries of {label}", 2)):
        start = cursor.pos
        key = tables.strings.read(cursor, f"key of entry {number} of {label}")
        if not key:
            cursor.fail(f"invalid empty attribute name for DictionaryAttr element {number}", start)
        if key in items:
            cursor.fail(f"failed to parse DictionaryAttr, duplicate key found: {key}", start)
        items[key] = read_tagged(tables, cursor, f"value for key {key}", depth + 1)
    return DictAttr(items)


def _read_hints(
    tables: Tables,
    cursor: Cursor,
    label: str,
    results: Sequence[Type] | None,
    depth: int = 0,
) -> Any:
    start = cursor.pos
    hints = lookup_attribute("cuda_tile.optimization_hints")
    entries = _read_dictionary(tables, cursor, label, results, depth)
    return _check(cursor, start, hints, entries)


def _read_predicate(tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None) -> Any:
    return read_tagged(tables, cursor, label)


def _integer_reader(type: IntegerType) -> Reader:
    def read(tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None) -> IntegerAttr:
        return _read_integer(cursor, type, label)

    return read


def _integers_reader(element: IntegerType, width: int) -> Reader:
    forbidden = FORBIDDEN_ELEMENTS.get(width, ())

    def read(tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None) -> DenseArrayAttr:
        start = cursor.pos
        values = cursor.integers(width, label)
        for value in values:
            if value in forbidden:
                cursor.fail(f"array contains unsupported value {value}", start)
        if element is i1:
            values = tuple([int(value != 0) for value in values])
        return DenseArrayAttr(element, values)

    return read


def _enum_reader(enum: type[EnumAttr]) -> Reader:
    by_number = {number: enum(keyword) for keyword, number in enum.cases.items()}
    since = {number: Version.parse(enum.case_since[k]) for k, number in enum.cases.items() if k in enum.case_since}
    enum_since = Version.parse(enum.since) if enum.since else None

    def read(tables: Tables, cursor: Cursor, label: str, results: Sequence[Type] | None) -> Any:
        start = cursor.pos
        number = cursor.varint(label)
        entry = by_number.get(number)
        if entry is None:
            cursor.fail(f"invalid integer value for enum type: {number}", start)
        if enum_since is not None and tables.version < enum_since:
            cursor.fail(f"enum attribute type is not available in bytecode version {tables.version}", start)
        if number in since and tables.version < since[number]:
            cursor.fail(f"enum value {number} is not available in bytecode version {tables.version}", start)
        return entry

    return read


BY_CLASS: dict[type, Reader] = {
    StringAttr: _read_string,
    SymbolRefAttr: _read_symbol,
    DenseElementsAttr: _read_dense_of_result,
    ArrayAttr: _read_array,
    DictAttr: _read_dictionary,
}

BY_VALUE_TYPE: dict[tuple[type, Any], Reader] = {
    (IntegerAttr, i1): _read_bool,
    (IntegerAttr, i32): _integer_reader(i32),
    (IntegerAttr, i64): _integer_reader(i64),
    (DenseArrayAttr, i1): _integers_reader(i1, 1),
    (DenseArrayAttr, i32): _integers_reader(i32, 4),
    (DenseArrayAttr, i64): _integers_reader(i64, 8),
}
"""Attributes that are written without their type, which the constraint fixes."""


def is_flag(constraint: AnyConstraint) -> bool:
    """Whether the attribute is determined by its presence, so that only its flag is written."""
    return isinstance(constraint, type) and issubclass(constraint, UnitAttr)


def reader_of(constraint: AnyConstraint) -> Reader:
    """How an attribute with this constraint is written inside an operation.

    A constraint is an attribute class, or names the class that it narrows in `attribute_class` and `value_type`.
    """
    attribute_class = constraint if isinstance(constraint, type) else getattr(constraint, "attribute_class", None)
    if attribute_class is None:
        # A closed set of attributes of different classes, which therefore carry their tag.
        return _read_predicate
    if issubclass(attribute_class, EnumAttr):
        return _enum_reader(attribute_class)
    if attribute_class is lookup_attribute("cuda_tile.optimization_hints"):
        return _read_hints
    value_type = getattr(constraint, "value_type", None)
    if value_type is not None:
        return BY_VALUE_TYPE[attribute_class, value_type]
    element_class = getattr(constraint, "element_class", None)
    if element_class is not None:
        return functools.partial(_read_array, of=element_class)
    return BY_CLASS.get(attribute_class, _read_predicate)


# ---- tagged encodings ------------------------------------------------------------------------------------------------


def read_tagged(
    tables: Tables, cursor: Cursor, label: str, depth: int = 0, of: type | tuple[type, ...] = TYPED
) -> Any:
    """A self-contained attribute: tag, then contents; `of` are the classes of an array's elements."""
    start = cursor.pos
    tag = cursor.varint(f"AttributeTag of {label}")
    if depth > MAX_NESTING:
        cursor.fail(f"attributes are nested more than {MAX_NESTING} deep", start)
    if tag == INTEGER:
        type = tables.types.read(cursor, f"type of {label}")
        if not isinstance(type, IntegerType):
            cursor.fail("failed to read valid IntegerType for IntegerAttr", start)
        return _read_integer(cursor, type, label)
    if tag == BOOL:
        return _read_bool(tables, cursor, label, None)
    if tag == DICTIONARY:
        return _read_dictionary(tables, cursor, label, None, depth)
    if tag == HINTS:
        return _read_hints(tables, cursor, label, None, depth)
    if tag == FLOAT:
        type = tables.types.read(cursor, f"type of {label}")
        if not isinstance(type, FloatType):
            cursor.fail("failed to read valid FloatType for FloatAttr", start)
        return _read_float(cursor, type, label)
    if tag == TYPE:
        return tables.types.read(cursor, label)
    if tag == STRING:
        return _read_string(tables, cursor, label, None)
    if tag == ARRAY:
        return _read_array(tables, cursor, label, None, depth, of)
    if tag == DIV_BY:
        divisor = cursor.varint("divisor for DivByAttr")
        every, along = _read_optional_pair(cursor, "DivByAttr", ("'every'", "'along'"))
        return _check(cursor, start, lookup_attribute("cuda_tile.div_by"), divisor, every, along)
    if tag == BOUNDED:
        lower, upper = _read_optional_pair(cursor, "BoundedAttr", ("lower bound", "upper bound"))
        return _check(cursor, start, lookup_attribute("cuda_tile.bounded"), lower, upper)
    if tag == SAME_ELEMENTS:
        values = BY_VALUE_TYPE[DenseArrayAttr, i64](tables, cursor, label, None)
        return _check(cursor, start, lookup_attribute("cuda_tile.same_elements"), values.elements)
    if tag == DENSE:
        cursor.fail("unknown DenseElementsAttr based Attr", start)
    cursor.fail(f"unsupported AttributeTag {tag} for self-contained attribute", start)


def _read_integer(cursor: Cursor, type: IntegerType, label: str) -> IntegerAttr:
    start = cursor.pos
    if type.width == 1:
        return IntegerAttr(cursor.byte(label) != 0, type)
    value = cursor.varint(label)
    if value >> type.width:
        cursor.fail(f"value {value} does not fit in {type.width} bits", start)
    return IntegerAttr(value, type)


def _read_float(cursor: Cursor, type: FloatType, label: str) -> FloatAttr:
    """Up to 8 bits are a byte, more are a zigzag integer."""
    start = cursor.pos
    semantics = type.semantics
    width = semantics.exponent_bits + semantics.mantissa_bits + semantics.has_sign
    bits = cursor.byte(label) if width <= 8 else cursor.signed_varint(label) & 0xFFFF_FFFF_FFFF_FFFF
    if bits >> width:
        cursor.fail(f"value {bits} does not fit in {width} bits", start)
    return FloatAttr(bits, type)


def _read_optional_pair(cursor: Cursor, owner: str, names: tuple[str, str]) -> tuple[int | None, int | None]:
    flags = cursor.byte(f"flags byte for {owner}")
    if flags > 3:
        cursor.fail(f"unknown flags {flags:#x} for {owner}", cursor.pos - 1)
    first = cursor.signed_varint(f"{names[0]} for {owner}") if flags & 1 else None
    second = cursor.signed_varint(f"{names[1]} for {owner}") if flags & 2 else None
    return first, second


def _check(cursor: Cursor, start: int, attribute: type[Attribute], *values: DictAttr | int | None) -> Any:
    try:
        return attribute(*values)
    except VerifyError as error:
        cursor.fail(str(error), start)
