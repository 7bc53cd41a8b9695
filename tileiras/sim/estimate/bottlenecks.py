"""Bounds of a kernel over time: utilization of units, or waits of warps."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.sim.estimate.in_flight import Outcome
from tileiras.sim.estimate.result import Phase, Stall
from tileiras.sim.estimate.units import BIN, TITLES

BOUND = 0.6
"""Utilization from which on a unit bounds the kernel; below it, the kernel is bound by the waits of its warps."""
_PHASES = 32


def phases_of(outcome: Outcome, clock_mhz: float) -> tuple[Phase, ...]:
    """Stretches of a simulation, at most `_PHASES`, with the bound of each; times in microseconds."""
    count = max(1, int(outcome.cycles) // BIN + 1)
    width = -(-count // _PHASES)
    waits = _waits_by_bin(outcome)
    loads = [{unit: served.load() for unit, served in sm.units.items()} for sm in outcome.sms]
    phases = []
    for first in range(0, count, width):
        start, end = first * BIN, min(outcome.cycles, (first + width) * BIN)
        if end <= start:
            break
        busy: dict[str, float] = {}
        for load in loads:
            for unit, bins in load.items():
                busy[unit] = busy.get(unit, 0.0) + sum(bins.get(at, 0.0) for at in range(first, first + width))
        utilization = utilization_of(busy, end - start, outcome)
        reasons: dict[str, float] = {}
        for at in range(first, first + width):
            for reason, cycles in waits.get(at, {}).items():
                reasons[reason] = reasons.get(reason, 0.0) + cycles
        phases.append(Phase(start / clock_mhz, end / clock_mhz, bound_by(utilization, reasons), utilization))
    return tuple(phases)


def shares_of_bounds(phases: Sequence[Phase]) -> dict[str, float]:
    """Bound -> share of the time of all phases with that bound, largest first."""
    simulated = sum(phase.end - phase.start for phase in phases) or 1.0
    result: dict[str, float] = {}
    for phase in phases:
        result[phase.bound] = result.get(phase.bound, 0.0) + (phase.end - phase.start) / simulated
    return dict(sorted(result.items(), key=lambda each: (-each[1], each[0])))


def utilization_of(busy: dict[str, float], cycles: float, outcome: Outcome) -> dict[str, float]:
    """Share of `cycles` in which each unit was busy, by its name in results; of two units with one name, the busier."""
    utilization: dict[str, float] = {}
    for unit, spent in busy.items():
        instances = sum(len(sm.units[unit].free) for sm in outcome.sms)
        share = spent / (cycles * instances) if cycles else 0.0
        utilization[TITLES[unit]] = max(utilization.get(TITLES[unit], 0.0), share)
    return utilization


def reasons_of(stalls: Sequence[Stall]) -> dict[str, float]:
    """The share of each reason in the time of all warps."""
    reasons: dict[str, float] = {}
    for stall in stalls:
        reasons[stall.reason] = reasons.get(stall.reason, 0.0) + stall.share
    return reasons


def _waits_by_bin(outcome: Outcome) -> dict[int, dict[str, float]]:
    waits: dict[int, dict[str, float]] = {}
    for warp in outcome.warps:
        for wait in warp.log:
            bins = waits.setdefault(int(wait.start) // BIN, {})
            bins[wait.reason] = bins.get(wait.reason, 0.0) + wait.end - wait.start
    return waits


_MEETING = ("barrier", "mbarrier", "cluster barrier")


def bound_by(utilization: dict[str, float], reasons: dict[str, float]) -> str:
    """The busiest unit if it is busy enough, else the kind of wait that dominates."""
    unit, share = max(utilization.items(), key=lambda each: (each[1], each[0]), default=("", 0.0))
    if share >= BOUND:
        return unit
    waiting = sum(reasons.get(reason, 0.0) for reason in _MEETING)
    return "barrier wait" if waiting > sum(reasons.values()) - waiting else "latency"
