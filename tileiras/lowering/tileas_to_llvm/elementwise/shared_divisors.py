"""Divisions of many f32 elements of a thread by few divisors, rounded to nearest as `div.rn` does.

    r = 1 / d, once for a divisor                  r = rcp.approx(d), and a Newton step
    q = n / d, for each element                    q = n r;  q = q + (n - d q) r

This is ptxas's code for a division of operands whose exponents are moderate (P. Markstein, "IA-64 and Elementary
Functions"), which it repeats with the reciprocal, a test and a branch for each element.  Here one branch for up to 16
elements of a thread leads to LLVM's division if a divisor d is not a positive number between 2^-60 and 2^60, if its
significand has 24 ones, or if an element n is too large or too small:

    n s has to be a multiple of 2^(|e| - 102)      e = exponent of d;  s = 1, or 2^-e for negative e

Zeros and all sufficiently large numbers are such multiples; then n - d q is exact, and q is no subnormal.  n s
overflows where n / d may.  With either float next to 1 / d as rcp.approx(d), the Newton step rounds all other
reciprocals correctly.  The test itself does not round: v = (n s) 2^-(47 + |e|) loses bits of other numbers
only, so that n s - v 2^(47 + |e|) is 0 exactly for multiples, and NaN where n s is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import llvm, math, nvvm
from tileiras.ir import Operation, UnitAttr, Value, f16, f32, i1, i16, i32

from ..emit.control_flow import unless
from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, vector_of

MANTISSA_BITS, BIAS = 23, 127
GROUP = 16
"""Elements before a branch, at most: all of them wait in registers with their quotients."""
LARGEST = 60
"""The exponent of divisors, at most; at least its negative."""
LOST = 149 - 102
"""Halvings after which a number keeps its bits only if it is a multiple of 2^-102."""


class _Divisors:
    """Numbers computed once for each divisor, as fragments of as many elements."""

    def __init__(self, divisors: Value, lowering: FunctionLowering) -> None:
        emit = lowering.emit
        self._emit, count = emit, count_of(divisors.type)
        whole = vector_of(i32, count)
        bits = emit.bitcast(divisors, whole)
        least, most = (BIAS - LARGEST) << MANTISSA_BITS, (BIAS + LARGEST) << MANTISSA_BITS
        offset = emit.insert(llvm.SubOp(bits, emit.integer(least, whole)))
        # An approximate reciprocal of this one significand may stay half a unit off behind the Newton step.
        ones = emit.integer((1 << MANTISSA_BITS) - 1, whole)
        is_regular = emit.icmp("ne", emit.insert(llvm.AndOp(bits, ones)), ones)
        is_moderate = emit.icmp("ult", offset, emit.integer(most - least, whole))
        self.moderate = emit.insert(llvm.AndOp(is_moderate, is_regular))
        field = emit.insert(llvm.LShrOp(bits, emit.integer(MANTISSA_BITS, whole)))
        exponent = emit.insert(llvm.SubOp(field, emit.integer(BIAS, whole)))
        below = emit.icmp("slt", exponent, emit.zeros(whole))
        negative = emit.insert(llvm.SubOp(emit.zeros(whole), exponent))
        size = emit.select(below, negative, exponent)
        self.scale = self._power(emit.insert(llvm.SubOp(size, exponent)), 0, halved=True)
        self.lost = self._power(emit.insert(llvm.SubOp(emit.zeros(whole), size)), -LOST)
        self.restored = self._power(size, LOST)

        def approximate(divisor: Value) -> Value:
            return emit.insert(nvvm.RcpOp(divisor, rounding=nvvm.FPRoundingModeAttr("approx"), ftz=UnitAttr()))

        first = emit.map_scalars(approximate, divisors)
        error = _fma(lowering, _negate(lowering, divisors), first, emit.floating(1.0, divisors.type))
        self.reciprocal = _fma(lowering, first, error, first)
        self.divisor = divisors

    def _power(self, exponent: Value, more: int, halved: bool = False) -> Value:
        """2 to the power of `exponent + more`, of half of `exponent` where it is `halved`."""
        emit, type = self._emit, exponent.type
        shift = MANTISSA_BITS - 1 if halved else MANTISSA_BITS
        field = emit.insert(llvm.ShlOp(exponent, emit.integer(shift, type)))
        bits = emit.insert(llvm.AddOp(field, emit.integer((BIAS + more) << MANTISSA_BITS, type)))
        return emit.bitcast(bits, vector_of(f32, count_of(type)))


def divide(dividends: Value, divisors: Value, places: Sequence[int], lowering: FunctionLowering) -> Value:
    """The quotients of f32; element i is divided by the divisor at `places[i]`."""
    once = _Divisors(divisors, lowering)
    groups = [range(first, min(first + GROUP, len(places))) for first in range(0, len(places), GROUP)]
    emit = lowering.emit
    converted = dividends.defining_op
    halves = None
    if isinstance(converted, llvm.FPExtOp) and element_of(converted.operands[0].type) is f16:
        halves = converted.operands[0]
    integers = isinstance(converted, (llvm.SIToFPOp, llvm.UIToFPOp))

    def part(group: Sequence[int]) -> Value:
        some, own = emit.shuffle(dividends, group), [places[n] for n in group]
        if halves is not None:
            regular = _finite(emit.shuffle(halves, group), lowering)
        else:
            regular = emit.integer(1, i1) if integers else _exact(some, once, own, lowering)
        return _quotients(some, once, own, regular, lowering)

    return emit.concat([part(group) for group in groups])


def _finite(halves: Value, lowering: FunctionLowering) -> Value:
    """Whether no f16 is infinite or NaN: 0 a + b is NaN if one of them is, and b otherwise."""
    emit = lowering.emit
    while (count := count_of(halves.type)) > 2:
        low, high = emit.shuffle(halves, range(count // 2)), emit.shuffle(halves, range(count // 2, count))
        halves = _fma(lowering, low, emit.zeros(low.type), high)
    zero = emit.zeros(halves.type)
    word = emit.bitcast(_fma(lowering, halves, zero, zero), i32 if count_of(halves.type) == 2 else i16)
    return emit.icmp("eq", word, emit.zeros(word.type))


def _exact(dividends: Value, once: _Divisors, places: Sequence[int], lowering: FunctionLowering) -> Value:
    """Whether each f32 is neither too large nor too small for its divisor."""
    emit = lowering.emit

    def spread(value: Value) -> Value:
        return emit.shuffle(value, places)

    scaled = _product(lowering, dividends, spread(once.scale))
    halved = _product(lowering, scaled, spread(once.lost))
    remainder = _fma(lowering, halved, _negate(lowering, spread(once.restored)), scaled)
    return emit.icmp("eq", _any_bits(remainder, lowering), emit.integer(0))


def _quotients(
    dividends: Value, once: _Divisors, places: Sequence[int], exact: Value, lowering: FunctionLowering
) -> Value:
    """`exact`: whether the dividends suit moderate divisors."""
    emit = lowering.emit

    def spread(value: Value) -> Value:
        return emit.shuffle(value, places)

    divisor, reciprocal = spread(once.divisor), spread(once.reciprocal)
    estimate = _product(lowering, dividends, reciprocal)
    # The signs keep that of a zero: 0 - 0 is 0, whose product with -r is the -0 that changes no sum.
    rest = _fma(lowering, divisor, estimate, _negate(lowering, dividends))
    quotient = _fma(lowering, rest, _negate(lowering, reciprocal), estimate)
    for place in dict.fromkeys(places):
        exact = emit.insert(llvm.AndOp(exact, emit.extract(once.moderate, place)))
    return unless(exact, quotient, lambda: emit.insert(llvm.FDivOp(dividends, divisor)), lowering)


def _any_bits(values: Value, lowering: FunctionLowering) -> Value:
    """The bits that any of the floats has."""
    emit = lowering.emit
    words = emit.bitcast(values, vector_of(i32, count_of(values.type)))
    while (count := count_of(words.type)) > 1:
        halves = emit.shuffle(words, range(count // 2)), emit.shuffle(words, range(count // 2, count))
        words = emit.insert(llvm.OrOp(*halves))
    return words


def _product(lowering: FunctionLowering, a: Value, b: Value) -> Value:
    return _emit(lowering, llvm.FMulOp, a, b)


def _negate(lowering: FunctionLowering, a: Value) -> Value:
    return _emit(lowering, llvm.FNegOp, a)


def _fma(lowering: FunctionLowering, a: Value, b: Value, c: Value) -> Value:
    return _emit(lowering, math.FmaOp, a, b, c)


def _emit(lowering: FunctionLowering, kind: type[Operation], *operands: Value) -> Value:
    return lowering.emit.insert(kind.create(operands, (operands[0].type,)))
