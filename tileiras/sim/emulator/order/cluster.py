"""The barrier of a cluster of thread blocks (PTX ISA, "barrier.cluster").

Arriving and waiting are two instructions; a thread waits for the phase that it arrived in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..launch.recording import ClusterBarrier, each_warp
from ..launch.warps import CLUSTER_BARRIER
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from . import waits

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup


class ClusterBarriers:
    """Arrays over the clusters of a batch: threads that have arrived in the running phase, and its number."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        shape = batch.launch.cluster
        self.members = shape[0] * shape[1] * shape[2]
        self.arrived = np.zeros(batch.count // self.members, np.int64)
        self.phase = np.zeros_like(self.arrived)
        self.used = False

    def arrive(self, group: WarpGroup, relaxed: bool) -> None:
        self.used = True
        if self.batch.launch.races is not None:
            self.batch.launch.races.clocks.arrive_cluster(group, relaxed)
        active = group.active()
        clusters = group.cta[active] // self.members
        if group.cluster_phase is None:
            group.cluster_phase = np.full(group.n, -1, np.int64)
            group.cluster_waited = np.full(group.n, -1, np.int64)
        group.cluster_phase[active] = self.phase[clusters]
        self.arrived += np.bincount(clusters, minlength=self.arrived.size)
        self.complete()

    def complete(self) -> None:
        """Start the next phase where all live threads have arrived."""
        if not self.used:
            return
        live = self.batch.live_threads.reshape(-1, self.members).sum(1)
        full = (self.arrived > 0) & (self.arrived >= live)
        self.phase[full] += 1
        self.arrived[full] = 0
        if full.any() and self.batch.launch.races is not None:
            self.batch.launch.races.clocks.complete_cluster(full)
        if full.any():
            self.release()

    def next_arrival(self, group: WarpGroup, thread: int) -> int:
        """The phase that a thread's next arrival belongs to."""
        phase = int(self.phase[int(group.cta[thread]) // self.members])
        arrived = group.cluster_phase is not None and int(group.cluster_phase[thread]) == phase
        return phase + arrived

    def missing(self, cta: int) -> list[str]:
        """Missing arrivals of the barrier of a block's cluster, for the report of a deadlock."""
        batch, cluster = self.batch, cta // self.members
        absent: dict[tuple[int, str], list[int]] = {}
        for group in batch.groups:
            late = group.cluster_phase is None or group.cluster_phase < self.phase[cluster]
            lanes = (group.cta // self.members == cluster) & late
            for thread in np.flatnonzero(lanes)[::32].tolist():
                member, warp = int(group.cta[thread]), int(group.thread[thread]) // 32
                absent.setdefault((member, waits.state_of(batch, member, warp)), []).append(warp)
        required = int(batch.live_threads.reshape(-1, self.members)[cluster].sum())
        return [
            f"{int(self.arrived[cluster])} of {required} threads of the cluster have arrived",
            *(
                f"block {waits.block_id(batch, member)} {waits.names(warps)} {state}"
                for (member, state), warps in sorted(absent.items())
                if state != waits.ENDED
            ),
        ]

    def release(self) -> None:
        """Resume threads whose phase is complete."""
        for group in self.batch.groups:
            if group.barrier is None or group.cluster_phase is None:
                continue
            over = group.cluster_phase < self.phase[group.cta // self.members]
            lanes = (group.barrier == CLUSTER_BARRIER) & over
            if lanes.any():
                group.cluster_waited[lanes] = group.cluster_phase[lanes]
                if self.batch.launch.races is not None:
                    self.batch.launch.races.clocks.leave_cluster(group, lanes)
                group.unpark(lanes)


def _decode_unit(decoder: Decoder, modifiers: Modifiers) -> bool:
    """The parts that arriving and waiting share; whether the order is relaxed."""
    relaxed = modifiers.take("release", "relaxed", "acquire") == "relaxed"
    aligned = modifiers.take("aligned")
    decoder.operands(0)
    if aligned:
        decoder.begin_collective(None)
    return relaxed


@instruction("barrier.cluster.arrive")
def decode_arrive(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    relaxed = _decode_unit(decoder, modifiers)

    def step(group: WarpGroup) -> None:
        if group.launch.recorder is not None:
            each_warp(group, item, ClusterBarrier(False))
        group.batch.cluster_barriers.arrive(group, relaxed)

    decoder.emit(step)


@instruction("barrier.cluster.wait")
def decode_wait(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    _decode_unit(decoder, modifiers)

    def terminate(group: WarpGroup) -> None:
        if group.cluster_phase is None or (group.cluster_phase[group.active()] < 0).any():
            group.fault("barrier.cluster.wait before any arrive", item)
        if group.launch.recorder is not None:
            each_warp(group, item, ClusterBarrier(True))
        group.park(following.index, np.array([CLUSTER_BARRIER]))
        group.batch.cluster_barriers.release()

    following = decoder.end_block(terminate)
