"""What keeps a grid from being faster than some of its clusters were: what all SMs share, and power."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.named_tuple import NamedTuple
from tileiras.sim.estimate.units import TITLES
from tileiras.targets.rates import Gpu

_SHARED = ("l2", "dram")
"""Units of an SM that are its share of what the chip has."""


class Limit(NamedTuple):
    """The least cycles that a grid takes, by what (`TITLES`, or power), and a note for who reads the estimate."""

    cycles: float
    by: str
    note: str


def limits(busy: Mapping[str, float], servers: Mapping[str, int], gpu: Gpu, active: int) -> list[Limit]:
    """Those of a grid on ``active`` SMs, the largest last.

    ``busy``: cycles that all clusters of the grid keep each unit busy, on all SMs together, of which one has so many
    ``servers``.  Clusters whose stores are still on their way when they end leave work to L2 and DRAM, which the few
    clusters of a simulation need not wait for, and the grid has to.
    """
    found = []
    for unit in _SHARED:
        if busy.get(unit):
            title = TITLES[unit]
            found.append(Limit(busy[unit] / servers[unit] / active, title, f"{title} moves what the grid asks for"))
    tensor = max((cycles / servers[unit] for unit, cycles in busy.items() if TITLES[unit] == "tensor"), default=0.0)
    reach = gpu.tensor_reach
    note = f"tensor cores keep up {reach:.0%} of their peak on the whole chip"
    found.append(Limit(tensor / (gpu.sms * reach), "power", note))
    return sorted(found, key=lambda limit: (limit.cycles, limit.by))
