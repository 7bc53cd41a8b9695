"""Divisibility, contiguity and constancy of integers and pointers.

For a tensor, along each dimension: elements come in aligned runs of `contiguity` in which each is one more than the
last (for a pointer: points to the next element), the first of each run is a multiple of `divisor`, and elements come in
aligned runs of `constancy` that are all equal.  A scalar has one `divisor`.  Everything is a power of two; pointers are
measured in bytes.

Facts start at constants, ranges and `assume` and flow forward through arithmetic, loops and branches.  Values carried
by a loop begin with the facts before it and lose those that an iteration invalidates, to a fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from tileiras.analysis.ranges import RangeAnalysis
from tileiras.dialects import arith, nv_tileaa, nv_tileas, scf
from tileiras.ir import (
    Block,
    BlockArgument,
    DenseElementsAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    Region,
    TensorType,
    Type,
    Value,
    element_type_of,
    i1,
)
from tileiras.support.named_tuple import NamedTuple

LARGEST = 1 << 62
"""The divisor of zero, which every number divides."""


class Facts(NamedTuple):
    """One entry per dimension; scalars have one entry with contiguity and constancy 1."""

    contiguity: tuple[int, ...]
    divisor: tuple[int, ...]
    constancy: tuple[int, ...]

    def step(self, dim: int, run: int, unit: int) -> int:
        """A divisor of the first of every aligned `run` elements; `unit` is the distance of neighbours in a run."""
        if run >= self.contiguity[dim]:
            return self.divisor[dim]
        return min(self.divisor[dim], run * unit)

    def each(self, dim: int, unit: int = 1) -> int:
        """A divisor of every element."""
        return self.step(dim, 1, unit) if self.contiguity[dim] > 1 else self.divisor[dim]

    def meet(self, other: "Facts") -> "Facts":
        contiguity = tuple(min(a, b) for a, b in zip(self.contiguity, other.contiguity))
        divisor = tuple(min(self.step(d, c, 1), other.step(d, c, 1)) for d, c in enumerate(contiguity))
        return Facts(contiguity, divisor, tuple(min(a, b) for a, b in zip(self.constancy, other.constancy)))


def _shape(type: Type) -> tuple[int, ...]:
    return type.shape if isinstance(type, TensorType) and type.shape else (1,)


def _unknown(type: Type) -> Facts:
    ones = (1,) * len(_shape(type))
    return Facts(ones, ones, ones)


def _uniform(type: IntegerType | TensorType, divisor: int) -> Facts:
    """Every element is the same multiple of `divisor`."""
    shape = _shape(type)
    return Facts((1,) * len(shape), (divisor,) * len(shape), shape)


def lowest_bit(value: int) -> int:
    """The largest power of two that divides `value`."""
    return min(value & -value, LARGEST) if value else LARGEST


class DivisibilityAnalysis:
    """The facts of all values of one `nv_tileaa.func`."""

    def __init__(self, func: Operation) -> None:
        self._facts: dict[Value, Facts] = {}
        self.ranges = RangeAnalysis()
        for region in func.regions:
            for block in region.blocks:
                self._block(block)

    def facts(self, value: Value) -> Facts:
        entry = self._facts.get(value)
        return _unknown(value.type) if entry is None else entry

    def divisor(self, value: Value) -> int:
        """A divisor of every element (for a contiguous pointer: of the first of each run), in bytes for pointers."""
        return min(self.facts(value).divisor)

    def contiguity(self, value: Value) -> tuple[int, ...]:
        return self.facts(value).contiguity

    def constancy(self, value: Value) -> tuple[int, ...]:
        return self.facts(value).constancy

    # ---- flow --------------------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in block.operations:
            # Operations of nv_tileas are subclasses of their nv_tileaa counterparts.
            rule = RULES.get(type(op)) or RULES.get(type(op).__bases__[0])
            if rule is not None:
                self._facts[op.results[0]] = rule(op, self)
            elif isinstance(op, scf.ForOp):
                self._for(op)
            elif isinstance(op, scf.WhileOp):
                self._while(op)
            elif isinstance(op, scf.IfOp):
                self._if(op)
            else:
                for region in op.regions:  # such as the programs of agents
                    for inner in region.blocks:
                        self._block(inner)

    def _for(self, op: scf.ForOp) -> None:
        lower, step = self.facts(op.lower_bound).divisor[0], self.facts(op.step).divisor[0]
        self._facts[op.induction_variable] = Facts((1,), (min(lower, step),), (1,))
        carried = [self.facts(value) for value in op.init_args]
        carried = self._until_stable(carried, op.iter_args, lambda: self._run(op.body, op.yield_op.operands))
        self._facts.update(zip(op.results, carried))

    def _while(self, op: scf.WhileOp) -> None:
        def once() -> list[Facts]:
            values = self._run(op.before, op.before.block.last.args)
            self._facts.update(zip(op.after.block.arguments, values))
            return self._run(op.after, op.after.block.last.operands)

        self._until_stable([self.facts(value) for value in op.inits], op.before.block.arguments, once)
        self._facts.update(zip(op.results, [self.facts(value) for value in op.before.block.last.args]))

    def _until_stable(
        self, carried: list[Facts], arguments: Sequence[BlockArgument], once: Callable[[], list[Facts]]
    ) -> list[Facts]:
        # Facts only get weaker, by halves, so this ends; loops in practice need two rounds.
        while True:
            self._facts.update(zip(arguments, carried))
            meet = [a.meet(b) for a, b in zip(carried, once())]
            if meet == carried:
                return carried
            carried = meet

    def _run(self, region: Region, outputs: Sequence[Value]) -> list[Facts]:
        self._block(region.block)
        return [self.facts(value) for value in outputs]

    def _if(self, op: scf.IfOp) -> None:
        branches = [self._run(region, region.block.last.operands) for region in op.regions if region.blocks]
        for number, result in enumerate(op.results):
            self._facts[result] = branches[0][number].meet(branches[1][number])


# ---- rules -----------------------------------------------------------------------------------------------------------


def _constant(op: arith.ConstantOp, divisibility: DivisibilityAnalysis) -> Facts:
    value = op.value
    if isinstance(value, IntegerAttr):
        return _uniform(op.result.type, lowest_bit(value.value))
    if isinstance(value, DenseElementsAttr) and value.is_splat:
        return _uniform(op.result.type, lowest_bit(value.stored_bits()[0]))
    return _unknown(op.result.type)


def _make_range(op: nv_tileaa.MakeRangeOp, divisibility: DivisibilityAnalysis) -> Facts:
    return Facts(op.result.type.shape, (LARGEST,), (1,))


def _splat(op: nv_tileaa.SplatOp, divisibility: DivisibilityAnalysis) -> Facts:
    return _uniform(op.result.type, divisibility.facts(op.operand).divisor[0])


def _same(op: Operation, divisibility: DivisibilityAnalysis) -> Facts:
    return divisibility.facts(op.operands[0])


def _broadcast(op: nv_tileaa.BroadcastOp, divisibility: DivisibilityAnalysis) -> Facts:
    facts = divisibility.facts(op.operand)
    unit = _unit(op.result.type)
    widened = [s != t for s, t in zip(op.operand.type.shape, op.result.type.shape)]
    return Facts(
        tuple(1 if w else c for w, c in zip(widened, facts.contiguity)),
        tuple(facts.each(d, unit) if w else facts.divisor[d] for d, w in enumerate(widened)),
        tuple(n if w else c for w, c, n in zip(widened, facts.constancy, op.result.type.shape)),
    )


def _view(op: nv_tileaa.ViewOp, divisibility: DivisibilityAnalysis) -> Facts:
    source, target = op.operand.type.shape, op.result.type.shape
    facts = divisibility.facts(op.operand)
    if [n for n in source if n > 1] != [n for n in target if n > 1]:
        every = min(facts.each(d, _unit(op.result.type)) for d in range(len(facts.divisor)))
        rank = len(target) or 1
        return Facts((1,) * rank, (every,) * rank, (1,) * rank)
    # Only dimensions of size one are added or removed.
    whole = max((facts.each(d, _unit(op.result.type)) for d in range(len(facts.divisor))), default=1)
    result = iter([d for d, n in enumerate(source) if n > 1])
    picked = [next(result) if n > 1 else None for n in target] or [None]
    return Facts(
        tuple(1 if d is None else facts.contiguity[d] for d in picked),
        tuple(whole if d is None else facts.divisor[d] for d in picked),
        tuple(1 if d is None else facts.constancy[d] for d in picked),
    )


def _permute(op: nv_tileaa.PermuteOp, divisibility: DivisibilityAnalysis) -> Facts:
    facts = divisibility.facts(op.operand)
    order = op.permutation.elements
    return Facts(*(tuple(part[d] for d in order) for part in facts))


def _unit(type: Type) -> int:
    """The distance of neighbours in a contiguous run: the element's bytes for pointers, one for integers."""
    element = element_type_of(type)
    return max(1, element.pointee.width // 8) if isinstance(element, nv_tileaa.PtrType) else 1


def _sum(a: Facts, b: Facts, b_scale: int, unit: int) -> Facts:
    """`a + b * b_scale`, where runs of `b` advance by `b_scale`, which is also the unit of `a`."""
    contiguity = tuple(
        max(min(ca, kb), min(ka, cb))
        for ca, ka, cb, kb in zip(a.contiguity, a.constancy, b.contiguity, b.constancy)
    )
    divisor = tuple(
        min(a.step(d, run, unit), min(LARGEST, b.step(d, run, 1) * b_scale)) for d, run in enumerate(contiguity)
    )
    return Facts(contiguity, divisor, tuple(min(x, y) for x, y in zip(a.constancy, b.constancy)))


def _add(op: arith.AddIOp, divisibility: DivisibilityAnalysis) -> Facts:
    return _sum(divisibility.facts(op.lhs), divisibility.facts(op.rhs), 1, 1)


def _addptr(op: nv_tileaa.AddPtrOp, divisibility: DivisibilityAnalysis) -> Facts:
    unit = _unit(op.result.type)
    offset = divisibility.facts(op.offset)
    if isinstance(op.result.type, nv_tileaa.PtrType) and getattr(op.result.type.pointee, "width", 64) == 4:
        # Two elements to a byte.  (A tensor of such pointers has addresses in elements.)
        offset = offset._replace(divisor=tuple(max(1, each // 2) for each in offset.divisor))
    return _sum(divisibility.facts(op.pointer), offset, unit, unit)


def _sub(op: arith.SubIOp, divisibility: DivisibilityAnalysis) -> Facts:
    a, b = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    # A run of the subtrahend would count down.
    flat = Facts((1,) * len(b.contiguity), tuple(b.each(d) for d in range(len(b.divisor))), b.constancy)
    return _sum(a, flat, 1, 1)


def _mul(op: arith.MulIOp, divisibility: DivisibilityAnalysis) -> Facts:
    a, b = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    # Front ends multiply by every stride, those of 1 included.
    if divisibility.ranges.range(op.rhs) == (1, 1):
        return a
    if divisibility.ranges.range(op.lhs) == (1, 1):
        return b
    divisor = tuple(min(LARGEST, a.each(d) * b.each(d)) for d in range(len(a.divisor)))
    return Facts((1,) * len(divisor), divisor, tuple(min(x, y) for x, y in zip(a.constancy, b.constancy)))


def _common(op: Operation, divisibility: DivisibilityAnalysis) -> Facts:
    """Operations whose result has bits of either operand: no runs survive."""
    a, b = (divisibility.facts(value) for value in op.operands[-2:])
    divisor = tuple(min(a.each(d), b.each(d)) for d in range(len(a.divisor)))
    return Facts((1,) * len(divisor), divisor, tuple(min(x, y) for x, y in zip(a.constancy, b.constancy)))


_Division = arith.DivSIOp | arith.DivUIOp | arith.CeilDivSIOp | arith.CeilDivUIOp | arith.FloorDivSIOp


def _quotient(op: _Division, divisibility: DivisibilityAnalysis) -> Facts:
    """Aligned runs of a length that divides the divisor have one quotient, if it is rounded down."""
    a, b = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    dividend, by = divisibility.ranges.range(op.lhs), divisibility.ranges.range(op.rhs)
    if by == (1, 1):
        return a
    # Truncating division rounds down if the dividend is not negative.
    down = type(op) is arith.DivUIOp or by.low > 0 and (type(op) is arith.FloorDivSIOp or dividend.low >= 0)
    down = down and type(op) not in (arith.CeilDivSIOp, arith.CeilDivUIOp)
    power = by.low if by.low == by.high and by.low > 0 and lowest_bit(by.low) == by.low else LARGEST
    divisor, constancy = [], []
    for d, same in enumerate(map(min, a.constancy, b.constancy)):
        divisor.append(max(1, a.each(d) // power))
        run = min(a.contiguity[d], a.divisor[d], b.constancy[d], b.each(d)) if down else 1
        constancy.append(max(same, run))
    return Facts((1,) * len(divisor), tuple(divisor), tuple(constancy))


def _remainder(op: arith.RemSIOp | arith.RemUIOp, divisibility: DivisibilityAnalysis) -> Facts:
    """Aligned runs of a length that divides the divisor stay runs, unless numbers are negative."""
    a, b = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    runs = type(op) is arith.RemUIOp or divisibility.ranges.range(op.lhs).low >= 0
    contiguity = tuple(
        min(a.contiguity[d], a.divisor[d], b.constancy[d], b.each(d)) if runs else 1 for d in range(len(a.divisor))
    )
    divisor = tuple(min(a.step(d, run, 1), b.each(d)) for d, run in enumerate(contiguity))
    return Facts(contiguity, divisor, tuple(map(min, a.constancy, b.constancy)))


# The only multiple of two in an i1 is 0.


def _and(op: arith.AndIOp, divisibility: DivisibilityAnalysis) -> Facts:
    a, b = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    divisor = tuple(max(a.each(d), b.each(d)) for d in range(len(a.divisor)))
    if element_type_of(op.result.type) is i1 and max(divisor) > 1:
        return _uniform(op.result.type, LARGEST)
    return Facts((1,) * len(divisor), divisor, tuple(min(x, y) for x, y in zip(a.constancy, b.constancy)))


def _select(op: arith.SelectOp, divisibility: DivisibilityAnalysis) -> Facts:
    a, b = (divisibility.facts(value) for value in op.operands[-2:])
    facts = divisibility.facts(op.condition)
    if min(facts.divisor) > 1:
        return b
    condition = facts.constancy if isinstance(op.condition.type, TensorType) else _shape(op.result.type)
    contiguity = tuple(map(min, a.contiguity, b.contiguity, condition))
    unit = _unit(op.result.type)
    divisor = tuple(min(a.step(d, run, unit), b.step(d, run, unit)) for d, run in enumerate(contiguity))
    return Facts(contiguity, divisor, tuple(map(min, a.constancy, b.constancy, condition)))


# In `run < constant`, aligned runs of x values that start at a multiple of g compare alike when the bound is a multiple
# of g as well; the same holds for >=.  For <= and > the bound itself splits the run.
_SPLITS_BEFORE = {"slt", "sge", "ult", "uge"}


def _compare(op: arith.CmpIOp, divisibility: DivisibilityAnalysis) -> Facts:
    a, b = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    predicate = op.predicate.value
    decided = divisibility.ranges.decided(predicate, op.lhs, op.rhs)
    if decided is not None:
        return _uniform(op.result.type, 1 if decided else LARGEST)
    swapped = {"sgt": "slt", "sle": "sge", "ugt": "ult", "ule": "uge"}.get(predicate)
    constancy = []
    for d in range(len(a.divisor)):
        best = min(a.constancy[d], b.constancy[d])
        for run, bound, usable in ((a, b, predicate in _SPLITS_BEFORE), (b, a, swapped is not None)):
            if usable:
                best = max(best, min(run.contiguity[d], bound.constancy[d], run.divisor[d], bound.each(d)))
        constancy.append(best)
    ones = (1,) * len(constancy)
    return Facts(ones, ones, tuple(constancy))


def _assume(op: nv_tileaa.AssumeOp, divisibility: DivisibilityAnalysis) -> Facts:
    facts = divisibility.facts(op.operand)
    predicate = op.predicate
    if isinstance(predicate, nv_tileaa.DivByAttr):
        divisor = lowest_bit(predicate.divisor)
        if predicate.every is None:
            return facts._replace(divisor=tuple(max(d, divisor) for d in facts.divisor))
        run = lowest_bit(predicate.every)
        along = predicate.along
        if run > facts.contiguity[along]:
            return Facts(*(_put(part, along, new) for part, new in zip(facts, (run, divisor, facts.constancy[along]))))
        return facts
    if isinstance(predicate, nv_tileaa.SameElementsAttr):
        groups = tuple(lowest_bit(n) for n in predicate.elements)
        return facts._replace(constancy=tuple(max(a, b) for a, b in zip(facts.constancy, groups)))
    return facts


def _put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _shift_left(op: arith.ShLIOp, divisibility: DivisibilityAnalysis) -> Facts:
    a, count = divisibility.facts(op.lhs), divisibility.facts(op.rhs)
    constancy = tuple(min(x, y) for x, y in zip(a.constancy, count.constancy))
    return Facts((1,) * len(a.divisor), tuple(a.each(d) for d in range(len(a.divisor))), constancy)


def _recast(op: nv_tileas.IntToPtrOp | nv_tileas.PtrToIntOp, divisibility: DivisibilityAnalysis) -> Facts:
    """Between pointers and integers: addresses stay, but consecutive addresses are not a run of the other type."""
    facts = divisibility.facts(op.operand)
    unit = _unit(op.operand.type)
    divisor = tuple(facts.each(d, unit) for d in range(len(facts.divisor)))
    return Facts((1,) * len(divisor), divisor, facts.constancy)


def _unsplat(op: nv_tileas.UnsplatOp, divisibility: DivisibilityAnalysis) -> Facts:
    return Facts((1,), (max(divisibility.facts(op.operand).divisor),), (1,))


def _alloca(op: nv_tileas.AllocaOp, divisibility: DivisibilityAnalysis) -> Facts:
    return Facts((1,), (min(LARGEST, op.alignment.value),), (1,))


RULES: dict[type[Operation], Callable[[Any, DivisibilityAnalysis], Facts]] = {
    arith.ConstantOp: _constant,
    arith.AddIOp: _add,
    arith.SubIOp: _sub,
    arith.MulIOp: _mul,
    arith.ShLIOp: _shift_left,
    arith.AndIOp: _and,
    arith.OrIOp: _common,
    arith.XOrIOp: _common,
    arith.MaxSIOp: _common,
    arith.MinSIOp: _common,
    arith.MaxUIOp: _common,
    arith.MinUIOp: _common,
    arith.DivSIOp: _quotient,
    arith.DivUIOp: _quotient,
    arith.FloorDivSIOp: _quotient,
    arith.CeilDivSIOp: _quotient,
    arith.CeilDivUIOp: _quotient,
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _remainder,
    arith.SelectOp: _select,
    arith.CmpIOp: _compare,
    arith.ExtSIOp: _same,
    arith.ExtUIOp: _same,
    arith.TruncIOp: _same,
    nv_tileas.ConvertLayoutOp: _same,
    nv_tileaa.AllocaOp: _alloca,
    nv_tileaa.MakeRangeOp: _make_range,
    nv_tileaa.SplatOp: _splat,
    nv_tileaa.UnsplatOp: _unsplat,
    nv_tileaa.BroadcastOp: _broadcast,
    nv_tileaa.ViewOp: _view,
    nv_tileaa.PermuteOp: _permute,
    nv_tileaa.AddPtrOp: _addptr,
    nv_tileaa.AssumeOp: _assume,
    nv_tileaa.PtrBitcastOp: _recast,
    nv_tileaa.PtrToIntOp: _recast,
    nv_tileaa.IntToPtrOp: _recast,
}
