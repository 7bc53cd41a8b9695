"""The interval of an estimate over parameters that are not known exactly, and comparisons that hold over all of them.

A launch's time is the largest of the needs of L2, DRAM, the tensor cores and all other units, and the rest, in which
warps wait for latencies. Each unknown parameter of a GPU varies by the share that the kind of its source allows
(`SPREADS`). Its effects on one time are independent: the interval is the root of the sum of their squares, with the
residual of the model itself, and is to hold four fifths of measured times. Two launches on one GPU are compared under
the same parameters, for all combinations of their extremes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import exp, log, sqrt

from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.rates import Gpu

SPREADS = {"measured": 0.03, "read": 0.05, "derived": 0.08, "recalled": 0.10, "fitted": 0.08, "assumed": 0.15}
"""Relative deviation to expect of a figure, by the kind of its source (`targets.rate_tables.KINDS`)."""
RESIDUAL = 0.19
"""Deviation of the model itself, beyond that of its parameters: the least with which intervals hold four fifths of the
published times of a ladder, for four fifths of ladders, by the calibrating half (`bench validation --sources`). With
seven ladders that is the one that needs most, f32 on H100; products by tensor cores and sums need less. Classes of
kernels have too few ladders for a residual of their own."""
PARAMETERS = ("l2", "dram", "tensor", "latency", "clock")


class Needs(NamedTuple):
    """Microseconds: the least that each shared resource takes, and the rest of the time."""

    l2: float
    dram: float
    tensor: float
    """At the rate that the chip's power sustains."""
    other: float
    """Of the busiest other unit."""
    rest: float
    """Beyond the largest of these: waits for latencies, imperfect overlap."""
    launch: float

    def under(self, factors: Mapping[str, float]) -> float:
        """The time if rates (`l2`, `dram`, `tensor`, `clock`) and `latency` are multiplied by factors.  All but
        DRAM is as fast as the clock."""
        clock = factors["clock"]
        largest = max(
            self.l2 / factors["l2"] / clock, self.dram / factors["dram"], self.tensor / factors["tensor"] / clock,
            self.other / clock,
        )  # fmt: skip
        return largest + self.rest * factors["latency"] / clock + self.launch


NEUTRAL: Mapping[str, float] = dict.fromkeys(PARAMETERS, 1.0)
"""The table's values."""


def split(time: float, busy: Mapping[str, float], launch: float) -> Needs:
    """Needs of a launch of ``time`` microseconds with overhead; ``busy``: unit's name -> microseconds of its work."""
    units = {"L2": "l2", "DRAM": "dram", "tensor": "tensor"}
    needs = dict.fromkeys(units.values(), 0.0)
    other = 0.0
    within = time - launch
    for unit, spent in busy.items():
        if unit in units:
            needs[units[unit]] = min(spent, within)
        else:
            other = max(other, min(spent, within))
    return Needs(**needs, other=other, rest=max(0.0, within - max(other, *needs.values())), launch=launch)


def spreads(gpu: Gpu) -> dict[str, float]:
    """Rate or latency -> relative deviation on a GPU."""
    kinds = {
        "l2": gpu.sources["l2_bytes_per_cycle"].kind,
        "dram": "read",
        "tensor": gpu.sources["tensor_reach"].kind,
        "latency": gpu.sources["latency.l2"].kind,
        "clock": gpu.sources.get("power.reference_mhz", gpu.sources["sustained_mhz"]).kind,
    }
    # A latency is that of an idle chip; waits grow with the load.
    return {name: max(SPREADS[kind], SPREADS["assumed"] * (name == "latency")) for name, kind in kinds.items()}


def extremes(gpu: Gpu) -> dict[str, tuple[float, float]]:
    """Parameter -> its least and its largest factor."""
    result = {name: (1.0 - share, 1.0 + share) for name, share in spreads(gpu).items()}
    # No chip exceeds the peak of its tensor cores.
    result["tensor"] = (result["tensor"][0], min(result["tensor"][1], 1.0 / gpu.tensor_reach))
    return result


def corners(gpu: Gpu) -> Iterator[dict[str, float]]:
    """The table's values, and all combinations of the extremes of the parameters."""
    yield dict(NEUTRAL)
    result = extremes(gpu)
    for values in product(*(result[name] for name in PARAMETERS)):
        yield dict(zip(PARAMETERS, values))


def interval(needs: Needs, gpu: Gpu, residual: float = RESIDUAL) -> tuple[float, float]:
    """Microseconds (at least, at most)."""
    time = needs.under(NEUTRAL)
    below = above = log(1 + residual) ** 2
    for name, values in extremes(gpu).items():
        effects = [log(needs.under({**NEUTRAL, name: value}) / time) for value in values]
        below += min(0.0, *effects) ** 2
        above += max(0.0, *effects) ** 2
    return time * exp(-sqrt(below)), time * exp(sqrt(above))


def ratios(one: Needs, other: Needs, gpu: Gpu) -> tuple[float, float]:
    """(least, largest) time of one launch over that of another, both under the same parameters."""
    result = [one.under(factors) / other.under(factors) for factors in corners(gpu)]
    return min(result), max(result)


def faster(one: Needs, other: Needs, gpu: Gpu) -> bool:
    """Whether one launch takes less time than another for all values of the parameters."""
    return ratios(one, other, gpu)[1] < 1.0
