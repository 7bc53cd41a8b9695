"""Loads of tensor memory that also return the greatest or least element of each thread's part of a row.

    %s = tensor_memory.load %t                      %s, %p = tensor_memory.load %t {reduction = "max"}
    %m = reduce %s {dim = 1} : maxnumf        ->    %m = reduce %p {dim = 1} : maxnumf

%p has a column for each warp that holds a part of a row, so that only a reduction between warps remains.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nvvm.tensor_memory import MOST_WORDS
from tileiras.ir import StringAttr, TensorType, f32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import encode, layout_of
from tileiras.layout.tensor_memory import access_shape
from tileiras.targets import Target

FEATURE = "tcgen05_load_reduction"

REDUCTIONS = {
    arith.MaxNumFOp: "max", arith.MinNumFOp: "min", arith.MaximumFOp: "max.NaN", arith.MinimumFOp: "min.NaN",
}  # fmt: skip
"""Combiner -> the modifiers of `tcgen05.ld.red`, which gives NaN for any NaN with `.NaN`."""

LEAST_WORDS = 2
"""The fewest words of a load that reduces (PTX ISA, "tcgen05.ld": .x2 to .x128)."""


def reduce_in_loads(func: aa.FuncOp, target: Target) -> None:
    """Fold reductions of loaded tiles into the loads of tensor memory of a function of nv_tileas, in place, if the
    target has such loads."""
    if not target.has(FEATURE):
        return
    for load in [op for op in func.walk() if isinstance(op, tileas.TensorLoadOp)]:
        for user in load.result.users:
            reduction = _reduction(user)
            if reduction is not None:
                _fold(load, user, reduction)
                break


def _reduction(op: Any) -> str | None:
    """The modifiers for a reduction of one tile of f32 by one combiner; None for others."""
    if not isinstance(op, tileas.ReduceOp) or len(op.inputs) != 1 or op.inputs[0].type.element_type is not f32:
        return None
    first, last = op.body.block.first, op.body.block.last
    plain = first.next is last and list(last.operands) == list(first.results)
    both = set(first.operands) == set(op.body.block.arguments)
    return REDUCTIONS.get(type(first)) if plain and both else None


def _fold(load: tileas.TensorLoadOp, reduce: Any, reduction: str) -> None:
    layout = _partial_layout(layout_of(load.result.type), reduce.dim.value)
    if layout is None or access_shape(layout_of(load.buffer.type.tile)) != "32x32b":
        return
    partial = TensorType(layout.shape, f32, encode(layout))
    attributes = {**load.attributes, "reduction": StringAttr(reduction)}
    result = type(load).create((load.buffer,), (load.result.type, partial), attributes, location=load.location)
    load.parent.insert_before(result, load)
    reduce.operands = [result.results[1]]
    load.result.replace_all_uses_with(result.results[0])
    load.erase()


def _partial_layout(layout: LinearLayout, axis: int) -> LinearLayout | None:
    """The layout of one element per thread, if its registers hold a part of one row; None otherwise."""
    other = layout.dim_mask(1 - axis)
    if len(layout.shape) != 2 or not LEAST_WORDS <= layout.registers <= MOST_WORDS:
        return None
    if any(v & other for v in layout.bases("register")):
        return None
    if any(not v or v & ~other for v in layout.bases("lane")):
        return None
    warps, parts = [], 0
    for vector in layout.bases("warp"):
        place = list(layout.coordinates(vector))
        if place[axis]:
            place[axis] = 1 << parts
            parts += 1
        warps.append(tuple(place))
    shape = tuple(1 << parts if dim == axis else n for dim, n in enumerate(layout.shape))
    lanes = [layout.coordinates(vector) for vector in layout.bases("lane")]
    return LinearLayout.from_coordinates({"register": [], "lane": lanes, "warp": warps}, shape)
