"""CTA barriers: bar and barrier .sync, .arrive and .red (PTX ISA, "Parallel Synchronization and Communication").

A barrier counts threads in whole warps, by default all live threads of the block. The 16 barriers of a block hold an
arrival count and the running reduction; a complete barrier is reset before its threads continue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arithmetic.lanes import check_members, mask_operand
from ..async_copies.barrier_objects import release_initialised, show_initialised
from ..launch.recording import BlockBarrier
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Immediate
from ..ptx.types import PRED, U32
from . import proxies, waits
from .memory_order import SCOPES

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup

BARRIERS = 16


class Barriers:
    """The barriers of all blocks of a batch, arrays of shape (blocks, 16)."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        shape = (batch.count, BARRIERS)
        self.threads = np.zeros(shape, np.int64)  # arrived, single threads
        self.rounded = np.zeros(shape, np.int64)  # arrived, in whole warps
        self.expected = np.zeros(shape, np.int64)  # explicit count, 0 for all live threads
        self.population = np.zeros(shape, np.int64)  # arrived with a true predicate
        self.line = np.zeros(shape, np.int64)  # of the aligned instruction that all threads have to execute, 0 for none
        self.used = False

    def arrive(
        self, group: WarpGroup, item: Instruction, number: np.ndarray, count: np.ndarray | None,
        predicate: np.ndarray | None = None, aligned: bool | None = False,
        waits_there: bool = True,
    ) -> None:  # fmt: skip
        """Count the group's active threads in; ``number`` and ``count`` are one element or one per thread.

        Without a count, an aligned barrier is for all threads of the block at one instruction (PTX ISA, barrier: "all
        threads in CTA will execute the same barrier instruction"): another instruction means that warps diverged.
        """
        self.used = True
        active = group.active_lanes()
        warps = np.flatnonzero(active.any(1))
        lanes = warps * 32 + active[warps].argmax(1)
        number = np.broadcast_to(number, (group.n,))[lanes].astype(np.int64)
        if (number >= BARRIERS).any():
            group.fault(f"barrier {int(number.max())} does not exist, a block has {BARRIERS}", item)
        where = (group.warp_cta[warps], number)
        if self.batch.launch.recorder is not None:
            counts = np.zeros(group.n, np.int64) if count is None else np.broadcast_to(count, (group.n,))
            for barrier, thread in zip(number.tolist(), lanes.tolist()):
                block_barrier = BlockBarrier(barrier, int(counts[thread]), waits_there)
                self.batch.launch.recorder.operation(group, item, thread, block_barrier)
        for cta, barrier, thread in zip(where[0].tolist(), number.tolist(), group.thread[lanes].tolist()):
            self.batch.arrivals.note((cta, barrier), item, [(cta, thread // 32)])
        if self.batch.launch.races is not None:
            self.batch.launch.races.clocks.arrive(group, number)
        np.add.at(self.threads, where, active[warps].sum(1))
        # A warp counts as a whole, including its exited threads, once all its live threads have arrived: without
        # .aligned they may arrive one after the other.
        live = np.ones_like(active) if group.live is None else group.live.reshape(-1, 32)
        first = active[warps, live[warps].argmax(1)]
        np.add.at(self.rounded, where, active[warps].sum(1) + np.where(first, 32 - live[warps].sum(1), 0))
        if aligned and count is None:
            line = self.line[where]
            if (other := (line != 0) & (line != item.line)).any():
                group.fault(
                    f"some warps are at this barrier, others at that of line {int(line[other][0])}", item,
                    int(lanes[other.argmax()]),
                )  # fmt: skip
            self.line[where] = item.line
        if count is not None:
            counts = np.broadcast_to(count, (group.n,))[lanes].astype(np.int64)
            if (bad := (counts % 32 != 0) | (counts == 0)).any():
                group.fault(f"a barrier for {int(counts[bad][0])} threads, not a multiple of the warp size", item)
            earlier = self.expected[where]
            if ((earlier != 0) & (earlier != counts)).any():
                group.fault("warps arrive at one barrier with different thread counts", item)
            self.expected[where] = counts
        if predicate is not None:
            votes = (np.broadcast_to(predicate, (group.n,)).reshape(-1, 32) & active)[warps].sum(1)
            np.add.at(self.population, where, votes)

    def missing(self, cta: int, number: int) -> list[str]:
        """Missing arrivals of a barrier, for the report of a deadlock."""
        batch = self.batch
        arrived, count = int(self.threads[cta, number]), int(self.expected[cta, number])
        required = count or int(batch.live_threads[cta])
        here = set()
        for group in batch.groups:
            if group.barrier is not None:
                lanes = (group.barrier == number) & (group.cta == cta)
                here |= {(cta, int(warp)) for warp in np.unique(group.thread[lanes] // 32)}
        lines = [f"{arrived} of {required} threads have arrived"]
        if count:
            return lines + batch.arrivals.describe(batch, (cta, number), here)
        absent: dict[str, list[int]] = {}
        for warp in range(-(-batch.launch.threads // 32)):
            if (cta, warp) not in here:
                absent.setdefault(waits.state_of(batch, cta, warp), []).append(warp)
        absent.pop(waits.ENDED, None)
        return lines + [f"{waits.names(warps)} {state}" for state, warps in absent.items()]

    def release(self) -> None:
        """Resume the threads of every complete barrier."""
        if not self.used:
            return
        default = (self.threads >= self.batch.live_threads[:, None]) & (self.threads > 0)
        full = np.where(self.expected > 0, self.rounded >= self.expected, default)
        if not full.any():
            return
        for number in np.flatnonzero(full.any(0)).tolist():
            blocks = full[:, number]
            for group in self.batch.groups:
                if group.barrier is None:
                    continue
                lanes = (group.barrier == number) & blocks[group.cta]
                if not lanes.any():
                    continue
                for entry in group.pending:
                    entry(group, lanes, number, self)
                if self.batch.launch.races is not None:
                    self.batch.launch.races.clocks.leave(group, lanes, number)
                group.unpark(lanes)
        if self.batch.launch.races is not None:
            self.batch.launch.races.clocks.reset(full, self.expected == 0)  # `arrive` alone needs a count
        for state in (self.threads, self.rounded, self.expected, self.population, self.line):
            state[full] = 0


def _deliver(slot: int, operation: str, resume: int):
    """Function that stores a reduction's result for its threads when the barrier completes."""

    def deliver(group: WarpGroup, lanes: np.ndarray, number: int, barriers: Barriers) -> None:
        lanes = lanes & (group.resume == resume)
        if not lanes.any():
            return
        votes = barriers.population[group.cta, number]
        if operation == "popc":
            value = votes.astype(np.uint32)
        elif operation == "or":
            value = votes > 0
        else:
            value = votes >= barriers.threads[group.cta, number]
        group.R[slot] = np.where(lanes, value, group.R[slot])

    return deliver


@instruction("bar.warp.sync")
def decode_warp_barrier(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    members = mask_operand(decoder, decoder.operands(1)[0])
    decoder.emit(lambda group: _meet(group, item, members))


@instruction("bar", "barrier")
def decode_barrier(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("cta")
    aligned = item.opcode == "bar" or modifiers.take("aligned")
    operation = modifiers.take("red") and (modifiers.take("popc", "and", "or") or "")
    arrive_only = modifiers.take("arrive")
    if operation is None and not arrive_only and not modifiers.take("sync"):
        raise decoder.unsupported()
    types = modifiers.types()
    if operation is None and types:
        raise decoder.unsupported()
    operands = list(item.operands)
    result = operands.pop(0) if operation is not None else None
    predicate_operand = operands.pop() if operation is not None else None
    if aligned:
        decoder.begin_collective(None)
    number_operand = operands[0]
    if isinstance(number_operand, Immediate) and not 0 <= number_operand.value < BARRIERS:
        raise decoder.error(f"barrier {number_operand.value} does not exist, a block has {BARRIERS}")
    number = decoder.src(number_operand, U32)
    count = decoder.src(operands[1], U32) if len(operands) > 1 else None
    predicate = decoder.src(predicate_operand, PRED) if predicate_operand is not None else None
    slot = None
    if result is not None:
        slot = decoder.dst(result, U32 if operation == "popc" else PRED)
    fresh = []

    def terminate(group: WarpGroup) -> None:
        R = group.R
        barriers = group.batch.barriers
        if predicate is not None and slot is not None and not any(entry is fresh[0] for entry in group.pending):
            group.pending.append(fresh[0])
        barriers.arrive(
            group,
            item,
            R[number],
            None if count is None else R[count],
            None if predicate is None else R[predicate],
            aligned,
            not arrive_only,
        )
        if arrive_only:
            group.goto(following.index)
        else:
            group.park(following.index, R[number])
        barriers.release()

    following = decoder.end_block(terminate)

    def deliver(group: WarpGroup, lanes: np.ndarray, at: int, barriers: Barriers) -> None:
        _deliver(slot, operation, following.index)(group, lanes, at, barriers)

    fresh.append(deliver)


def _meet(group: WarpGroup, item: Instruction, members: int) -> None:
    """PTX ISA, "bar.warp.sync": undefined if the executing thread is not in the mask."""
    check_members(group, item, members)
    if group.launch.races is not None:
        clocks = group.launch.races.clocks
        clocks.meet(clocks.rows(group))


@instruction("fence.proxy.async::generic")
def decode_restricted_fence(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`fence.proxy.async::generic`: for mbarriers and the data that they guard in shared memory of the cluster."""
    decoder.operands(0)
    restricted = modifiers.take("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
    if not modifiers.take("acquire", "release") or restricted is None or not modifiers.take("cluster"):
        raise decoder.unsupported()

    def step(group: WarpGroup) -> None:
        _fence_proxy(group, True, False)
        if group.launch.races is not None:
            group.launch.races.clocks.fence(group, SCOPES["cluster"])

    decoder.emit(step)


def _fence_proxy(group: WarpGroup, shared: bool, everywhere: bool) -> None:
    if group.launch.races is not None:
        proxies.fence(group.launch.races, group, shared, everywhere)
    if shared:
        show_initialised(group)


@instruction("fence.proxy", "membar.proxy")
def decode_proxy_fence(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """Fences between proxies make writes of the generic proxy visible to the asynchronous one."""
    decoder.operands(0)
    names = modifiers.take("alias", "async")
    space = modifiers.take("global", "shared::cta", "shared::cluster")
    if names == "async":
        decoder.emit(lambda group: _fence_proxy(group, space != "global", space in (None, "global")))


@instruction("fence.mbarrier_init")
def decode_initialising_fence(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """It only orders `mbarrier.init` (PTX ISA, "membar, fence": `.op_restrict`)."""
    decoder.operands(0)
    modifiers.take("release")
    modifiers.take(*SCOPES)
    decoder.emit(release_initialised)


@instruction("membar", "fence")
def decode_fence(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """Values are sequentially consistent in the emulator: a fence only affects the search for races."""
    decoder.operands(0)
    # Without an order, `fence` is `fence.sc` (PTX ISA, "membar, fence"); `membar` always is.
    modifiers.take("sc", "acq_rel", "acquire", "release")
    if modifiers.take("sync_restrict"):
        modifiers.take("shared::cta", "shared::cluster")
    scope = SCOPES[modifiers.take(*SCOPES) or "sys"]

    def step(group: WarpGroup) -> None:
        if group.launch.races is not None:
            group.launch.races.clocks.fence(group, scope)

    decoder.emit(step)
