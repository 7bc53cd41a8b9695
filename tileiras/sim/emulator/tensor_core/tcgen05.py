"""Tensor cores of the fifth generation, `tcgen05` (PTX ISA, "TensorCore 5th Generation Family Instructions"): memory
management, fences, waits and commits; the other operations are in separate files.

`alloc` and `dealloc` of a pair of blocks wait for the warp of the other block. `commit` arrives at its barrier at the
second query of the phase, after executing all operations that it tracks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..async_copies.barrier_objects import barrier_cell, change_counts, complete
from ..async_copies.landing import in_block, ranks_of
from ..launch.recording import Commit as CommitTold
from ..launch.recording import Transfer, each_warp, place
from ..memory.accesses import resolve
from ..memory.loads import address_slot, note_granule
from ..order.memory_order import CLUSTER
from ..order.waits import suspend
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.types import U16, U32
from .tcgen05_order import Operation, Order
from .tensor_memory import ALL_LANES, Region, TensorMemory

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup

_WORD = np.dtype(np.uint32)


class Unit:
    """The tensor memory of a batch's blocks and the order of its operations."""

    __slots__ = ("collectors", "memory", "order")

    def __init__(self, batch: Batch) -> None:
        self.memory = TensorMemory(batch)
        self.order = Order(batch, self.memory)
        self.collectors: dict[tuple[int, str], int] = {}  # (block, buffer) -> the matrix that it contains


def unit_of(group: WarpGroup) -> Unit:
    units = group.batch.units
    if "tcgen05" not in units:
        units["tcgen05"] = unit = Unit(group.batch)
        group.batch.on_block_end.append(lambda _, blocks: unit.memory.check_end(blocks))
    return units["tcgen05"]


def take_cta_group(decoder: Decoder, modifiers: Modifiers) -> int:
    """1 or 2, the same in all instructions of a program (PTX ISA: "All tcgen05 instructions within a kernel must
    specify the same value for the .cta_group qualifier")."""
    name = modifiers.take("cta_group::1", "cta_group::2")
    if name is None:
        raise decoder.error("expected .cta_group::1 or .cta_group::2")
    number = int(name[-1])
    if decoder.program.cta_group not in (0, number):
        raise decoder.error("the tcgen05 instructions of a kernel have different .cta_group")
    decoder.program.cta_group = number
    return number


def _take_aligned(decoder: Decoder, modifiers: Modifiers) -> None:
    if not modifiers.take("sync") or not modifiers.take("aligned"):
        raise decoder.error("expected .sync.aligned")
    decoder.begin_collective(None)


def first_lanes(group: WarpGroup) -> list[int]:
    """The first active thread of every active warp."""
    active = group.active_lanes()
    warps = np.flatnonzero(active.any(1))
    return (warps * 32 + active[warps].argmax(1)).tolist()


def of_warp(group: WarpGroup, item: Instruction, slot: int, label: str) -> np.ndarray:
    """A slot's values, which have to be equal in the threads of each active warp; one element per thread."""
    values = group.full(slot)
    rows, active = values.reshape(-1, 32), group.active_lanes().any(1)
    differ = active & (rows != rows[:, :1]).any(1)
    if differ.any():
        group.fault(f"the threads of a warp have different {label}", item, 32 * int(differ.argmax()))
    return values


# -- memory ----------------------------------------------------------------------------------------------------------


def _key(group: WarpGroup, thread: int) -> tuple[int, int]:
    return int(group.cta[thread]), int(group.thread[thread]) // 32


@instruction("tcgen05.alloc")
def decode_alloc(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    cta_group = take_cta_group(decoder, modifiers)
    _take_aligned(decoder, modifiers)
    space = "shared" if modifiers.take("shared::cta", "shared") else "generic"
    modifiers.take("b32")
    target, count = decoder.operands(2)
    note_granule(decoder, "shared", 4)
    address, columns = address_slot(decoder, target, space), decoder.src(count, U32)

    def begin(group: WarpGroup, thread: int) -> None:
        unit, (block, _) = unit_of(group), _key(group, thread)
        count = int(of_warp(group, item, columns, "numbers of columns")[thread])
        unit.memory.check_count(group, item, count, thread)
        for each in unit.memory.pair(group, item, block, cta_group, thread):
            unit.memory.check_permit(group, item, each, count, thread)
        unit.memory.request(group, item, thread, "alloc", 0, count)

    def end(group: WarpGroup, thread: int) -> None:
        first = unit_of(group).memory.finish(_key(group, thread))
        threads = np.arange(thread & ~31, (thread & ~31) + 32)
        where = of_warp(group, item, address, "addresses")[threads]
        for access in resolve(group, item, space, where, _WORD, True, threads, 4):
            access.store(group, item, np.full(group.n, first, np.uint32))

    _waiting(decoder, item, cta_group, begin, end)


@instruction("tcgen05.dealloc")
def decode_dealloc(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    cta_group = take_cta_group(decoder, modifiers)
    _take_aligned(decoder, modifiers)
    modifiers.take("b32")
    address, count = decoder.operands(2)
    where, columns = decoder.src(address, U32), decoder.src(count, U32)

    def begin(group: WarpGroup, thread: int) -> None:
        unit, (block, _) = unit_of(group), _key(group, thread)
        first = int(of_warp(group, item, where, "addresses")[thread])
        count = int(of_warp(group, item, columns, "numbers of columns")[thread])
        unit.memory.check_count(group, item, count, thread)
        if unit.memory.cells(block).allocations.get(first) != count:
            group.fault(f"{count} columns from {first:#x} on are no allocation of tensor memory", item, thread)
        unit.order.check_free(group, item, Region(block, ALL_LANES, first, first + count), thread)
        unit.memory.request(group, item, thread, "dealloc", first, count)

    def end(group: WarpGroup, thread: int) -> None:
        unit_of(group).memory.finish(_key(group, thread))

    _waiting(decoder, item, cta_group, begin, end)


def _waiting(decoder: Decoder, item: Instruction, cta_group: int, begin, end) -> None:
    """Decode an instruction that a warp ``begin``s and, once its request is granted, ``end``s."""

    def poll(group: WarpGroup, lanes: np.ndarray) -> np.ndarray:
        memory = unit_of(group).memory
        ready = np.zeros(group.n, bool)
        for warp in np.flatnonzero(lanes.reshape(-1, 32).any(1)).tolist():
            key = _key(group, warp * 32)
            if key in memory.requests and memory.poll(key, cta_group):
                end(group, warp * 32)
                ready[warp * 32 : warp * 32 + 32] = lanes[warp * 32 : warp * 32 + 32]
        return ready

    def reason(group: WarpGroup, thread: int) -> list[str]:
        return [unit_of(group).memory.waits_for(_key(group, thread))]

    def terminate(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        for thread in first_lanes(group):
            begin(group, thread)
        suspend(group, following.index, item, poll, reason)

    following = decoder.end_block(terminate)


@instruction("tcgen05.relinquish_alloc_permit")
def decode_relinquish(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    take_cta_group(decoder, modifiers)
    _take_aligned(decoder, modifiers)
    decoder.operands(0)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        for thread in first_lanes(group):
            cells = unit_of(group).memory.cells(int(group.cta[thread]))
            if cells.relinquished:
                group.fault("the block has given up its permit to allocate tensor memory already", item, thread)
            cells.relinquished = True

    decoder.emit(step)


# -- order -----------------------------------------------------------------------------------------------------------


@instruction("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def decode_fence(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    before = item.modifiers[0] == "fence::before_thread_sync"
    decoder.operands(0)

    def step(group: WarpGroup) -> None:
        order, races = unit_of(group).order, group.launch.races
        if before:
            order.fence_before(group, first_lanes(group))
        if races is not None and order.strict:
            # With them, relaxed accesses propagate an order; its restriction to tensor memory is not modeled.
            races.clocks.fence(group, CLUSTER)
        if before:
            return
        active = group.active()
        for warp in np.unique(active // 32).tolist():
            order.fence_after(group, active[active // 32 == warp])

    decoder.emit(step)


@instruction("tcgen05.wait::ld", "tcgen05.wait::st")
def decode_wait(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    kind = item.modifiers[0].removeprefix("wait::")
    _take_aligned(decoder, modifiers)
    decoder.operands(0)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        if group.launch.recorder is not None:
            each_warp(group, item, Transfer("wait", 0))
        for thread in first_lanes(group):
            unit_of(group).order.wait(group, thread, kind)

    decoder.emit(step)


class Commit:
    """Arrival of a `commit` at the barrier ``cell`` after its ``operations`` have executed; one of the bulk copies
    of a batch."""

    __slots__ = ("cell", "group", "item", "known", "operations", "order", "seen", "thread")

    def __init__(
        self, group: WarpGroup, item: Instruction, thread: int, operations: list[Operation], cell: int
    ) -> None:
        self.group = group
        self.item = item
        self.thread = thread
        self.operations = operations
        self.order = unit_of(group).order
        self.cell = cell
        self.seen = False
        # Operations that the thread had waited for before its dots happen before these, and so before waits for these.
        races = group.launch.races
        self.known = races.clocks.knowledge(int(group.numbers[thread])) if races is not None else None

    def land(self, batch: Batch) -> None:
        for operation in self.operations:
            self.order.land(operation)
        complete(self.group, self.thread, self.cell, self.known)
        change_counts(self.group, self.item, self.thread, self.cell, pending=-1)

    @property
    def settled_in(self) -> set[int]:
        """The block of its barrier, if only the arrival there is outstanding."""
        block = int(self.group.cta[self.thread])
        local = self.cell * 8 // self.group.batch.shared_stride == block
        return {block} if local and all(operation.complete for operation in self.operations) else set()

    def describe(self) -> str:
        waiting = sum(not operation.complete for operation in self.operations)
        return f"line {self.item.line}: {self.item.text} ({waiting} operations in flight)"


@instruction("tcgen05.commit")
def decode_commit(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    take_cta_group(decoder, modifiers)
    if not modifiers.take("mbarrier::arrive::one"):
        raise decoder.unsupported()
    space = "shared" if modifiers.take("shared::cluster", "shared::cta", "shared") else "generic"
    multicast = modifiers.take("multicast::cluster")
    modifiers.take("b64")
    operands = decoder.operands(2 if multicast else 1)
    note_granule(decoder, "shared", 8)
    address = address_slot(decoder, operands[0], space)
    mask = decoder.src(operands[1], U16) if multicast else None

    def step(group: WarpGroup) -> None:
        order = unit_of(group).order
        for thread in group.active().tolist():
            operations = order.pending(group, thread)
            order.commit(operations)
            where = int(group.full(address)[thread])
            cells = []
            for rank in ranks_of(None if mask is None else int(group.full(mask)[thread])):
                cell = barrier_cell(group, item, space, in_block(where, rank), thread, asynchronous=True)
                group.batch.bulk_copies.append(Commit(group, item, thread, operations, cell))
                cells.append(place(group, cell))
            if group.launch.recorder is not None:
                result = CommitTold("tcgen05", tuple(cells))
                group.launch.recorder.operation(group, item, thread, result)
        group.launch.fruitless_waits = 0

    decoder.emit(step)
