"""Operands of dots that are computed from the result of another dot in tensor memory, and their columns there."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, Pure, TensorType, Value
from tileiras.layout.tensor_memory import COLUMN_BITS, LANES


def source_dot(value: Value) -> aa.DotOp | None:
    """The dot of the same block from whose result a tile of its shape is computed element by element; the last of
    several; None if all are loaded or carried."""
    pending, seen, result = [value], set(), None
    while pending:
        op: Any = pending.pop().defining_op
        if op is None or op in seen or op.parent is None:
            continue
        seen.add(op)
        if isinstance(op, aa.DotOp):
            if op.result.type.shape == value.type.shape and (result is None or result.is_before_in_block(op)):
                result = op
        elif not op.regions and op.has_trait(Pure):
            pending += _alike(op, value)
    return result


def _alike(op: Operation, value: Value) -> list[Value]:
    """The operands of an operation that are tiles of a value's shape, of its block."""
    tiles = (v for v in op.operands if isinstance(v.type, TensorType) and v.type.shape == value.type.shape)
    return [v for v in tiles if v.parent_block is value.parent_block]


def operand_columns(type: TensorType) -> int:
    """Columns of tensor memory that A takes there, with the lanes of its rows: 64 rows use whole lanes and leave every
    second run of 16 free."""
    rows = min(type.shape[0], LANES)
    return type.num_elements * type.element_type.width // (COLUMN_BITS * rows)
