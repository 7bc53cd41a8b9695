"""What keeps a grid from being faster than some of its clusters were: what all SMs share, and power."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.named_tuple import NamedTuple
from tileiras.sim.emulator.recording import Multiply
from tileiras.sim.estimate.events import Recording
from tileiras.sim.estimate.units import TITLES
from tileiras.targets.rates import Gpu

_SHARED = ("l2", "dram")
"""Units of an SM that are its share of what the chip has."""


class Limit(NamedTuple):
    """The least cycles that a grid takes, by what (`TITLES`, or power), and a note for who reads the estimate."""

    cycles: float
    by: str
    note: str


def limit(busy: Mapping[str, float], servers: Mapping[str, int], gpu: Gpu, active: int, recording: Recording) -> Limit:
    """The largest of a grid on ``active`` SMs.

    ``busy``: cycles that all clusters of the grid keep each unit busy, on all SMs together, of which one has so many
    ``servers``.  Clusters whose stores are still on their way when they end leave work to L2 and DRAM, which the few
    clusters of a simulation need not wait for, and the grid has to.
    """
    reach = gpu.tensor_reach
    tensor = max((cycles / servers[unit] for unit, cycles in busy.items() if TITLES[unit] == "tensor"), default=0.0)
    power = tensor / (gpu.sms * reach) if _at_full_rate(recording) else 0.0
    found = [Limit(power, "power", f"tensor cores keep up {reach:.0%} of their peak on the whole chip")]
    for unit in _SHARED:
        if busy.get(unit):
            title = TITLES[unit]
            found.append(Limit(busy[unit] / servers[unit] / active, title, f"{title} moves what the grid asks for"))
    return max(found, key=lambda limit: (limit.cycles, limit.by))


def _at_full_rate(recording: Recording) -> bool:
    """Whether products go to the tensor cores asynchronously, as those that `tensor_reach` was found of.

    What warps multiply in registers has a rate of its own, a part of the peak, at which no limit by power was seen: 383
    TFLOP/s by `mma.sync` on a B200, of the source of its `tensor_reach`, are above that share of this rate.
    """
    traces = (warp for cluster in recording.clusters for warp in cluster.warps)
    return any(isinstance(event.what, Multiply) for trace in traces for told in trace.events.values() for event in told)
