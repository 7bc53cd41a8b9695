"""Locks between CTAs: parts of a kernel that only one of several CTAs is in at a time.

The recorded CTAs run one after the other and find every lock free.  What tells a lock is that a cluster updates one
address of global memory twice, by one thread each time: when it takes the lock and when it gives it back.  Who else
takes it, the axes of the grid along which that address stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tileiras.named_tuple import NamedTuple
from tileiras.sim.estimate.events import Access, ClusterTrace
from tileiras.sim.estimate.in_flight import Outcome


class Section(NamedTuple):
    """What only one CTA at a time does."""

    address: int
    cycles: float
    """From when the lock is taken until it is given back."""


def locks_of(cluster: ClusterTrace) -> tuple[int, ...]:
    """Addresses of the locks that warps of the cluster take, in order."""
    taken: dict[int, int] = {}
    for trace in cluster.warps:
        for at in sorted(trace.events):
            for event in trace.events[at]:
                what = event.what
                if isinstance(what, Access) and what.atomic and what.space == "global" and what.addresses.size == 1:
                    address = int(what.addresses[0])
                    taken[address] = taken.get(address, 0) + 1
    return tuple(sorted(address for address, times in taken.items() if times > 1))


def contenders(places: Mapping[int, ClusterTrace], shape: Sequence[int]) -> int:
    """How many clusters of the grid take the first one's locks: along the axes at whose end they are the same, all;
    1 where the first takes none."""
    first = locks_of(places[0])
    if not first:
        return 1
    sharing = (
        extent for axis, extent in enumerate(shape)
        if extent > 1 and locks_of(places[(extent - 1) * prod(shape[:axis])]) == first
    )  # fmt: skip
    return prod(sharing)


def sections(outcome: Outcome) -> list[Section]:
    """The locked parts of what was simulated, each from a cluster's first update of an address to its last."""
    spans: dict[tuple[int, int], list[float]] = {}
    for update in outcome.updates:
        spans.setdefault((update.cluster, update.address), []).append(update.at)
    return [Section(address, max(times) - min(times)) for (_, address), times in spans.items() if len(times) > 1]
