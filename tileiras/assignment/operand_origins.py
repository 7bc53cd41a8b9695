"""Where the operands of dots come from: which dimension is contiguous in global memory, and whether it has to stay so.

Copies of 16 bytes fill shared memory along the dimension that is contiguous in global memory; computed tiles go through
registers, from where their elements can be stored in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from tileiras.analysis.derivations import settle
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Pure, TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.matrix_descriptor import Major
from tileiras.support.named_tuple import NamedTuple

from .anchors import MemoryLayouts

LOADS = (aa.TiledLoadOp, aa.LoadOp)
_MOVES = (aa.ViewOp, aa.PermuteOp, aa.CatOp, aa.BroadcastOp)

Place = tuple[int, bool]
"""The position in a tile of the element after the first one in memory, and whether the tile is as loaded."""


def memory_layouts(func: aa.FuncOp, num_warps: int) -> MemoryLayouts:
    """How the accesses of a function walk memory."""
    return MemoryLayouts(func, DivisibilityAnalysis(func), num_warps)


class Origin(NamedTuple):
    """Which load the elements of an operand come from.

    `axis`: the operand's dimension that is contiguous in global memory; `copied`: whether they are as loaded, and not
    computed from that element by element.
    """

    axis: int
    copied: bool


class Origins:
    """The origins of the operands of a function; `memory` provides its access patterns."""

    def __init__(self, memory: Callable[[], MemoryLayouts]) -> None:
        self._memory = memory
        self._found: MemoryLayouts | None = None

    def of(self, value: Value) -> Origin | None:
        """Where a tile comes from when that is one load, through operations on single elements."""
        places: dict[Value, Place | None] = {}
        origin = settle(value, places, None, _sources, lambda value, sources: self._follow(value, sources, places))
        if origin is None:
            return None
        position, copied = origin
        place = LinearLayout({}, value.type.shape).coordinates(position)
        axis = next((axis for axis, at in enumerate(place) if at), len(place) - 1)
        return Origin(axis, copied)

    def _follow(
        self, value: Value, sources: Sequence[Value], places: dict[Value, Place | None]
    ) -> Place | None:
        if isinstance(value.defining_op, LOADS):
            if self._found is None:
                self._found = self._memory()
            access = self._found.accesses.get(value.defining_op)
            if access is None:
                return None
            return 1 << LinearLayout({}, value.type.shape).dim_shift(access.order[0]), True
        return next((_through(value, place) for each in sources if (place := places[each]) is not None), None)


def _sources(value: Value) -> Sequence[Value]:
    """The operands that may hold the elements of a tile: the first one with an origin decides."""
    op: Any = value.defining_op
    if op is None or isinstance(op, LOADS) or not isinstance(value.type, TensorType):
        return ()
    if isinstance(op, _MOVES):
        return op.operands[:1]
    if op.regions or not op.has_trait(Pure):
        return ()
    alike = [each for each in op.operands if isinstance(each.type, TensorType) and each.type.shape == value.type.shape]
    # Scales are smaller tiles, broadcast to the shape of the others.
    return sorted(alike, key=lambda each: isinstance(each.defining_op, aa.BroadcastOp))


def _through(value: Value, place: Place) -> Place:
    """The place in a result of the element at `place` of its operand."""
    op: Any = value.defining_op
    position, copied = place
    if isinstance(op, aa.ViewOp):
        return place
    if not isinstance(op, _MOVES):
        return position, False
    at = LinearLayout({}, op.operands[0].type.shape).coordinates(position)
    if isinstance(op, aa.PermuteOp):
        return LinearLayout({}, value.type.shape).flatten([at[axis] for axis in op.permutation.elements]), copied
    return LinearLayout({}, value.type.shape).flatten(at), False  # the elements of a larger tile at the same places


def major(origin: Origin | None, k_axis: int, supported: Collection[Major]) -> Major | None:
    """Which dimension of an operand is contiguous in shared memory, of those that an instruction takes; None when it is
    loaded with another."""
    candidate: Major = "k" if origin is None or origin.axis == k_axis else "mn"
    if candidate in supported:
        return candidate
    return "k" if origin is not None and not origin.copied else None
