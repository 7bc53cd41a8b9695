"""Values of the neighbours of a tile block along x, with which a launch may have made it a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.neighbors import IsSameTileOp, NeighborCounterOp, loop_of
from tileiras.ir import Value, i1

from ..elementwise.shape import number_of_neighbor
from ..emit.function import FunctionLowering


def neighbor_counter(op: NeighborCounterOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    """As far from where the loop of the neighbour begins as from where the own one does.  No difference leaves 32 bits:
    loops begin with numbers of tile blocks, and this one has not ended."""
    emit = lowering.emit
    begin, past, remaining = _round(op.counter, op.neighbor.value, lowering)
    return emit.value(emit.add(begin, emit.intrinsic("smin", past, emit.value(emit.sub(remaining, 1)))))


def is_same_tile(op: IsSameTileOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    same: Value | None = None
    for first, second in zip(op.first, op.second):
        same = emit.both(same, emit.icmp("eq", lowering.value(first), lowering.value(second)))
    assert same is not None, "the operation has coordinates"
    if op.counter is None:
        return same
    # The last one begins with the largest number, and has no round more than the others.
    blocks = tileas.number_of(lowering.func, tileas.CLUSTER_BLOCKS) or 1
    _, past, remaining = _round(op.counter, blocks - 1, lowering)
    return emit.value(emit.and_(same, emit.icmp("slt", past, remaining), i1))


def _round(counter: Value, rank: int, lowering: FunctionLowering) -> tuple[Value, Value, Value]:
    """Where the loop over tiles of this counter begins for the tile block of a rank, how far it has come in this round,
    and how far it goes."""
    emit, loop = lowering.emit, loop_of(counter)
    begin = number_of_neighbor(rank, lowering)
    past = emit.value(emit.sub(lowering.value(counter), lowering.value(loop.lower_bound)))
    return begin, past, emit.value(emit.sub(lowering.value(loop.upper_bound), begin))
