"""Tiles in memory, and the position of a vector of elements in one."""

from __future__ import annotations

import math
from collections.abc import Callable

from tileiras.support.named_tuple import NamedTuple

from .code import Index
from .elements import Kind, Lanes


class At(NamedTuple):
    """`count` elements of a tile, at `index` and on along `dim`."""

    index: tuple[Index, ...]
    dim: int = -1
    count: int = 1


class Tile:
    """A tile in memory, in row-major order: as stored bits, or as numbers."""

    __slots__ = ("pointer", "shape", "kind", "as_numbers", "offset", "root", "holders", "pins", "is_elsewhere")

    def __init__(
        self, pointer: str, shape: tuple[int, ...], kind: Kind, as_numbers: bool = False, offset: int | None = None,
        root: Tile | None = None,
    ) -> None:  # fmt: skip
        self.pointer = pointer
        self.shape = shape
        self.kind = kind
        self.as_numbers = as_numbers
        self.offset = offset
        """The place in the arena; None for constants."""
        self.root = root if root is not None else self
        """The tile whose memory this is under another shape."""
        self.is_elsewhere = root is not None and offset is None and root.offset is not None
        """Whether the memory may be the user's, which is read only and may begin anywhere; `root` is the copy's."""
        self.holders = 0
        """Values that the memory holds."""
        self.pins = 0
        """Loops that will write to the memory."""

    @property
    def type(self) -> str:
        """The LLVM type of an element in memory."""
        return self.kind.number if self.as_numbers else self.kind.stored

    def stride(self, dim: int) -> int:
        """Elements between neighbours along a dimension."""
        return math.prod(self.shape[dim + 1 :])

    def reshaped(self, shape: tuple[int, ...]) -> Tile:
        return Tile(self.pointer, shape, self.kind, self.as_numbers, self.offset, self.root)


class Sunk(NamedTuple):
    """A tile in memory whose elements the next reduction computes, and writes (`Plan.sinks_into`)."""

    tile: Tile
    elements: Callable[[At], Lanes]


def vector_dim(shape: tuple[int, ...]) -> int:
    """The innermost dimension with several elements, along which vectors lie; -1 for one element."""
    return next((dim for dim in reversed(range(len(shape))) if shape[dim] > 1), -1)
