"""Delays: `nanosleep` for a time that is different from warp to warp and from tile block to tile block, and the same in
every launch."""

from __future__ import annotations

from typing import Any

from tileiras.dialects.nv_tileas.delays import DelayOp
from tileiras.targets.sm import WARP_SIZE

from ..emit.function import FunctionLowering

_MOST_WARPS = 1024 // WARP_SIZE


def delay(op: DelayOp, args: Any, lowering: FunctionLowering) -> None:
    """A warp sleeps for the upper half of the product of a hash and the longest time.

    The hash is the number of the warp in the grid times the odd seed, modulo 2^32, which spreads consecutive numbers
    evenly (Knuth, "Sorting and Searching", 6.4: multiplicative hashing).  The instruction is inline assembly that
    clobbers memory, so that LLVM moves no access over it.
    """
    emit = lowering.emit
    warp = emit.lshr(emit.register("tid.x"), WARP_SIZE.bit_length() - 1)
    number = emit.value(emit.add(emit.mul(emit.register("ctaid.x"), _MOST_WARPS), emit.value(emit.add(warp, 1))))
    seed, longest = op.seed.value & 0xFFFFFFFF, op.nanoseconds.value
    text = f"mul.lo.u32 part, $0, {seed}; mul.hi.u32 part, part, {longest}; nanosleep.u32 part;"
    emit.assembly(f"{{ .reg .b32 part; {text} }}", "r,~{memory}", (number,))
