"""Integers that the two tile blocks of a pair compute from their program ids along x, 2n and 2n + 1.

    %row = remsi %x, %rows               consecutive, 2m and 2m + 1, where %x is and %rows is even
    %column = floordivsi %place, %rows   the same for both, where %place is consecutive and %rows even and positive

Swizzled grids of one dimension, whose tile blocks go down the columns of groups of rows, compute their tiles so.
Whether %rows is even is known at launch: each proof rests on facts about the launch (`targets/launch_facts.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.tensor_map_rules import host_value
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import IntegerType, Value
from tileiras.targets.launch_facts import GRID, MOST_WORDS

if TYPE_CHECKING:
    from tileiras.analysis.cluster_uniformity import ClusterUniformity

_WORDS = {
    arith.AddIOp: "add", arith.SubIOp: "sub", arith.MulIOp: "mul", arith.MinSIOp: "min", arith.MaxSIOp: "max",
    arith.DivSIOp: "div", arith.DivUIOp: "div", arith.FloorDivSIOp: "div",
    arith.CeilDivSIOp: "ceildiv", arith.CeilDivUIOp: "ceildiv",
}  # fmt: skip
"""Operations that a launcher evaluates as kernels do; it divides only if the dividend is not negative and the divisor
is positive."""

_EVEN_OF_BOTH = (arith.AddIOp, arith.SubIOp, arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp)
_ROUNDED_TO_ZERO = (arith.DivSIOp, arith.DivUIOp)
_EXTENSIONS = (arith.ExtSIOp, arith.ExtUIOp)


class PairNumbers:
    """The numbers of a function whose tile blocks 2n and 2n + 1 along x are a pair."""

    def __init__(self, values: ClusterUniformity, facts: dict[str, None], asks: bool) -> None:
        """`values`: the values that both have in common; `facts`: properties of launches, which proofs extend by those
        that they need if `asks`."""
        self._values = values
        self._facts = facts
        self._asks = asks
        self._next: dict[Value, bool] = {}
        self._parities: dict[Value, tuple[str, ...] | None] = {}
        self._open: set[Value] = set()
        """Values under evaluation: in a loop, a divisor may depend on a quotient by it, a condition on its `select`."""

    def is_same(self, value: Value) -> bool:
        """Whether a computed number is the same for both tile blocks."""
        op: Any = value.defining_op
        if isinstance(op, arith.SelectOp):
            # No fact is needed if the condition is the same for both.
            is_second = not self._is_common(op.condition) and self._is_common(op.false_value)
            return is_second and self._is_false(op.condition)
        if not isinstance(op, (*_ROUNDED_TO_ZERO, arith.FloorDivSIOp)) or not self.is_next(op.lhs):
            return False
        # With a negative divisor, a quotient that is rounded down changes between an even number and the next one.
        return self._is_even_divisor(op.rhs) and (isinstance(op, _ROUNDED_TO_ZERO) or self._is_positive(op.rhs))

    def is_next(self, value: Value) -> bool:
        """Whether a number is even and not negative for the first tile block, and one more for the second one."""
        if value not in self._next:
            self._next[value] = self._finds_next(value)
        return self._next[value]

    def _finds_next(self, value: Value) -> bool:
        op: Any = value.defining_op
        if op is None:
            loop: Any = value.block.parent_op  # type: ignore[attr-defined]
            return isinstance(loop, scf.ForOp) and value is loop.induction_variable and self.runs_alike(loop)
        if isinstance(op, aa.GetProgramIdOp):
            return op.axis.value == "x" and op.neighbor is None
        if isinstance(op, (aa.AssumeOp, *_EXTENSIONS)):
            return self.is_next(op.operand)
        if isinstance(op, (arith.RemSIOp, arith.RemUIOp)):
            return self.is_next(op.lhs) and self._is_even_divisor(op.rhs)
        if isinstance(op, arith.SelectOp):
            return self.is_next(op.false_value) and self._is_false(op.condition)
        return False

    def runs_alike(self, loop: scf.ForOp) -> bool:
        """Whether both run a loop over tiles equally often: from their own numbers, by an even step, to an even bound.
        """
        return self._values.takes_every_nth(loop) and self._is_even(loop.upper_bound)

    def _is_even_divisor(self, value: Value) -> bool:
        return self._is_common(value) and self._is_even(value)

    def _is_common(self, value: Value) -> bool:
        if value in self._open:
            return False
        self._open.add(value)
        try:
            return self._values.is_common(value)
        finally:
            self._open.remove(value)

    def _is_false(self, condition: Value) -> bool:
        """Whether a condition is false for both, such as those that give a remainder the divisor's sign."""
        op: Any = condition.defining_op
        if isinstance(op, arith.CmpIOp) and op.predicate.value == "slt" and arith.constant_integer(op.rhs) == 0:
            return self.is_next(op.lhs) or self._is_positive(op.lhs)
        if isinstance(op, (arith.XOrIOp, arith.OrIOp)):
            return self._is_false(op.lhs) and self._is_false(op.rhs)
        return isinstance(op, arith.AndIOp) and (self._is_false(op.lhs) or self._is_false(op.rhs))

    # ---- facts about launches ----------------------------------------------------------------------------------------

    def _has(self, fact: str) -> bool:
        if self._asks:
            self._facts[fact] = None
        return fact in self._facts

    def _is_positive(self, value: Value) -> bool:
        number = arith.constant_integer(value)
        if number is not None:
            return number > 0
        words = self._words(value)
        return words is not None and self._has(f"{words} positive")

    def _is_even(self, value: Value) -> bool:
        facts = self._parity(value)
        return facts is not None and all([self._has(each) for each in facts])

    def _parity(self, value: Value) -> tuple[str, ...] | None:
        """The facts that make a number even; None if it is not known to be even."""
        if value not in self._parities:
            self._parities[value] = self._finds_parity(value)
        return self._parities[value]

    def _finds_parity(self, value: Value) -> tuple[str, ...] | None:
        number = arith.constant_integer(value)
        if number is not None:
            return () if number % 2 == 0 else None
        op: Any = value.defining_op
        if isinstance(op, aa.GetNumProgramsOp) and op.axis.value == "x":
            return ()  # a launch of pairs
        if isinstance(op, aa.AssumeOp):
            divides = isinstance(op.predicate, aa.DivByAttr) and op.predicate.divisor % 2 == 0
            return () if divides else self._parity(op.operand)
        if isinstance(op, _EXTENSIONS):
            return self._parity(op.operand)
        if isinstance(op, (arith.MulIOp, *_EVEN_OF_BOTH)):
            both = [self._parity(each) for each in op.operands]
            result = [each for each in both if each is not None]
            if isinstance(op, arith.MulIOp) and () in result:
                return ()
            if isinstance(op, _EVEN_OF_BOTH) and len(result) == len(both):
                return tuple(dict.fromkeys(fact for each in result for fact in each))
        words = self._words(value)
        return None if words is None or "below" in words else (f"{words} even",)

    def _words(self, value: Value) -> str | None:
        """A number as the expression that launchers evaluate, or the bound that it is `below` if it differs by tile
        block; None if only the kernel can compute it."""
        result = self._list(value, MOST_WORDS - 1)
        return None if result is None else " ".join(result)

    def _list(self, value: Value, room: int) -> list[str] | None:
        op: Any = value.defining_op
        if not isinstance(value.type, IntegerType) or value.type.width < 32 or room < 1:
            return None
        if isinstance(op, (aa.AssumeOp, arith.ExtSIOp)):
            return self._list(op.operand, room)
        if isinstance(op, aa.GetProgramIdOp) and op.neighbor is None and op.axis.value == "x":
            return [GRID, "below"]
        if isinstance(op, aa.GetNumProgramsOp) and op.axis.value == "x":
            return [GRID]
        if isinstance(op, aa.GetDimSizeOp) and isinstance(op.source.defining_op, aa.MakeMemRefOp):
            size = op.source.defining_op.size(op.dim.value)
            return [str(size)] if isinstance(size, int) else self._list(size, room)
        word = _WORDS.get(type(op))
        if word is not None:
            first = self._list(op.lhs, room - 2)
            second = None if first is None else self._list(op.rhs, room - 1 - len(first))
            return None if first is None or second is None else [*first, *second, word]
        loop: Any = value.block.parent_op if op is None else None  # type: ignore[attr-defined]
        if isinstance(loop, scf.ForOp) and value is loop.induction_variable and self._values.takes_every_nth(loop):
            bound = self._list(loop.upper_bound, room - 1)
            return None if bound is None else [*bound, "below"]
        result = host_value(value)
        return None if result is None else [result]
