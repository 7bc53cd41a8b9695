"""Global memory traffic of the whole grid through L2, and the part of it that reaches DRAM.

A few clusters represent the grid: their mean traffic times the number of clusters goes through L2. Each byte of an
allocation that the grid touches comes from DRAM once, and again if it is reused along an axis of the grid after more
traffic than L2 holds (`_again`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import exp, prod

import numpy as np

from tileiras.sim.emulator.launch.recording import Copy
from tileiras.sim.estimate import sampling
from tileiras.sim.estimate.events import SECTOR, Access, ClusterTrace, Recording, sectors_of_each
from tileiras.sim.estimate.sampling import Sampled
from tileiras.support.named_tuple import NamedTuple

_SHARED = 0.5
"""Share of a cluster's footprint in an allocation that another cluster has to touch for the two to count as sharing
it."""


class Traffic(NamedTuple):
    """Bytes of the whole grid for one allocation."""

    name: str
    address: int
    size: int
    requested: float
    """Of all clusters, each byte once per cluster; a repeated request of a cluster that L1 or L2 serves costs DRAM
    nothing."""
    footprint: float
    """Distinct bytes."""
    again: float = 0.0
    """Bytes that L2 has evicted before another cluster requests them."""
    store_bytes: float = 0.0
    """Of ``requested``, by stores."""

    @property
    def miss(self) -> float:
        return min(1.0, (self.footprint + self.again) / self.requested) if self.requested else 0.0


class Cache(NamedTuple):
    """State of L2 at the start of a launch."""

    bytes: float
    resident: int
    """Clusters that run at the same time."""
    dirty: bool = False
    """Whether L2 is full of dirty lines of earlier launches."""


class Moved(NamedTuple):
    """Traffic of the grid, and the part of it for which each recorded access is the first of its cluster."""

    allocations: tuple[Traffic, ...]
    fresh: dict[int, float]
    """id of an `Access` or `Copy` of global memory -> its bytes that DRAM transfers."""
    misses: dict[int, float]
    """id of an `Access` or `Copy` -> L2 miss rate of the cluster's first touch."""
    displacing: float = 1.0
    """DRAM bytes per missed byte, with write-backs of the lines that it evicts from L2."""

    def dram_bytes(self, access: Access | Copy) -> float:
        """DRAM bytes of an access of the recording; the rest hits L2."""
        return self.fresh.get(id(access), 0.0)

    def miss(self, access: Access) -> float:
        """Share of a sector that DRAM serves on the cluster's first touch. If loads overlap, the order of the warps
        decides which of them touches it first."""
        return self.misses.get(id(access), 0.0)


def traffic(
    recording: Recording, clusters: int, sample: Sampled | None = None, places: Sequence[int] = (),
    cache: Cache | None = None,
) -> Moved:  # fmt: skip
    """Traffic of a grid of `clusters` clusters by allocation, extrapolated from the recorded ones.

    ``sample`` weights each recorded cluster, whose numbers are ``places``; without it all have equal weight. Without
    ``cache`` L2 keeps everything.
    """
    recorded = len(recording.clusters)
    places = places or range(recorded)
    shares = sample.weights() if sample is not None else dict.fromkeys(places, 1.0 / max(1, recorded))
    bases = [each.address for each in recording.allocations]
    unique, store_bytes = [0.0] * len(bases), [0.0] * len(bases)
    owners: dict[int, int] = {}  # id of an access -> its allocation
    first: list[tuple[int, int, int]] = []  # (id of the access, allocation, bytes of its first touches)
    touched: dict[int, dict[int, np.ndarray]] = {}  # by cluster and allocation, in order
    for cluster, place in zip(recording.clusters, places, strict=True):
        for number, (parts, result) in _sectors(cluster, bases).items():
            every = np.concatenate(parts)
            owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
            sectors, begins = np.unique(every, return_index=True)
            touched.setdefault(place, {})[number] = sectors
            new = np.bincount(owner[begins], minlength=len(parts)) * SECTOR
            stores = np.array([writes for _, writes in result])
            unique[number] += shares[place] * float(new.sum())
            store_bytes[number] += shares[place] * float(new[stores].sum())
            owners.update((access, number) for access, _ in result)
            first += [(access, number, count) for (access, _), count in zip(result, new.tolist()) if count]
    allocations = [
        Traffic(each.name, each.address, each.size, own * clusters, min(float(each.size), own * clusters),
                store_bytes=own_stores * clusters)
        for each, own, own_stores in zip(recording.allocations, unique, store_bytes)
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

    Clusters start in order of their number, x first. Clusters along an axis share a part of an allocation if the first
    and the last of them do. It is reused after all clusters of the faster axes have run and touched V bytes. If a miss
    evicts a random line of the C bytes of L2, a line survives with the probability h of not being evicted by the (1 -
    h) V bytes that missed since then: exp(-(1 - h) V / C). Clusters that run concurrently hit.

    ``own``: bytes of each allocation that a cluster touches.
    """
    axes = [axis for axis, extent in enumerate(sample.shape) if extent > 1]
    sharing = {axis: _sharing(touched, sample, axis) for axis in axes}
    result = [1.0] * len(allocations)
    for axis in axes:
        before = prod(sample.shape[:axis])
        if before < cache.resident:
            continue
        between = 0.0
        for number, each in enumerate(allocations):
            spread = prod(sample.shape[lower] for lower in axes if lower < axis and number not in sharing[lower])
            between += min(float(each.size), own[number] * spread)
        miss_rate = 1.0 - _hit_rate(between / cache.bytes)
        for number in sharing[axis]:
            result[number] *= 1.0 + (sample.shape[axis] - 1) * miss_rate
    return [each.footprint * (times - 1.0) for each, times in zip(allocations, result)]


def _sharing(touched: Mapping[int, Mapping[int, np.ndarray]], sample: Sampled, axis: int) -> set[int]:
    """Allocations that clusters along an axis share."""
    first = touched.get(0, {})
    last = touched.get(sampling.number(sample.shape, axis, sample.shape[axis] - 1), {})
    sharing = set()
    for number in first.keys() & last.keys():
        one, other = first[number], last[number]
        common = np.intersect1d(one, other, assume_unique=True).size
        if common > _SHARED * min(one.size, other.size):
            sharing.add(number)
    return sharing


def _hit_rate(volume: float) -> float:
    """Probability that a line is still cached after requests of `volume` times the cache size."""
    if volume <= 1.0:
        return 1.0
    result = 0.0
    for _ in range(200):
        result = exp(-(1.0 - result) * volume)
    return result


def _displaced(allocations: Sequence[Traffic], cache: Cache) -> float:
    """DRAM traffic with an initially dirty L2, relative to a clean one.

    Each missed byte, read or written, evicts one: first a dirty one of earlier launches, which is written back; later
    one of this launch, which is written back if the launch has stored it.
    """
    write_backs = sum(each.miss * each.store_bytes for each in allocations)
    volume = sum(each.miss * each.requested for each in allocations)
    if not volume:
        return 1.0
    displaced = min(volume, cache.bytes) + max(0.0, volume - cache.bytes) * write_backs / volume
    return (volume - write_backs + displaced) / volume


def _sectors(
    cluster: ClusterTrace, bases: Sequence[int]
) -> dict[int, tuple[list[np.ndarray], list[tuple[int, bool]]]]:  # fmt: skip
    """Sectors of each access by allocation, and (id, is a store) of the accesses; those of one warp are in order,
    warps by number."""
    accesses: list[Access | Copy] = []
    alike: dict[tuple[int, int], list[tuple[int, np.ndarray]]] = {}  # by number and size of the elements
    for event in (event for trace in cluster.warps for events in trace.events.values() for event in events):
        access = event.operation
        if isinstance(access, Access) and access.space == "global":
            addresses, size = access.addresses, access.size
        elif isinstance(access, Copy) and access.addresses is not None and access.addresses.size:
            addresses, size = access.addresses.view(np.int64), access.element
        else:
            continue
        alike.setdefault((addresses.size, size), []).append((len(accesses), addresses))
        accesses.append(access)
    sectors: dict[int, np.ndarray] = {}
    for (_, size), rows in alike.items():
        sectors.update(zip((at for at, _ in rows), sectors_of_each([addresses for _, addresses in rows], size)))
    entry: dict[int, tuple[list[np.ndarray], list[tuple[int, bool]]]] = {}
    for at, access in enumerate(accesses):
        own = sectors[at]
        if isinstance(access, Access):
            access.sectors, stores = own, access.write
        else:
            stores = access.direction == "store"
        number = bisect_right(bases, int(own[0]) * SECTOR + SECTOR - 1) - 1
        if number >= 0:
            parts, result = entry.setdefault(number, ([], []))
            parts.append(own)
            result.append((id(access), stores))
    return entry
