"""Global memory: what the whole grid moves through L2, and which part of it DRAM has to give.

A few clusters stand for all: what they move on average, times the clusters of the grid, goes through L2.  Each byte of
an allocation comes from DRAM once, as far as the grid touches it at all; what L2 cannot hold of it until the next wave
of CTAs asks again is not looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

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
    """By all clusters, each byte once a cluster: what L1 or L2 still hold of it when the cluster asks again is not
    DRAM's."""
    footprint: float
    """Of different bytes."""

    @property
    def miss(self) -> float:
        return min(1.0, self.footprint / self.requested) if self.requested else 0.0


class Moved(NamedTuple):
    """What the grid moves, and what of it each recorded access is the first in its cluster to touch."""

    allocations: tuple[Traffic, ...]
    fresh: dict[int, float]
    """id of an `Access` or `Copy` of global memory -> DRAM's bytes of it."""

    def dram_bytes(self, what: Access | Copy) -> float:
        """What DRAM gives or takes for an access of the recording.  The rest is in L2."""
        return self.fresh.get(id(what), 0.0)


def traffic(recording: Recording, clusters: int, weights: Sequence[float] = ()) -> Moved:
    """What a grid of `clusters` clusters moves, by allocation, from those that were recorded.

    ``weights``: which part of the grid each of these stands for, 1 together; the same for all without.
    """
    recorded = len(recording.clusters)
    shares = weights or [1.0 / max(1, recorded)] * recorded
    bases = [each.address for each in recording.allocations]
    unique = [0.0] * len(bases)
    first: list[tuple[int, int, int]] = []  # (id of the access, allocation, bytes that it is the first to touch)
    for cluster, share in zip(recording.clusters, shares, strict=True):
        for number, (parts, asked) in _sectors(cluster, bases).items():
            every = np.concatenate(parts)
            owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
            new = np.bincount(owner[np.unique(every, return_index=True)[1]], minlength=len(parts)) * SECTOR
            unique[number] += share * float(new.sum())
            first += [(access, number, count) for access, count in zip(asked, new.tolist()) if count]
    allocations = [
        Traffic(each.name, each.address, each.size, total * clusters, min(float(each.size), total * clusters))
        for each, total in zip(recording.allocations, unique)
    ]
    fresh = {access: count * allocations[number].miss for access, number, count in first}
    return Moved(tuple(each for each in allocations if each.requested), fresh)


def _sectors(cluster: ClusterTrace, bases: Sequence[int]) -> dict[int, tuple[list[np.ndarray], list[int]]]:
    """By allocation the sectors of each access to it, and the ids of the accesses; those of one warp come in order, and
    warps by number."""
    found: dict[int, tuple[list[np.ndarray], list[int]]] = {}
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
                    parts, asked = found.setdefault(number, ([], []))
                    parts.append(sectors)
                    asked.append(id(what))
    return found
