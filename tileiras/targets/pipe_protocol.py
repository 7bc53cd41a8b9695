"""Synchronization of the stages of a pipe between agents: the arrivals, their instructions, and the fences before them.

A stage has two mbarriers.  The producer waits for `empty`, fills the stage and signals `full`; the consumers wait for
`full`, read the stage and signal `empty`, in all CTAs of a cluster that fill the stage.  A phase of either completes
once all arrivals, and all bytes of transactions, that it waits for have come.

Sources: PTX ISA, "mbarrier", "cp.async.mbarrier.arrive", "Async Copy and mbarrier Transactions" (`bulk_load`), "Async
Proxy" and "fence.proxy" (an access by the asynchronous proxy that follows one by the generic proxy, a read included,
needs the fence between), "wgmma.wait_group" and "cp.async.bulk.wait_group" (when operands have been read), "Canonical
synchronization patterns" of tcgen05 (accumulators: a commit, or loads, or stores, and
`tcgen05.fence::before_thread_sync`, then `tcgen05.fence::after_thread_sync` behind the wait).
"""

from __future__ import annotations

from typing import Literal

from tileiras.support.named_tuple import NamedTuple

from .sm import WARP_SIZE

Signal = Literal["thread", "warp", "converged warp", "agent"]
"""Who arrives once: every thread; the first lane of a warp, behind `bar.warp.sync` or, where an instruction of the
whole warp has done the same, without; the first thread of an agent."""

Fence = Literal["", "before commit", "behind wait", "before release"]
"""Where `fence.proxy.async.shared::cta` stands, which every thread executes that writes the stage, or waits for it."""


class PipeProtocol(NamedTuple):
    """One row: stages filled by `producer`, a copy atom, and read by `consumer`."""

    producer: str
    consumer: str
    full: Signal
    full_signal: str
    empty: Signal
    empty_signal: str
    fence: Fence
    requires: str

    @property
    def counts_bytes(self) -> bool:
        """Whether a phase of `full` waits for the bytes of a stage."""
        return self.full_signal == EXPECT

    @property
    def frees_by_commit(self) -> bool:
        """Whether a stage may be released while the dots that read it are in flight."""
        return self.empty_signal == COMMIT

    @property
    def fills_by_commit(self) -> bool:
        """Whether a stage is full once the dots that write it are complete: it lies in tensor memory."""
        return self.full_signal == COMMIT

    @property
    def is_in_tensor_memory(self) -> bool:
        """Whether stages lie in tensor memory, which has its own fences to order the accesses of agents."""
        return self.fills_by_commit or self.is_stored

    @property
    def is_stored(self) -> bool:
        """Whether threads store to stages in tensor memory, which dots read."""
        return self.producer == OPERAND_STORES

    @property
    def is_filled_by_one_thread(self) -> bool:
        """Whether one thread of the producer waits for stages, fills them, and has their signal sent."""
        return self.full == "agent"

    @property
    def is_drained_by_one_thread(self) -> bool:
        """Whether one thread of the consumer waits for stages, reads them, and has their signal sent."""
        return self.empty == "agent"

    @property
    def is_filled_by_threads(self) -> bool:
        """Whether all threads of the producer fill a stage and arrive: several agents may fill each stage together."""
        return self.full_signal == ARRIVE

    @property
    def is_of_pair(self) -> bool:
        """Whether the dots that read stages, or write them, are those of two CTAs."""
        return PAIR in (self.producer, self.consumer)

    @property
    def is_freed_by_both(self) -> bool:
        """Whether consumers in both CTAs of a pair signal that a stage is empty, to that of even rank."""
        return self.producer == PAIR

    @property
    def is_asynchronous(self) -> bool:
        """Whether a stage may be in flight when its producer goes on."""
        return self.full_signal != ARRIVE

    def full_count(self, warps: int) -> int:
        """Arrivals of a phase of `full`, for a producer of `warps` warps."""
        return _arrivals(self.full, warps)

    def empty_count(self, warps: int) -> int:
        """Arrivals that an agent of `warps` warps adds to a phase of `empty`."""
        return _arrivals(self.empty, warps) * (2 if self.is_freed_by_both else 1)


def _arrivals(signal: Signal, warps: int) -> int:
    return {"thread": WARP_SIZE * warps, "warp": warps, "converged warp": warps, "agent": 1}[signal]


RUNS, BOXES = "cp_async", "bulk_load"
"""Kinds of producers whose tiles come from global memory: all threads copy runs of bytes, or one thread copies boxes of
a tensor map."""

THREADS, WARPGROUPS, TENSOR_MEMORY, PAIR = "ld_shared", "wgmma", "tcgen05", "tcgen05_pair"
"""Consumers: threads that load from a stage, dots of warpgroups or into tensor memory that read it in place, and
dots of a pair of CTAs, which read it in both: one `full` mbarrier, of the CTA of even rank, counts the bytes of
both stages, and a commit arrives at the `empty` mbarriers of both (PTX ISA, ".cta_group" of cp.async.bulk.tensor and
"tcgen05.commit")."""
BY_DOTS = TENSOR_MEMORY, PAIR
"""Kinds of consumers in which one thread issues the dots: the wait for the dots tells all threads that the stages have
been read."""

STORES, BOX_STORES = "st_shared", "bulk_store"
"""Producer and consumer of a pipe of tiles that threads write and one thread copies to global memory, in boxes."""

PRODUCTS, PAIR_PRODUCTS, ACCUMULATOR_LOADS = "tcgen05", PAIR, "tcgen05_ld"
"""Producers and consumer of a pipe whose stages are accumulators in tensor memory: dots, of one CTA or of a pair,
whose commit arrives at the `full` mbarriers of both, and threads that load; those of both CTAs arrive at the `empty`
mbarrier of the CTA of even rank."""

OPERAND_STORES = "tcgen05_st"
"""Producer of a pipe of operands in tensor memory, with the accumulators that dots of them add to: threads store
and rescale them, dots of another agent read and write them."""

_TCGEN05 = "=100f,110f"
"""PTX ISA, "Target ISA Notes" of tcgen05.mma."""

ARRIVE, NOINC, EXPECT = "mbarrier.arrive", "cp.async.mbarrier.arrive.noinc", "mbarrier.arrive.expect_tx"
STORED = "cp.async.bulk.wait_group.read 0, then mbarrier.arrive"
COMMIT = "tcgen05.commit"

# Warpgroups release a stage after `wgmma.wait_group.sync.aligned`, which a warp executes as a whole.  For dots into
# tensor memory a single thread waits for stages and issues the dots: its commit arrives once all are complete
# (PTX ISA, "tcgen05.commit"), without an earlier wait.
PIPE_PROTOCOLS: dict[tuple[str, str], PipeProtocol] = {
    (row.producer, row.consumer): row
    for row in (
        PipeProtocol("st_shared", "ld_shared", "warp", ARRIVE, "warp", ARRIVE, "", "80"),
        PipeProtocol("st_shared", "wgmma", "warp", ARRIVE, "converged warp", ARRIVE, "before commit", "=90a"),
        PipeProtocol("st_shared", "tcgen05", "warp", ARRIVE, "agent", COMMIT, "before commit", _TCGEN05),
        PipeProtocol("st_shared", "bulk_store", "warp", ARRIVE, "agent", STORED, "before commit", "90"),
        # The copies land after the threads that started them have gone on: those that see them land run the fence.
        PipeProtocol("cp_async", "ld_shared", "thread", NOINC, "warp", ARRIVE, "", "80"),
        PipeProtocol("cp_async", "wgmma", "thread", NOINC, "converged warp", ARRIVE, "behind wait", "=90a"),
        PipeProtocol("cp_async", "tcgen05", "thread", NOINC, "agent", COMMIT, "behind wait", _TCGEN05),
        PipeProtocol("cp_async", "bulk_store", "thread", NOINC, "agent", STORED, "behind wait", "90"),
        # The next copy overwrites data that threads have read by the generic proxy.
        PipeProtocol("bulk_load", "ld_shared", "agent", EXPECT, "warp", ARRIVE, "before release", "90"),
        PipeProtocol("bulk_load", "wgmma", "agent", EXPECT, "converged warp", ARRIVE, "", "=90a"),
        PipeProtocol("bulk_load", "tcgen05", "agent", EXPECT, "agent", COMMIT, "", _TCGEN05),
        PipeProtocol("bulk_load", "tcgen05_pair", "agent", EXPECT, "agent", COMMIT, "", _TCGEN05),
        PipeProtocol("bulk_load", "bulk_store", "agent", EXPECT, "agent", STORED, "", "90"),
        # `tcgen05.wait::ld.sync.aligned` stands behind the loads.
        PipeProtocol("tcgen05", "tcgen05_ld", "agent", COMMIT, "converged warp", ARRIVE, "", _TCGEN05),
        PipeProtocol("tcgen05_pair", "tcgen05_ld", "agent", COMMIT, "converged warp", ARRIVE, "", _TCGEN05),
        # `tcgen05.wait::st.sync.aligned` stands behind the stores.
        PipeProtocol("tcgen05_st", "tcgen05", "converged warp", ARRIVE, "agent", COMMIT, "", _TCGEN05),
        PipeProtocol("tcgen05_st", "tcgen05_ld", "converged warp", ARRIVE, "converged warp", ARRIVE, "", _TCGEN05),
    )
}

MOST_TRANSACTION_BYTES = (1 << 20) - 1
"""Of one phase (PTX ISA, "mbarrier": the range of tx-count)."""

MOST_ARRIVALS = (1 << 20) - 1
"""Of one phase (PTX ISA, "mbarrier": the range of the expected arrival count)."""
