"""Locks between CTAs: critical sections of a kernel.

The recorded CTAs run one after the other and find every lock free. A lock is recognized by two updates of one address
of global memory by a cluster, each by one thread: one acquires the lock, the other releases it. The contenders follow
from the axes of the grid along which that address is constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tileiras.sim.estimate.events import ClusterTrace
from tileiras.sim.estimate.in_flight import Outcome
from tileiras.support.named_tuple import NamedTuple


class Section(NamedTuple):
    """A critical section."""

    address: int
    cycles: float
    """From acquisition to release."""


def locks_of(cluster: ClusterTrace) -> tuple[int, ...]:
    """Addresses of the locks that warps of the cluster acquire, in order."""
    counts: dict[int, int] = {}
    for trace in cluster.warps:
        for access in trace.updates:
            if access.space == "global" and access.addresses.size == 1:
                address = int(access.addresses[0])
                counts[address] = counts.get(address, 0) + 1
    return tuple(sorted(address for address, times in counts.items() if times > 1))


def contenders(places: Mapping[int, ClusterTrace], shape: Sequence[int]) -> int:
    """Number of clusters of the grid that take the first one's locks: all along each axis whose last cluster takes
    the same locks; 1 if the first takes no lock."""
    first = locks_of(places[0])
    if not first:
        return 1
    sharing = (
        extent for axis, extent in enumerate(shape)
        if extent > 1 and locks_of(places[(extent - 1) * prod(shape[:axis])]) == first
    )  # fmt: skip
    return prod(sharing)


def sections(outcome: Outcome) -> list[Section]:
    """Critical sections of the simulation, each from a cluster's first update of an address to its last."""
    spans: dict[tuple[int, int], list[float]] = {}
    for update in outcome.updates:
        spans.setdefault((update.cluster, update.address), []).append(update.at)
    return [Section(address, max(times) - min(times)) for (_, address), times in spans.items() if len(times) > 1]
