"""Canonical counters of loops, which the `canonicalize` pass applies.

    scf.for %i = %c0 to %n step %c128 iter_args(%k = %a) {       scf.for %i = %c0 to %n step %c128 {
      ... %k ...                                                   %t = %i / %c128
      %next = %k + %c1                                     ->      %k = %a + %t
      scf.yield %next                                              ... %k ...
    }                                                            }

Front ends carry every variable that a loop assigns.  As a function of the induction variable a counter is known in
other iterations, so that loads at its places can run ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.dialects import arith, scf
from tileiras.ir import IntegerAttr, IntegerType, PatternRewriter, RewritePattern, TensorType, Value, element_type_of

from .tensor import SplatOp, splat_integer


class DeriveCounter(RewritePattern):
    """An integer, or a tile of them, to which each iteration adds the same number, in terms of the induction variable.

    It wraps as the sums do.  A step that is not constant would need a division in each iteration.
    """

    op = scf.ForOp

    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> bool:
        step = arith.constant_integer(op.step)
        if step is None or step <= 0 or not isinstance(op.induction_variable.type, IntegerType):
            return False
        for number, by in _counters(op):
            argument, increment = op.iter_args[number], op.yield_op.operands[number].defining_op
            carried = op.results[number].has_uses
            users = [user for user in argument.users if user is not increment]
            if carried and not users:
                continue
            counter = _Derived(op, rewriter).counter(op.init_args[number], by, step)
            for user in users if carried else argument.users:
                rewriter.set_operands(user, [counter if value is argument else value for value in user.operands])
            if not carried:
                rewriter.modified(increment)
                rewriter.modified(op.without_carried({number}))
            return True
        return False


def _counters(loop: scf.ForOp) -> Iterator[tuple[int, Value | int]]:
    """The numbers of carried values that are counters, with the addend: a scalar from outside of the loop or a
    constant."""
    for number, (argument, end) in enumerate(zip(loop.iter_args, loop.yield_op.operands)):
        op = end.defining_op
        if not isinstance(op, arith.AddIOp) or op.parent is not loop.body.block:
            continue
        if not isinstance(element_type_of(argument.type), IntegerType):
            continue  # an index, whose width is the target's
        if argument in op.operands and (by := _addend(op.rhs if op.lhs is argument else op.lhs, loop)) is not None:
            yield number, by


def _addend(value: Value, loop: scf.ForOp) -> Value | int | None:
    constant = splat_integer(value)
    if constant is not None:
        return constant
    op = value.defining_op
    if isinstance(value.type, TensorType):
        if not isinstance(op, SplatOp):
            return None
        value, op = op.operand, op.operand.defining_op
    owner: Any = op if op is not None else value.block.parent_op  # type: ignore[attr-defined]
    return None if loop.is_ancestor_of(owner) else value


class _Derived:
    """Operations at the start of a loop's body."""

    def __init__(self, loop: scf.ForOp, rewriter: PatternRewriter) -> None:
        self._loop, self._rewriter = loop, rewriter
        self._first = loop.body.block.first

    def counter(self, init: Value, by: Value | int, step: int) -> Value:
        loop, type = self._loop, init.type
        element: Any = element_type_of(type)
        trip: Value = loop.induction_variable
        if arith.constant_integer(loop.lower_bound) != 0:
            trip = self._insert(arith.SubIOp, trip, loop.lower_bound)
        if step != 1:
            trip = self._insert(arith.DivUIOp, trip, self._constant(step, trip.type))
        if trip.type.width != element.width:
            resize = arith.ExtUIOp if trip.type.width < element.width else arith.TruncIOp
            trip = self._insert(resize, trip, result=element)
        if by != 1:
            trip = self._insert(arith.MulIOp, trip, self._constant(by, element) if isinstance(by, int) else by)
        if isinstance(type, TensorType):
            trip = self._insert(SplatOp, trip, result=type)
        return self._insert(arith.AddIOp, init, trip)

    def _insert(self, kind: Any, *operands: Value, **types: Any) -> Value:
        return self._rewriter.insert(kind(*operands, location=self._loop.location, **types), self._first).results[0]

    def _constant(self, number: int, type: Any) -> Value:
        return self._insert(arith.ConstantOp, IntegerAttr(number, type))  # type: ignore[arg-type]
