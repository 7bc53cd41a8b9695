"""Global memory: what the whole grid moves through L2, and which part of it DRAM has to give.

A few clusters stand for all: what they move on average, times the clusters of the grid, goes through L2.  Each byte of
an allocation comes from DRAM once, as far as the grid touches it at all; what L2 cannot hold of it until the next wave
of CTAs asks again is not looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from tileiras.named_tuple import NamedTuple
from tileiras.sim.emulator.recording import Copy
from tileiras.sim.estimate.events import SECTOR, Access, ClusterTrace, Recording, sectors_of


class Traffic(NamedTuple):
    """Bytes of the whole grid for one allocation."""

    name: str
    address: int
    size: int
    requested: float
    """Through L2, without what L1 holds."""
    footprint: float
    """Of different bytes."""

    @property
    def miss(self) -> float:
        return min(1.0, self.footprint / self.requested) if self.requested else 0.0


def traffic(recording: Recording, clusters: int) -> list[Traffic]:
    """What a grid of `clusters` clusters moves, by allocation, from those that were recorded."""
    bases = [each.address for each in recording.allocations]
    requested = [0.0] * len(bases)
    unique = [0.0] * len(bases)
    for cluster in recording.clusters:
        for number, parts in _sectors(cluster, bases).items():
            total = np.concatenate(parts)
            requested[number] += total.size * SECTOR
            unique[number] += np.unique(total).size * SECTOR
    scale = clusters / max(1, len(recording.clusters))
    return [
        Traffic(each.name, each.address, each.size, requested[number] * scale,
                min(float(each.size), unique[number] * scale))
        for number, each in enumerate(recording.allocations) if requested[number]
    ]  # fmt: skip


def _sectors(cluster: ClusterTrace, bases: Sequence[int]) -> dict[int, list[np.ndarray]]:
    found: dict[int, list[np.ndarray]] = {}
    for trace in cluster.warps:
        for events in trace.events.values():
            for event in events:
                what = event.what
                if isinstance(what, Access):
                    if what.space != "global":
                        continue
                    sectors = what.sectors
                elif isinstance(what, Copy) and what.addresses is not None and what.addresses.size:
                    sectors = sectors_of(what.addresses.view(np.int64), what.element)
                else:
                    continue
                number = bisect_right(bases, int(sectors[0]) * SECTOR + SECTOR - 1) - 1
                if number >= 0:
                    found.setdefault(number, []).append(sectors)
    return found


def miss_shares(moved: Sequence[Traffic]) -> Callable[[int], float]:
    """Address -> share of what is moved there that is DRAM's."""
    ordered = sorted(moved, key=lambda each: each.address)
    bases = [each.address for each in ordered]

    def share(address: int) -> float:
        at = bisect_right(bases, address + SECTOR - 1) - 1
        return ordered[at].miss if at >= 0 else 1.0

    return share
