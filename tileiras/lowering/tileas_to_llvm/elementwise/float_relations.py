"""Combines conjunctions and disjunctions of comparisons of the same two floats into few comparisons.

Two floats a, b are in one of six relations: equal, greater, less, or a, b or both are NaN.  A comparison, and every
combination of comparisons by `and`, `or` and `xor`, is a set of these six.  A front end's argmax of elements that may
be NaN computes

    a > b or a == a and b != b or (i < j and (a == b or a != a and b != b))

which is (a >= b or b != b) where i < j is known, and two comparisons fewer than written where it is not.  LLVM does not
see that `a != a` is the complement of `a == a`: they are comparisons of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tileiras.dialects import llvm
from tileiras.ir import Value, i1
from tileiras.support.named_tuple import NamedTuple

from ..emit.emitter import Emitter
from ..emit.types import count_of, vector_of

_EQUAL, _GREATER, _LESS, _FIRST, _SECOND, _BOTH = (1 << bit for bit in range(6))
"""The six relations of two floats; the last three: the first, the second or both are NaN."""
_UNORDERED = _FIRST | _SECOND | _BOTH
_ALL = 63
_NAN_FIRST, _NAN_SECOND = _FIRST | _BOTH, _SECOND | _BOTH

_ORDERED = {
    "eq": _EQUAL, "gt": _GREATER, "ge": _GREATER | _EQUAL, "lt": _LESS, "le": _LESS | _EQUAL, "ne": _LESS | _GREATER,
}  # fmt: skip
_PREDICATES = {
    "ord": _EQUAL | _GREATER | _LESS, "uno": _UNORDERED,
    **{f"o{name}": cases for name, cases in _ORDERED.items()},
    **{f"u{name}": cases | _UNORDERED for name, cases in _ORDERED.items()},
}  # fmt: skip
"""LLVM's, but for those that are always true or never."""

Combined = type[llvm.AndOp] | type[llvm.OrOp] | type[llvm.XOrOp]

_MEANING: dict[Combined, Callable[[int, int], int]] = {
    llvm.AndOp: int.__and__, llvm.OrOp: int.__or__, llvm.XOrOp: int.__xor__,
}  # fmt: skip


class _Relation(NamedTuple):
    """The possible relations of two floats; of one alone if both are the same."""

    first: Value
    second: Value
    cases: int


class _Step(NamedTuple):
    """A comparison (predicate, and its operands), or two sets of cases combined."""

    cost: int
    predicate: str = ""
    of: str = ""
    op: Combined | None = None
    parts: tuple[int, int] = (0, 0)


class FloatRelations:
    """The known relations behind the truth values that an emitter has created."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._known: dict[Value, _Relation] = {}
        self._conjunctions: dict[Value, tuple[Value, Value]] = {}
        """Conjunction -> its unknown and its known operand."""

    def note(self, value: Value, predicate: str, first: Value, second: Value) -> None:
        """Record the relation that a comparison states."""
        if predicate not in _PREDICATES:
            return
        cases = _PREDICATES[predicate]
        if first is second:
            # A float is equal to itself or not a number.
            cases = (_ALL & ~_NAN_FIRST if cases & _EQUAL else 0) | (_NAN_FIRST if cases & _BOTH else 0)
        if cases not in (0, _ALL):
            self._known[value] = _Relation(first, second, cases)

    def combined(self, op: Combined, one: Value, other: Value) -> Value:
        """Combine two truth values, with few comparisons if both are about the same floats."""
        if self._emit.truth(one) is not None:
            one, other = other, one
        if (constant := self._emit.truth(other)) is not None and op is not llvm.XOrOp:
            return one if constant == (op is llvm.AndOp) else other
        mine, its = self._known.get(one), self._known.get(other)
        pair = _pair(mine, its) if mine is not None and its is not None else None
        if pair is not None:
            return self._truth(_MEANING[op](_of_pair(mine, pair), _of_pair(its, pair)), *pair, one)
        if op is llvm.OrOp and (conjunction := self._with_conjunction(one, other)) is not None:
            return conjunction
        result = self._emit.logical(op, one, other)
        if op is llvm.AndOp and (mine is None) != (its is None):
            self._conjunctions[result] = (one, other) if mine is None else (other, one)
        return result

    def _with_conjunction(self, one: Value, other: Value) -> Value | None:
        """P or (c and Q), where Q may be replaced by any set that agrees with it outside P; None if that saves
        nothing."""
        if one not in self._known:
            one, other = other, one
        relation, conjunction = self._known.get(one), self._conjunctions.get(other)
        pair = None if relation is None or conjunction is None else _pair(relation, self._known[conjunction[1]])
        if pair is None:
            return None
        condition, part = conjunction
        holds, required = _of_pair(relation, pair), _of_pair(self._known[part], pair)
        choices = sorted({required | (holds & more) for more in range(_ALL + 1)} - {_ALL})
        cases = min(choices, key=lambda each: _steps()[each].cost)
        if _steps()[cases].cost >= _steps()[required].cost:
            return None
        emit = self._emit
        rest = emit.logical(llvm.AndOp, condition, self._truth(cases, *pair, one))
        return emit.logical(llvm.OrOp, one, rest)

    def _truth(self, cases: int, first: Value, second: Value, like: Value) -> Value:
        """The truth value of a set of cases, of the type of ``like``."""
        emit = self._emit
        if cases in (0, _ALL):
            return emit.integer(int(cases == _ALL), vector_of(i1, count_of(like.type)))
        step = _steps()[cases]
        if step.op is None:
            both = {"12": (first, second), "11": (first, first), "22": (second, second)}[step.of]
            value = emit.fcmp(step.predicate, *both)
        else:
            value = emit.logical(step.op, *(self._truth(part, first, second, like) for part in step.parts))
        self._known[value] = _Relation(first, second, cases)
        return value


def _pair(one: _Relation, other: _Relation) -> tuple[Value, Value] | None:
    """The two floats that relations are of; None where these are more."""
    values = [one.first]
    for value in (one.second, other.first, other.second):
        if value not in values:
            values.append(value)
    return (values[0], values[-1]) if len(values) <= 2 else None


def _of_pair(relation: _Relation, pair: tuple[Value, Value]) -> int:
    """The cases of a relation as those of two floats."""
    cases = relation.cases
    if relation.first is relation.second and pair[0] is not pair[1]:
        nan = _NAN_FIRST if relation.first is pair[0] else _NAN_SECOND
        return (nan if cases & _BOTH else 0) | (_ALL & ~nan if cases & _EQUAL else 0)
    return cases if relation.first is pair[0] else _exchange(cases)


def _exchange(cases: int) -> int:
    """The cases for exchanged floats."""
    for one, other in ((_GREATER, _LESS), (_FIRST, _SECOND)):
        if bool(cases & one) != bool(cases & other):
            cases ^= one | other
    return cases


@cache
def _steps() -> dict[int, _Step]:
    """The cheapest way to each set of cases, in comparisons."""
    steps: dict[int, _Step] = {}
    for predicate, cases in _PREDICATES.items():
        steps[cases] = _Step(1, predicate, "12")
    for of, nan in (("11", _NAN_FIRST), ("22", _NAN_SECOND)):
        steps[nan] = _Step(1, "uno", of)
        steps[_ALL & ~nan] = _Step(1, "ord", of)
    single = sorted(steps)
    for cost in range(2, 7):
        for cases in [cases for cases, step in sorted(steps.items()) if step.cost == cost - 1]:
            for other in single:
                for op in (llvm.AndOp, llvm.OrOp):
                    both = _MEANING[op](cases, other)
                    if both not in (0, _ALL) and both not in steps:
                        steps[both] = _Step(cost, op=op, parts=(cases, other))
    return steps
