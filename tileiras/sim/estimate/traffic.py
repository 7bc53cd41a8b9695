"""Global memory: what the whole grid moves through L2, and which part of it DRAM has to give.

A few clusters stand for all: what they move on average, times the clusters of the grid, goes through L2.  Each byte of
an allocation comes from DRAM once, as far as the grid touches it at all, and again where it is used again along an axis
of the grid after more than L2 holds (`_again`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import exp, prod

import numpy as np

from tileiras.named_tuple import NamedTuple
from tileiras.sim.emulator.recording import Copy
from tileiras.sim.estimate import sampling
from tileiras.sim.estimate.events import SECTOR, Access, ClusterTrace, Recording, sectors_of
from tileiras.sim.estimate.sampling import Sampled

_SHARED = 0.5
"""Of what a cluster touches of an allocation: what another has to touch as well for both to use the same part."""


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
    again: float = 0.0
    """That L2 has lost before another cluster asks for them."""
    written: float = 0.0
    """Of ``requested``, by stores."""

    @property
    def miss(self) -> float:
        return min(1.0, (self.footprint + self.again) / self.requested) if self.requested else 0.0


class Cache(NamedTuple):
    """L2 as a launch finds it."""

    bytes: float
    resident: int
    """Clusters that run at the same time."""
    dirty: bool = False
    """Whether it is full of what others have written and memory does not have."""


class Moved(NamedTuple):
    """What the grid moves, and what of it each recorded access is the first in its cluster to touch."""

    allocations: tuple[Traffic, ...]
    fresh: dict[int, float]
    """id of an `Access` or `Copy` of global memory -> DRAM's bytes of it."""
    misses: dict[int, float]
    """id of the same -> the share of what it is the first in its cluster to touch that L2 does not have."""
    displacing: float = 1.0
    """Bytes that DRAM moves for each of these, with those that they displace from L2."""

    def dram_bytes(self, what: Access | Copy) -> float:
        """What DRAM gives or takes for an access of the recording.  The rest is in L2."""
        return self.fresh.get(id(what), 0.0)

    def miss(self, what: Access) -> float:
        """The share of a sector that DRAM gives to whoever is the first in its cluster to ask for it.  Which load that
        is depends on the order in which warps come, where their loads overlap."""
        return self.misses.get(id(what), 0.0)


def traffic(
    recording: Recording, clusters: int, sample: Sampled | None = None, places: Sequence[int] = (),
    cache: Cache | None = None,
) -> Moved:  # fmt: skip
    """What a grid of `clusters` clusters moves, by allocation, from those that were recorded.

    ``sample`` says which part of the grid each of these stands for, whose numbers are ``places``; without it all stand
    for the same, and without ``cache`` L2 keeps everything.
    """
    recorded = len(recording.clusters)
    places = places or range(recorded)
    shares = sample.weights() if sample is not None else dict.fromkeys(places, 1.0 / max(1, recorded))
    bases = [each.address for each in recording.allocations]
    unique, written = [0.0] * len(bases), [0.0] * len(bases)
    owners: dict[int, int] = {}  # id of an access -> its allocation
    first: list[tuple[int, int, int]] = []  # (id of the access, allocation, bytes that it is the first to touch)
    touched: dict[int, dict[int, np.ndarray]] = {}  # by cluster and allocation, in order
    for cluster, place in zip(recording.clusters, places, strict=True):
        for number, (parts, asked) in _sectors(cluster, bases).items():
            every = np.concatenate(parts)
            owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
            sectors, begins = np.unique(every, return_index=True)
            touched.setdefault(place, {})[number] = sectors
            new = np.bincount(owner[begins], minlength=len(parts)) * SECTOR
            stores = np.array([writes for _, writes in asked])
            unique[number] += shares[place] * float(new.sum())
            written[number] += shares[place] * float(new[stores].sum())
            owners.update((access, number) for access, _ in asked)
            first += [(access, number, count) for (access, _), count in zip(asked, new.tolist()) if count]
    allocations = [
        Traffic(each.name, each.address, each.size, own * clusters, min(float(each.size), own * clusters),
                written=stored * clusters)
        for each, own, stored in zip(recording.allocations, unique, written)
    ]  # fmt: skip
    displacing = 1.0
    if cache is not None and sample is not None:
        again = _again(allocations, unique, touched, sample, cache)
        allocations = [each._replace(again=bytes_) for each, bytes_ in zip(allocations, again)]
    if cache is not None and cache.dirty:
        displacing = _displaced(allocations, cache)
    fresh = {access: count * allocations[number].miss for access, number, count in first}
    misses = {access: allocations[number].miss for access, number in owners.items()}
    return Moved(tuple(each for each in allocations if each.requested), fresh, misses, displacing)


def _again(
    allocations: Sequence[Traffic], own: Sequence[float], touched: Mapping[int, Mapping[int, np.ndarray]],
    sample: Sampled, cache: Cache,
) -> list[float]:  # fmt: skip
    """Bytes of each allocation that come from DRAM more than once.

    Clusters begin in their order, x first.  Those along an axis use the same part of an allocation where the first and
    the last of them do, after all clusters of the axes before it have had their turn, and these have brought what they
    touch, V bytes.  Where a miss replaces any line of the C bytes of L2, one is still there with the probability h of
    not having been chosen by the (1 - h) V bytes that missed since then, which is exp(-(1 - h) V / C).  Clusters that
    run at the same time find it there.

    ``own``: bytes that a cluster touches of each.
    """
    axes = [axis for axis, extent in enumerate(sample.shape) if extent > 1]
    sharing = {axis: _sharing(touched, sample, axis) for axis in axes}
    found = [1.0] * len(allocations)
    for axis in axes:
        before = prod(sample.shape[:axis])
        if before < cache.resident:
            continue
        between = 0.0
        for number, each in enumerate(allocations):
            spread = prod(sample.shape[lower] for lower in axes if lower < axis and number not in sharing[lower])
            between += min(float(each.size), own[number] * spread)
        lost = 1.0 - _kept(between / cache.bytes)
        for number in sharing[axis]:
            found[number] *= 1.0 + (sample.shape[axis] - 1) * lost
    return [each.footprint * (times - 1.0) for each, times in zip(allocations, found)]


def _sharing(touched: Mapping[int, Mapping[int, np.ndarray]], sample: Sampled, axis: int) -> set[int]:
    """Allocations of which clusters along an axis use the same part."""
    first = touched.get(0, {})
    last = touched.get(sampling.number(sample.shape, axis, sample.shape[axis] - 1), {})
    found = set()
    for number in first.keys() & last.keys():
        one, other = first[number], last[number]
        common = np.intersect1d(one, other, assume_unique=True).size
        if common > _SHARED * min(one.size, other.size):
            found.add(number)
    return found


def _kept(volume: float) -> float:
    """The probability that a line is still in a cache after `volume` times its size have been asked for."""
    if volume <= 1.0:
        return 1.0
    kept = 0.0
    for _ in range(200):
        kept = exp(-(1.0 - kept) * volume)
    return kept


def _displaced(allocations: Sequence[Traffic], cache: Cache) -> float:
    """What DRAM moves when L2 begins full of what others have written, as a multiple of what it moves otherwise.

    Whatever comes to L2, read or written, displaces as much: first what was there, which has to be written; then what
    the launch has brought, of which its stores have to be.
    """
    stored = sum(each.miss * each.written for each in allocations)
    moved = sum(each.miss * each.requested for each in allocations)
    if not moved:
        return 1.0
    displaced = min(moved, cache.bytes) + max(0.0, moved - cache.bytes) * stored / moved
    return (moved - stored + displaced) / moved


def _sectors(
    cluster: ClusterTrace, bases: Sequence[int]
) -> dict[int, tuple[list[np.ndarray], list[tuple[int, bool]]]]:  # fmt: skip
    """By allocation the sectors of each access to it, and the ids of the accesses with whether they store; those of one
    warp come in order, and warps by number."""
    found: dict[int, tuple[list[np.ndarray], list[tuple[int, bool]]]] = {}
    for trace in cluster.warps:
        for events in trace.events.values():
            for event in events:
                what = event.what
                if isinstance(what, Access):
                    if what.space != "global":
                        continue
                    sectors, stores = what.sectors, what.write
                elif isinstance(what, Copy) and what.addresses is not None and what.addresses.size:
                    sectors, stores = sectors_of(what.addresses.view(np.int64), what.element), what.direction == "store"
                else:
                    continue
                number = bisect_right(bases, int(sectors[0]) * SECTOR + SECTOR - 1) - 1
                if number >= 0:
                    parts, asked = found.setdefault(number, ([], []))
                    parts.append(sectors)
                    asked.append((id(what), stores))
    return found
