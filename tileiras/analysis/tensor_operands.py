"""Checks of dots into tensor memory, whose operands must suit their instruction, and of the columns of buffers."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.arena import WORD_ALIGNMENT
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.layout.matrix_descriptor import describe
from tileiras.layout.tensor_memory import (
    COLUMNS,
    access_of,
    accumulator_layout,
    operand_layout,
    scale_layout,
    without_free_columns,
)
from tileiras.targets import MmaAtom, ScaledMmaAtom, element_name, product_types
from tileiras.targets.atoms.rows import TensorTile

from .places import Places


def tensor_dot_error(op: tileas.Dot | tileas.TensorDotOp, atom: MmaAtom | ScaledMmaAtom) -> str:
    """The error in a dot whose accumulator is, or will be, in tensor memory; empty if correct."""
    exchanged = getattr(op, "exchanged", None) is not None
    types = product_types(op)
    if (atom.a_type, atom.b_type, atom.c_type) != ((types[1], types[0], types[2]) if exchanged else types):
        return f"atom '{atom.name}' does not multiply {types[0]} and {types[1]} into {types[2]}"
    c: TensorType = getattr(op.c.type, "tile", op.c.type)
    if c.rank != 2:
        return f"atom '{atom.name}' multiplies matrices, not batches of them"
    rows, (_, columns, depth) = atom.cta_rows, atom.shape
    m, n = c.shape[::-1] if exchanged else c.shape
    if op.b.type.shape[0] % depth:
        return f"atom '{atom.name}' is deeper than the {op.b.type.shape[0]} columns of A"
    if m % rows or n % columns or atom.ctas > 1 and n != columns:
        return f"atom '{atom.name}' does not divide a result of {c.shape[0]} x {c.shape[1]}"
    required = accumulator_layout(c.shape, rows, exchanged, atom.ctas > 1)
    layout = layout_of(c)
    if not _is_there(layout, required, c.element_type.width):
        return f"the layout of C does not have the accumulator of atom '{atom.name}'"
    wrong = _scales_error(op, atom)
    if wrong:
        return wrong
    if isinstance(atom.a, TensorTile):
        return _a_error(op) or _operand_error("B", op.b.type, 0)
    spread = atom.is_spread and not exchanged, atom.is_spread and exchanged
    return _operand_error("A", op.a.type, 1, spread[0]) or _operand_error("B", op.b.type, 0, spread[1])


def _scales_error(op: tileas.Dot | tileas.TensorDotOp, atom: MmaAtom | ScaledMmaAtom) -> str:
    """The error in the scales of a dot, which it has exactly if its atom takes scales; empty if correct."""
    scales = [op.scale_a, op.scale_b] if isinstance(op, tileas.BlockScaledMmaOp) else [*getattr(op, "scales", ())][:2]
    if bool(scales) != isinstance(atom, ScaledMmaAtom):
        return f"atom '{atom.name}' {'takes no' if scales else 'takes'} block scales"
    if not isinstance(atom, ScaledMmaAtom):
        return ""
    runs, exchanged = op.b.type.shape[0] // atom.block, getattr(op, "exchanged", None) is not None
    for operand, value, along in (("A", scales[0], 1), ("B", scales[1], 0)):
        result = element_name(value.type.element_type)
        if result != atom.scale_type or value.type.shape[along] != runs:
            return f"atom '{atom.name}' takes a scale of {atom.scale_type} for {atom.block} factors"
        count = value.type.shape[1 - along]
        required = scale_layout(count, runs, atom.is_spread and exchanged == (operand == "B"))
        if layout_of(value.type) != (required if along else required.permute((1, 0))):
            return f"scales of {operand} do not lie as copies to tensor memory take them"
    return ""


def _a_error(op: tileas.DotOp | tileas.TensorDotOp) -> str:
    """The error in operand A of a dot that reads it from tensor memory: A is there, or in the registers from which it
    is stored there."""
    type: TensorType = getattr(op.a.type, "tile", op.a.type)
    bits = type.element_type.width
    operand = operand_layout(type.shape, bits)
    if is_in_shared(type):
        return "A is in shared memory"
    is_there = _is_there(without_free_columns(layout_of(type)), operand, bits)
    return "" if is_there else "A does not lie where tcgen05.mma reads it in tensor memory"


def _is_there(layout: LinearLayout, target: LinearLayout, element_bits: int) -> bool:
    """Whether a tile has the layout `target` in tensor memory, or is in registers that an access moves from or to it.
    """
    return layout == target if layout.dims == target.dims else access_of(target, layout, element_bits) is not None


def _operand_error(operand: str, type: TensorType, k_axis: int, spread: bool = False) -> str:
    if not is_in_shared(type):
        return f"{operand} is not in shared memory"
    if describe(layout_of(type), k_axis, type.element_type.width, spread) is None:
        return f"no matrix descriptor describes the layout of {operand}"
    return ""


class TensorPlaces:
    """The columns of a function, checked one operation after the other."""

    def __init__(self, shared: Places) -> None:
        self._shared = shared
        self._reserved: dict[Value, int] = {}
        self._live: dict[Value, tuple[int, int]] = {}

    def error(self, op: Any, warps: int) -> str:
        """The error in the columns of an operation that `warps` warps execute, or ""."""
        if isinstance(op, tileas.TensorReserveOp):
            return self._reserve_error(op)
        if isinstance(op, tileas.TensorReleaseOp):
            if self._live:
                return "frees columns in which a buffer lives"
            if self._reserved and self._reserved.pop(op.memory, None) is None:
                return "frees columns that are not reserved here, or are free"
        elif isinstance(op, tileas.TensorAllocOp):
            return self._alloc_error(op)
        elif isinstance(op, tileas.TensorDeallocOp):
            self._live.pop(op.buffer, None)
        elif isinstance(op, (tileas.TensorLoadOp, tileas.TensorScaleOp, tileas.TensorStoreOp)):
            return _moved_error(op, warps)
        return ""

    def _reserve_error(self, op: tileas.TensorReserveOp) -> str:
        if self._reserved:
            return "reserves columns of a function that has some"
        if op.offset is None:
            return ""
        start, end = op.offset.value, op.offset.value + op.bytes
        wrong = self._shared.place_error(start, end, WORD_ALIGNMENT)
        if not wrong:
            self._shared.take(op.result, start, end)
            self._reserved[op.result] = COLUMNS if op.columns is None else op.columns.value
        return wrong

    def _alloc_error(self, op: tileas.TensorAllocOp) -> str:
        if op.column is None:
            return ""
        start = op.column.value
        end = start + op.result.type.columns
        most = max(self._reserved.values(), default=COLUMNS)
        if start < 0 or end > most:
            return f"has columns {start} to {end - 1} of tensor memory, the function has {most}"
        if op.over is not None:
            first = op.over.defining_op.column
            where = "no column" if first is None else f"column {first.value}"
            return "" if op.column == first else f"begins at column {start} of tensor memory, over a buffer at {where}"
        if any(start < other_end and other < end for other, other_end in self._live.values()):
            return f"begins at column {start} of tensor memory, where another buffer lives"
        self._live[op.result] = start, end
        return ""


def _moved_error(op: tileas.TensorLoadOp | tileas.TensorScaleOp | tileas.TensorStoreOp, warps: int) -> str:
    tile = op.result if isinstance(op, tileas.TensorLoadOp) else op.operands[0]
    type: TensorType = tile.type  # type: ignore[assignment]
    layout = layout_of(type)
    if layout.warps != warps or access_of(layout_of(op.buffer.type.tile), layout, type.element_type.width) is None:
        return "moves a tile whose elements its threads do not reach in tensor memory"
    return ""
