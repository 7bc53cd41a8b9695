"""Figures of a comparison of estimates with published times: errors, order, coverage of intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from tileiras.sim.estimate import uncertainty
from tileiras.sim.estimate.uncertainty import Needs
from tileiras.targets import rates

WORST_BAR = 0.35
HELD = 0.8
"""Share of published times that intervals are to hold."""
APART = 0.15
"""Times of a task that differ by more have to come out in their order."""


class Compared(NamedTuple):
    """A published time beside its estimate."""

    task: str
    """Times of one task are ordered: a ladder, or variants of one function on one GPU."""
    gpu: str
    published: float
    microseconds: float | None
    low: float
    high: float
    doubt: str
    needs: Needs | None

    @property
    def error(self) -> float | None:
        """Of the estimate, relative to the published time."""
        return None if self.microseconds is None else self.microseconds / self.published - 1

    @property
    def counts(self) -> bool:
        """Whether there is an estimate without doubt."""
        return self.microseconds is not None and not self.doubt


def lines(rows: Sequence[Compared]) -> list[str]:
    """Errors and intervals of rows that count, then their order."""
    known = [each for each in rows if each.counts]
    result = [f"estimated without doubt {len(known)} of {len(rows)}"]
    if known:
        errors = [abs(each.error or 0.0) for each in known]
        inside = sum(each.low <= each.published <= each.high for each in known)
        widths = sorted((each.high - each.low) / 2 / (each.microseconds or 1.0) for each in known)
        result[0] += (
            f"; error mean {sum(errors) / len(errors):.1%}, worst {max(errors):.0%}, "
            f"{sum(error > WORST_BAR for error in errors)} above {WORST_BAR:.0%}; "
            f"intervals cover {inside} of {len(known)}, half-width median {widths[len(widths) // 2]:.0%}, "
            f"at most {widths[-1]:.0%}"
        )
    right, pairs, tau = order(known)
    if pairs:
        result.append(f"order: {right} of {pairs} pairs of a task that differ by more than {APART:.0%}; tau {tau:.2f}")
    return result


def order(rows: Sequence[Compared]) -> tuple[int, int, float]:
    """(pairs in order, pairs, Kendall's tau over all pairs of a task, ties of published times left out)."""
    right = pairs = concordant = every = 0
    for one, other in itertools.combinations(rows, 2):
        if one.task != other.task or one.published == other.published:
            continue
        fast, slow = sorted((one, other), key=lambda each: each.published)
        difference = (slow.microseconds or 0.0) - (fast.microseconds or 0.0)
        every += 1
        concordant += (difference > 0) - (difference < 0)
        if slow.published > fast.published * (1 + APART):
            pairs += 1
            right += difference > 0
    return right, pairs, concordant / every if every else 0.0


def residual(rows: Sequence[Compared]) -> float | None:
    """The least residual, in whole hundredths, of intervals that hold `HELD` of the published times; None if none is
    below 1 or too few tasks are without doubt.

    Times of one task have one author, chip and kind of kernel, and err alike: they are no independent evidence, and a
    task counts once, with the residual that holds `HELD` of its own. Over tasks it is a quantile of split conformal
    prediction (Lei et al., arXiv 1604.04173; for groups, Dunn et al., arXiv 1809.07441): of n the one at (n + 1) times
    `HELD`, rounded up, so that it holds for further tasks as well.
    """
    tasks: dict[str, list[float]] = {}
    for each in rows:
        if each.counts and each.needs is not None:
            tasks.setdefault(each.task, []).append(_needed(each))
    needed = sorted(sorted(own)[math.ceil(len(own) * HELD) - 1] for own in tasks.values())
    place = math.ceil((len(needed) + 1) * HELD)
    return needed[place - 1] if 0 < place <= len(needed) and needed[place - 1] < 1 else None


def _needed(row: Compared) -> float:
    """The least residual whose interval contains the published time."""
    assert row.needs is not None
    for hundredths in range(100):
        low, high = uncertainty.interval(row.needs, rates.gpu(row.gpu), hundredths / 100)
        if low <= row.published <= high:
            return hundredths / 100
    return 1.0
