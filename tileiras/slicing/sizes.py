"""Which functions have tiles or dot operands that may have to be cut."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, TensorType

SMALL_TILE = 32
"""Elements of a thread up to which nobody looks for tiles to slice."""


def has_large_tiles(func: Operation, threads: int) -> bool:
    """Whether an operation makes a tile that may be sliced."""
    types = (value.type for op in func.walk() for value in op.results)
    return any(isinstance(type, TensorType) and type.num_elements > SMALL_TILE * threads for type in types)


def has_large_operands(func: Operation, threads: int) -> bool:
    """Whether a dot has operands that may be cut along K: more words of 32 bits for a thread than this."""
    dots = (op for op in func.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp)))
    types = ([v.type for v in op.operands[:2]] for op in dots)
    return any(sum(t.num_elements * t.element_type.width for t in pair) > 32 * SMALL_TILE * threads for pair in types)
