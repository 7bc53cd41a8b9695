"""Delays before operations that synchronize warps and agents, by which missing synchronization shows.

    nv_tileas.delay 1000 seed = 1640531527
"""

from __future__ import annotations

from tileiras.ir import (
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    TypedAttribute,
    VerifyError,
    attribute,
    i32,
)

from .names import DELAY

_NUMBER = TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute")
_LONGEST = 1_000_000
"""Nanoseconds (PTX ISA, "nanosleep")."""


class DelayOp(Operation, name=DELAY, traits=(MemoryRead, MemoryWrite)):
    """Each warp sleeps for up to `nanoseconds`: a time that is a hash of the seed, the warp and the tile block.  The
    seed is odd, so that different warps of a tile block get different times."""

    nanoseconds = attribute(_NUMBER)
    seed = attribute(_NUMBER)
    assembly_format = "$nanoseconds `seed` `=` $seed attr-dict"

    def verify_op(self) -> None:
        if not 0 < self.nanoseconds.value <= _LONGEST:
            raise VerifyError(f"expects 1 to {_LONGEST} nanoseconds, but got {self.nanoseconds.value}")
        if self.seed.value % 2 == 0:
            raise VerifyError(f"expects an odd seed, but got {self.seed.value}")
