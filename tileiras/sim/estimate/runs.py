"""Simulations of an estimate, and their extrapolation to longer ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tileiras.sim.estimate.events import ClusterTrace
from tileiras.sim.estimate.in_flight import Outcome
from tileiras.support.named_tuple import NamedTuple


class Sample(NamedTuple):
    """A repeatable simulation."""

    clusters: tuple[ClusterTrace, ...]
    slots: int
    active: int
    cycles: float


class Run(NamedTuple):
    """One simulation, or the extrapolation of three to a longer one."""

    cycles: float
    outcome: Outcome
    """Of the longest simulation."""
    busy: dict[str, float]
    """Unit -> busy cycles of all its instances on all SMs of the simulation, for the whole run."""
    flops: dict[str, float]
    """Type of operands -> FLOP of dots on all SMs of the simulation, for the whole run."""
    stalls: dict[tuple[int, str], float]
    issued: dict[int, float]
    per_iteration: float
    """Cycles; 0 without a steady state."""
    iterations: int
    """Simulated iterations of the longest loop."""
    sample: Sample
    """The shortest simulation made for this run."""


def _busy(outcome: Outcome) -> dict[str, float]:
    """Unit -> cycles for which it is busy on all SMs."""
    return _sums({unit: each.busy for unit, each in sm.units.items()} for sm in outcome.sms)


def _flops(outcome: Outcome) -> dict[str, float]:
    return _sums(sm.flops for sm in outcome.sms)


def _sums(tables: Iterable[Mapping[str, float]]) -> dict[str, float]:
    result: dict[str, float] = {}
    for table in tables:
        for key, value in table.items():
            result[key] = result.get(key, 0.0) + value
    return result


def whole(outcome: Outcome, sample: Sample) -> Run:
    issued = {index: float(times) for index, times in outcome.issued.items()}
    return Run(outcome.cycles, outcome, _busy(outcome), _flops(outcome), outcome.stalls, issued, 0.0, 0, sample)


def extend(
    before: Outcome, last: Outcome, times: float, per_iteration: float, iterations: int, sample: Sample
) -> Run:  # fmt: skip
    """Extrapolate linearly: last + times * (last - before)."""

    def longer(small: dict, large: dict) -> dict:
        return {key: max(0.0, value + times * (value - small.get(key, 0.0))) for key, value in large.items()}

    busy, flops = (longer(sums(before), sums(last)) for sums in (_busy, _flops))
    return Run(
        last.cycles + times * (last.cycles - before.cycles), last, busy, flops, longer(before.stalls, last.stalls),
        longer(before.issued, last.issued), per_iteration, iterations, sample,
    )  # fmt: skip
