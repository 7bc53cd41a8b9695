"""The induction variable of a loop in later iterations, and whether these exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.dialects import arith
from tileiras.dialects.arith import constant_integer
from tileiras.dialects.arith.build import binary, compare, integer
from tileiras.ir import Builder, Value, i64

if TYPE_CHECKING:
    from tileiras.dialects import scf

MAX_STEP = 1 << 16
"""The largest known step; with larger ones the lookahead might overflow the type of the induction variable."""


def can_look_ahead(loop: scf.ForOp) -> bool:
    """Whether later values of the induction variable can be compared with the bound: an unknown step requires a wider
    type."""
    step, width = constant_integer(loop.step) or 0, getattr(loop.induction_variable.type, "width", 64)
    return width >= 32 and 0 < step <= MAX_STEP if step else width == 32


def trip_count(loop: scf.ForOp) -> int | None:
    """The trip count, when it is known."""
    return loop.trip_count


def end_no_earlier(builder: Builder, loop: scf.ForOp) -> None:
    """Clamp the upper bound of a loop, in place, to max(lower, upper).

    LLVM computes that bound for the loop anyway, and would otherwise keep it in a register beside the bound that copies
    are compared with.
    """
    if trip_count(loop) is None:
        larger = arith.MaxUIOp if loop.unsignedCmp is not None else arith.MaxSIOp
        end = binary(builder, larger, loop.lower_bound, loop.upper_bound)
        loop.operands = (loop.lower_bound, end, *loop.operands[2:])


class LoopCounter:
    """The bounds of a loop whose induction variable is computed for later iterations."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.lower, self.upper, self.step = loop.lower_bound, loop.upper_bound, loop.step
        self.type = loop.induction_variable.type
        self.unsigned = loop.unsignedCmp is not None

    def runs(self, builder: Builder) -> Value:
        """Whether the loop has a first iteration."""
        return compare(builder, "ult" if self.unsigned else "slt", self.lower, self.upper)

    def is_later(self, builder: Builder, counter: Value, iterations: int) -> Value:
        """Whether the existing iteration at `counter` is not one of the first `iterations`."""
        if iterations == 1:
            return compare(builder, "ne", counter, self.lower)
        # The unsigned difference is exact for bounds of either sign.
        distance = binary(builder, arith.SubIOp, counter, self.lower)
        last = binary(builder, arith.MulIOp, self.step, integer(builder, iterations - 1, self.type))
        return compare(builder, "ugt", distance, last)

    def later(self, builder: Builder, counter: Value, iterations: int) -> tuple[Value, Value]:
        """Whether the iteration `iterations` after the existing one at `counter` exists, and the distance to its value
        of the induction variable."""
        step = constant_integer(self.step)
        if step:
            ahead = integer(builder, iterations * step, self.type)
            # The unsigned difference is exact for bounds of either sign.
            remaining = binary(builder, arith.SubIOp, self.upper, counter)
            return compare(builder, "ugt", remaining, ahead), ahead
        extend = arith.ExtUIOp if self.unsigned else arith.ExtSIOp
        wide = [builder.insert(extend(v, result=i64)).results[0] for v in (counter, self.step, self.upper)]
        distance = binary(builder, arith.MulIOp, wide[1], integer(builder, iterations, i64))
        exists = compare(builder, "slt", binary(builder, arith.AddIOp, wide[0], distance), wide[2])
        return exists, binary(builder, arith.MulIOp, self.step, integer(builder, iterations, self.type))
