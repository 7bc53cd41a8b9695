"""Where the operands of dots come from: which dimension is contiguous in global memory, and whether it has to stay so.

Copies of 16 bytes fill shared memory along the dimension that is contiguous in global memory; computed tiles go through
registers, from where their elements can be stored in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import BlockArgument, Pure, TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.matrix_descriptor import Major
from tileiras.support.named_tuple import NamedTuple

from .anchors import MemoryLayouts

LOADS = (aa.TiledLoadOp, aa.LoadOp)


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
        origin = self._follow(value)
        if origin is None:
            return None
        position, copied = origin
        place = LinearLayout({}, value.type.shape).coordinates(position)
        axis = next((axis for axis, at in enumerate(place) if at), len(place) - 1)
        return Origin(axis, copied)

    def _follow(self, value: Value) -> tuple[int, bool] | None:
        """The position in a tile of the element after the first one in memory, and whether the tile is as loaded."""
        if isinstance(value, BlockArgument) or not isinstance(value.type, TensorType):
            return None
        op: Any = value.defining_op
        if isinstance(op, LOADS):
            if self._found is None:
                self._found = self._memory()
            access = self._found.accesses.get(op)
            if access is None:
                return None
            return 1 << LinearLayout({}, value.type.shape).dim_shift(access.order[0]), True
        if isinstance(op, aa.ViewOp):
            return self._follow(op.operand)
        if isinstance(op, aa.PermuteOp):
            inner = self._follow(op.operand)
            if inner is None:
                return None
            place = LinearLayout({}, op.operand.type.shape).coordinates(inner[0])
            moved = [place[axis] for axis in op.permutation.elements]
            return LinearLayout({}, value.type.shape).flatten(moved), inner[1]
        if isinstance(op, (aa.CatOp, aa.BroadcastOp)):
            return self._spread(op, value)
        if op.regions or not op.has_trait(Pure):
            return None
        # Scales are smaller tiles, broadcast to the shape of the others.
        for operand in sorted(op.operands, key=lambda each: isinstance(each.defining_op, aa.BroadcastOp)):
            if isinstance(operand.type, TensorType) and operand.type.shape == value.type.shape:
                inner = self._follow(operand)
                if inner is not None:
                    return inner[0], False
        return None

    def _spread(self, op: aa.CatOp | aa.BroadcastOp, value: Value) -> tuple[int, bool] | None:
        """Likewise for a tile that has its elements at the same places in a larger one."""
        operand = op.operands[0]
        inner = self._follow(operand)
        if inner is None:
            return None
        place = LinearLayout({}, operand.type.shape).coordinates(inner[0])
        return LinearLayout({}, value.type.shape).flatten(place), False


def major(origin: Origin | None, k_axis: int, taken: Collection[Major]) -> Major | None:
    """Which dimension of an operand is contiguous in shared memory, of those that an instruction takes; None when it is
    loaded with another."""
    wanted: Major = "k" if origin is None or origin.axis == k_axis else "mn"
    if wanted in taken:
        return wanted
    return "k" if origin is not None and not origin.copied else None
