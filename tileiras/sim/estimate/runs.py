"""One simulation, or the extrapolation of three to a longer one."""

from __future__ import annotations

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
    kept: int
    """Simulated iterations of the longest loop."""
    sample: Sample
    """The shortest simulation made for this run."""


def _busy(outcome: Outcome) -> dict[str, float]:
    busy: dict[str, float] = {}
    for sm in outcome.sms:
        for unit, cycles in sm.busy.items():
            busy[unit] = busy.get(unit, 0.0) + cycles
    return busy


def _flops(outcome: Outcome) -> dict[str, float]:
    flops: dict[str, float] = {}
    for sm in outcome.sms:
        for key, work in sm.flops.items():
            flops[key] = flops.get(key, 0.0) + work
    return flops


def whole(outcome: Outcome, sample: Sample) -> Run:
    """The run of a simulation as it is."""
    issued = {index: float(times) for index, times in outcome.issued.items()}
    return Run(outcome.cycles, outcome, _busy(outcome), _flops(outcome), outcome.stalls, issued, 0.0, 0, sample)


def extended(
    before: Outcome, last: Outcome, times: float, per_iteration: float, kept: int, sample: Sample
) -> Run:  # fmt: skip
    """Extrapolate linearly: last + times * (last - before)."""

    def longer(small: dict, large: dict) -> dict:
        return {key: max(0.0, value + times * (value - small.get(key, 0.0))) for key, value in large.items()}

    return Run(
        last.cycles + times * (last.cycles - before.cycles), last, longer(_busy(before), _busy(last)),
        longer(_flops(before), _flops(last)), longer(before.stalls, last.stalls), longer(before.issued, last.issued),
        per_iteration, kept, sample,
    )  # fmt: skip
