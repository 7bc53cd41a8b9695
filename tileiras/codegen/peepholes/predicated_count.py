"""Sums of conditions: how many of some comparisons hold.

    (x + extend c) + (extend d + extend e)   ->   x;  @c add 1;  @d add 1;  @e add 1

ptxas makes two to three instructions of each condition in a sum, a selection of one or zero and moves under
predicates; an addition under a predicate is one.
"""

from __future__ import annotations

from tileiras.dialects import llvm
from tileiras.ir import Builder, IntegerAttr, Operation, StringAttr, Value, VectorType, i1, i32
from tileiras.support.named_tuple import NamedTuple

from .loops import Loops

_LEAST, _MOST = 2, 64
"""Conditions in an element of a sum: one condition is as cheap as before, and additions of an element depend on each
other."""


class _Count(NamedTuple):
    """An element of a sum: vectors of conditions with the numbers of elements."""

    conditions: tuple[tuple[Value, int], ...]


def rewrite(op: Operation, loops: Loops) -> bool:
    if not loops.contain(op):
        return False
    type_ = op.results[0].type
    if not isinstance(type_, VectorType) or type_.element_type is not i32 or _is_inner(op):
        return False
    cache: dict[Value, list[_Count] | None] = {}
    base = None
    counts = _counts(op.results[0], cache)
    if counts is None:
        for value, rest in (op.operands, reversed(op.operands)):
            counts = _counts(value, cache)
            if counts is not None:
                base = rest
                break
    if counts is None or any(len(count.conditions) < _LEAST for count in counts):
        return False
    total = _sum(_Scalars(op), counts, base, type_)
    op.replace_all_uses_with((total,))
    op.erase()
    return True


def _is_inner(op: Operation) -> bool:
    """Whether a larger sum of conditions contains this one: that one is rewritten instead."""
    for user in op.results[0].users:
        if isinstance(user, llvm.AddOp):
            if all(_counts(operand, {}) is not None for operand in user.operands):
                return True
        elif isinstance(user, llvm.ShuffleVectorOp) and _is_inner(user):
            return True
    return False


def _counts(value: Value, cache: dict[Value, list[_Count] | None]) -> list[_Count] | None:
    """The elements of a vector that is a sum of conditions; None for another value."""
    if value in cache:
        return cache[value]
    cache[value] = None
    maker = value.defining_op
    counts: list[_Count] | None = None
    if isinstance(maker, llvm.ZExtOp):
        source = maker.operands[0]
        if isinstance(source.type, VectorType) and source.type.element_type is i1:
            counts = [_Count(((source, number),)) for number in range(source.type.shape[0])]
    elif isinstance(maker, llvm.AddOp):
        first, second = (_counts(operand, cache) for operand in maker.operands)
        if first is not None and second is not None:
            counts = [_Count(a.conditions + b.conditions) for a, b in zip(first, second)]
            if any(len(count.conditions) > _MOST for count in counts):
                counts = None
    elif isinstance(maker, llvm.ShuffleVectorOp):
        source_counts = _counts(maker.operands[0], cache)
        if source_counts is not None and all(0 <= position < len(source_counts) for position in maker.mask):
            counts = [source_counts[position] for position in maker.mask]
    cache[value] = counts
    return counts


class _Scalars:
    """Elements of vectors.  Conditions are computed element by element, since LLVM packs a vector of conditions whose
    elements are taken one by one into the bits of an integer."""

    def __init__(self, at: Operation) -> None:
        self._make = Builder.before(at)
        self._known: dict[tuple[Value, int], Value] = {}
        self._constants: dict[int, Value] = {}

    def insert(self, op: Operation) -> Value:
        return self._make.insert(op).results[0]

    def constant(self, number: int) -> Value:
        constant = self._constants.get(number)
        if constant is None:
            constant = self._constants[number] = self.insert(llvm.ConstantOp(IntegerAttr(number, i32)))
        return constant

    def element(self, vector: Value, number: int) -> Value:
        scalar = self._known.get((vector, number))
        if scalar is None:
            scalar = self._known[vector, number] = self._element(vector, number)
        return scalar

    def _element(self, vector: Value, number: int) -> Value:
        maker = vector.defining_op
        if isinstance(maker, llvm.ShuffleVectorOp) and maker.mask.elements[number] >= 0:
            place, size = maker.mask.elements[number], maker.operands[0].type.shape[0]
            return self.element(maker.operands[place // size], place % size)
        if isinstance(maker, (llvm.ICmpOp, llvm.FCmpOp, llvm.AndOp, llvm.OrOp)):
            operands = tuple(self.element(operand, number) for operand in maker.operands)
            return self.insert(type(maker).create(operands, (vector.type.element_type,), dict(maker.attributes)))
        return self.insert(
            llvm.ExtractElementOp.create((vector, self.constant(number)), (vector.type.element_type,))
        )


def _sum(make: _Scalars, counts: list[_Count], base: Value | None, type_: VectorType) -> Value:
    result = make.insert(llvm.PoisonOp.create((), (type_,)))
    for number, count in enumerate(counts):
        first, *others = [make.element(vector, place) for vector, place in count.conditions]
        if base is None:
            total = make.insert(llvm.ZExtOp.create((first,), (i32,)))
        else:
            total, others = make.element(base, number), [first, *others]
        for condition in others:
            total = make.insert(_add_one(total, condition))
        result = make.insert(llvm.InsertElementOp.create((result, total, make.constant(number)), (type_,)))
    return result


def _add_one(total: Value, condition: Value) -> llvm.InlineAsmOp:
    """An addition under a predicate; LLVM makes a selection of every form that it can see through."""
    attributes = {"asm_string": StringAttr("@$2 add.s32 $0, $1, 1;"), "constraints": StringAttr("=r,0,b")}
    return llvm.InlineAsmOp.create((total, condition), (i32,), attributes)
