"""Integer and float operations of arith: element by element, on whole fragments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.analysis.ranges import whole
from tileiras.dialects import arith, llvm, nvvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import (
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    Operation,
    UnitAttr,
    Value,
    VectorType,
    element_type_of,
    i1,
    i64,
)
from tileiras.lowering.arith_expand import RANGES

from ..emit.function import FunctionLowering
from ..emit.types import NATIVE_FLOATS, count_of, element_of, held_bits, scalar_type, vector_of
from . import byte_words, masks
from .conversions import to_f32

if TYPE_CHECKING:
    from tileiras.layout.linear_layout import LinearLayout


def constant(op: arith.ConstantOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """A constant fragment: each thread's registers pick their elements, which differ between threads only for data."""
    emit = lowering.emit
    value = op.value
    element = element_type_of(value.type)
    element_type = scalar_type(element)
    if isinstance(value, (IntegerAttr, FloatAttr)):
        pattern = value.unsigned if isinstance(value, IntegerAttr) else held_bits(element, value.bits)
        return emit.bits([pattern], element_type)
    assert isinstance(value, DenseElementsAttr)
    layout = lowering.layout(op.result)
    patterns = [held_bits(element, pattern) for pattern in value.stored_bits()]
    if value.is_splat:
        return emit.bits(patterns * layout.registers, element_type)
    return _spread(patterns, layout, element_type, lowering)


def _spread(
    patterns: list[int], layout: LinearLayout, scalar: FloatType | IntegerType, lowering: FunctionLowering
) -> Value:
    """A constant whose elements differ: a tree of selects over the thread's bits that matter."""
    emit = lowering.emit
    bits = [("lane", i) for i, v in enumerate(layout.bases("lane")) if v]
    bits += [("warp", i) for i, v in enumerate(layout.bases("warp")) if v]

    def choose(remaining: list[tuple[str, int]], position: int) -> Value:
        if not remaining:
            return emit.bits([patterns[position ^ layout.apply(register=r)] for r in range(layout.registers)], scalar)
        dim, bit = remaining[-1]
        low = choose(remaining[:-1], position)
        high = choose(remaining[:-1], position ^ layout.bases(dim)[bit])
        return emit.select(emit.thread_bit(dim, bit), high, low)

    return choose(bits, 0)


def _binary(cls: type) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        one, other = lowering.matched(args)
        return lowering.emit.insert(cls.create((one, other), (one.type,)))

    return lower


def _logical(cls: Any) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        one, other = lowering.matched(args)
        if element_of(one.type) is not i1 or lowering.relations is None:
            return lowering.emit.insert(cls(one, other))
        return lowering.relations.combined(cls, one, other)

    return lower


def _overflowing(cls: type[Operation]) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        one, other = lowering.matched(args)
        return lowering.emit.insert(cls.create((one, other), (one.type,), {"overflowFlags": op.overflowFlags}))

    return lower


def _shift(cls: Any) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        one, other = lowering.matched(args)
        if byte_words.in_words(one) and (result := byte_words.shifted(cls, one, other, lowering)) is not None:
            return result
        flags = {"overflowFlags": op.overflowFlags} if cls is arith.ShLIOp else {}  # type: ignore[attr-defined]
        return lowering.emit.insert(cls.create((one, other), (one.type,), flags))

    return lower


def _extreme(cls: type[Operation]) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        emit = lowering.emit
        args = lowering.matched(args)
        element = element_of(args[0].type)
        if isinstance(element, IntegerType) and element.width == 1:
            # No min and max of i1 in the back end: they are AND and OR (signed: the other way round).
            conjunction = cls in (arith.MinUIOp, arith.MaxSIOp)
            return emit.insert((llvm.AndOp if conjunction else llvm.OrOp)(*args))
        return emit.insert(cls.create(args, (args[0].type,)))

    return lower


def _float_extreme(cls: type[Operation]) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        args = lowering.matched(args)
        type = element_type_of(op.result.type)
        if aa.FLUSH_TO_ZERO in op.attributes:
            args = [_flush(value, lowering) for value in args]
        return tileiras.lowering.tileas_to_llvm.elementwise.floats.compute_wide(
            type, args, lowering, lambda values: lowering.emit.insert(cls.create(values, (values[0].type,)))
        )

    return lower


def _flush(value: Value, lowering: FunctionLowering) -> Value:
    """f32 values with subnormal numbers replaced by zeros of their sign, as a flushing instruction reads them."""
    one = lowering.emit.floating(1.0, value.type)
    return lowering.emit.insert(nvvm.MulFOp(value, one, rounding=nvvm.FPRoundingModeAttr("rn"), ftz=UnitAttr()))


def _never_negative(op: Operation, lowering: FunctionLowering) -> bool:
    """Whether a division, of signed numbers or not, is that of numbers that have no sign."""
    return lowering.ranges.range(op.lhs).low >= 0 and lowering.ranges.range(op.rhs).low > 0


def _dividend_and_divisor(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> tuple[Value, Value]:
    """The operands of a division, the divisor with ones in the place of zeros.

    Division by zero yields an undefined value.  LLVM's instructions have undefined behaviour there: it deletes the
    branch that yields a divisor of zero, and with it the other results of the kernel.
    """
    emit = lowering.emit
    a, b = lowering.matched(args)
    divisor_range = lowering.ranges.range(op.rhs)
    if divisor_range.low > 0 or divisor_range.high < 0:
        return a, b
    return a, emit.select(emit.icmp("eq", b, emit.integer(0, b.type)), emit.integer(1, b.type), b)


def _signed_division(signed: type, unsigned: type) -> Any:
    """A quotient that is cut off, or its remainder: of numbers that are not negative it is cheaper."""

    def lower(op: arith.DivSIOp | arith.RemSIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        cls = unsigned if _never_negative(op, lowering) else signed
        return lowering.emit.insert(cls(*_dividend_and_divisor(op, args, lowering)))

    return lower


def _unsigned_division(cls: type) -> Any:
    def lower(op: arith.DivUIOp | arith.RemUIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        return lowering.emit.insert(cls(*_dividend_and_divisor(op, args, lowering)))

    return lower


def _division_rule(cls: type[Operation]) -> Any:
    """A quotient that is rounded up or down, expanded with the known facts about its operands."""

    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        a, b = _dividend_and_divisor(op, args, lowering)
        bounds = (*lowering.ranges.range(op.lhs), *lowering.ranges.range(op.rhs))
        return lowering.emit.insert(cls.create((a, b), (a.type,), {RANGES: DenseArrayAttr(i64, bounds)}))

    return lower


def cmpi(op: arith.CmpIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    a, b = lowering.matched(args)
    decided = lowering.ranges.decided(op.predicate.value, op.lhs, op.rhs)
    if decided is not None:
        return lowering.emit.integer(int(decided), vector_of(i1, count_of(a.type)))
    predicate = op.predicate.value
    if predicate[0] != "u" and min(lowering.ranges.range(value).low for value in (op.lhs, op.rhs)) >= 0:
        for one, other, relation in ((a, b, predicate), (b, a, arith.MIRRORED.get(predicate, predicate))):
            if (result := masks.compare_constants(relation, one, other, lowering)) is not None:
                return result
    return lowering.emit.icmp(predicate, a, b)


def cmpf(op: arith.CmpFOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    predicate = op.predicate.value
    predicate = f"_{predicate}" if predicate in ("true", "false") else predicate
    type = element_type_of(op.lhs.type)
    a, b = lowering.matched(args)
    if type.keyword not in NATIVE_FLOATS:
        a, b = to_f32(type, a, lowering), to_f32(type, b, lowering)
    result = emit.fcmp(predicate, a, b)
    if lowering.relations is None:
        lowering.relations = tileiras.lowering.tileas_to_llvm.elementwise.float_relations.FloatRelations(emit)
    lowering.relations.note(result, predicate, a, b)
    return result


def select(op: arith.SelectOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    condition, *values = args
    if count_of(condition.type) > 1:
        condition, *values = lowering.matched(args)
        if (result := masks.select_behind_branch(condition, *values, lowering)) is not None:
            return result
    else:
        values = lowering.matched(values)
    return lowering.emit.select(condition, *values)


def negf(op: arith.NegFOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    type = element_type_of(op.result.type)
    return tileiras.lowering.tileas_to_llvm.elementwise.floats.compute_wide(
        type, args, lowering, lambda values: lowering.emit.insert(arith.NegFOp.create(values, (values[0].type,)))
    )


def assume(op: tileas.AssumeOp, args: Sequence[Any], lowering: FunctionLowering) -> Any:
    """No code: assumptions were used when layouts and accesses were chosen."""
    return args[0]


def addi(op: arith.AddIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    """A sum; that of places and one number, unless it may wrap, is of places again."""
    emit = lowering.emit
    a, b = lowering.matched(args)
    result = emit.insert(arith.AddIOp(a, b, overflowFlags=op.overflowFlags))
    if isinstance(a.type, VectorType):
        lhs, rhs = lowering.ranges.range(op.lhs), lowering.ranges.range(op.rhs)
        if lhs.low >= 0 and rhs.low >= 0 and lhs.high + rhs.high <= whole(op.lhs.type).high:
            emit.places_from(result, a, b)
    return result


subi = _overflowing(arith.SubIOp)
muli = _overflowing(arith.MulIOp)
shli = _shift(arith.ShLIOp)
shrsi = _shift(arith.ShRSIOp)
shrui = _shift(arith.ShRUIOp)
divsi = _signed_division(llvm.SDivOp, llvm.UDivOp)
divui = _unsigned_division(llvm.UDivOp)
remsi = _signed_division(llvm.SRemOp, llvm.URemOp)
remui = _unsigned_division(llvm.URemOp)
ceildivui = _division_rule(arith.CeilDivUIOp)
ceildivsi = _division_rule(arith.CeilDivSIOp)
floordivsi = _division_rule(arith.FloorDivSIOp)
andi = _logical(llvm.AndOp)
ori = _logical(llvm.OrOp)
xori = _logical(llvm.XOrOp)
maxsi = _extreme(arith.MaxSIOp)
maxui = _extreme(arith.MaxUIOp)
minsi = _extreme(arith.MinSIOp)
minui = _extreme(arith.MinUIOp)
maximumf = _float_extreme(arith.MaximumFOp)
minimumf = _float_extreme(arith.MinimumFOp)
maxnumf = _float_extreme(arith.MaxNumFOp)
minnumf = _float_extreme(arith.MinNumFOp)
