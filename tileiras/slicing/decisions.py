"""Which functions have tiles or dot operands that may have to be cut."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, TensorType

SMALL_TILE = 32
"""Tiles with at most this many elements per thread are never sliced."""

WANTED_STAGES = 3
"""Steps of a loop of dots for which there should be shared memory, one that is read and two in flight: as many as a
loop without a hint requests."""


def has_large_tiles(func: Operation, threads: int) -> bool:
    """Whether an operation defines a tile that may be sliced."""
    types = (value.type for op in func.walk() for value in op.results)
    return any(isinstance(type, TensorType) and type.num_elements > SMALL_TILE * threads for type in types)


def has_large_operands(func: Operation, threads: int) -> bool:
    """Whether a dot has operands that may be cut along K: more words of 32 bits for a thread than this."""
    dots = (op for op in func.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp)))
    types = ([v.type for v in op.operands[:2]] for op in dots)
    return any(sum(t.num_elements * t.element_type.width for t in pair) > 32 * SMALL_TILE * threads for pair in types)


def has_large_steps(func: Operation, limit: int) -> bool:
    """Whether the tiles that are loaded beside a dot, in a loop, take more bytes than `limit`."""
    blocks = {op.parent: None for op in func.walk() if isinstance(op, aa.DotOp) and op.parent_op is not func}
    loads = ([op for op in block.operations if isinstance(op, aa.TiledLoadOp)] for block in blocks if block is not None)
    types = ([op.results[0].type for op in each] for each in loads)
    return any(sum(t.num_elements * t.element_type.width for t in each) > 8 * limit for each in types)
