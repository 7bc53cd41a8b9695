"""Attributes: immutable values, interned, so that equality is identity.

A dialect attribute is one class:

    class DivByAttr(Attribute):
        name = "cuda_tile.div_by"
        parameters = ("divisor", "every", "along")

`DivByAttr(16, None, None)` returns the one instance with these parameters; `verify` runs when it is first made.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterable

from . import registry
from .location import Location

if TYPE_CHECKING:
    from .types import FloatType, IndexType, IntegerType, ShapedType


class VerifyError(Exception):
    """A rule of the IR that does not hold.

    `prefix` says whether the message is about an operation and gets MLIR's "'dialect.op' op " in front.  `also` are
    further messages about the same operation.
    """

    def __init__(
        self,
        message: str,
        location: Location | None = None,
        notes: Iterable[tuple[Location | None, str]] = (),
        prefix: bool = True,
        also: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.notes = tuple(notes)
        self.prefix = prefix
        self.also = also


class Attribute:
    """Base of attributes and types.  Subclasses name their parameters; instances are interned per class."""

    name: ClassVar[str] = ""
    parameters: ClassVar[tuple[str, ...]] = ()
    since: ClassVar[str | None] = None
    # Print as an alias `#<asm_alias>` (types: `!<asm_alias>`) defined beside the text.
    asm_alias: ClassVar[str | None] = None
    _registry: ClassVar[dict[str, type["Attribute"]]] = registry.ATTRIBUTES
    _instances: ClassVar[dict[tuple, "Attribute"]] = {}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The parameters, which a subclass names in `parameters`."""

    def __init_subclass__(cls, **members: object) -> None:
        """`members`: further members of the class, given in its head."""
        super().__init_subclass__()
        for name, value in members.items():
            setattr(cls, name, value)
        cls._instances = {}
        if "name" in cls.__dict__ and cls.name:
            cls._registry[cls.name] = cls

    def __new__(cls, *values: object, **by_name: object) -> "Attribute":
        if by_name or len(values) != len(cls.parameters):
            values = cls._bind(values, by_name)
        return cls.intern(values)

    @classmethod
    def intern(cls, values: tuple) -> "Attribute":
        """The instance with these parameters.  Values must be hashable and of the parameter's exact type."""
        result = cls._instances.get(values)
        if result is None:
            result = object.__new__(cls)
            result.__dict__.update(zip(cls.parameters, values))
            result.verify()
            result = cls._instances.setdefault(values, result)
        return result

    @classmethod
    def _bind(cls, values: tuple, by_name: dict[str, Any]) -> tuple:
        if len(values) > len(cls.parameters):
            raise TypeError(f"{cls.__name__} takes {len(cls.parameters)} parameters, got {len(values)}")
        bound = dict(zip(cls.parameters, values))
        for key, value in by_name.items():
            if key not in cls.parameters or key in bound:
                raise TypeError(f"{cls.__name__} got an unexpected parameter '{key}'")
            bound[key] = value
        return tuple(bound.get(key) for key in cls.parameters)

    def verify(self) -> None:
        """Raise VerifyError when the parameters do not go together."""

    @property
    def values(self) -> tuple:
        """The parameters, in order."""
        return tuple(self.__dict__[key] for key in self.parameters)

    @property
    def dialect(self) -> str:
        return self.name.partition(".")[0]

    def walk(self) -> Iterable["Attribute"]:
        """This attribute and every attribute or type inside its parameters, pre-order."""
        yield self
        for value in self.values:
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Attribute):
                    yield from item.walk()

    def __copy__(self) -> "Attribute":
        return self

    def __deepcopy__(self, memo: dict) -> "Attribute":
        return self

    def __reduce__(self) -> tuple:
        return (type(self), self.values)

    def __str__(self) -> str:
        from .text.printer import attribute_text

        return attribute_text(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.values))})"

    # Text inside `<...>`; overridden by classes whose syntax is not the plain list of parameters.
    print_parameters: ClassVar[Callable[..., None] | None] = None
    parse_parameters: ClassVar[Callable[..., "Attribute"] | None] = None


class EnumAttr(Attribute):
    """One case of a closed set, printed `#dialect.mnemonic<case>`; `cases` maps the keyword to its number.

    Where an assembly format names the attribute, it is the bare keyword, or `<keyword>` with `angled`.  With
    `as_integer` it is `number : i32` in the generic form, as MLIR's plain integer enums are.
    """

    parameters = ("value",)
    cases: ClassVar[dict[str, int]] = {}
    case_since: ClassVar[dict[str, str]] = {}
    angled: ClassVar[bool] = False
    as_integer: ClassVar[bool] = False

    value: str

    def verify(self) -> None:
        if self.value not in self.cases:
            raise VerifyError(
                f"expected one of [{', '.join(self.cases)}] for {self.name}, got {self.value}", prefix=False
            )

    @property
    def number(self) -> int:
        return self.cases[self.value]

    @classmethod
    def from_number(cls, number: int) -> "EnumAttr | None":
        for keyword, value in cls.cases.items():
            if value == number:
                return cls(keyword)
        return None


class UnitAttr(Attribute):
    name = "builtin.unit"


class StringAttr(Attribute):
    name = "builtin.string"
    parameters = ("value",)
    value: str


class IntegerAttr(Attribute):
    """An integer of a type, kept as the signed (i1: 0 or 1) value of its bits."""

    name = "builtin.integer"
    parameters = ("value", "type")
    value: int
    type: Any

    def __new__(cls, value: int, type: IndexType | IntegerType) -> "IntegerAttr":
        width = getattr(type, "width", 64)
        value = int(value) & ((1 << width) - 1)
        if width > 1 and value >> (width - 1):
            value -= 1 << width
        return cls.intern((value, type))  # type: ignore[return-value]

    @property
    def unsigned(self) -> int:
        return self.value & ((1 << getattr(self.type, "width", 64)) - 1)


class FloatAttr(Attribute):
    """A floating-point constant, kept as its bit pattern: -0.0, NaN payloads and every format are exact."""

    name = "builtin.float"
    parameters = ("bits", "type")
    bits: int
    type: Any

    @classmethod
    def from_float(cls, value: float, type: FloatType) -> "FloatAttr":
        from .float_format import encode_float

        return cls(encode_float(value, type), type)

    @property
    def value(self) -> float:
        from .float_format import decode_float

        return decode_float(self.bits, self.type)


class ArrayAttr(Attribute):
    name = "builtin.array"
    parameters = ("elements",)
    elements: tuple[Attribute, ...]

    def __new__(cls, elements: Iterable[Attribute] = ()) -> "ArrayAttr":
        return cls.intern((tuple(elements),))  # type: ignore[return-value]

    def __iter__(self):
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self.elements)


class DictAttr(Attribute):
    """A dictionary sorted by key, as MLIR keeps it."""

    name = "builtin.dictionary"
    parameters = ("items",)
    items: tuple[tuple[str, Attribute], ...]

    def __new__(cls, items: Mapping[str, Attribute] = ()) -> "DictAttr":
        pairs = items.items() if isinstance(items, dict) else items
        return cls.intern((tuple(sorted(pairs, key=lambda pair: pair[0])),))  # type: ignore[return-value]

    def get(self, key: str) -> Attribute | None:
        for name, value in self.items:
            if name == key:
                return value
        return None

    def walk(self) -> Iterable[Attribute]:
        yield self
        for _, value in self.items:
            yield from value.walk()


class SymbolRefAttr(Attribute):
    """`@root::@nested`."""

    name = "builtin.symbol_ref"
    parameters = ("root", "nested")
    root: str
    nested: tuple[str, ...]

    def __new__(cls, root: str, nested: Iterable[str] = ()) -> "SymbolRefAttr":
        return cls.intern((root, tuple(nested)))  # type: ignore[return-value]


class DenseArrayAttr(Attribute):
    """`array<i32: 1, 2>`: plain numbers of one element type."""

    name = "builtin.dense_array"
    parameters = ("element_type", "elements")
    element_type: Any
    elements: tuple

    def __new__(cls, element_type: FloatType | IntegerType, elements: Iterable) -> "DenseArrayAttr":
        return cls.intern((element_type, tuple(elements)))  # type: ignore[return-value]

    def __iter__(self):
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self.elements)


class DenseElementsAttr(Attribute):
    """The elements of a constant of a shaped type: raw little-endian bytes in row-major order.

    One element takes `max(1, width / 8)` bytes; i1 is a byte 0 or 1, 4-bit elements take a byte each.  A splat keeps
    one element.
    """

    name = "builtin.dense"
    parameters = ("type", "data", "is_splat")
    type: Any
    data: bytes
    is_splat: bool

    def __new__(cls, type: ShapedType, data: bytes, is_splat: bool | None = None) -> "DenseElementsAttr":
        data = bytes(data)
        if is_splat is None:
            size = element_size(type.element_type)
            is_splat = len(data) > size and data == data[:size] * (len(data) // size) or type.num_elements == 1
            if is_splat:
                data = data[:size]
        return cls.intern((type, data, bool(is_splat)))  # type: ignore[return-value]

    @property
    def element_type(self) -> Any:
        return self.type.element_type

    def verify(self) -> None:
        count = 1 if self.is_splat else self.type.num_elements
        size = count * element_size(self.type.element_type)
        if len(self.data) != size:
            raise VerifyError(
                f"expected {size} bytes of elements for {self.type}, got {len(self.data)}", prefix=False
            )

    def stored_bits(self) -> list[int]:
        """The bit patterns of the elements, just one for a splat."""
        size = element_size(self.type.element_type)
        formats = {1: "B", 2: "H", 4: "I", 8: "Q"}
        return list(struct.unpack(f"<{len(self.data) // size}{formats[size]}", self.data))

    def element_bits(self) -> list[int]:
        """The bit patterns of all elements; a splat is expanded."""
        bits = self.stored_bits()
        return bits * self.type.num_elements if self.is_splat else bits


def element_size(element_type: FloatType | IntegerType) -> int:
    """Bytes that one element of a DenseElementsAttr takes; raises VerifyError for a width that it has no form for."""
    size = (element_type.width + 7) // 8
    if size not in (1, 2, 4, 8) or size > 1 and element_type.width % 8:
        raise VerifyError(
            f"elements of type {element_type} cannot be written: they have 1 to 8, 16, 32 or 64 bits", prefix=False
        )
    return size
