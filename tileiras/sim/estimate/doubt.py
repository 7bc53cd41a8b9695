"""Reasons not to rely on a figure, and how far each of them widens its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import best_published
from tileiras.targets.rates import Gpu

DOUBTFUL = 0.05
"""Share of the warps' steps that may be joined with other executions of their instructions."""
_ABOVE_BEST = 1.02
"""Throughput over the best published from which an estimate is in doubt: clocks of one card differ by as much."""
_LEAST_KNOWN = 0.1


class Doubt(NamedTuple):
    reason: str
    below: float
    """Factor of the lower end of the interval, at most 1."""
    above: float
    """Factor of its upper end, at least 1."""


def doubts(joined: float, teraflops: Mapping[str, float], gpu: Gpu) -> list[Doubt]:
    """``joined``: share of the warps' steps that are joined with other executions of their machine instructions, and
    may take no time or any other; ``teraflops``: throughput by the type of operands."""
    result = []
    if joined > DOUBTFUL:
        share = max(_LEAST_KNOWN, 1.0 - joined)
        reason = (f"the path through the machine code joins {joined:.0%} of the warps' steps with other executions of "
                  "its instructions")  # fmt: skip
        result.append(Doubt(reason, share, 1.0 / share))
    for element, rate in teraflops.items():
        best = best_published.best(gpu.name, element)
        if best is not None and rate > best.value * _ABOVE_BEST:
            reason = f"{rate:.0f} TFLOP/s of {element} are more than the best published, {best.value:.0f}"
            result.append(Doubt(reason, 1.0, rate / best.value))
    return result


def widen(interval: tuple[float, float], reasons: Iterable[Doubt]) -> tuple[float, float]:
    low, high = interval
    for each in reasons:
        low, high = low * each.below, high * each.above
    return low, high


def text(reasons: Iterable[Doubt]) -> str:
    """Empty if nothing speaks against a figure."""
    return "; ".join(each.reason for each in reasons)
