"""Amount that a kernel loads outside of loops, which decides whether its registers are analyzed more closely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, TensorType

from .limits import threads_of

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

MUCH = 48
"""Elements of loaded tiles in a thread, outside of loops; fewer are no reason to look at all registers of a kernel."""


def loads_much(func: aa.FuncOp) -> bool:
    """Whether a kernel loads tiles outside of loops that may take many registers."""
    loads = (op for op in func.body.blocks[0].operations if isinstance(op, (tileas.TiledLoadOp, tileas.LoadOp)))
    types = (op.data.type for op in loads)
    loaded = sum(type.num_elements for type in types if isinstance(type, TensorType))
    return loaded > MUCH * threads_of(func)


MOST_SLICES = 4
"""Times that a tile may be loaded instead of once: all but the first come from L2."""


def is_over_slices(op: Operation) -> bool:
    """Whether a loop runs a few times, as do those over slices of tiles for which a thread has too few registers."""
    return isinstance(op, scf.ForOp) and 1 < (op.trip_count or 0) <= MOST_SLICES


def loads_for_slices(func: aa.FuncOp) -> bool:
    """Whether a kernel loads tiles in the block of a loop over slices, before that loop."""
    return any(is_over_slices(op) and _loads_before(op) for op in func.walk())


def _loads_before(loop: Operation) -> bool:
    loads = (op for op in loop.parent.operations if isinstance(op, (tileas.TiledLoadOp, tileas.LoadOp)))
    return any(op.is_before_in_block(loop) for op in loads)
