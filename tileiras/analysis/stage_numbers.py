"""Numbers of stages, iterators of pipes and counts of groups as sums of an unknown value and a constant.

Loops carry several numbers that advance together, and branches yield several: each is expressed as one of them plus a
distance, so that two stages of a ring can be distinguished without knowing the iteration.

    scf.for ... iter_args(%read = %c0, %write = %c2) {
      copy %ring[%read]                       %read
      async.tiled_load ... into %ring[%write] %read + 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd
from operator import itemgetter
from typing import Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith import constant_integer
from tileiras.dialects.nv_tileas import names
from tileiras.ir import BlockArgument, IntegerType, Operation, Value
from tileiras.support.named_tuple import NamedTuple


class Number(NamedTuple):
    """`root` plus `offset`, known up to multiples of `modulus`, which is 0 for an exact number; the root of a constant
    is None."""

    root: Value | None
    offset: int
    modulus: int = 0

    def plus(self, distance: int, modulus: int = 0) -> Number:
        return Number(self.root, self.offset + distance, gcd(self.modulus, modulus))

    def is_apart(self, other: Number, stages: int) -> bool:
        """Whether both numbers are known to denote different stages of a ring."""
        if self.root is not other.root or gcd(self.modulus, other.modulus) % stages:
            return False
        return (self.offset - other.offset) % stages != 0


_ITERATORS_OF = (names.CONSUMER_WAIT, names.PRODUCER_ACQUIRE)
_CARRIES = (names.CONSUMER_TOKEN, names.PRODUCER_TOKEN, names.PIPE_ITERATOR)
"""Types, besides integers, of values that represent numbers."""


def has_number(value: Value) -> bool:
    return isinstance(value.type, IntegerType) or value.type.name in _CARRIES


class StageNumbers:
    """The numbers of a function's values, computed on demand."""

    def __init__(self) -> None:
        self._found: dict[Value, Number | None] = {}
        self._steps: dict[Value, int] = {}
        """Arguments of loops that are roots -> by how much each iteration advances them."""
        self._loops: set[Operation] = set()
        self._differences: dict[tuple[scf.ForOp, Value], Value] = {}
        """A loop and a value that does not change in it -> the induction variable minus that value, as a root."""

    def of(self, value: Value) -> Number | None:
        """The number of a value; None for a token before its stage is waited for, which matches any number."""
        if value not in self._found:
            self._found[value] = Number(value, 0)  # its own root until the number is computed
            self._found[value] = self._number(value)
        return self._found[value]

    def number_of(self, value: Value) -> Number:
        """The number of a value that has one."""
        return self.of(value) or Number(value, 0)

    def _number(self, value: Value) -> Number | None:
        if isinstance(value, BlockArgument):
            loop: Any = value.block.parent_op
            if not isinstance(loop, scf.ForOp):
                return Number(value, 0)
            for each in (*reversed(list(scf.loops_around(loop))), loop):
                if isinstance(each, scf.ForOp) and each not in self._loops:
                    self._enter(each)
            return self._found[value]
        op: Any = value.defining_op
        rule = _RULES.get(type(op))
        if rule is not None:
            return rule(self, op)
        if op.name == names.CREATE_PIPELINE:
            return None
        if op.name in _ITERATORS_OF or op.name == names.GET_STAGE:
            return self.of(op.iterator)
        if op.name == names.INC_ITER:
            by = 1 if op.by is None else constant_integer(op.by)
            return Number(value, 0) if by is None else self.number_of(op.iterator).plus(by)
        if op.name == f"{names.PIPELINE}create_iterator":
            return Number(None, 0)
        if op.name == f"{names.TENSOR_MEMORY}commit":
            return self.number_of(op.count).plus(1)
        if isinstance(op, scf.IfOp):
            self._related(op.results, [region.blocks[0].last.operands for region in op.regions])
            return self._found[value]
        if isinstance(op, scf.ForOp):
            self._leave(op)
            return self._found[value]
        return Number(value, 0)

    # -- loops and branches --------------------------------------------------------------------------------------------

    def _enter(self, loop: scf.ForOp) -> None:
        """Number a loop's arguments: those that advance alike are expressed as one of them plus a distance."""
        self._loops.add(loop)
        for argument in loop.body.block.arguments:
            self._found[argument] = Number(argument, 0)
        step = constant_integer(loop.step)
        counters: list[tuple[Value, int, Number | None]] = []
        if step is not None:
            counters.append((loop.induction_variable, step, self.of(loop.lower_bound)))
        carried: list[tuple[Any, Any, Any]] = [
            (argument, init, end)
            for argument, init, end in zip(loop.iter_args, loop.init_args, loop.yield_op.operands)
            if has_number(argument)
        ]
        later = []
        for argument, init, end in carried:
            number = self.of(end)
            if number is None or number.root is not argument:
                later.append((argument, init, end))
                continue
            first = self.of(init)
            for other, advance, begin in counters:
                apart = _distance(begin, first)
                if advance == number.offset and apart is not None:
                    modulus = gcd(number.modulus, apart.modulus)
                    self._found[argument] = Number(other, apart.offset, modulus)
                    break
            else:
                counters.append((argument, number.offset, first))
                self._found[argument] = Number(argument, 0, number.modulus)
        self._steps.update((argument, advance) for argument, advance, _ in counters)
        self._forget_inside(loop)
        self._follow(loop, later)

    def _leave(self, loop: scf.ForOp) -> None:
        """Number a loop's results, whose distances are those of its arguments."""
        first: dict[Value | None, tuple[Value, Number]] = {}
        for argument, result in zip(loop.iter_args, loop.results):
            self._found[result] = Number(result, 0)
            number = self.of(argument) if has_number(argument) else None
            if number is not None:
                other, theirs = first.setdefault(number.root, (result, number))
                modulus = gcd(number.modulus, theirs.modulus)
                self._found[result] = Number(other, number.offset - theirs.offset, modulus)

    def _follow(self, loop: scf.ForOp, carried: list[tuple[Value, Value, Value]]) -> None:
        """Number arguments that hold another argument's value of the previous iteration.

        A token that had no number before the first iteration matches.
        """
        for _ in carried:
            for argument, init, end in carried:
                number = self.of(end)
                root: Any = None if number is None else number.root
                if number is None or root not in self._steps or root.parent_block is not loop.body.block:
                    continue
                behind = number.plus(-self._steps[root])
                first, begin = self.of(init), self.of(_incoming(root))
                apart = Number(None, behind.offset) if first is None else _distance(begin, first)
                if apart is not None and apart.offset == behind.offset:
                    self._found[argument] = behind.plus(0, apart.modulus)

    def _forget_inside(self, loop: scf.ForOp) -> None:
        """Drop the numbers of values in the loop, which were computed before its arguments were numbered."""
        self._loops = {each for each in self._loops if each is loop or not loop.is_ancestor_of(each)}
        result = set(loop.body.block.arguments)
        for value in list(self._found):
            if value not in result and is_inside(value, loop):
                del self._found[value]

    def _related(self, results: Iterable[Value], ways: Sequence[Sequence[Value]]) -> None:
        """Number the results of a branch; each of `ways` has the operands that one alternative yields."""
        roots: list[tuple[Value, list[Number | None]]] = []
        for n, result in enumerate(results):
            if not has_number(result):
                continue
            numbers = [self.of(way[n]) for way in ways]
            some = [number for number in numbers if number is not None]
            if len(some) == len(numbers) and len(set(some)) == 1:
                self._found[result] = some[0]
                continue
            for other, theirs in roots:
                apart = {_distance(a, b) for a, b in zip(theirs, numbers) if a is not None and b is not None}
                if len(apart) == 1 and (distance := apart.pop()) is not None:
                    self._found[result] = Number(other, distance.offset, distance.modulus)
                    break
            else:
                self._found[result] = Number(result, 0)
                roots.append((result, numbers))

    def renumber(self, number: Number, sources: Sequence[Value], targets: Sequence[Value], scope: Operation) -> Number:
        """A number of `scope` after its values `sources` have become `targets`, in the next iteration or behind the
        operation; LOST if it can no longer be expressed."""
        root: Any = number.root
        if number is LOST or root is None or not is_inside(root, scope):
            return number
        return self._by(number, sources, targets) or LOST

    def advanced(self, number: Number, loop: scf.ForOp) -> Number:
        """A number of an iteration, as expressed in the next one."""
        if number.root is loop.induction_variable or self._is_difference(number.root, loop):
            step = constant_integer(loop.step)
            return LOST if step is None else number.plus(-step)
        return self.renumber(number, loop.yield_op.operands, loop.iter_args, loop)

    def difference(self, op: arith.SubIOp) -> Number:
        """The number of a difference: of the induction variable of a loop and a value that does not change in it, as
        the lower bound, or its own root."""
        number = self.number_of(op.lhs)
        loop = number.root.block.parent_op if isinstance(number.root, BlockArgument) else None
        if not isinstance(loop, scf.ForOp) or number.root is not loop.induction_variable or is_inside(op.rhs, loop):
            return Number(op.result, 0)
        return Number(self._differences.setdefault((loop, op.rhs), op.result), number.offset, number.modulus)

    def _is_difference(self, root: Value | None, loop: scf.ForOp) -> bool:
        return any(each is loop and value is root for (each, _), value in self._differences.items())

    def entered(self, number: Number, sources: Sequence[Value], targets: Sequence[Value]) -> Number:
        """A number as expressed inside a loop whose arguments `targets` begin as `sources`, or behind a loop that does
        not run, whose results `targets` are `sources`."""
        return number if number is LOST else self._by(number, sources, targets) or number

    def _by(self, number: Number, sources: Sequence[Value], targets: Sequence[Value]) -> Number | None:
        """The number in terms of one of `targets`, which have the values of `sources`: preferably of one that counts
        the stages of the same ring and that a loop advances."""
        items: list[tuple[tuple[bool, ...], Number]] = []
        for source, target in zip(sources, targets):
            if not has_number(source) or (was := self.of(source)) is None or was.root is not number.root:
                continue
            to = self.number_of(target)
            there = to.plus(number.offset - was.offset, gcd(number.modulus, was.modulus))
            fits = there.modulus == number.modulus, number.modulus in (to.modulus, was.modulus), to.root in self._steps
            items.append((fits, there))
        return max(items, key=itemgetter(0))[1] if items else None


LOST: Any = Number(object(), 0, 1)  # type: ignore[arg-type]
"""A number that can no longer be expressed."""


def _distance(one: Number | None, other: Number | None) -> Number | None:
    """How much larger the other number is, with the modulus up to which that is known; None if unknown."""
    if one is None or other is None or one.root is not other.root:
        return None
    return Number(None, other.offset - one.offset, gcd(one.modulus, other.modulus))


def _incoming(argument: Any) -> Value:
    """The initial value of an argument of a loop."""
    loop = argument.block.parent_op
    return loop.lower_bound if argument is loop.induction_variable else loop.init_args[argument.index - 1]


def is_inside(value: Value, scope: Operation) -> bool:
    """Whether a value belongs to an operation's regions."""
    if isinstance(value, BlockArgument):
        owner = value.block.parent_op
        return owner is not None and scope.is_ancestor_of(owner)
    op = value.defining_op
    return op is not None and op is not scope and scope.is_ancestor_of(op)


# ---- integers -------------------------------------------------------------------------------------------------------


def _constant(numbers: StageNumbers, op: arith.ConstantOp) -> Number:
    value = constant_integer(op.result)
    return Number(op.result, 0) if value is None else Number(None, value)


def _add(numbers: StageNumbers, op: arith.AddIOp) -> Number:
    for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if (distance := constant_integer(other)) is not None:
            return numbers.number_of(one).plus(distance)
    return Number(op.result, 0)


def _subtract(numbers: StageNumbers, op: arith.SubIOp) -> Number:
    if (distance := constant_integer(op.rhs)) is not None:
        return numbers.number_of(op.lhs).plus(-distance)
    if (whole := constant_integer(op.lhs)) is not None:
        return numbers.number_of(op.rhs).plus(whole, 2)  # the other stage of a ring of two: the sign is lost modulo 2
    return numbers.difference(op)


def _remainder(numbers: StageNumbers, op: Any) -> Number:
    divisor = constant_integer(op.rhs)
    if divisor is not None and isinstance(op, arith.AndIOp):
        divisor = divisor + 1 if divisor > 0 and not divisor & divisor + 1 else None
    return numbers.number_of(op.lhs).plus(0, divisor) if divisor else Number(op.result, 0)


def _select(numbers: StageNumbers, op: arith.SelectOp) -> Number:
    """A number that wraps at the end of a ring: both alternatives are equal modulo its stages."""
    if not isinstance(op.result.type, IntegerType):
        return Number(op.result, 0)
    one, other = numbers.number_of(op.true_value), numbers.number_of(op.false_value)
    test = op.condition.defining_op
    if isinstance(test, arith.CmpIOp) and test.predicate.value == "eq" and one.root is None:
        whole, since = constant_integer(test.rhs), _distance(numbers.number_of(test.lhs), other)
        if whole is not None and since is not None:
            # The constant is selected where the other alternative would be `whole + since`.
            return other.plus(0, abs(whole + since.offset - one.offset))
    apart = _distance(one, other)
    return Number(op.result, 0) if apart is None else one.plus(0, gcd(apart.offset, apart.modulus))


def _passed_on(numbers: StageNumbers, op: Any) -> Number:
    return numbers.number_of(op.operands[0])


_RULES: dict[type[Operation], Callable[[StageNumbers, Any], Number]] = {
    arith.ConstantOp: _constant, arith.AddIOp: _add, arith.SubIOp: _subtract, arith.AndIOp: _remainder,
    arith.RemUIOp: _remainder, arith.RemSIOp: _remainder, arith.SelectOp: _select, arith.ExtSIOp: _passed_on,
    arith.ExtUIOp: _passed_on, arith.TruncIOp: _passed_on, tileas.AssumeOp: _passed_on,
}  # fmt: skip
