"""Checks the facts about a launch that NAME.json requires, in the language of `targets/launch_facts.py`.

    p1 128 ceildiv even

Numbers are intervals. A fact that cannot be proved does not hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

LEAST, MOST = -(1 << 31), (1 << 31) - 1
"""Beyond these a kernel's 32-bit numbers may wrap."""

Interval = tuple[int, int]


class _Unknown(Exception):
    """Raised for a number without known bounds."""


def hold(facts: Sequence[str], grid: int, parameter: Callable[[int], int]) -> bool:
    """Whether all facts hold for a launch of `grid` tile blocks along x; `parameter` returns the value of a
    parameter by its number. A fact with an unknown word does not hold."""
    texts = tuple(facts)
    try:
        return _hold(texts, grid, tuple(map(parameter, _parameter_numbers(texts))))
    except (_Unknown, ValueError, IndexError):
        return False


@functools.lru_cache(maxsize=256)
def _parameter_numbers(facts: tuple[str, ...]) -> tuple[int, ...]:
    """The parameters that occur in facts."""
    words = (word for fact in facts for word in fact.split())
    return tuple(dict.fromkeys(int(word[1:]) for word in words if word[0] == "p" and word != "positive"))


@functools.lru_cache(maxsize=1024)
def _hold(facts: tuple[str, ...], grid: int, values: tuple[int, ...]) -> bool:
    """Cached: many launches have equal sizes."""
    by_number = dict(zip(_parameter_numbers(facts), values))
    return all(_holds(fact, grid, by_number) for fact in facts)


def _holds(fact: str, grid: int, by_number: Mapping[int, int]) -> bool:
    *words, predicate = fact.split()
    stack: list[Interval] = []
    for word in words:
        if word in _OPERATIONS:
            second = stack.pop()
            result = _OPERATIONS[word](stack.pop(), second)
        elif word == "below":
            result = 0, stack.pop()[1] - 1
        else:
            number = grid if word == "grid" else by_number[int(word[1:])] if word[:1] == "p" else int(word)
            result = number, number
        if not LEAST <= result[0] <= result[1] <= MOST:
            raise _Unknown
        stack.append(result)
    ((least, most),) = stack
    if predicate == "even":
        return least == most and least % 2 == 0
    return predicate == "positive" and least > 0


def _divide(one: Interval, other: Interval) -> Interval:
    if one[0] < 0 or other[0] < 1:
        raise _Unknown
    return one[0] // other[1], one[1] // other[0]


def _divided_up(one: Interval, other: Interval) -> Interval:
    if one[0] < 0 or other[0] < 1:
        raise _Unknown
    return -(-one[0] // other[1]), -(-one[1] // other[0])


def _product(one: Interval, other: Interval) -> Interval:
    result = [first * second for first in one for second in other]
    return min(result), max(result)


_OPERATIONS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "add": lambda one, other: (one[0] + other[0], one[1] + other[1]),
    "sub": lambda one, other: (one[0] - other[1], one[1] - other[0]),
    "mul": _product,
    "div": _divide,
    "ceildiv": _divided_up,
    "min": lambda one, other: (min(one[0], other[0]), min(one[1], other[1])),
    "max": lambda one, other: (max(one[0], other[0]), max(one[1], other[1])),
}
