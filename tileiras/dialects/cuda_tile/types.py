"""Types of cuda_tile: pointers, tiles, tensor views, the views that cut tensors into tiles, tokens.

Inside a type of the dialect the `!cuda_tile.` prefix of nested types is left out, in text read and in text written.
"""

from __future__ import annotations

from typing import Any, ClassVar, Iterable, Sequence

from tileiras.ir import DYNAMIC, FloatType, IntegerType, ShapedType, Type, VerifyError

from .attributes import PaddingValueAttr, PointerAttr

NAMESPACE = "cuda_tile"

MAX_TILE_ELEMENTS = 1 << 24
"""Most elements that a tile may have."""

MAX_I32 = (1 << 31) - 1

FLOAT_KEYWORDS = ("f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
INTEGER_WIDTHS = (1, 8, 16, 32, 64)
ELEMENT_SINCE = {"f8E8M0FNU": "13.2", "f4E2M1FN": "13.3", "i4": "13.3"}
"""Element types that are not in 13.1, with the version that introduced them."""

NUMBER_WORDS = " or ".join((*FLOAT_KEYWORDS, *(f"i{width}" for width in INTEGER_WIDTHS)))
"""How diagnostics list the number types."""


def is_number(type: Any) -> bool:
    """Whether `type` is a number that memory can hold: every element type but pointers and i4."""
    if isinstance(type, FloatType):
        return type.keyword in FLOAT_KEYWORDS
    return isinstance(type, IntegerType) and type.width in INTEGER_WIDTHS


def write_type(printer: Any, type: Any) -> None:
    """Writes a nested type: without prefix when it is one of this dialect's."""
    if type.name.startswith("cuda_tile."):
        printer.write(type.name[len("cuda_tile.") :])
        if type.print_parameters is not None:
            type.print_parameters(printer)
    else:
        printer.print_type(type)


def _spell(values: Iterable[int]) -> str:
    return "[" + ", ".join("?" if value == DYNAMIC else str(value) for value in values) + "]"


class TokenType(Type):
    """The order of memory operations: whoever takes a token runs after whoever made it."""

    name = "cuda_tile.token"
    description = "cuda tile token type"
    since = "13.1"
    bytecode_tag: ClassVar[int] = 17


class PointerType(Type):
    """The address of one number in global memory."""

    name = "cuda_tile.ptr"
    description = "Pointer type"
    since = "13.1"
    bytecode_tag: ClassVar[int] = 12
    parameters = ("pointee_type", "pointer_attribute")
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

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        write_type(printer, self.pointee_type)
        if self.pointer_attribute is not None:
            printer.write(f", <{self.pointer_attribute.value}>")
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> "PointerType":
        parser.parse_punctuation("<")
        pointee = parser.parse_dialect_type(NAMESPACE)
        mark = _parse_pointer_attribute(parser) if parser.parse_optional_punctuation(",") else None
        parser.parse_punctuation(">")
        return cls(pointee, mark)


def _write_pointer_attribute(printer: Any, attribute: PointerAttr | None) -> None:
    if attribute is not None:
        printer.write(", ")
        printer.print_attribute(attribute)


def _parse_pointer_attribute(parser: Any) -> PointerAttr:
    at = parser.offset
    if parser.peek("<"):
        return parser.parse_parameters(PointerAttr)
    found = parser.parse_attribute()
    if not isinstance(found, PointerAttr):
        parser.error(at, f"expected a pointer attribute, got {found}")
    return found


class TileType(ShapedType):
    """A block of numbers or pointers with a static shape; rank 0 is a scalar."""

    name = "cuda_tile.tile"
    description = "Tile type"
    since = "13.1"
    bytecode_tag: ClassVar[int] = 13
    parameters = ("shape", "element_type")
    element_since: ClassVar[dict[str, str]] = ELEMENT_SINCE

    def __new__(cls, shape: Iterable[int], element_type: Type) -> "TileType":
        return cls.intern((tuple(shape), element_type))  # type: ignore[return-value]

    def verify(self) -> None:
        element = self.element_type
        if not (isinstance(element, PointerType) or is_number(element) or element is IntegerType(4)):
            raise VerifyError(f"failed to verify 'elementType': {NUMBER_WORDS} or Pointer type or i4", prefix=False)
        verify_tile(self.shape, element)

    def with_shape(self, shape: Iterable[int]) -> "TileType":
        return TileType(shape, self.element_type)

    def with_element_type(self, element_type: Type) -> "TileType":
        return TileType(self.shape, element_type)

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        for size in self.shape:
            printer.write(f"{size}x")
        write_type(printer, self.element_type)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> "TileType":
        parser.parse_punctuation("<")
        shape = parser.parse_dimension_list(dynamic=False)
        element = parser.parse_dialect_type(NAMESPACE)
        parser.parse_punctuation(">")
        return cls(shape, element)


def verify_tile(shape: Sequence[int], element_type: Any) -> None:
    """Raises VerifyError unless a tile may have this shape: powers of two, at most MAX_TILE_ELEMENTS elements."""
    if isinstance(element_type, FloatType) and element_type.keyword == "f4E2M1FN":
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


class TensorViewType(ShapedType):
    """A tensor in global memory: element type, sizes and strides in elements; `DYNAMIC` where only known when run."""

    name = "cuda_tile.tensor_view"
    description = "tensor view type"
    since = "13.1"
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
        for what, values in (("sizes", self.shape), ("strides", self.strides)):
            if any(value <= 0 and value != DYNAMIC for value in values):
                raise VerifyError(
                    f"dimensions must have strictly positive constant {what} but got {_spell(values)}", prefix=False
                )

    def print_parameters(self, printer: Any) -> None:
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
    def parse_parameters(cls, parser: Any) -> "TensorViewType":
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
    def _parse_stride(parser: Any) -> int:
        if parser.parse_optional_punctuation("?"):
            return DYNAMIC
        at = parser.offset
        stride = parser.parse_optional_integer()
        if stride is None:
            parser.error(at, "expected either 64-bit integer or question mark")
        if stride <= 0:
            parser.error(at, f"expected strictly positive integer, got {stride}")
        return stride


# ---- views ---------------------------------------------------------------------------------------------------------


class TileView(Type):
    """A tensor view cut into tiles that loads and stores address by index.  Base of the view types."""

    description = "TileView instance"

    tile_shape: tuple[int, ...]
    tensor_view: TensorViewType
    padding_value: PaddingValueAttr | None

    @property
    def index_rank(self) -> int:
        """How many indices name a tile."""
        return len(self.tile_shape)

    @property
    def tile_type(self) -> TileType:
        """The type of the tiles that are loaded and stored."""
        return TileType(self.tile_shape, self.tensor_view.element_type)

    def verify_indices(self, types: Sequence[Any]) -> None:
        """Raises VerifyError unless tiles can be named by indices of these types: scalars of one type."""
        for type in types:
            if not isinstance(type, TileType):
                raise VerifyError(f"expected index type to be a tile type, got '{type}'")
            if type.rank != 0:
                raise VerifyError(f"expected index type to be a scalar tile, got '{type}'")
        for number, type in enumerate(types):
            if type is not types[0]:
                raise VerifyError(
                    f"expected index type {number} to be the same as other index types ('{types[0]}'), got '{type}'"
                )

    def _verify_tile_shape(self) -> None:
        tile, tensor = self.tile_shape, self.tensor_view
        if not tile:
            raise VerifyError("0-dimension tile shape is not supported", prefix=False)
        if len(tile) != tensor.rank:
            raise VerifyError(
                "expected tensor_view rank and tile rank to match, got tensor_view of rank "
                f"{tensor.rank} and tiles of rank {len(tile)}",
                prefix=False,
            )

    def _verify_tile_sizes(self) -> None:
        for words, bad in (("positive", lambda n: n <= 0), ("power of two", lambda n: n & (n - 1))):
            if any(bad(size) for size in self.tile_shape):
                raise VerifyError(
                    f"tile shape dimensions must have {words} length but got {_spell(self.tile_shape)}", prefix=False
                )

    def _verify_tile(self) -> None:
        element = self.tensor_view.element_type
        verify_tile(self.tile_shape, element)
        padding = self.padding_value
        if padding is not None and padding.value != "zero" and not isinstance(element, FloatType):
            raise VerifyError(
                f"padding_value {padding.value} can only be used with floating point element types, got '{element}'",
                prefix=False,
            )

    def _write_tile(self, printer: Any) -> None:
        printer.write(f"tile=({'x'.join(map(str, self.tile_shape))}), ")

    def _write_view(self, printer: Any) -> None:
        if self.padding_value is not None:
            printer.write(f"padding_value = {self.padding_value.value}, ")
        write_type(printer, self.tensor_view)

    @staticmethod
    def _parse_tile(parser: Any) -> tuple[int, ...]:
        parser.parse_keyword("tile")
        parser.parse_punctuation("=")
        at = parser.offset
        parser.parse_punctuation("(")
        sizes = parse_sizes(parser)
        parser.parse_punctuation(")")
        for number, size in enumerate(sizes):
            if not 0 < size <= MAX_I32:
                parser.error(
                    at,
                    f"tile dimension {number} exceeds i32 limitations (got {size}, expected strictly positive and"
                    f" less than or equal to {MAX_I32})",
                )
        parser.parse_punctuation(",")
        return sizes

    @staticmethod
    def _parse_view(parser: Any) -> tuple[PaddingValueAttr | None, TensorViewType]:
        padding = None
        if parser.parse_optional_keyword("padding_value"):
            at = parser.offset
            parser.parse_punctuation("=")
            word = parser.parse_any_keyword()
            if word not in PaddingValueAttr.cases:
                parser.error(
                    at,
                    f'invalid padding_value attribute specification. Got "{word}" but expect one of:'
                    f" {', '.join(PaddingValueAttr.cases)}",
                )
            padding = PaddingValueAttr(word)
            parser.parse_punctuation(",")
        view = parser.parse_dialect_type(NAMESPACE)
        if not isinstance(view, TensorViewType):
            parser.error(parser.offset, f"expected 'tensor_view' type, but got '{view}'")
        return padding, view


def parse_sizes(parser: Any) -> tuple[int, ...]:
    """`8x16`, with nothing behind the last number; possibly empty."""
    if parser.peek(")"):
        return ()
    # The dimension list stops in front of the last size, which no `x` follows.
    sizes = parser.parse_dimension_list(dynamic=False)
    return (*sizes, parser.parse_integer())


class _GridView(TileView):
    """Views whose tiles lie on a grid; `dim_map[i]` is the tensor dimension that tile dimension `i` runs along."""

    dim_map: tuple[int, ...]

    def _verify_grid(self) -> None:
        self._verify_tile_shape()
        tile, dim_map = self.tile_shape, self.dim_map
        if len(dim_map) != len(tile):
            raise VerifyError(
                f"expected dim_map to map exactly all {len(tile)} dimensions of the tile, got {len(dim_map)} mappings",
                prefix=False,
            )
        self._verify_tile_sizes()
        used: dict[int, int] = {}
        for number, target in enumerate(dim_map):
            if target < 0:
                raise VerifyError(f"target dimension must not be negative, got {target}", prefix=False)
            if target >= self.tensor_view.rank:
                raise VerifyError(
                    "target dimension is outside of tensor view dimensions, expected strictly less than "
                    f"{self.tensor_view.rank}, got {target}",
                    prefix=False,
                )
            first = used.setdefault(target, number)
            if first != number:
                raise VerifyError(
                    f"target dimension {target} mapped at least twice (for tile dimensions {first} and {number})",
                    prefix=False,
                )
        self._verify_tile()

    def _write_dim_map(self, printer: Any) -> None:
        if self.dim_map != tuple(range(len(self.dim_map))):
            printer.write(f", dim_map={_spell(self.dim_map)}")

    @staticmethod
    def _parse_dim_map(parser: Any) -> tuple[int, ...] | None:
        if not parser.parse_optional_punctuation(","):
            return None
        parser.parse_keyword("dim_map")
        parser.parse_punctuation("=")
        return tuple(parser.parse_comma_separated(parser.parse_integer, "[", "]"))


class PartitionViewType(_GridView):
    """A tensor view cut into a grid of tiles that touch and do not overlap."""

    name = "cuda_tile.partition_view"
    since = "13.1"
    bytecode_tag: ClassVar[int] = 15
    parameters = ("tile_shape", "tensor_view", "dim_map", "padding_value")

    def __new__(
        cls,
        tile_shape: Iterable[int],
        tensor_view: TensorViewType,
        dim_map: Iterable[int] | None = None,
        padding_value: PaddingValueAttr | None = None,
    ) -> "PartitionViewType":
        tile = tuple(tile_shape)
        dims = tuple(range(len(tile))) if dim_map is None else tuple(dim_map)
        return cls.intern((tile, tensor_view, dims, padding_value))  # type: ignore[return-value]

    def verify(self) -> None:
        self._verify_grid()

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        self._write_tile(printer)
        self._write_view(printer)
        self._write_dim_map(printer)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> "PartitionViewType":
        parser.parse_punctuation("<")
        tile = cls._parse_tile(parser)
        padding, view = cls._parse_view(parser)
        dims = cls._parse_dim_map(parser)
        parser.parse_punctuation(">")
        return cls(tile, view, dims, padding)


class StridedViewType(_GridView):
    """Tiles that start every `traversal_strides` elements: they may overlap or leave gaps."""

    name = "cuda_tile.strided_view"
    since = "13.3"
    bytecode_tag: ClassVar[int] = 21
    parameters = ("tile_shape", "traversal_strides", "tensor_view", "dim_map", "padding_value")

    traversal_strides: tuple[int, ...]

    def __new__(
        cls,
        tile_shape: Iterable[int],
        traversal_strides: Iterable[int],
        tensor_view: TensorViewType,
        dim_map: Iterable[int] | None = None,
        padding_value: PaddingValueAttr | None = None,
    ) -> "StridedViewType":
        tile = tuple(tile_shape)
        dims = tuple(range(len(tile))) if dim_map is None else tuple(dim_map)
        return cls.intern((tile, tuple(traversal_strides), tensor_view, dims, padding_value))  # type: ignore

    def verify(self) -> None:
        self._verify_grid()
        strides = self.traversal_strides
        if len(self.tile_shape) != len(strides):
            raise VerifyError(f"expected {len(self.tile_shape)} traversal strides, got {len(strides)}", prefix=False)
        if any(stride <= 0 for stride in strides):
            raise VerifyError(f"traversal strides must be strictly positive but got {_spell(strides)}", prefix=False)

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        self._write_tile(printer)
        printer.write(f"traversal_strides=[{','.join(map(str, self.traversal_strides))}], ")
        self._write_view(printer)
        self._write_dim_map(printer)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Any) -> "StridedViewType":
        parser.parse_punctuation("<")
        tile = cls._parse_tile(parser)
        parser.parse_keyword("traversal_strides")
        parser.parse_punctuation("=")
        strides = parser.parse_comma_separated(parser.parse_integer, "[", "]")
        parser.parse_punctuation(",")
        padding, view = cls._parse_view(parser)
        dims = cls._parse_dim_map(parser)
        parser.parse_punctuation(">")
        return cls(tile, strides, view, dims, padding)


class GatherScatterViewType(TileView):
    """Tiles whose rows along `sparse_dim` are picked by a tile of indices; the other dimensions are contiguous."""

    name = "cuda_tile.gather_scatter_view"
    since = "13.3"
    bytecode_tag: ClassVar[int] = 20
    parameters = ("tile_shape", "tensor_view", "sparse_dim", "padding_value")

    sparse_dim: int

    def __new__(
        cls,
        tile_shape: Iterable[int],
        tensor_view: TensorViewType,
        sparse_dim: int,
        padding_value: PaddingValueAttr | None = None,
    ) -> "GatherScatterViewType":
        return cls.intern((tuple(tile_shape), tensor_view, sparse_dim, padding_value))  # type: ignore[return-value]

    def verify(self) -> None:
        self._verify_tile_shape()
        self._verify_tile_sizes()
        if not 0 <= self.sparse_dim < self.tensor_view.rank:
            raise VerifyError(
                "gather dimension is outside of tensor view dimensions, expected strictly less than "
                f"{self.tensor_view.rank}, got {self.sparse_dim}",
                prefix=False,
            )
        self._verify_tile()

    def verify_indices(self, types: Sequence[Any]) -> None:
        if not types:
            return
        sparse = self.sparse_dim
        if sparse >= len(types):
            raise VerifyError(f"gather/scatter dimension {sparse} is out of range for index count {len(types)}")
        picks = types[sparse]
        if not isinstance(picks, TileType):
            raise VerifyError(f"expected index at sparse_dim position {sparse} to be a tile type for GatherScatterView")
        if picks.rank != 1:
            raise VerifyError(
                f"expected index at sparse_dim position {sparse} to be a 1D tensor for GatherScatterView,"
                f" got rank {picks.rank}"
            )
        if picks.shape[0] != self.tile_shape[sparse]:
            raise VerifyError(
                f"expected gather/scatter index size ({picks.shape[0]}) to match tile shape at gather/scatter"
                f" dimension {sparse} ({self.tile_shape[sparse]})"
            )
        first = None
        for number, type in enumerate(types):
            if number == sparse:
                continue
            if not isinstance(type, TileType) or type.shape:
                raise VerifyError(f"expected index {number} to be a scalar tile for GatherScatterView")
            first = first if first is not None else type
            if type is not first:
                raise VerifyError(
                    f"expected scalar index {number} to have the same type as other scalar indices"
                    f" ('{first}'), got '{type}'"
                )

    def print_parameters(self, printer: Any) -> None:
        printer.write("<")
        self._write_tile(printer)
        self._write_view(printer)
        printer.write(f", sparse_dim={self.sparse_dim}>")

    @classmethod
    def parse_parameters(cls, parser: Any) -> "GatherScatterViewType":
        parser.parse_punctuation("<")
        tile = cls._parse_tile(parser)
        padding, view = cls._parse_view(parser)
        parser.parse_punctuation(",")
        parser.parse_keyword("sparse_dim")
        parser.parse_punctuation("=")
        sparse = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(tile, view, sparse, padding)
