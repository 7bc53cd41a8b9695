"""Integer operations of arith that no target has as one instruction, in terms of those of llvm.

    %q = arith.ceildivsi %a, %b        quotient that is cut off, and one more where the remainder says so
    %l, %h = arith.mului_extended      the product in twice the width, and its halves
    %b = arith.extsi (arith.trunci)    the low half of a byte, extended to the byte: shifts, or a mask

Known ranges of the operands, the discardable attribute `RANGES`, make shifts of divisions by powers of two, and the
cheaper unsigned division of numbers that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tileiras.dialects import arith, llvm
from tileiras.ir import (
    Builder,
    DenseArrayAttr,
    DenseElementsAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    Value,
    VectorType,
    i1,
)

RANGES = "nv_tileas.ranges"
"""Discardable attribute of a division: the least and the greatest dividend and divisor, as signed numbers."""


class _Expansion:
    """Inserts operations before one of a thread's integers or vectors of integers."""

    def __init__(self, op: Operation) -> None:
        self._builder = Builder.before(op)
        self.type: Any = op.operands[0].type

    @property
    def width(self) -> int:
        return (self.type.element_type if isinstance(self.type, VectorType) else self.type).width

    def with_element(self, element: IntegerType) -> Any:
        return VectorType(self.type.shape, element) if isinstance(self.type, VectorType) else element

    def integer(self, value: int, type: Any = None) -> Value:
        type = self.type if type is None else type
        if not isinstance(type, VectorType):
            return self._make(llvm.ConstantOp, (), type, {"value": IntegerAttr(value, type)})
        size = max(1, type.element_type.width // 8)
        data = (value & (1 << 8 * size) - 1).to_bytes(size, "little") * type.shape[0]
        return self._make(llvm.ConstantOp, (), type, {"value": DenseElementsAttr(type, data)})

    def _make(
        self, cls: type[Operation], operands: tuple[Value, ...], type: Any, attributes: dict[str, Any] | None = None
    ) -> Any:
        op = cls.create(operands, (type,), attributes, location=self._builder.location)
        return self._builder.insert(op).results[0]

    def of(self, cls: type[Operation], *operands: Value) -> Value:
        """An operation whose result has the type of its operands."""
        return self._make(cls, operands, operands[0].type)

    def cast(self, cls: type[Operation], value: Value, type: Any) -> Value:
        return self._make(cls, (value,), type)

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self._make(llvm.ICmpOp, (a, b), self.with_element(i1), {"predicate": llvm.ICmpPredicateAttr(predicate)})


class _Division:
    """A division that rounds up or down: its operands, and known facts about them."""

    def __init__(self, op: Operation) -> None:
        self.make = _Expansion(op)
        self.dividend, self.divisor = op.operands
        bounds = op.attributes.get(RANGES)
        limit = 1 << self.make.width - 1
        self.low, self.high, self._least, self._most = (
            bounds.elements if isinstance(bounds, DenseArrayAttr) else (-limit, limit - 1) * 2
        )

    @property
    def shift(self) -> int | None:
        """How far it shifts, where the divisor is known to be a power of two."""
        number = self._least
        return number.bit_length() - 1 if self._most == number > 0 and number & number - 1 == 0 else None

    @property
    def is_never_negative(self) -> bool:
        return self.low >= 0 and self._least > 0

    def rounded_up(self, shift: int, highest: int, down: type[Operation]) -> Value:
        """The dividend, at most `highest`, divided by a power of two, where `down` divides and rounds down."""
        make, a = self.make, self.dividend
        rest, largest = (1 << shift) - 1, (1 << make.width - 1) - 1
        places = make.integer(shift)
        if highest <= largest - rest:
            return make.of(down, make.of(llvm.AddOp, a, make.integer(rest)), places)
        inexact = make.icmp("ne", make.of(llvm.AndOp, a, make.integer(rest)), make.integer(0))
        step = make.cast(llvm.ZExtOp, inexact, make.type)
        return make.of(llvm.AddOp, make.of(down, a, places), step)

    def corrected(self, up: bool) -> Value:
        """Truncating division corrected by one where the remainder shows that the exact quotient lies further up or
        down."""
        make, a, b = self.make, self.dividend, self.divisor
        quotient, rest, zero = make.of(llvm.SDivOp, a, b), make.of(llvm.SRemOp, a, b), make.integer(0)
        inexact = make.icmp("ne", rest, zero)
        # The remainder has the dividend's sign: quotient is positive when it agrees with the divisor's.
        mixed = make.of(llvm.XOrOp, rest, b)
        sided = make.icmp("sge" if up else "slt", mixed, zero)
        step = make.cast(llvm.ZExtOp, make.of(llvm.AndOp, inexact, sided), make.type)
        return make.of(llvm.AddOp if up else llvm.SubOp, quotient, step)

    def unsigned(self) -> Value:
        make, a, b = self.make, self.dividend, self.divisor
        quotient, rest = make.of(llvm.UDivOp, a, b), make.of(llvm.URemOp, a, b)
        more = make.icmp("ne", rest, make.integer(0))
        return make.of(llvm.AddOp, quotient, make.cast(llvm.ZExtOp, more, make.type))


def _ceildivui(op: Operation) -> Value:
    division = _Division(op)
    shift = division.shift
    if shift is None:
        return division.unsigned()
    # Numbers with the highest bit set count as large ones.
    highest = division.high if division.low >= 0 else (1 << division.make.width) - 1
    return division.rounded_up(shift, highest, llvm.LShrOp)


def _ceildivsi(op: Operation) -> Value:
    division = _Division(op)
    if division.shift is not None:
        return division.rounded_up(division.shift, division.high, llvm.AShrOp)
    return division.unsigned() if division.is_never_negative else division.corrected(up=True)


def _floordivsi(op: Operation) -> Value:
    division = _Division(op)
    make = division.make
    if division.shift is not None:
        return make.of(llvm.AShrOp, division.dividend, make.integer(division.shift))
    if division.is_never_negative:
        return make.of(llvm.UDivOp, division.dividend, division.divisor)
    return division.corrected(up=False)


def _extension_rule(extend: type[Operation]) -> Callable[[Operation], list[Value | None]]:
    def expand(op: Operation) -> list[Value | None]:
        make = _Expansion(op)
        double = make.with_element(IntegerType(2 * make.width))
        factors = [make.cast(extend, value, double) for value in op.operands]
        product = make.of(llvm.MulOp, *factors)
        low, high = op.results
        halves: list[Value | None] = [make.cast(llvm.TruncOp, product, make.type) if low.has_uses else None]
        if high.has_uses:
            shifted = make.of(llvm.LShrOp, product, make.integer(make.width, double))
            halves.append(make.cast(llvm.TruncOp, shifted, make.type))
        return halves

    return expand


def _resize_rule(cls: type[Operation]) -> Callable[[Operation], Value | None]:
    """An extension or a truncation.  One that takes another back, of bits that no register has, works in place."""

    def expand(op: Operation) -> Value | None:
        if isinstance(op, arith.TruncIOp):
            users = op.results[0].users
            if users and all(_takes_back(op, user) for user in users):
                return None
        make, type = _Expansion(op), op.results[0].type
        cut = op.operands[0].defining_op
        if not isinstance(cut, arith.TruncIOp) or not _takes_back(cut, op):
            return make.cast(cls, op.operands[0], type)
        (value,) = cut.operands
        bits = make.width
        make.type = type
        if cls is llvm.ZExtOp:
            return make.of(llvm.AndOp, value, make.integer((1 << bits) - 1))
        places = make.integer(make.width - bits)
        return make.of(llvm.AShrOp, make.of(llvm.ShlOp, value, places), places)

    return expand


def _takes_back(cut: arith.TruncIOp, user: Operation) -> bool:
    return isinstance(user, (arith.ExtSIOp, arith.ExtUIOp)) and user.results[0].type is cut.operands[0].type


EXPANSIONS: Mapping[str, Callable[[Operation], Any]] = {
    "arith.ceildivui": _ceildivui,
    "arith.ceildivsi": _ceildivsi,
    "arith.floordivsi": _floordivsi,
    "arith.mulsi_extended": _extension_rule(llvm.SExtOp),
    "arith.mului_extended": _extension_rule(llvm.ZExtOp),
    "arith.extsi": _resize_rule(llvm.SExtOp),
    "arith.extui": _resize_rule(llvm.ZExtOp),
    "arith.trunci": _resize_rule(llvm.TruncOp),
}


def expand(op: Operation) -> bool:
    """Replace an operation of the table; return False for another one."""
    rule = EXPANSIONS.get(op.name)
    if rule is None:
        return False
    entry = rule(op)
    if entry is None:
        # A truncation that its users expand, which erase it.
        return False
    for result, value in zip(op.results, entry if isinstance(entry, list) else [entry]):
        if value is not None:
            result.replace_all_uses_with(value)
    cut = op.operands[0].defining_op
    op.erase()
    if isinstance(cut, arith.TruncIOp) and not cut.results[0].has_uses:
        cut.erase()
    return True
