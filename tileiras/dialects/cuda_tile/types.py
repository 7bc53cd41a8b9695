"""Types of cuda_tile: pointers, tiles, tensor views and tokens; `view_types` has the views that cut tensors into tiles.

Inside a type of the dialect the `!cuda_tile.` prefix of nested types is left out, in text read and in text written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Iterable, Sequence

from tileiras.ir import DYNAMIC, FloatType, IntegerType, ShapedType, Type, VerifyError, f4E2M1FN

from .attributes import PointerAttr

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

    from .attributes import AssumePredicate

NAMESPACE = "cuda_tile"

MAX_TILE_ELEMENTS = 1 << 24
"""Most elements that a tile may have."""

MAX_I32 = (1 << 31) - 1

FLOAT_KEYWORDS = ("f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
NEWER_FLOAT_KEYWORDS = ("fnv8E5M3FNU",)
"""Types that came after the public release whose words diagnostics use: accepted, but not named in their lists."""
INTEGER_WIDTHS = (1, 8, 16, 32, 64)
ELEMENT_SINCE = {"f8E8M0FNU": "13.2", "f4E2M1FN": "13.3", "i4": "13.3", "fnv8E5M3FNU": "13.4"}
"""Element types that are not in 13.1, with the version that introduced them."""

NUMBER_WORDS = " or ".join((*FLOAT_KEYWORDS, *(f"i{width}" for width in INTEGER_WIDTHS)))
"""How diagnostics list the number types."""


def is_number(type: Type) -> bool:
    """Whether `type` is a number that memory can hold: every element type but pointers and i4."""
    if isinstance(type, FloatType):
        return type.keyword in FLOAT_KEYWORDS or type.keyword in NEWER_FLOAT_KEYWORDS
    return isinstance(type, IntegerType) and type.width in INTEGER_WIDTHS


def write_type(printer: Printer, type: Type | AssumePredicate) -> None:
    """Write a nested type: without prefix when it is one of this dialect's."""
    if type.name.startswith("cuda_tile."):
        printer.write(type.name[len("cuda_tile.") :])
        if type.print_parameters is not None:
            type.print_parameters(printer)
    else:
        printer.print_type(type)


def write_types(printer: Printer, *types: Type) -> None:
    """Types with commas between them, the dialect's own without its name."""
    for number, type in enumerate(types):
        printer.write(", " if number else "")
        write_type(printer, type)


def spell(values: Iterable[int]) -> str:
    """Sizes as diagnostics and types spell them, `?` for a dynamic one."""
    return "[" + ", ".join("?" if value == DYNAMIC else str(value) for value in values) + "]"


class TokenType(Type, name="cuda_tile.token", since="13.1", description="cuda tile token type"):
    """The order of memory operations: a consumer of a token is executed after its producer."""

    bytecode_tag: ClassVar[int] = 17


class PointerType(Type, name="cuda_tile.ptr", since="13.1", parameters=("pointee_type", "pointer_attribute")):
    """The address of one number in global memory."""

    description = "Pointer type"
    bytecode_tag: ClassVar[int] = 12
    parameter_since: ClassVar[dict[str, str]] = {"pointer_attribute": "13.4"}
    width = 64

    pointee_type: Type
    pointer_attribute: PointerAttr | None

    def __new__(cls, pointee_type: Type, pointer_attribute: PointerAttr | None = None) -> "PointerType":
        return cls.intern((pointee_type, pointer_attribute))  # type: ignore[return-value]

    @property
    def pointee(self) -> Type:
        return self.pointee_type

    def verify(self) -> None:
        if not is_number(self.pointee_type):
            raise VerifyError(f"failed to verify 'pointeeType': {NUMBER_WORDS}", prefix=False)

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        write_type(printer, self.pointee_type)
        if self.pointer_attribute is not None:
            printer.write(f", <{self.pointer_attribute.value}>")
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "PointerType":
        parser.parse_punctuation("<")
        pointee = parser.parse_dialect_type(NAMESPACE)
        mark = _parse_pointer_attribute(parser) if parser.parse_optional_punctuation(",") else None
        parser.parse_punctuation(">")
        return cls(pointee, mark)


def _write_pointer_attribute(printer: Printer, attribute: PointerAttr | None) -> None:
    if attribute is not None:
        printer.write(", ")
        printer.print_attribute(attribute)


def _parse_pointer_attribute(parser: Parser) -> PointerAttr:
    at = parser.offset
    if parser.peek("<"):
        return parser.parse_parameters(PointerAttr)
    attribute = parser.parse_attribute()
    if not isinstance(attribute, PointerAttr):
        parser.error(at, f"expected a pointer attribute, got {attribute}")
    return attribute


class TileType(ShapedType, name="cuda_tile.tile", since="13.1", parameters=("shape", "element_type")):
    """A block of numbers or pointers with a static shape; rank 0 is a scalar."""

    description = "Tile type"
    bytecode_tag: ClassVar[int] = 13
    element_since: ClassVar[dict[str, str]] = ELEMENT_SINCE

    def __new__(cls, shape: Iterable[int], element_type: Type) -> "TileType":
        return cls.intern((tuple(shape), element_type))  # type: ignore[return-value]

    def verify(self) -> None:
        element = self.element_type
        if not (isinstance(element, PointerType) or is_number(element) or element is IntegerType(4)):
            raise VerifyError(f"failed to verify 'elementType': {NUMBER_WORDS} or Pointer type or i4", prefix=False)
        if isinstance(element, PointerType) and self.shape and element.pointee_type is f4E2M1FN:
            message = "tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses"
            raise VerifyError(message, prefix=False)
        verify_tile(self.shape, element)

    def with_shape(self, shape: Iterable[int]) -> "TileType":
        return TileType(shape, self.element_type)

    def with_element_type(self, element_type: Type) -> "TileType":
        return TileType(self.shape, element_type)

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        for size in self.shape:
            printer.write(f"{size}x")
        write_type(printer, self.element_type)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "TileType":
        parser.parse_punctuation("<")
        shape = parser.parse_dimension_list(dynamic=False)
        element = parser.parse_dialect_type(NAMESPACE)
        parser.parse_punctuation(">")
        return cls(shape, element)


def verify_tile(shape: Sequence[int], element_type: Type) -> None:
    """Raise VerifyError unless a tile may have this shape: powers of two, at most MAX_TILE_ELEMENTS elements."""
    if element_type is f4E2M1FN:
        # Two 4-bit floats share a byte.
        if all(size % 2 for size in shape):
            raise VerifyError("F4E2M1FN tiles must have an even number of elements", prefix=False)
    total = 1
    for size in shape:
        if size <= 0:
            raise VerifyError(
                f"all dimensions must be positive constants, got {', '.join(map(str, shape))}", prefix=False
            )
        if size & (size - 1):
            raise VerifyError(f"all dimensions must be powers of two, got {', '.join(map(str, shape))}", prefix=False)
        total *= size
        if total > MAX_TILE_ELEMENTS:
            raise VerifyError(f"tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements", prefix=False)


class TensorViewType(ShapedType, name="cuda_tile.tensor_view", since="13.1"):
    """A tensor in global memory: element type, sizes and strides in elements; `DYNAMIC` where only known when run."""

    description = "tensor view type"
    bytecode_tag: ClassVar[int] = 14
    parameters = ("element_type", "shape", "strides", "pointer_attribute")
    parameter_since: ClassVar[dict[str, str]] = {"pointer_attribute": "13.4"}

    strides: tuple[int, ...]
    pointer_attribute: PointerAttr | None

    def __new__(
        cls,
        element_type: Type,
        shape: Iterable[int],
        strides: Iterable[int],
        pointer_attribute: PointerAttr | None = None,
    ) -> "TensorViewType":
        return cls.intern((element_type, tuple(shape), tuple(strides), pointer_attribute))  # type: ignore[return-value]

    @property
    def dynamic_sizes(self) -> int:
        """How many sizes are only known at run time."""
        return sum(size == DYNAMIC for size in self.shape)

    @property
    def dynamic_strides(self) -> int:
        return sum(stride == DYNAMIC for stride in self.strides)

    def verify(self) -> None:
        if not is_number(self.element_type):
            raise VerifyError(f"failed to verify 'elementType': {NUMBER_WORDS}", prefix=False)
        if len(self.shape) != len(self.strides):
            raise VerifyError(
                "expected shape and stride to be of same rank but got shape of rank "
                f"{len(self.shape)} and stride of rank {len(self.strides)}",
                prefix=False,
            )
        for label, values in (("sizes", self.shape), ("strides", self.strides)):
            if any(value <= 0 and value != DYNAMIC for value in values):
                raise VerifyError(
                    f"dimensions must have strictly positive constant {label} but got {spell(values)}", prefix=False
                )

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        for size in self.shape:
            printer.write("?x" if size == DYNAMIC else f"{size}x")
        write_type(printer, self.element_type)
        if self.shape:
            strides = ",".join("?" if stride == DYNAMIC else str(stride) for stride in self.strides)
            printer.write(f", strides=[{strides}]")
        _write_pointer_attribute(printer, self.pointer_attribute)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "TensorViewType":
        parser.parse_punctuation("<")
        shape = parser.parse_dimension_list(dynamic=True)
        element = parser.parse_dialect_type(NAMESPACE)
        comma = parser.parse_optional_punctuation(",")
        strides: list[int] = []
        mark = None
        if shape:
            if not comma:
                parser.error(parser.offset, "expected 'strides'")
            parser.parse_keyword("strides")
            parser.parse_punctuation("=")
            strides = parser.parse_comma_separated(lambda: cls._parse_stride(parser), "[", "]")
            comma = parser.parse_optional_punctuation(",")
        elif comma and parser.parse_optional_keyword("strides"):
            parser.error(parser.offset, "strides must not be provided for 0-d tiles")
        if comma:
            if not parser.peek("#"):
                parser.error(parser.offset, "unexpected token after element type in 0-d tensor_view")
            mark = _parse_pointer_attribute(parser)
        parser.parse_punctuation(">")
        return cls(element, shape, strides, mark)

    @staticmethod
    def _parse_stride(parser: Parser) -> int:
        if parser.parse_optional_punctuation("?"):
            return DYNAMIC
        at = parser.offset
        stride = parser.parse_optional_integer()
        if stride is None:
            parser.error(at, "expected either 64-bit integer or question mark")
        if stride <= 0:
            parser.error(at, f"expected strictly positive integer, got {stride}")
        return stride
