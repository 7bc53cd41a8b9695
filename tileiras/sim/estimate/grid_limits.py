"""Lower bounds of a grid's time that a few clusters do not reach: resources shared by all SMs, and power."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.sim.estimate.events import Recording
from tileiras.sim.estimate.units import TITLES
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.rates import Gpu

_SHARED = ("l2", "dram")
"""Units of an SM that represent its share of a resource of the chip."""


class Limit(NamedTuple):
    """Lower bound of the cycles of a grid, the limiting unit (`TITLES`, or power), and a note for the estimate."""

    cycles: float
    by: str
    note: str


def limit(
    busy: Mapping[str, float], servers: Mapping[str, int], flops: Mapping[str, float], gpu: Gpu, active: int,
    recording: Recording, turns: int = 0,
) -> Limit:  # fmt: skip
    """Return the largest bound of a grid on ``active`` SMs.

    ``busy``: cycles for which all clusters of the grid occupy each unit, on all SMs together; ``servers``: instances of
    a unit per SM; ``flops``: FLOP of all dots by the key of their type in `gpu.tensor`; ``turns``: atomic operations on
    one address. Stores that are still in flight when clusters end leave work for L2 and DRAM, for which a simulation of
    a few clusters need not wait but the grid has to.
    """
    note = f"tensor cores keep up {gpu.tensor_reach:.0%} of their peak on the whole chip"
    result = [Limit(power_cycles(flops, gpu, recording), "power", note)]
    note = f"{turns} atomic operations on one address take turns"
    result.append(Limit(turns * gpu.latency["update"], "atomic operations", note))
    for unit in _SHARED:
        if busy.get(unit):
            title = TITLES[unit]
            result.append(Limit(busy[unit] / servers[unit] / active, title, f"{title} moves the traffic of the grid"))
    return max(result, key=lambda limit: (limit.cycles, limit.by))


def sharing(clusters: int, most: int, members: int, active: int) -> int:
    """The SMs, of ``active`` ones, that would share L2 and DRAM if clusters of ``members`` ran on as few as hold them,
    ``most`` on each: those that hold fewer request less, and leave more of both to the others."""
    return min(active, -(-clusters // most) * members)


def power_cycles(flops: Mapping[str, float], gpu: Gpu, recording: Recording) -> float:
    """Cycles for which all SMs execute dots at the rate that power allows; 0 without such a limit.

    Power is that of operations: cycles in which tensor cores wait for operands or for copies of scales need less. The
    measurements of `tensor_reach` are of asynchronous dots. Dots in registers have a rate of their own, a part of the
    peak, at which no power limit was observed: 383 TFLOP/s by `mma.sync` on a B200, from the source of its
    `tensor_reach`, exceed that share of this rate.
    """
    if not flops or not recording.asynchronous:
        return 0.0
    cycles = sum(work / (gpu.tensor.get(key) or gpu.mma_sync[key]) for key, work in flops.items())
    return cycles / (gpu.sms * gpu.tensor_reach)
