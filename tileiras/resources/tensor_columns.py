"""Which columns of tensor memory each accumulator has, and how many a CTA allocates."""

from __future__ import annotations

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import IntegerAttr, i32
from tileiras.layout.tensor_memory import COLUMNS, LEAST_COLUMNS
from tileiras.support.named_tuple import NamedTuple


class _Life(NamedTuple):
    """A buffer, and the operations between which it lives, by their numbers in the function."""

    op: tileas.TensorAllocOp
    start: int
    end: int

    def meets(self, other: _Life) -> bool:
        return self.start < other.end and other.start < self.end


def place_columns(func: aa.FuncOp, engine: DiagnosticEngine) -> None:
    """Give every buffer of tensor memory of a function of nv_tileas its `column`, and the function's reservation its
    `columns`, the power of two that holds them.

    Sizes are powers of two; the largest buffers come first, each at the first multiple of its size that is free.  One
    that is over another has the first columns of that.
    """
    reserve = next((op for op in func.walk() if op.name == names.TENSOR_RESERVE), None)
    if reserve is None:
        return
    places: list[tuple[_Life, int]] = []
    top = LEAST_COLUMNS
    for life in sorted(_lives(func), key=lambda life: (-life.op.result.type.columns, life.start)):
        size = life.op.result.type.columns
        intervals = [(at, at + other.op.result.type.columns) for other, at in places if other.meets(life)]
        column = 0
        while any(column < end and start < column + size for start, end in intervals):
            column += size
        places.append((life, column))
        life.op.attributes["column"] = IntegerAttr(column, i32)
        top = max(top, column + size)
    if top > COLUMNS:
        engine.error(reserve.location, f"needs {top} columns of tensor memory, an SM has {COLUMNS}")
        return
    reserve.attributes["columns"] = IntegerAttr(1 << (top - 1).bit_length(), i32)
    for op in func.walk():
        if isinstance(op, tileas.TensorAllocOp) and op.over is not None:
            op.attributes["column"] = op.over.defining_op.attributes["column"]


def _lives(func: aa.FuncOp) -> list[_Life]:
    numbers = {op: number for number, op in enumerate(func.walk())}
    last = len(numbers)
    result = []
    for op, number in numbers.items():
        if isinstance(op, tileas.TensorAllocOp) and op.over is None:
            ends = [numbers[user] for user in op.result.users if isinstance(user, tileas.TensorDeallocOp)]
            result.append(_Life(op, number, max(ends, default=last)))
    return result
