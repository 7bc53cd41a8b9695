"""Types of views: the ways to cut a tensor view into the tiles that loads and stores address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Sequence

from tileiras.ir import FloatType, Type, VerifyError

from .attributes import PaddingValueAttr
from .types import MAX_I32, NAMESPACE, TensorViewType, TileType, spell, verify_tile, write_type

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


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
        """Raise VerifyError unless tiles can be named by indices of these types: scalars of one type."""
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
                    f"tile shape dimensions must have {words} length but got {spell(self.tile_shape)}", prefix=False
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

    def _write_tile(self, printer: Printer) -> None:
        printer.write(f"tile=({'x'.join(map(str, self.tile_shape))}), ")

    def _write_view(self, printer: Printer) -> None:
        if self.padding_value is not None:
            printer.write(f"padding_value = {self.padding_value.value}, ")
        write_type(printer, self.tensor_view)

    @staticmethod
    def _parse_tile(parser: Parser) -> tuple[int, ...]:
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
    def _parse_view(parser: Parser) -> tuple[PaddingValueAttr | None, TensorViewType]:
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


def parse_sizes(parser: Parser) -> tuple[int, ...]:
    """`8x16`, with nothing after the last number; possibly empty."""
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
        source_of: dict[int, int] = {}
        for number, target in enumerate(dim_map):
            if target < 0:
                raise VerifyError(f"target dimension must not be negative, got {target}", prefix=False)
            if target >= self.tensor_view.rank:
                raise VerifyError(
                    "target dimension is outside of tensor view dimensions, expected strictly less than "
                    f"{self.tensor_view.rank}, got {target}",
                    prefix=False,
                )
            first = source_of.setdefault(target, number)
            if first != number:
                raise VerifyError(
                    f"target dimension {target} mapped at least twice (for tile dimensions {first} and {number})",
                    prefix=False,
                )
        self._verify_tile()

    def _write_dim_map(self, printer: Printer) -> None:
        if self.dim_map != tuple(range(len(self.dim_map))):
            printer.write(f", dim_map={spell(self.dim_map)}")

    @staticmethod
    def _parse_dim_map(parser: Parser) -> tuple[int, ...] | None:
        if not parser.parse_optional_punctuation(","):
            return None
        parser.parse_keyword("dim_map")
        parser.parse_punctuation("=")
        return tuple(parser.parse_comma_separated(parser.parse_integer, "[", "]"))


class PartitionViewType(_GridView, name="cuda_tile.partition_view", since="13.1"):
    """A tensor view cut into a grid of tiles that touch and do not overlap."""

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

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        self._write_tile(printer)
        self._write_view(printer)
        self._write_dim_map(printer)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "PartitionViewType":
        parser.parse_punctuation("<")
        tile = cls._parse_tile(parser)
        padding, view = cls._parse_view(parser)
        dims = cls._parse_dim_map(parser)
        parser.parse_punctuation(">")
        return cls(tile, view, dims, padding)


class StridedViewType(_GridView, name="cuda_tile.strided_view", since="13.3"):
    """Tiles that start every `traversal_strides` elements: they may overlap or leave gaps."""

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
            raise VerifyError(f"traversal strides must be strictly positive but got {spell(strides)}", prefix=False)

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        self._write_tile(printer)
        printer.write(f"traversal_strides=[{','.join(map(str, self.traversal_strides))}], ")
        self._write_view(printer)
        self._write_dim_map(printer)
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "StridedViewType":
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


class GatherScatterViewType(TileView, name="cuda_tile.gather_scatter_view", since="13.3"):
    """Tiles whose rows along `sparse_dim` are picked by a tile of indices; the other dimensions are contiguous."""

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

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        self._write_tile(printer)
        self._write_view(printer)
        printer.write(f", sparse_dim={self.sparse_dim}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "GatherScatterViewType":
        parser.parse_punctuation("<")
        tile = cls._parse_tile(parser)
        padding, view = cls._parse_view(parser)
        parser.parse_punctuation(",")
        parser.parse_keyword("sparse_dim")
        parser.parse_punctuation("=")
        sparse = parser.parse_integer()
        parser.parse_punctuation(">")
        return cls(tile, view, sparse, padding)
