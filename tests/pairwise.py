"""A few combinations of values of independent parameters that contain every pair of values."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence


def pairwise(axes: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
    """Of all combinations, those by which every two values of two axes meet: each time the first one that brings most
    pairs.  In the order of all combinations, the same for the same axes; with one or two axes these are all."""
    waiting = list(itertools.product(*map(range, map(len, axes))))
    pairs = {each: {((i, each[i]), (j, each[j])) for i, j in itertools.combinations(range(len(axes)), 2)}
             for each in waiting}  # fmt: skip
    if len(axes) < 3:
        chosen = waiting
    else:
        chosen, missing = [], set().union(*pairs.values())
        while missing:
            best = max(waiting, key=lambda each: len(pairs[each] & missing))
            chosen.append(best)
            missing -= pairs[best]
    return [tuple(axis[at] for axis, at in zip(axes, each)) for each in sorted(chosen)]


def spaced(count: int, length: int) -> set[int]:
    """`count` positions of `length`, evenly spaced; all of them where there are no more."""
    return {(2 * each + 1) * length // (2 * count) for each in range(count)}


def sample(count: int, cases: Sequence[Mapping[str, int]]) -> set[int]:
    """`count` positions of cases, given as parameter -> position of its value.

    Evenly spaced, but every value of each parameter occurs that has at most `count` values: an even distance in a
    product of parameters would meet the same values of the last ones every time.
    """
    values = {(name, value) for case in cases for name, value in case.items()}
    sizes = Counter(name for name, _ in values)
    missing = {pair for pair in values if sizes[pair[0]] <= count}
    chosen = spaced(count, len(cases))
    if missing <= {pair for at in chosen for pair in cases[at].items()}:
        return chosen
    result: set[int] = set()
    for ideal in sorted(chosen):
        left = (at for at in range(len(cases)) if at not in result)
        best = max(left, key=lambda at: (len(missing & cases[at].items()), -abs(at - ideal)))
        result.add(best)
        missing -= cases[best].items()
    return result
