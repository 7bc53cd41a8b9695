"""The interval of an estimate over parameters that are not known exactly, and comparisons that hold over all of it.

A launch's time is the largest of the needs of L2, DRAM, the tensor cores and all other units, and the rest, in which
warps wait for latencies. Each unknown parameter of a GPU varies by the share that the kind of
its source allows (`SPREADS`). Two launches on one GPU are compared under the same parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.rates import Gpu

SPREADS = {"measured": 0.03, "read": 0.05, "derived": 0.08, "recalled": 0.10, "fitted": 0.08, "assumed": 0.15}
"""Relative deviation to expect of a figure, by the kind of its source (`targets.rate_tables.KINDS`)."""
RESIDUAL = 0.10
"""Deviation of the model itself, beyond that of its parameters: with it, intervals cover four fifths of the published
times of the calibrating half of `bench validation --sources`."""
PARAMETERS = ("l2", "dram", "tensor", "latency")


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
        """The time if rates (`l2`, `dram`, `tensor`) and `latency` are multiplied by factors."""
        largest = max(self.other, *(getattr(self, name) / factors[name] for name in PARAMETERS[:3]))
        return largest + self.rest * factors["latency"] + self.launch


def split(time: float, busy: Mapping[str, float], launch: float) -> Needs:
    """Needs of a launch of ``time`` microseconds with overhead; ``busy``: unit's name -> microseconds of its work."""
    named = {"L2": "l2", "DRAM": "dram", "tensor": "tensor"}
    needs = dict.fromkeys(named.values(), 0.0)
    other = 0.0
    within = time - launch
    for unit, spent in busy.items():
        if unit in named:
            needs[named[unit]] = min(spent, within)
        else:
            other = max(other, min(spent, within))
    return Needs(**needs, other=other, rest=max(0.0, within - max(other, *needs.values())), launch=launch)


def spreads(gpu: Gpu) -> dict[str, float]:
    """Parameter -> relative deviation on a GPU."""
    kinds = {
        "l2": gpu.sources["l2_bytes_per_cycle"].kind,
        "dram": "read",
        "tensor": gpu.sources["tensor_reach"].kind,
        "latency": gpu.sources["latency.l2"].kind,
    }
    # A latency is that of an idle chip; waits grow with the load.
    return {name: max(SPREADS[kind], SPREADS["assumed"] * (name == "latency")) for name, kind in kinds.items()}


def corners(gpu: Gpu) -> Iterator[dict[str, float]]:
    """All combinations of the extremes of the parameters, and the table's values."""
    yield dict.fromkeys(PARAMETERS, 1.0)
    deviations = spreads(gpu)
    for signs in product((-1, 1), repeat=len(PARAMETERS)):
        factors = {name: 1.0 + sign * deviations[name] for name, sign in zip(PARAMETERS, signs)}
        # No chip exceeds the peak of its tensor cores.
        factors["tensor"] = min(factors["tensor"], 1.0 / gpu.tensor_reach)
        yield factors


def interval(needs: Needs, gpu: Gpu) -> tuple[float, float]:
    """Microseconds (at least, at most)."""
    times = [needs.under(factors) for factors in corners(gpu)]
    return min(times) / (1 + RESIDUAL), max(times) * (1 + RESIDUAL)


def ratios(one: Needs, other: Needs, gpu: Gpu) -> tuple[float, float]:
    """(least, largest) time of one launch over that of another, both under the same parameters."""
    found = [one.under(factors) / other.under(factors) for factors in corners(gpu)]
    return min(found), max(found)


def faster(one: Needs, other: Needs, gpu: Gpu) -> bool:
    """Whether one launch takes less time than another for all values of the parameters."""
    return ratios(one, other, gpu)[1] < 1.0
