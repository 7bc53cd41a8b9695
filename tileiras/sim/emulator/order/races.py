"""Data races on shared and global memory: two accesses of one place by different threads, at least one of them a write,
not ordered by happens-before (PTX ISA, "Memory Consistency Model", "Data Race").

Two strong accesses whose scopes include each other's thread do not race. A write of the value already present is not a
race either: threads that hold copies of one element may all store it.

Memory is divided into granules, of the size of the smallest access of the program. The last write of each granule is
recorded, and the reads since: in shared memory the last one of each warp; in global memory the last one, and a log of
all for granules that several threads read. Reads of memory that is never written cost no more than a line in that log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ptx.module import Instruction
from .happens_before import Clocks
from .knowledge import warp_of
from .memory_order import CLUSTER, CTA, GPU, WEAK, Order
from .proxies import Fences
from .race_cells import Cells, GlobalCells, SharedCells, expand, repeated
from .waits import block_id

if TYPE_CHECKING:
    from ..launch.scheduler import Batch, Launch
    from ..launch.warps import WarpGroup
    from ..memory.accesses import Access


class RaceChecker:
    """Race checker of one launch. The group whose access races reports it as EmulationError."""

    def __init__(self, launch: Launch, order: np.ndarray) -> None:
        """``order``: the ids of all thread blocks, in the order of their numbers."""
        self.launch = launch
        self.order = order
        self.clocks = Clocks(launch)
        self.granule = launch.program.granule
        self.global_granule = launch.program.global_granule
        self.items: list[Instruction] = []
        self.numbers: dict[int, int] = {}
        self.allocations: dict[int, tuple[object, GlobalCells]] = {}
        self.shared: SharedCells | None = None
        self.proxy_fences: dict[int, np.ndarray] = {}
        """Warp -> when each of its lanes last ran a `fence.proxy.async` without all the others."""
        self.fences = Fences()

    def begin(self, batch: Batch, first_block: int) -> None:
        self.clocks.begin(batch, first_block)
        self.shared = None
        if batch.shared.size:
            copies = self.launch.program.bulk_copies
            count = batch.shared.size // self.granule
            self.shared = SharedCells(count, batch.count, self.clocks.width, copies)
        for group in batch.groups:
            group.numbers = self.clocks.numbers(group)

    def code(self, item: Instruction, order: Order) -> int:
        """Encode an instruction and the scope of its access in one number."""
        number = self.numbers.get(id(item))
        if number is None:
            number = self.numbers[id(item)] = len(self.items)
            self.items.append(item)
        return number << 3 | order.scope + 1

    def times(self, group: WarpGroup) -> np.ndarray:
        """The clock of each thread's warp."""
        version, times = group.times
        if version != self.clocks.version:
            times = self.clocks.own[(group.numbers >> 5) - self.clocks.first]
            group.times = (self.clocks.version, times)
        return times

    def _cells(self, access: Access):
        """(state of the memory, first granule of every element, granules per element)."""
        size = access.data.dtype.itemsize
        if access.shared:
            return self.shared, access.index * size // self.granule, max(1, size // self.granule)
        allocation = access.allocation
        if allocation is None or not allocation.writable:
            return None, None, 0
        entry = self.allocations.get(id(allocation))
        if entry is None:
            size_in_granules = -(-allocation.size // self.global_granule) + 1
            cells = GlobalCells(size_in_granules, self.launch.program.bulk_copies)
            entry = self.allocations[id(allocation)] = (allocation, cells)
        first = (access.address - allocation.address + access.index * size) // self.global_granule
        return entry[1], first, max(1, size // self.global_granule)

    def _keys(self, access: Access, first: np.ndarray) -> np.ndarray:
        """Locations for the clocks: granules of global memory, the batch's shared memory below zero."""
        if access.shared:
            return -1 - first
        return first + access.allocation.address // self.global_granule

    # -- accesses --------------------------------------------------------------------------------------------------

    def read(
        self, group: WarpGroup, item: Instruction, access: Access, order: Order = WEAK, whole_warp: bool = False,
        generic: bool = True
    ) -> None:
        """Record loads through the generic or the asynchronous proxy; ``whole_warp``: the data at a lane's address
        goes to all lanes of its warp."""
        state, first, count = self._cells(access)
        if state is None:
            return
        clocks = self.clocks
        threads, times = group.numbers, self.times(group)
        if access.threads is None and access.index.size == 1 and group.n > 1:
            # One address for all threads: a read by each warp, or by its only active lane.
            if order.strong and clocks.locations:
                readers = threads[group.active()].tolist()
                clocks.synchronise(readers, self._keys(access, first).tolist() * len(readers), order, True, False)
            active = group.active_lanes()
            warps = np.flatnonzero(active.any(1))
            lanes = warps * 32 + active[warps].argmax(1)
            actual, times = threads[lanes], times[lanes]
            threads = np.where(active[warps].sum(1) == 1, actual, -2 - (actual >> 5))
            first = np.repeat(first, warps.size)
        else:
            if access.threads is not None:
                threads, times = threads[access.threads], times[access.threads]
            actual = threads
            if order.strong and clocks.locations:
                clocks.synchronise(actual.tolist(), self._keys(access, first).tolist(), order, True, False)
            if whole_warp:
                threads = -2 - (threads >> 5)
        code = self.code(item, order)
        if not access.shared and not order.strong:
            state.note_read(first, count, threads, times, code)
        writes = state if access.shared else state.writes
        if writes is None:
            return
        cells, everyone = expand(first, count, threads)
        acting = everyone if actual is threads else repeated(actual, count)
        self._check(group, item, access, writes, cells, everyone, order, acting)
        if access.shared and not order.strong:
            state.note_read(clocks, cells, count, threads, times, code, generic)
            access.ordered = clocks.accesses

    def write(
        self, group: WarpGroup, item: Instruction, access: Access, values: np.ndarray, order: Order = WEAK,
        generic: bool = True, unchanged: bool = False
    ) -> None:
        """Store ``values``, one per element of ``access``, through the generic or the asynchronous proxy; ``unchanged``
        elements count as written, too."""
        data, index = access.data, access.index
        state, first, count = self._cells(access)
        if state is None:
            data[index] = values
            return
        threads = group.numbers if access.threads is None else group.numbers[access.threads]
        values = np.ascontiguousarray(values)
        changes = differ(data[index], values) | unchanged
        data[index] = values
        if order.strong:
            self.clocks.synchronise(threads.tolist(), self._keys(access, first).tolist(), order, False, True)
        elif self.clocks.locations and not self.clocks.exhausted:
            self.clocks.overwrite(self._keys(access, first))
        if not changes.any():
            return
        overwrites = differ(data[index], values)
        if not changes.all():
            first, threads, overwrites = first[changes], threads[changes], overwrites[changes]
        cells, threads, overwrites = expand(first, count, threads, overwrites)
        missing = "" if generic else "no wait in between for its write"
        writes = self.begin_write(group, item, access, cells, threads, order, missing)
        times = self.clocks.own[(threads >> 5) - self.clocks.first]
        code = self.code(item, order)
        places = self._record(access, writes, cells, threads, times, code, generic)
        together = writes.writer[places] != threads
        if together.any():
            writes.writer[places[together]] = -2 - (threads[together] >> 5)
        if overwrites.any():
            # Two threads of this instruction wrote different values to one place.
            at = np.flatnonzero(overwrites)
            if at.size and not order.strong:
                same = (cells == cells[at[0]]) & ~overwrites
                other = int(threads[same.argmax()])
                self.report(group, item, access, int(cells[at[0]]), int(threads[at[0]]), other, code, "written")

    def update(
        self, group: WarpGroup, item: Instruction, access: Access, order: Order, turns: np.ndarray, generic: bool = True
    ) -> None:
        """Read-modify-writes of the elements of ``access``, one after the other in the order of ``turns``, through
        the generic or the asynchronous proxy."""
        state, first, count = self._cells(access)
        if state is None:
            return
        threads = group.numbers if access.threads is None else group.numbers[access.threads]
        cells, everyone = expand(first, count, threads)
        writes = self.begin_write(group, item, access, cells, everyone, order)
        times = self.clocks.own[(everyone >> 5) - self.clocks.first]
        code = self.code(item, order)
        places = self._record(access, writes, cells, everyone, times, code, generic)
        if order.scope < GPU:
            # Threads of this instruction that are outside each other's scopes.
            last = writes.writer[places]
            at = np.flatnonzero(~self._morally_strong(everyone, last, writes.code[places], order))
            if at.size:
                place, rival = int(cells[at[0]]), int(last[at[0]])
                self.report(group, item, access, place, int(everyone[at[0]]), rival, code, "written")
        if self.clocks.locations or self.clocks.fences or order.releases:
            keys = self._keys(access, first[turns]).tolist()
            self.clocks.synchronise(threads[turns].tolist(), keys, order, True, True)

    def _record(
        self, access: Access, writes: Cells, cells: np.ndarray, threads: np.ndarray, times: np.ndarray, code: int,
        generic: bool,
    ) -> np.ndarray:  # fmt: skip
        """Record writes of ``cells``; returns their places."""
        places = writes.places(cells)
        writes.record(places, threads, times, code)
        if access.shared:
            writes.written[cells] = self.clocks.stamp()
        if writes.unfenced is not None:
            writes.unfenced[places] = generic
        return places

    def begin_write(
        self, group: WarpGroup, item: Instruction, access: Access, cells: np.ndarray, threads: np.ndarray,
        order: Order = WEAK, missing: str = ""
    ) -> Cells:
        """Check that ``cells`` may be written now; returns where the writes are recorded. ``missing``: the message
        about unordered reads, instead of the missing order of two threads."""
        state = self._cells(access)[0]
        writes = state if access.shared else state.begin_writes(cells)
        self._check(group, item, access, writes, cells, threads, order, threads)
        at, others, codes = state.unordered_reads(self.clocks, cells, threads)
        if at.size:
            place, thread = int(cells[at[0]]), int(threads[at[0]])
            self.report(group, item, access, place, thread, int(others[0]), int(codes[0]), "read", missing=missing)
        return writes

    def begin_copy(self, group: WarpGroup, item: Instruction, access: Access, order: Order = WEAK) -> None:
        """An asynchronous copy may write from now on."""
        state, first, count = self._cells(access)
        if state is not None:
            self.begin_write(group, item, access, *expand(first, count, group.numbers[access.threads]), order)

    def last_writes(self, access: Access) -> tuple[int, int, Instruction] | None:
        """(thread, its clock, instruction) of the last write of global memory in this launch, None without a write;
        of several writes, the one with the greatest clock."""
        state, first, count = self._cells(access)
        if state is None or state.writes is None:
            return None
        cells = np.unique(expand(first, count)[0])
        places = state.writes.places(cells)
        places = places[state.writes.writer[places] != -1]
        if not places.size:
            return None
        last = places[state.writes.clock[places].argmax()]
        return int(state.writes.writer[last]), int(state.writes.clock[last]), self.items[state.writes.code[last] >> 3]

    def granules(
        self, group: WarpGroup, access: Access
    ) -> tuple[SharedCells | GlobalCells | None, np.ndarray, np.ndarray]:
        """(state of the memory, granules, the thread of each) of an access by given threads."""
        state, first, count = self._cells(access)
        if state is None:
            return None, np.zeros(0, np.int64), np.zeros(0, np.int32)
        return state, *expand(first, count, group.numbers[access.threads])

    def _check(
        self, group: WarpGroup, item: Instruction, access: Access, writes: Cells, cells: np.ndarray,
        threads: np.ndarray, order: Order, actual: np.ndarray,
    ) -> None:  # fmt: skip
        """Check that the last writes of ``cells`` happen before the present accesses of ``threads``."""
        if access.shared:
            stamps = writes.written[cells]
            if access.ordered and stamps.max() <= access.ordered:
                return
            recent = writes.recent(self.clocks, stamps, cells)
            if recent is None:
                return
            if not recent.all():
                cells, threads, actual = cells[recent], threads[recent], actual[recent]
        places = writes.places(cells)
        last = writes.writer[places]
        if order.semantics == "nc":
            at = np.flatnonzero(last != -1)  # this path need not see writes during the kernel
        else:
            at = np.flatnonzero((last != -1) & (last != threads))
            if at.size and last.min() < -1:
                at = at[(last[at] >= 0) | (warp_of(threads[at]) != -2 - last[at])]
        if at.size and order.strong:
            at = at[~self._morally_strong(actual[at], last[at], writes.code[places[at]], order)]
        # The clocks are queried last, for few accesses: following many releases is slow.
        if at.size and order.semantics != "nc":
            at = at[self.clocks.unordered(threads[at], last[at], writes.clock[places[at]])]
        if at.size:
            thread, other, code = int(actual[at[0]]), int(last[at[0]]), int(writes.code[places[at[0]]])
            self.report(group, item, access, int(cells[at[0]]), thread, other, code, "written", order)

    def _morally_strong(self, threads: np.ndarray, others: np.ndarray, codes: np.ndarray, order: Order) -> np.ndarray:
        """Whether writes with ``codes`` are strong, at scopes that include each other's threads."""
        scope = np.minimum((codes & 7) - 1, order.scope)
        blocks, rivals = (self.clocks.block_of(warp_of(each)) for each in (threads, others))
        clusters, far = blocks // self.clocks.members, rivals // self.clocks.members
        required = np.where(blocks == rivals, CTA, np.where(clusters == far, CLUSTER, GPU))
        return scope >= required

    # -- reports ---------------------------------------------------------------------------------------------------

    def report(
        self, group: WarpGroup, item: Instruction, access: Access, cell: int, thread: int, other: int, code: int,
        conflict: str, order: Order = WEAK,
        missing: str = "",
    ) -> None:  # fmt: skip
        position = int(np.flatnonzero(group.numbers == thread)[0])
        earlier = self.items[code >> 3]
        warp = other >> 5 if other >= 0 else -2 - other
        block, own = self.clocks.block_of(warp), self.clocks.block_of(thread >> 5)
        who = f"warp {warp % self.clocks.per_block}"
        if missing:
            pass
        elif order.semantics == "nc":
            missing = "ld.global.nc reads only memory that no thread writes"
        elif warp == thread >> 5:
            who, missing = "another lane of the warp", "no bar.warp.sync between"
        elif block == own:
            missing = "no barrier between"
        else:
            who += f" of block {tuple(int(v) for v in self.order[:, block])}"
            missing = "no release and acquire between whose scopes take in both"
        if access.shared:
            holder, address = divmod(cell * self.granule, group.batch.shared_stride)
            where = f"shared address {address:#x}"
            if holder != group.cta[position]:
                where += f" of block {block_id(group.batch, holder)}"
        else:
            address = access.allocation.address + cell * self.global_granule
            where = f"address {address:#x} of {access.allocation.name}"
        group.fault(
            f"race on {where}: {conflict} by {who} at line {earlier.line} ({earlier.text}), and {missing}",
            item,
            position,
            address,
        )


def differ(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Where the bits of two contiguous arrays of one type are different."""
    size = values.dtype.itemsize
    word = np.dtype(f"u{min(size, 8)}")
    values, others = (array.view(word).reshape(array.size, -1) for array in (values, others))
    result = values[:, 0] != others[:, 0]
    for column in range(1, values.shape[1]):
        result |= values[:, column] != others[:, column]
    return result
