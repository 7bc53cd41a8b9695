"""Types of the buffers in tensor memory of a dot, and how many columns those of several dots take."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation
from tileiras.layout.accumulators import continues, reads_a_in_tensor_memory
from tileiras.layout.encoding import with_layout
from tileiras.layout.tensor_memory import accumulator_layout, operand_layout
from tileiras.targets import mma_atom


def accumulator_type(dot: Any) -> tileas.TensorBufferType:
    """Of the accumulator of a dot, in the rows of its atom."""
    atom, type = mma_atom(dot.atom.atom), dot.c.type
    exchanged = getattr(dot, "exchanged", None) is not None
    layout = accumulator_layout(type.shape, atom.cta_rows, exchanged, atom.ctas > 1)
    return tileas.TensorBufferType(with_layout(type, layout))


def operand_type(dot: Any) -> tileas.TensorBufferType:
    """Of an A that the dot reads in tensor memory."""
    type = dot.a.type
    return tileas.TensorBufferType(with_layout(type, operand_layout(type.shape, type.element_type.width)))


def columns_taken(dots: list[Any]) -> int:
    """Columns of all buffers at a time, at most: those of accumulators whose results are used in their iteration are
    free again for the dots of the next loop."""
    loops: dict[Operation | None, int] = {}
    taken = 0
    for dot in dots:
        columns, loop = accumulator_type(dot).columns, dot.parent_op
        taken += operand_type(dot).columns if reads_a_in_tensor_memory(dot) else 0
        if not isinstance(loop, scf.ForOp) or isinstance(loop.parent_op, scf.ForOp):
            taken += columns
        elif dot.result not in loop.yield_op.operands:
            loops[loop] = loops.get(loop, 0) + columns
        else:
            number = loop.yield_op.operands.index(dot.result)
            taken += columns if continues(loop, number) is None else 0
    return taken + max(loops.values(), default=0)
