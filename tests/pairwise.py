"""A few combinations of values of independent parameters that contain every pair of values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


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
