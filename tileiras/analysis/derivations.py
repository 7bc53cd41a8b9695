"""Derivations: the values that a value is computed from, and those that are computed from it.

Values have several users, so that the paths between two of them may double with each operation in between (rounds of a
hash, exchanges of a sorting network): each value is visited once, and without recursion, since chains are long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from tileiras.ir import Operation, Pure, Value

T = TypeVar("T", bound=Hashable)
Fact = TypeVar("Fact")


def is_derived(values: Iterable[T], sources: Callable[[T], Iterable[T] | None]) -> bool:
    """Whether values can be derived: `sources` has those that one is derived from, and None if it cannot be."""
    worklist = list(values)
    seen = set(worklist)
    while worklist:
        behind = sources(worklist.pop())
        if behind is None:
            return False
        missing = [each for each in dict.fromkeys(behind) if each not in seen]
        seen.update(missing)
        worklist += missing
    return True


def settle(
    value: T,
    facts: dict[T, Fact],
    unknown: Fact,
    sources_of: Callable[[T], Sequence[T]],
    fact_of: Callable[[T, Sequence[T]], Fact],
) -> Fact:
    """The fact of a value, after those of its sources, which `facts` keeps.  A value that is its own source has the
    fact `unknown` meanwhile."""
    if value in facts:
        return facts[value]
    facts[value] = unknown
    sources = sources_of(value)
    stack: list[tuple[T, Sequence[T], Iterator[T]]] = [(value, sources, iter(sources))]
    while stack:
        each, sources, rest = stack[-1]
        for source in rest:
            if source not in facts:
                facts[source] = unknown
                below = sources_of(source)
                stack.append((source, below, iter(below)))
                break
        else:
            stack.pop()
            facts[each] = fact_of(each, sources)
    return facts[value]


def uses_through(value: Value, passes: Callable[[Operation], bool]) -> Iterator[tuple[Operation, Value]]:
    """The uses of a value: the operations, each with the operand.  Of an operation that `passes`, such as a view, its
    result's uses are taken instead."""
    stack = [(value, iter(value.users))]
    while stack:
        each, rest = stack[-1]
        for user in rest:
            if passes(user):
                stack.append((user.results[0], iter(user.results[0].users)))
                break
            yield user, each
        else:
            stack.pop()


def erase_unused(value: Value) -> None:
    """Erase the operations derived from `value` whose results have no use."""
    reached: dict[Operation, None] = {}
    worklist = value.users
    while worklist:
        op = worklist.pop()
        if op not in reached:
            reached[op] = None
            worklist += [user for result in op.results for user in result.users]
    dead = [op for op in reached if _is_unused(op)]
    while dead:
        op = dead.pop()
        operands = dict.fromkeys(operand.defining_op for operand in op.operands)
        op.erase()
        dead += [each for each in operands if each in reached and _is_unused(each)]


def erase_unused_sources(value: Value, release: Callable[[Operation], Iterable[Value] | None]) -> None:
    """Erase the operations that `value` is derived from and whose results have no use.

    `release` has the operands of an operation to go on with, and None if it has to stay.
    """
    worklist = [value]
    while worklist:
        each = worklist.pop()
        op = each.defining_op
        if op is None or op.parent is None or each.has_uses:
            continue
        sources = release(op)
        if sources is not None and not any(result.has_uses for result in op.results):
            worklist += sources
            op.erase()


def _is_unused(op: Operation) -> bool:
    return bool(op.results) and op.has_trait(Pure) and not any(result.has_uses for result in op.results)
