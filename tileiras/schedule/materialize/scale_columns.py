"""Columns of tensor memory to which the scales of a dot are copied before it, in turn.

Copies overwrite columns that an earlier dot reads, which has to be complete.  A dot that reads stages of a pipe has
columns for each of them: a full stage implies that the dot which used it before is complete, since the producer of the
pipe waited for the commit of that dot.  No other wait is needed then.
"""

from __future__ import annotations

from typing import Any

from tileiras import analysis
from tileiras.analysis.dots_in_flight import scales_of
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import TensorType, Value, i32
from tileiras.layout.encoding import is_in_shared, with_layout
from tileiras.layout.tensor_memory import LANES, raw_layout, scale_columns, scale_places
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import mma_atom


class ScaleTurns(NamedTuple):
    """`places`, a power of two, for the scales of a dot; `stage`: the number of the one that it uses, a value of its
    block; `columns` of all places together."""

    places: int
    stage: Value
    columns: int


def scale_turns(dot: Any) -> ScaleTurns | None:
    """The turns of the scales of a dot whose operands are in stages of a pipe that its commits free; None for any
    other dot."""
    if not isinstance(dot, tileas.BlockScaledMmaOp):
        return None
    for value in (dot.a, dot.b, *scales_of(dot)):
        copy = _copy_of(value)
        pipe = None if copy is None else _pipe_freed_by_commits(copy.buffer)
        if copy is not None and pipe is not None and copy.parent is dot.parent:
            places = turns_of_stages(pipe.num_stages.value)
            return ScaleTurns(places, copy.stage, places * sum(columns_of_scales(dot)))
    return None


def _copy_of(value: Value) -> tileas.CopyOp | None:
    """The operation that gives a tile in a stage of a buffer, perhaps under another shape."""
    op: Any = value.defining_op
    while isinstance(op, tileas.VIEW_LIKE):
        op = op.operand.defining_op
    return op if isinstance(op, tileas.CopyOp) and is_in_shared(op.result.type) else None


def _pipe_freed_by_commits(buffer: Value) -> Any:
    """The pipe of a buffer; None if it has no pipe, or threads free the stages of its pipe."""
    pipe = tileas.pipe_of_buffer(buffer)
    return pipe if pipe is not None and analysis.pipes.protocol_of(pipe).frees_by_commit else None


def turns_of_stages(stages: int) -> int:
    """Places for the scales of so many stages: the columns of all are a tile, whose sizes are powers of two."""
    return 1 << (stages - 1).bit_length()


def columns_of_scales(dot: tileas.BlockScaledMmaOp) -> tuple[int, int]:
    """Columns that the scales of A and of B take."""
    runs, shape = dot.scale_a.type.shape[1], (dot.scale_a.type.shape[0], dot.scale_b.type.shape[1])
    rows, columns = scale_places(shape, mma_atom(dot.atom.atom).is_spread, dot.exchanged is not None)
    return scale_columns(rows, runs), scale_columns(columns, runs)


def words(columns: int) -> tileas.TensorBufferType:
    """Words of all lanes."""
    return tileas.TensorBufferType(with_layout(TensorType((LANES, columns), i32), raw_layout(columns)))
