"""Updates of one address of global memory by many CTAs: L2 executes them one after the other.

The recorded CTAs represent all of the grid. An address that the first cluster updates is also updated by all clusters
along each axis whose last cluster does so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tileiras.codegen.machine_code import Instruction
from tileiras.sim.estimate.events import Access, ClusterTrace, Recording

_UPDATES = frozenset({"ATOM", "ATOMG", "RED", "REDG"})
_SUMS = frozenset({"CREDUX", "POPC", "REDUX", "UPOPC"})


def mark_sums(recording: Recording, code: Mapping[int, Sequence[Instruction]]) -> None:
    """Mark updates that ptxas merges for all lanes: it sums up integers for one address (`REDUX`, or `POPC` of the
    lanes for a constant).  ``code``: instructions by PTX line."""
    opcodes = {line: {each.opcode for each in some} for line, some in code.items()}
    lines = {line for line, some in opcodes.items() if some & _UPDATES and some & _SUMS}
    if not lines:
        return
    for cluster in recording.clusters:
        for trace in cluster.warps:
            for events in trace.events.values():
                for event in events:
                    if event.line in lines and isinstance(event.operation, Access) and event.operation.atomic:
                        event.operation.summed = True


def updates_of(cluster: ClusterTrace) -> dict[int, int]:
    """Address -> number of its updates by a cluster, one for each thread or for the sum of a warp."""
    updates: dict[int, int] = {}
    for trace in cluster.warps:
        for access in trace.updates:
            if access.space == "global":
                for address, times in zip(*np.unique(access.addresses, return_counts=True)):
                    updates[int(address)] = updates.get(int(address), 0) + min(int(times), access.turns)
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
