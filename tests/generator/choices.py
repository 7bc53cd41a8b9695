"""A source of random numbers whose draws are kept, so that a case can be drawn again with simpler ones.

The stream does not depend on replaced draws: those that follow a replaced one are the same as before, unless the
generator takes another path.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DATA_SEEDS = 1 << 16
"""Ranges of at least so many numbers are seeds of data: none is simpler than another."""
NEVER = 1 - 2**-53
"""The simpler outcome of `random() < chance`: not taken."""


class Draw(NamedTuple):
    """One draw: its value, and simpler ones, the simplest first."""

    value: Any
    simpler: tuple[Any, ...]


class Choices(random.Random):
    """`replaced` maps the number of a draw, counted from 0, to the value in place of its own.

    A value that the draw of a number cannot have is ignored.
    """

    def __init__(self, seed: int, replaced: Mapping[int, Any] | None = None) -> None:
        super().__init__(seed)
        self.replaced = dict(replaced or {})
        self.draws: list[Draw] = []

    def choice(self, seq: Sequence[Any]) -> Any:
        return self._keep(super().choice(seq), seq)

    def choices(self, population: Sequence[Any], weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> list:
        assert k == 1, "draws are kept one by one"
        return [self._keep(super().choices(population, weights, cum_weights=cum_weights)[0], population)]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        domain = range(start) if stop is None else range(start, stop, step)
        return self._keep(domain[self._randbelow(len(domain))], domain)

    def randint(self, a: int, b: int) -> int:
        return self.randrange(a, b + 1)

    def chance(self, probability: float) -> bool:
        """Whether something with this probability comes; `False` is simpler."""
        return self._keep(super().random() < probability, (False, True))

    def _keep(self, value: Any, domain: Sequence[Any]) -> Any:
        number = len(self.draws)
        if number in self.replaced and self.replaced[number] in domain:
            value = self.replaced[number]
        self.draws.append(Draw(value, _simpler(value, domain)))
        return value


def _simpler(value: Any, domain: Sequence[Any]) -> tuple[Any, ...]:
    """Of numbers the smaller ones, of other values those that stand further in front."""
    if len(domain) >= DATA_SEEDS:
        return ()
    if all(isinstance(each, (bool, int)) for each in domain):
        return tuple(sorted({each for each in domain if each < value}))
    distinct = list(dict.fromkeys(domain))
    return tuple(distinct[: distinct.index(value)])
