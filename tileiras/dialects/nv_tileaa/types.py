"""Types of nv_tileaa."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, Iterable

from tileiras.ir import DYNAMIC, Attribute, FloatType, IntegerType, Type, VerifyError
from tileiras.support.named_tuple import NamedTuple

from .attributes import PaddingValueAttr

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


class PtrType(Type, name="nv_tileaa.ptr", parameters=("pointee", "address_space")):
    """A pointer to one `pointee`; address space 1 (global) unless said otherwise."""

    width = 64

    def __new__(cls, pointee: Type, address_space: int = 1) -> "PtrType":
        return cls.intern((pointee, address_space))  # type: ignore[return-value]

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        printer.print_type(self.pointee)
        if self.address_space != 1:
            printer.write(f", {self.address_space}")
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "PtrType":
        parser.parse_punctuation("<")
        pointee = parser.parse_type()
        space = parser.parse_integer() if parser.parse_optional_punctuation(",") else 1
        parser.parse_punctuation(">")
        return cls(pointee, space)


class MemTokenType(Type, name="nv_tileaa.mem_token"):
    """Orders memory operations."""


class MemRefType(Type, name="nv_tileaa.memref", parameters=("shape", "element_type", "strides", "address_space")):
    """Strided memory: element type, shape, strides in elements (`?` where only known at run time)."""

    def __new__(
        cls, shape: Iterable[int], element_type: Type, strides: Iterable[int], address_space: int = 1
    ) -> "MemRefType":
        return cls.intern((tuple(shape), element_type, tuple(strides), address_space))  # type: ignore[return-value]

    def verify(self) -> None:
        if len(self.shape) != len(self.strides):
            raise VerifyError(f"expected {len(self.shape)} strides, got {len(self.strides)}", prefix=False)
        if any(size < 0 and size != DYNAMIC for size in (*self.shape, *self.strides)):
            raise VerifyError("expected sizes and strides that are not negative", prefix=False)
        if not isinstance(self.element_type, (IntegerType, FloatType, PtrType)):
            raise VerifyError(f"expected elements that memory can hold, got {self.element_type}", prefix=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def print_parameters(self, printer: Printer) -> None:
        printer.write("<")
        for size in self.shape:
            printer.write(f"{_extent(size)}x")
        printer.print_type(self.element_type)
        printer.write(f", strides = [{', '.join(map(_extent, self.strides))}]")
        if self.address_space != 1:
            printer.write(f", {self.address_space}")
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "MemRefType":
        parser.parse_punctuation("<")
        shape = parser.parse_dimension_list()
        element_type = parser.parse_type()
        parser.parse_punctuation(",")
        parser.parse_keyword("strides")
        parser.parse_punctuation("=")
        strides = parser.parse_comma_separated(lambda: parse_extent(parser), "[", "]")
        space = parser.parse_integer() if parser.parse_optional_punctuation(",") else 1
        parser.parse_punctuation(">")
        return cls(shape, element_type, strides, space)


class CutView(NamedTuple):
    """Slices of a view's tiles, as tiles of a view of their own."""

    type: "TiledViewType"
    steps_of_tile: int
    """Coordinates between tiles."""
    steps_of_slice: int
    """Coordinates between slices of a tile."""


class TiledViewType(Type, name="nv_tileaa.tiled_view"):
    """How a memref is cut into tiles.

    `shape` is the tile's, `dim_map[i]` the memref dimension that tile dimension i runs along.  `traversal_strides` are
    the distances between tiles in elements (the tile's shape for a partition).  With `sparse_dim`, the coordinate of
    that memref dimension is a tensor of indices (gather and scatter).  Elements outside the memref read as `padding`
    (unspecified without one) and are not written.
    """

    parameters = ("shape", "source", "dim_map", "padding", "traversal_strides", "sparse_dim")

    def __new__(
        cls,
        shape: Iterable[int],
        source: MemRefType,
        dim_map: Iterable[int] | None = None,
        padding: Attribute | None = None,
        traversal_strides: Iterable[int] | None = None,
        sparse_dim: int | None = None,
    ) -> "TiledViewType":
        shape = tuple(shape)
        strides = shape if traversal_strides is None else tuple(traversal_strides)
        order = tuple(range(len(shape))) if dim_map is None else tuple(dim_map)
        return cls.intern((shape, source, order, padding, strides, sparse_dim))  # type: ignore[return-value]

    def verify(self) -> None:
        wrong = self._wrong()
        if wrong:
            raise VerifyError(wrong, prefix=False)

    def _wrong(self) -> str:
        """The first rule that does not hold, or nothing."""
        if not isinstance(self.source, MemRefType):
            return f"expected a memref, got {self.source}"
        rank, groups = self.source.rank, self.dim_map
        if rank and not self.shape:
            return "expects non-empty tileSizes"
        if self.shape and not groups:
            return "expects non-empty dimGroups"
        repeated = next((dim for dim in groups if groups.count(dim) > 1), None)
        if repeated is not None:
            return f"expects dim is being tiled only one time, but got {repeated}"
        if len(self.shape) != len(groups):
            both = f"{len(self.shape)} and {len(groups)}"
            return f"expects rank of tileSizes be equal to rank of dimGroups, but got {both}"
        if any(size < 1 for size in self.shape):
            return "expects all tile size bigger than zero"
        if sorted(groups) != list(range(rank)):
            return "expected the tile's dimensions to map one to one to the memref's"
        if len(self.traversal_strides) != rank or any(step < 1 for step in self.traversal_strides):
            return f"expected {rank} traversal strides of at least 1, got {list(self.traversal_strides)}"
        if self.sparse_dim is not None and not 0 <= self.sparse_dim < rank:
            return f"expected the sparse dimension to be one of the memref's, got {self.sparse_dim}"
        if self.padding is not None:
            if not isinstance(self.padding, PaddingValueAttr):
                return f"expected a padding value, got {self.padding}"
            if self.padding.value != "zero" and not isinstance(self.element_type, FloatType):
                return "special padding values (nan, pos_inf, neg_inf, neg_zero) only for float-like element types"
        return ""

    @property
    def element_type(self) -> Any:
        return self.source.element_type

    def cut(self, dim: int, parts: int) -> CutView:
        """Tiles cut along a dimension.

        The step is the longest that leads to each tile and to each slice: tiles may overlap, or be apart by a distance
        that is no multiple of a slice.
        """
        shape, strides = list(self.shape), list(self.traversal_strides)
        extent, stride = shape[dim] // parts, strides[dim]
        step = gcd(stride, extent)
        shape[dim], strides[dim] = extent, step
        type = TiledViewType(shape, self.source, self.dim_map, self.padding, strides, self.sparse_dim)
        return CutView(type, stride // step, extent // step)

    def print_parameters(self, printer: Printer) -> None:
        printer.write(f"<[{', '.join(map(str, self.shape))}], ")
        printer.print_type(self.source)
        if self.dim_map != tuple(range(len(self.shape))):
            printer.write(f", dim_map = [{', '.join(map(str, self.dim_map))}]")
        if self.padding is not None:
            printer.write(", padding = ")
            printer.print_attribute(self.padding)
        if self.traversal_strides != self.shape:
            printer.write(f", traversal_strides = [{', '.join(map(str, self.traversal_strides))}]")
        if self.sparse_dim is not None:
            printer.write(f", sparse_dim = {self.sparse_dim}")
        printer.write(">")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> "TiledViewType":
        parser.parse_punctuation("<")
        shape = parser.parse_comma_separated(parser.parse_integer, "[", "]")
        parser.parse_punctuation(",")
        source = parser.parse_type()

        def numbers() -> list[int]:
            return parser.parse_comma_separated(parser.parse_integer, "[", "]")

        fields = {
            "dim_map": numbers, "padding": parser.parse_attribute, "traversal_strides": numbers,
            "sparse_dim": parser.parse_integer,
        }  # fmt: skip
        parameters = parser.parse_struct("!nv_tileaa.tiled_view", fields, open="")
        parser.parse_punctuation(">")
        return cls(shape, source, **parameters)


def _extent(value: int) -> str:
    return "?" if value == DYNAMIC else str(value)


def parse_extent(parser: Parser) -> int:
    """An integer or `?`."""
    return DYNAMIC if parser.parse_optional_punctuation("?") else parser.parse_integer()
