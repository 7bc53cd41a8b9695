"""Asynchronous copies in flight: when they read, when they may write, and when they complete.

A copy reads and writes as late as possible: when a thread waits for it. A copy on an mbarrier completes at the second
query of the end of the phase (`mbarrier`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..memory.accesses import RANK, RANK_BIT, Access, merge
from ..order import proxies
from ..order.memory_order import GPU, WEAK, Order
from ..order.waits import block_id
from ..ptx.decoder import Instruction
from .barrier_objects import change_counts, complete

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup
    from .map_proxy import MapSnapshot

#: The order of the single updates of a reduction by a bulk copy (PTX ISA, "cp.reduce.async.bulk").
RELAXED = Order("relaxed", GPU)
_BYTE = np.dtype(np.uint8)


class BulkCopy:
    """Copy of bytes from ``source`` to ``target`` by ``thread`` of ``group``; ``cell`` is the element of shared
    memory that holds the barrier, or None for a copy of the thread's bulk group ``number``."""

    __slots__ = (
        "cell", "combine", "convert", "data", "generic", "group", "item", "missing", "number", "seen", "snapshot",
        "source", "target", "thread",
    )  # fmt: skip

    def __init__(
        self, group: WarpGroup, item: Instruction, thread: int, source: list[Access], target: list[Access],
        cell: int | None,
        convert=None, combine=None, generic: bool = False, snapshot: MapSnapshot | None = None,
    ) -> None:  # fmt: skip
        """``convert`` computes the stored data from the loaded data; without it they are equal. ``combine`` computes
        the result of a reduction from the present and the new data. ``generic``: the writes do not belong to the
        asynchronous proxy. ``snapshot``: of the tensor map that it reads."""
        self.group = group
        self.item = item
        self.thread = thread
        self.number = int(group.bulk_groups[thread])
        self.source = source
        self.target = target
        self.cell = cell
        self.convert = convert
        self.combine = combine
        self.generic = generic
        self.snapshot = snapshot
        self.missing = 0  # bytes that are counted but not copied
        self.seen = False
        self.data: np.ndarray | None = None

    def read(self, checked: bool = False) -> None:
        """``checked``: `read_together` has already checked the read."""
        if self.data is None:
            if self.snapshot is not None:
                self.group.launch.maps.check_unchanged(self.group, self.item, self.snapshot, self.thread)
            if self.group.launch.races is not None and not checked:
                for access in self.source:
                    self.group.launch.races.read(self.group, self.item, access, generic=False)
            pieces = [each.data[each.index] for each in self.source]
            data = np.concatenate(pieces) if pieces else np.zeros(0, _BYTE)
            self.data = data if self.convert is None else self.convert(data)

    def uses(self, stride: int) -> set[int]:
        """The blocks whose shared memory it still reads or writes; ``stride``: bytes from one block to the next."""
        accesses = [*self.target, *(self.source if self.data is None else ())]
        return {
            int(block) for access in accesses if access.shared
            for block in np.unique(access.index * access.data.itemsize // stride)
        }  # fmt: skip

    def land(self, batch: Batch) -> None:
        self.read()
        at = 0
        races = self.group.launch.races
        for each in self.target:
            raw = self.data[at : at + each.index.size]
            if self.combine is not None:
                raw = self.combine(each.data[each.index], raw)
                if races is not None:
                    turns = np.arange(each.index.size)
                    races.update(self.group, self.item, each, RELAXED, turns, generic=self.generic)
                each.data[each.index] = raw
            elif races is not None:
                with races.clocks.copying(None if self.generic else _block_of(self.group, each)):
                    races.write(self.group, self.item, each, raw, generic=self.generic)
            else:
                each.data[each.index] = raw
            at += each.index.size
            if each.shared and batch.shared_written is not None:
                batch.shared_written.reshape(-1, raw.itemsize)[each.index] = True
        if self.cell is not None:
            complete(self.group, self.thread, self.cell)
            change_counts(self.group, self.item, self.thread, self.cell, transactions=-self.data.nbytes - self.missing)


def read_together(copies: list[BulkCopy]) -> None:
    """Execute the reads of copies of one or several threads; those of one instruction are checked as one access."""
    by_item: dict[tuple[object, int], list[BulkCopy]] = {}
    for copy in copies:
        if copy.data is None:
            by_item.setdefault((copy.group, id(copy.item)), []).append(copy)
    for those in by_item.values():
        group, item = those[0].group, those[0].item
        if group.launch.races is not None:
            for access in merge([access for copy in those for access in copy.source]):
                group.launch.races.read(group, item, access, generic=False)
        for copy in those:
            copy.read(checked=True)


def begin_landing(
    group: WarpGroup, item: Instruction, places: list[Access], reads: bool = False, generic: bool = False
) -> None:
    """Mark ``places`` as written by an asynchronous copy in flight, with ``reads`` by a read-modify-write;
    ``generic``: not through the asynchronous proxy."""
    init_bits = group.batch.shared_written
    for access in places:
        if access.shared and init_bits is not None and not reads:
            init_bits.reshape(-1, access.data.itemsize)[access.index] = False
        races = group.launch.races
        if races is not None:
            with races.clocks.copying(None if generic else _block_of(group, access)):
                # Each update is relaxed at the scope of the GPU (PTX ISA, "cp.reduce.async.bulk").
                races.begin_copy(group, item, access, RELAXED if reads else WEAK)
                if not generic and access.index.size:
                    proxies.check_overwrite(races, group, item, access)


def _block_of(group: WarpGroup, access: Access) -> int | None:
    """The launch's number of the block in whose shared memory an access is; None for global memory."""
    races = group.launch.races
    if races is None or not access.shared or not access.index.size:
        return None
    local = int(access.index[0]) * access.data.itemsize // group.batch.shared_stride
    return races.clocks.first // races.clocks.per_block + local


def check_places(group: WarpGroup, item: Instruction, places: list[Access], cell: int, thread: int, other: bool = False,
                 pair: bool = False) -> None:  # fmt: skip
    """Check that a barrier is in the written shared memory, or with ``pair`` in that of either block of the pair;
    ``other``: the memory has to be another block's (PTX ISA, cp.async.bulk)."""
    stride = group.batch.shared_stride
    own, block = int(group.cta[thread]), cell * 8 // stride
    for access in places:
        if not access.shared or not access.index.size:
            continue
        target = int(access.index[0]) * access.data.itemsize // stride
        if target != block and not (pair and target // 2 == block // 2):
            group.fault("the barrier of a copy is in another block's shared memory than its destination", item, thread)
        if other and target == own:
            group.fault("a bulk copy from shared::cta to shared::cluster within one block", item, thread)


def begin_reading(group: WarpGroup, item: Instruction, loaded: list[Access]) -> None:
    """Check that the data is visible to the asynchronous proxy, which may read it from now on."""
    races = group.launch.races
    for access in loaded:
        if races is not None and access.index.size:
            races.read(group, item, access, generic=False)
            proxies.check_read(races, group, item, access)


def in_block(address: int, rank: int | None) -> int:
    """A shared address in the block of a rank of the cluster."""
    return address if rank is None else rank << RANK_BIT | address & RANK - 1


def ranks_of(mask: int | None) -> list[int | None]:
    return [None] if mask is None else [rank for rank in range(16) if mask >> rank & 1]


def check_end(batch: Batch, ended: np.ndarray) -> None:
    """Blocks have ended, and with them their shared memory: no copy from or to it may be in flight."""
    ended_blocks = set(ended.tolist())
    # A copy that only has to arrive at the barrier of its own block ends with the block.
    batch.bulk_copies = [copy for copy in batch.bulk_copies if not ended_blocks & getattr(copy, "settled_in", set())]
    if "ended-block" in batch.launch.waived:
        return
    for copy in batch.bulk_copies:
        blocks = copy.uses(batch.shared_stride) if isinstance(copy, BulkCopy) else set()
        if copy.cell is not None:
            blocks.add(copy.cell * 8 // batch.shared_stride)
        for block in sorted(blocks & ended_blocks):
            where = f"shared memory of block {block_id(batch, block)}, which has ended"
            copy.group.fault(f"this was not waited for, and is in flight from or to {where}", copy.item, copy.thread)


def describe(flying) -> str:
    """Description of an operation in flight, one of the batch's ``bulk_copies``."""
    own = getattr(flying, "describe", None)
    return own() if own is not None else f"line {flying.item.line}: {flying.item.text}"
