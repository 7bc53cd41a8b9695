"""Updates of one address of global memory by many CTAs: L2 executes them one after the other.

The recorded CTAs represent all of the grid. An address that the first cluster updates is also updated by all clusters
along each axis whose last cluster does so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tileiras.sim.estimate.events import Access, ClusterTrace


def updates_of(cluster: ClusterTrace) -> dict[int, int]:
    """Address -> number of its updates by threads of a cluster."""
    updates: dict[int, int] = {}
    for trace in cluster.warps:
        for events in trace.events.values():
            for event in events:
                what = event.what
                if isinstance(what, Access) and what.atomic and what.space == "global":
                    for address, times in zip(*np.unique(what.addresses, return_counts=True)):
                        updates[int(address)] = updates.get(int(address), 0) + int(times)
    return updates


def turns(places: Mapping[int, ClusterTrace], shape: Sequence[int]) -> int:
    """Updates by the whole grid of the address that is updated most often; 0 without updates."""
    first = updates_of(places[0])
    if not first:
        return 0
    ends = [
        (extent, updates_of(places[(extent - 1) * prod(shape[:axis])]))
        for axis, extent in enumerate(shape)
        if extent > 1
    ]
    return max(times * prod(extent for extent, last in ends if address in last) for address, times in first.items())
