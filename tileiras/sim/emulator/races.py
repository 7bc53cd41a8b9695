"""Data races on shared and global memory: two accesses of one place by different threads, one of them a write, of
which neither happens before the other (PTX ISA, "Memory Consistency Model", "Data Race").

Two strong accesses whose scopes take in each other's thread do not race.  Writing what is there already is no race
either: threads that hold copies of one element may all store it.

Memory is told apart in granules, the smallest access of the program.  Per granule the last write is remembered, and
the reads since: in shared memory every warp's last one; in global memory the last one, and a log of all for granules
that several threads read.  Reads of memory that is never written cost no more than a line in that log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .happens_before import Clocks
from .knowledge import warp_of
from .memory_order import CLUSTER, CTA, GPU, WEAK, Order
from .ptx_module import Instruction

if TYPE_CHECKING:
    from .accesses import Access
    from .scheduler import Batch, Launch
    from .warps import WarpGroup

#: Reads of one allocation that are remembered; the oldest of more are forgotten.
_LOG_READS = 1 << 22
_SEVERAL = 32  # instead of a lane


class Cells:
    """The last write of each granule: its thread, the clock of its warp, and what `RaceChecker.code` says.

    A thread -1 is none, and -2-w stands for lanes of warp w that wrote the same together.  ``unfenced``: written by the
    generic proxy, and by no fence shown to the asynchronous one; None where that one does not come.
    """

    __slots__ = ("clock", "code", "unfenced", "writer")

    def __init__(self, count: int, asynchronous: bool = False) -> None:
        self.writer = np.full(count, -1, np.int32)
        self.unfenced = np.zeros(count, bool) if asynchronous else None
        self.clock = np.zeros(count, np.int32)
        self.code = np.zeros(count, np.int32)

    def record(self, cells: np.ndarray, threads: np.ndarray, clocks: np.ndarray, code: int) -> None:
        self.writer[cells] = threads
        self.clock[cells] = clocks
        self.code[cells] = code


class SharedCells(Cells):
    """Shared memory of a batch, with the last read of every warp of the cluster; ``unfenced_reads``: reads through the
    generic proxy since the warp's last fence, None where no copy of the asynchronous proxy may write.

    ``written`` and ``read`` have the stamps of the last writes and reads.  ``pending`` are reads of which nothing else
    is in the arrays yet: mostly nothing has to be, since a barrier of the block comes before the next write.
    """

    __slots__ = (
        "pending", "pending_reads", "per_block", "read", "read_clock", "read_code", "read_lane", "unfenced_reads",
        "width", "written",
    )  # fmt: skip

    #: Bytes per granule, besides those per warp.
    BYTES = 29
    BYTES_PER_WARP = 10

    def __init__(self, count: int, blocks: int, width: int, copies: bool) -> None:
        super().__init__(count, True)
        self.width = width
        self.per_block = count // blocks
        self.written = np.zeros(count, np.int64)
        self.read = np.zeros(count, np.int64)
        self.pending: list[tuple] = []
        self.pending_reads = 0
        self.unfenced_reads = np.zeros((count, width), bool) if copies else None
        self.read_clock = np.zeros((count, width), np.int32)
        self.read_code = np.zeros((count, width), np.int32)
        self.read_lane = np.zeros((count, width), np.int8)

    def recent(self, clocks: Clocks, stamps: np.ndarray, cells: np.ndarray) -> np.ndarray | None:
        """Where ``stamps`` of ``cells`` are later than the last barrier of all threads of their block, None for
        nowhere."""
        found = stamps > clocks.settled.min()
        if clocks.settled.size > 1 and found.any():
            found &= stamps > clocks.settled[cells // self.per_block]
        return found if found.any() else None

    def note_read(
        self, clocks: Clocks, cells: np.ndarray, count: int, threads: np.ndarray, times: np.ndarray, code: int,
        generic: bool,
    ) -> None:  # fmt: skip
        """Reads of ``cells``, ``count`` of them by each of ``threads``."""
        stamp, met = clocks.stamp(), clocks.met[warp_of(threads) - clocks.first]
        self.read[cells] = stamp
        self.pending.append((stamp, cells, count, threads, times, met, code, generic))
        self.pending_reads += cells.size
        if generic and self.unfenced_reads is not None or self.pending_reads > _LOG_READS:
            self._bring_up_to_date(clocks)

    def _bring_up_to_date(self, clocks: Clocks) -> None:
        """Put the pending reads that may matter still into the arrays."""
        settled = 0 if self.unfenced_reads is not None else int(clocks.settled.min())
        for stamp, cells, count, *columns, code, generic in self.pending:
            if stamp > settled:
                self._put_read(cells, *(repeated(column, count) for column in columns), code, generic)
        self.pending, self.pending_reads = [], 0

    def _put_read(
        self, cells: np.ndarray, threads: np.ndarray, times: np.ndarray, met: np.ndarray, code: int, generic: bool
    ) -> None:
        """``met``: the clocks of the threads' warps when their lanes had last met."""
        warps = warp_of(threads)
        lanes = np.where(threads >= 0, threads & 31, _SEVERAL).astype(np.int8)
        at = cells * self.width + warps % self.width
        of_lane, of_clock = self.read_lane.reshape(-1), self.read_clock.reshape(-1)
        since = of_clock[at] >= met
        lanes[since & (of_lane[at] != lanes)] = _SEVERAL
        of_lane[at] = lanes
        mixed = of_lane[at] != lanes  # lanes of one warp read one place together
        if mixed.any():
            of_lane[at[mixed]] = _SEVERAL
        of_clock[at] = times
        self.read_code.reshape(-1)[at] = code
        if generic and self.unfenced_reads is not None:
            self.unfenced_reads.reshape(-1)[at] = True

    def unordered_reads(self, clocks: Clocks, cells: np.ndarray, threads: np.ndarray):
        """(position, thread that read, code) of reads of ``cells`` that are not before writes by ``threads`` now."""
        recent = self.recent(clocks, self.read[cells], cells)
        if recent is None:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        self._bring_up_to_date(clocks)
        chosen = np.flatnonzero(recent)
        cells, threads = cells[chosen], threads[chosen]
        rows = warp_of(threads) - clocks.first
        times = self.read_clock[cells]
        suspects = times > clocks.known[rows]
        own = rows % self.width
        at = np.arange(cells.size)
        lanes = self.read_lane[cells, own]
        suspects[at, own] = (times[at, own] >= clocks.met[rows]) & (lanes != threads & 31)
        positions, columns = np.nonzero(suspects)
        if not positions.size:
            return positions, positions, positions
        warps = clocks.first + rows[positions] - own[positions] + columns
        lanes = self.read_lane[cells[positions], columns]
        others = np.where(lanes == _SEVERAL, -2 - warps, warps * 32 + lanes)
        times = times[positions, columns]
        bad = clocks.unordered(threads[positions], others, times)
        return chosen[positions[bad]], others[bad], self.read_code[cells[positions[bad]], columns[bad]]


class GlobalCells:
    """One allocation.  ``pending`` are reads that no write has had to be compared with yet, ``log`` the others."""

    __slots__ = ("code", "copies", "last", "log", "pending", "pending_reads", "several", "size", "time", "writes")

    def __init__(self, size: int, copies: bool) -> None:
        self.size = size
        self.copies = copies  # whether copies of the asynchronous proxy may read here
        self.writes: Cells | None = None
        self.pending: list[tuple] = []
        self.pending_reads = 0
        self.log: list[tuple[np.ndarray, ...]] = []

    def note_read(self, cells: np.ndarray, count: int, threads: np.ndarray, times: np.ndarray, code: int) -> None:
        """Reads of ``count`` granules from each of ``cells`` on."""
        self.pending.append((cells, count, threads, times, code))
        self.pending_reads += cells.size * count
        while self.pending_reads > _LOG_READS and len(self.pending) > 1:
            first = self.pending.pop(0)
            self.pending_reads -= first[0].size * first[1]

    def begin_writes(self) -> Cells:
        """Bring what is remembered of reads up to date, for a write that is about to come."""
        if self.writes is None:
            self.writes = Cells(self.size, self.copies)
            self.last = np.full(self.size, -1, np.int32)
            self.time = np.zeros(self.size, np.int32)
            self.code = np.zeros(self.size, np.int32)
            self.several = np.zeros(self.size, bool)
        for cells, count, threads, times, code in self.pending:
            cells, threads, times = expand(cells, count, threads, times)
            mixed = (self.last[cells] != -1) & (self.last[cells] != threads)
            self.last[cells] = threads
            mixed |= self.last[cells] != threads
            self.several[cells[mixed]] = True
            self.time[cells] = times
            self.code[cells] = code
            self.log.append((cells, threads, times, np.full(cells.size, code, np.int32)))
        self.pending, self.pending_reads = [], 0
        if sum(entry[0].size for entry in self.log) > _LOG_READS:
            self._compact(self.several)
        return self.writes

    def _compact(self, wanted: np.ndarray) -> None:
        """Keep the log of ``wanted`` granules alone: of others the last read says all."""
        columns = [np.concatenate(column) for column in zip(*self.log)]
        chosen = wanted[columns[0]]
        self.log = [tuple(column[chosen][-_LOG_READS:] for column in columns)]

    def unordered_reads(self, clocks: Clocks, cells: np.ndarray, threads: np.ndarray):
        """As `SharedCells.unordered_reads`; the reads of ``cells`` are then forgotten."""
        last, several = self.last[cells], self.several[cells]
        at = np.flatnonzero((last != -1) & (last != threads) & ~several)
        bad = clocks.unordered(threads[at], last[at], self.time[cells[at]])
        at = at[bad]
        found = at, last[at], self.code[cells[at]]
        if several.any() and not at.size:
            found = self._logged(clocks, cells[several], threads[several], np.flatnonzero(several))
        self.last[cells] = -1
        self.several[cells] = False
        return found

    def _logged(self, clocks: Clocks, cells: np.ndarray, threads: np.ndarray, positions: np.ndarray):
        self._compact(self.several)
        place = np.full(self.size, -1, np.int64)
        place[cells] = np.arange(cells.size)
        logged, others, times, codes = self.log[0]
        at = place[logged]
        rival = (at >= 0) & (others != threads[at])
        at, others, times, codes = at[rival], others[rival], times[rival], codes[rival]
        bad = clocks.unordered(threads[at], others, times)
        return positions[at[bad]], others[bad], codes[bad]


def expand(cells: np.ndarray, count: int, *columns: np.ndarray):
    """``count`` granules from each of ``cells`` on, and the columns' elements once for each."""
    if count == 1:
        return cells, *columns
    return (cells[:, None] + np.arange(count)).reshape(-1), *(np.repeat(column, count) for column in columns)


def repeated(column: np.ndarray, count: int) -> np.ndarray:
    return column if count == 1 else np.repeat(column, count)


class RaceChecker:
    """The accesses of one launch.  Races are reported by the group that finds them, as EmulationError."""

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
        """An instruction and the scope of its access in one number."""
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
        """(what is remembered of the memory, first granule of every element, granules per element)."""
        size = access.data.dtype.itemsize
        if access.shared:
            return self.shared, access.index * size // self.granule, max(1, size // self.granule)
        allocation = access.allocation
        if allocation is None or not allocation.writable:
            return None, None, 0
        known = self.allocations.get(id(allocation))
        if known is None:
            size_in_granules = -(-allocation.size // self.global_granule) + 1
            cells = GlobalCells(size_in_granules, self.launch.program.bulk_copies)
            known = self.allocations[id(allocation)] = (allocation, cells)
        first = (access.address - allocation.address + access.index * size) // self.global_granule
        return known[1], first, max(1, size // self.global_granule)

    def _keys(self, access: Access, first: np.ndarray) -> np.ndarray:
        """Locations as the clocks know them: granules of global memory, the batch's shared memory below zero."""
        if access.shared:
            return -1 - first
        return first + access.allocation.address // self.global_granule

    # -- accesses --------------------------------------------------------------------------------------------------

    def read(
        self, group: WarpGroup, item: Instruction, access: Access, order: Order = WEAK, whole_warp: bool = False,
        generic: bool = True
    ) -> None:
        """Loads through the generic or the asynchronous proxy; ``whole_warp``: what a lane's address names goes to all
        lanes of its warp."""
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

    def write(
        self, group: WarpGroup, item: Instruction, access: Access, values: np.ndarray, order: Order = WEAK,
        generic: bool = True
    ) -> None:
        """Store ``values``, one per element of ``access``, through the generic or the asynchronous proxy."""
        data, index = access.data, access.index
        state, first, count = self._cells(access)
        if state is None:
            data[index] = values
            return
        threads = group.numbers if access.threads is None else group.numbers[access.threads]
        values = np.ascontiguousarray(values)
        changes = differ(data[index], values)
        data[index] = values
        if order.strong:
            self.clocks.synchronise(threads.tolist(), self._keys(access, first).tolist(), order, False, True)
        elif self.clocks.locations and not self.clocks.exhausted:
            self.clocks.overwrite(self._keys(access, first))
        if not changes.any():
            return
        lost = differ(data[index], values)
        if not changes.all():
            first, threads, lost = first[changes], threads[changes], lost[changes]
        cells, threads, lost = expand(first, count, threads, lost)
        missing = "" if generic else "nobody waited in between for what it writes"
        writes = self.begin_write(group, item, access, cells, threads, order, missing)
        times = self.clocks.own[(threads >> 5) - self.clocks.first]
        code = self.code(item, order)
        writes.record(cells, threads, times, code)
        if access.shared:
            writes.written[cells] = self.clocks.stamp()
        if writes.unfenced is not None:
            writes.unfenced[cells] = generic
        together = writes.writer[cells] != threads
        if together.any():
            writes.writer[cells[together]] = -2 - (threads[together] >> 5)
        if lost.any():
            # Two threads of this very instruction wrote different values to one place.
            at = np.flatnonzero(lost)
            if at.size and not order.strong:
                same = (cells == cells[at[0]]) & ~lost
                other = int(threads[same.argmax()])
                self.report(group, item, access, int(cells[at[0]]), int(threads[at[0]]), other, code, "written")

    def update(
        self, group: WarpGroup, item: Instruction, access: Access, order: Order, turns: np.ndarray, generic: bool = True
    ) -> None:
        """Read-modify-writes, the elements of ``access`` one after the other as ``turns`` says, through the generic or
        the asynchronous proxy."""
        state, first, count = self._cells(access)
        if state is None:
            return
        threads = group.numbers if access.threads is None else group.numbers[access.threads]
        cells, everyone = expand(first, count, threads)
        writes = self.begin_write(group, item, access, cells, everyone, order)
        times = self.clocks.own[(everyone >> 5) - self.clocks.first]
        code = self.code(item, order)
        writes.record(cells, everyone, times, code)
        if access.shared:
            writes.written[cells] = self.clocks.stamp()
        if writes.unfenced is not None:
            writes.unfenced[cells] = generic
        if order.scope < GPU:
            # Threads of this very instruction that are outside each other's scopes.
            last = writes.writer[cells]
            at = np.flatnonzero(~self._morally_strong(everyone, last, writes.code[cells], order))
            if at.size:
                place, rival = int(cells[at[0]]), int(last[at[0]])
                self.report(group, item, access, place, int(everyone[at[0]]), rival, code, "written")
        if self.clocks.locations or self.clocks.fences or order.releases:
            keys = self._keys(access, first[turns]).tolist()
            self.clocks.synchronise(threads[turns].tolist(), keys, order, True, True)

    def begin_write(
        self, group: WarpGroup, item: Instruction, access: Access, cells: np.ndarray, threads: np.ndarray,
        order: Order = WEAK, missing: str = ""
    ) -> Cells:
        """Check that writes of ``cells`` may happen now; gives where they are to be recorded.  ``missing``: what is
        said of reads that are not before them, instead of what would order two threads."""
        state = self._cells(access)[0]
        writes = state if access.shared else state.begin_writes()
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
        """(thread, its clock, instruction) of the last write in this launch of global memory, None where nobody wrote;
        of several writes that of the greatest clock."""
        state, first, count = self._cells(access)
        if state is None or state.writes is None:
            return None
        cells = np.unique(expand(first, count)[0])
        cells = cells[state.writes.writer[cells] != -1]
        if not cells.size:
            return None
        last = cells[state.writes.clock[cells].argmax()]
        return int(state.writes.writer[last]), int(state.writes.clock[last]), self.items[state.writes.code[last] >> 3]

    def granules(
        self, group: WarpGroup, access: Access
    ) -> tuple[SharedCells | GlobalCells | None, np.ndarray, np.ndarray]:
        """(what is remembered of the memory, granules, the thread of each) of an access by given threads."""
        state, first, count = self._cells(access)
        if state is None:
            return None, np.zeros(0, np.int64), np.zeros(0, np.int32)
        return state, *expand(first, count, group.numbers[access.threads])

    def _check(
        self, group: WarpGroup, item: Instruction, access: Access, writes: Cells, cells: np.ndarray,
        threads: np.ndarray, order: Order, actual: np.ndarray,
    ) -> None:  # fmt: skip
        """The last writes of ``cells`` have to be before what ``threads`` do now."""
        if access.shared:
            recent = writes.recent(self.clocks, writes.written[cells], cells)
            if recent is None:
                return
            if not recent.all():
                cells, threads, actual = cells[recent], threads[recent], actual[recent]
        last = writes.writer[cells]
        if order.semantics == "nc":
            at = np.flatnonzero(last != -1)  # this path need not see anything that is written while the kernel runs
        else:
            at = np.flatnonzero((last != -1) & (last != threads))
            if at.size:
                at = at[(last[at] >= 0) | (warp_of(threads[at]) != -2 - last[at])]
        if at.size and order.strong:
            at = at[~self._morally_strong(actual[at], last[at], writes.code[cells[at]], order)]
        # What the clocks say is asked last, of few: through many releases it takes long to find.
        if at.size and order.semantics != "nc":
            at = at[self.clocks.unordered(threads[at], last[at], writes.clock[cells[at]])]
        if at.size:
            place = cells[at[0]]
            thread, other, code = int(actual[at[0]]), int(last[at[0]]), int(writes.code[place])
            self.report(group, item, access, int(place), thread, other, code, "written", order)

    def _morally_strong(self, threads: np.ndarray, others: np.ndarray, codes: np.ndarray, order: Order) -> np.ndarray:
        """Whether writes that ``codes`` describe are strong, at scopes that fit each other."""
        scope = np.minimum((codes & 7) - 1, order.scope)
        blocks, rivals = (self.clocks.block_of(warp_of(each)) for each in (threads, others))
        clusters, far = blocks // self.clocks.members, rivals // self.clocks.members
        needed = np.where(blocks == rivals, CTA, np.where(clusters == far, CLUSTER, GPU))
        return scope >= needed

    # -- reports ---------------------------------------------------------------------------------------------------

    def report(
        self, group: WarpGroup, item: Instruction, access: Access, cell: int, thread: int, other: int, code: int,
        what: str, order: Order = WEAK,
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
            missing = "ld.global.nc reads what no thread writes"
        elif warp == thread >> 5:
            who, missing = "another lane of the warp", "no bar.warp.sync between"
        elif block == own:
            missing = "no barrier between"
        else:
            who += f" of block {tuple(int(v) for v in self.order[:, block])}"
            missing = "no release and acquire between whose scopes take in both"
        if access.shared:
            address = cell * self.granule - int(group.shared_base[position])
            where = f"shared address {address:#x}"
        else:
            address = access.allocation.address + cell * self.global_granule
            where = f"address {address:#x} of {access.allocation.name}"
        group.fault(
            f"race on {where}: {what} by {who} at line {earlier.line} ({earlier.text}), and {missing}",
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
