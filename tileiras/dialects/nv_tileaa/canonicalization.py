"""Canonical forms of nv_tileaa, which the `canonicalize` pass applies.

Rounding with halves away from zero, as in the conversion to integers of kernels that quantize:

    %n = cmpf olt %x, 0                          %n = cmpf olt %x, 0
    %a = ceil (%x - 0.5)                         %h = select %n, -0.5, 0.5
    %b = floor (%x + 0.5)                  ->    %a = %x + %h
    %i = fptosi (select %n, %a, %b)              %i = fptosi %a

The remainder of a division that rounds down, as front ends with Python's `%` write it for tiles:

    %r = remsi %x, %c                            %q = floordivsi %x, %c
    %s = (%r < 0) xor (%c < 0)             ->    %p = %q * %c
    %m = select (%s and %r != 0), %r + %c, %r    %m = %x - %p

Kernels that cut an index into rows and columns divide by the same number, and aligned runs of indices keep their
quotient whatever their sign, so that accesses to columns are vectors.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import arith, math
from tileiras.ir import (
    FloatAttr,
    Operation,
    PatternRewriter,
    RewritePattern,
    TensorType,
    Value,
    element_type_of,
)

from .canonicalization_bitcasts import BitcastBeforeShape, RetypeLoad, RetypeStore
from .canonicalization_loops import DeriveCounter
from .elementwise import AddFOp, SubFOp
from .tensor import SplatOp, splat_integer

_BELOW, _NOT_BELOW = ("olt", "ole"), ("oge", "ogt")


class _TruncateOnce(RewritePattern):
    """Conversions to integers, which truncate, of `select(x < 0, ceil(x - c), floor(x + d))` with c and d that are not
    negative: `ceil` truncates numbers up to zero, and `floor` those from zero on."""

    def match_and_rewrite(self, op: Any, rewriter: PatternRewriter) -> bool:
        choice: Any = op.operand.defining_op
        if not isinstance(choice, arith.SelectOp) or not choice.result.has_one_use:
            return False
        if not isinstance(choice.condition.defining_op, arith.CmpFOp):
            return False
        test = choice.condition.defining_op
        if _number(test.rhs) != 0.0 or test.predicate.value not in _BELOW + _NOT_BELOW:
            return False
        arms = choice.true_value.defining_op, choice.false_value.defining_op
        below, above = arms if test.predicate.value in _BELOW else arms[::-1]
        if not isinstance(below, math.CeilOp) or not isinstance(above, math.FloorOp):
            return False
        added = _addend(below.operand, test.lhs), _addend(above.operand, test.lhs)
        if added[0] is None or added[1] is None or added[0] > 0 or added[1] < 0:
            return False
        result = arith.SelectOp(choice.condition, arms[0].operand, arms[1].operand, location=choice.location)
        rewriter.set_operands(op, (rewriter.insert(result).result,))
        rewriter.erase_op(choice)
        for arm in arms:
            if not arm.result.has_uses:
                rewriter.erase_op(arm)
        return True


class TruncateOnceSigned(_TruncateOnce):
    op = arith.FPToSIOp


class TruncateOnceUnsigned(_TruncateOnce):
    op = arith.FPToUIOp


class SelectAddend(RewritePattern):
    """`select(p, x - c, x + d)` is `x + select(p, -c, d)`, for constants c and d."""

    op = arith.SelectOp

    def match_and_rewrite(self, op: arith.SelectOp, rewriter: PatternRewriter) -> bool:
        arms: list[Any] = [value.defining_op for value in (op.true_value, op.false_value)]
        if not all(isinstance(arm, (AddFOp, SubFOp)) and arm.result.has_one_use for arm in arms):
            return False
        first, second = arms
        if isinstance(op.condition.type, TensorType) is not isinstance(op.result.type, TensorType):
            return False
        if first.rounding_mode is not second.rounding_mode or first.flush_to_zero is not second.flush_to_zero:
            return False
        x = first.rhs if _number(first.rhs) is None else first.lhs
        numbers = [number for arm in arms if (number := _addend(arm.result, x)) is not None]
        if len(numbers) < len(arms):
            return False
        constants = [_splat(number, op.result.type, rewriter, op.location) for number in numbers]
        addend = rewriter.insert(arith.SelectOp(op.condition, *constants, location=op.location)).result
        keywords = {"rounding_mode": first.rounding_mode, "flush_to_zero": first.flush_to_zero}
        rewriter.replace_op(op, AddFOp(x, addend, location=op.location, **keywords))
        return True


class FloorRemainder(RewritePattern):
    """The remainder of a tile from its rounded quotient: for a constant divisor, or one by which the tile is divided
    anyway.  Scalars keep the remainder: they have no runs, and passes that recognize the order of tile blocks match it.
    """

    op = arith.SelectOp

    def match_and_rewrite(self, op: arith.SelectOp, rewriter: PatternRewriter) -> bool:
        rest: Any = op.false_value.defining_op
        if not isinstance(op.result.type, TensorType) or not isinstance(rest, arith.RemSIOp):
            return False
        x, divisor = rest.lhs, rest.rhs
        added = op.true_value.defining_op
        if not isinstance(added, arith.AddIOp) or set(added.operands) != {rest.result, divisor}:
            return False
        if not _is_of_other_sign(op.condition, rest.result, divisor):
            return False
        if not _is_positive(divisor) and not any(_divides(user, x, divisor) for user in x.users):
            return False
        quotient = rewriter.insert(arith.FloorDivSIOp(x, divisor, location=op.location)).result
        product = rewriter.insert(arith.MulIOp(quotient, divisor, location=op.location)).result
        rewriter.replace_op(op, arith.SubIOp(x, product, location=op.location))
        return True


def _is_of_other_sign(condition: Value, rest: Value, divisor: Value) -> bool:
    """Whether a condition holds where a remainder is not zero and has another sign than the divisor."""
    both = condition.defining_op
    if isinstance(both, arith.AndIOp):
        tests = [both.lhs, both.rhs]
        unequal = next((test for test in tests if _compares(test, "ne", rest)), None)
        if unequal is None:
            return False
        tests.remove(unequal)
        (condition,) = tests
    signs = condition.defining_op
    if isinstance(signs, arith.XOrIOp) and isinstance(both, arith.AndIOp):
        pair = signs.lhs, signs.rhs
        return any(_compares(a, "slt", rest) and _compares(b, "slt", divisor) for a, b in (pair, pair[::-1]))
    return _compares(condition, "slt", rest) and _is_positive(divisor)


def _compares(test: Value, predicate: str, value: Value) -> bool:
    """Whether a test compares a value with zero."""
    op = test.defining_op
    return (
        isinstance(op, arith.CmpIOp)
        and op.predicate.value == predicate
        and op.lhs is value
        and splat_integer(op.rhs) == 0
    )


def _divides(op: Operation, x: Value, divisor: Value) -> bool:
    return isinstance(op, arith.FloorDivSIOp) and op.lhs is x and _scalar(op.rhs) is _scalar(divisor)


def _scalar(value: Value) -> Value:
    """The scalar of a splat, which front ends repeat for each operation; other values are their own."""
    op = value.defining_op
    return op.operand if isinstance(op, SplatOp) else value


def _is_positive(value: Value) -> bool:
    number = splat_integer(value)
    return number is not None and number > 0


def _addend(value: Value, x: Value) -> float | None:
    """The constant whose sum with `x` a value is; None for other values."""
    if value is x:
        return 0.0
    op = value.defining_op
    if not isinstance(op, (AddFOp, SubFOp)):
        return None
    if isinstance(op, AddFOp) and op.rhs is x:
        return _number(op.lhs)
    number = _number(op.rhs) if op.lhs is x else None
    return number if number is None or isinstance(op, AddFOp) else -number


def _number(value: Value) -> float | None:
    """The constant that all elements of a value are."""
    op = value.defining_op
    if isinstance(op, SplatOp):
        op = op.operand.defining_op
    return op.value.value if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) else None


def _splat(number: float, type: Any, rewriter: PatternRewriter, location: Any) -> Value:
    constant = arith.ConstantOp(FloatAttr.from_float(number, element_type_of(type)), location=location)
    value = rewriter.insert(constant).results[0]
    if not isinstance(type, TensorType):
        return value
    return rewriter.insert(SplatOp(value, result=type, location=location)).result


PATTERNS = (
    TruncateOnceSigned, TruncateOnceUnsigned, SelectAddend, FloorRemainder, DeriveCounter,
    BitcastBeforeShape, RetypeLoad, RetypeStore,
)  # fmt: skip
