"""Memory state of the race checker: the last write of each granule, and the reads since.

For global memory it stores only pages that a launch touches, since arrays may be larger than the free memory.
"""

from __future__ import annotations

import numpy as np

from .happens_before import Clocks
from .knowledge import warp_of

#: Most reads of one allocation that are recorded; older ones are dropped.
_LOG_READS = 1 << 22
_SEVERAL = 32  # instead of a lane
_PAGE_BITS = 8  # granules of a page of global memory, as a power of two


class Cells:
    """The last write of each granule: its thread, the clock of its warp, and its `RaceChecker.code`.

    Thread -1 is no thread, and -2-w represents lanes of warp w that wrote the same together. ``unfenced``: the fences
    for the asynchronous proxy that cover a write by the generic one (`proxies`); None if the asynchronous proxy does
    not access the memory.
    """

    __slots__ = ("clock", "code", "unfenced", "writer")

    def __init__(self, count: int, asynchronous: bool = False) -> None:
        self.writer = np.full(count, -1, np.int32)
        self.unfenced = np.zeros(count, np.int32) if asynchronous else None
        self.clock = np.zeros(count, np.int32)
        self.code = np.zeros(count, np.int32)

    def places(self, cells: np.ndarray) -> np.ndarray:
        """Positions of granules in the arrays."""
        return cells

    def record(self, cells: np.ndarray, threads: np.ndarray, clocks: np.ndarray, code: int) -> None:
        self.writer[cells] = threads
        self.clock[cells] = clocks
        self.code[cells] = code


class SharedCells(Cells):
    """Shared memory of a batch, with the last read of every warp of the cluster; ``unfenced_reads``: the fences
    that cover a warp's last read through the generic proxy, None if no copy of the asynchronous proxy may write.

    ``written`` and ``read`` are the stamps of the last writes and reads. ``pending`` reads are otherwise not in the
    arrays yet: mostly they need not be, since a barrier of the block precedes the next write.
    """

    __slots__ = (
        "pending", "pending_reads", "per_block", "read", "read_clock", "read_code", "read_lane", "unfenced_reads",
        "width", "written",
    )  # fmt: skip

    #: Bytes per granule, in addition to those per warp.
    BYTES = 32
    BYTES_PER_WARP = 13

    def __init__(self, count: int, blocks: int, width: int, copies: bool) -> None:
        super().__init__(count, True)
        self.width = width
        self.per_block = count // blocks
        self.written = np.zeros(count, np.int64)
        self.read = np.zeros(count, np.int64)
        self.pending: list[tuple] = []
        self.pending_reads = 0
        self.unfenced_reads = np.zeros((count, width), np.int32) if copies else None
        self.read_clock = np.zeros((count, width), np.int32)
        self.read_code = np.zeros((count, width), np.int32)
        self.read_lane = np.zeros((count, width), np.int8)

    def recent(self, clocks: Clocks, stamps: np.ndarray, cells: np.ndarray) -> np.ndarray | None:
        """Mask of ``cells`` whose ``stamps`` are later than the last barrier of all threads of their block, None if
        there are no such cells."""
        result = stamps > clocks.settled.min()
        if clocks.settled.size > 1 and result.any():
            result &= stamps > clocks.settled[cells // self.per_block]
        return result if result.any() else None

    def note_read(
        self, clocks: Clocks, cells: np.ndarray, count: int, threads: np.ndarray, times: np.ndarray, code: int,
        generic: bool,
    ) -> None:  # fmt: skip
        """Record reads of ``cells``, ``count`` of them by each of ``threads``."""
        stamp, convergence = clocks.stamp(), clocks.met[warp_of(threads) - clocks.first]
        self.read[cells] = stamp
        self.pending.append((stamp, cells, count, threads, times, convergence, code, generic))
        self.pending_reads += cells.size
        if generic and self.unfenced_reads is not None or self.pending_reads > _LOG_READS:
            self._bring_up_to_date(clocks)

    def _bring_up_to_date(self, clocks: Clocks) -> None:
        """Move the pending reads that may still matter to the arrays."""
        horizon = 0 if self.unfenced_reads is not None else int(clocks.settled.min())
        for stamp, cells, count, *columns, code, generic in self.pending:
            if stamp > horizon:
                self._put_read(cells, *(repeated(column, count) for column in columns), code, generic)
        self.pending, self.pending_reads = [], 0

    def _put_read(
        self, cells: np.ndarray, threads: np.ndarray, times: np.ndarray, limits: np.ndarray, code: int, generic: bool
    ) -> None:
        """``limits``: the clocks of the threads' warps at their last convergence."""
        warps = warp_of(threads)
        lanes = np.where(threads >= 0, threads & 31, _SEVERAL).astype(np.int8)
        at = cells * self.width + warps % self.width
        of_lane, of_clock = self.read_lane.reshape(-1), self.read_clock.reshape(-1)
        since = of_clock[at] >= limits
        lanes[since & (of_lane[at] != lanes)] = _SEVERAL
        of_lane[at] = lanes
        mixed = of_lane[at] != lanes  # lanes of one warp read one place together
        if mixed.any():
            of_lane[at[mixed]] = _SEVERAL
        of_clock[at] = times
        self.read_code.reshape(-1)[at] = code
        if generic and self.unfenced_reads is not None:
            self.unfenced_reads.reshape(-1)[at] = 1

    def unordered_reads(self, clocks: Clocks, cells: np.ndarray, threads: np.ndarray):
        """(position, reading thread, code) of reads of ``cells`` that do not happen before present writes by
        ``threads``."""
        recent = self.recent(clocks, self.read[cells], cells)
        if recent is None:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        self._bring_up_to_date(clocks)
        recent_positions = np.flatnonzero(recent)
        cells, threads = cells[recent_positions], threads[recent_positions]
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
        return recent_positions[positions[bad]], others[bad], self.read_code[cells[positions[bad]], columns[bad]]


class PagedCells(Cells):
    """Granules of an allocation, only of those pages that have been written, or read before a write.

    ``last``, ``time``, ``read_code``: the last read since the last write; ``several``: by several threads. The first
    page of the arrays represents all absent pages: neither written nor read.
    """

    __slots__ = ("last", "pages", "read_code", "several", "table", "time")

    def __init__(self, count: int, asynchronous: bool) -> None:
        super().__init__(1 << _PAGE_BITS, asynchronous)
        self.last = np.full(1 << _PAGE_BITS, -1, np.int32)
        self.time = np.zeros(1 << _PAGE_BITS, np.int32)
        self.read_code = np.zeros(1 << _PAGE_BITS, np.int32)
        self.several = np.zeros(1 << _PAGE_BITS, bool)
        self.pages = 1
        self.table = np.zeros((count >> _PAGE_BITS) + 1, np.int32)  # mapped lazily by the operating system

    def places(self, cells: np.ndarray) -> np.ndarray:
        pages = self.table[cells >> _PAGE_BITS].astype(np.int64)
        return pages << _PAGE_BITS | cells & (1 << _PAGE_BITS) - 1

    def add(self, cells: np.ndarray) -> np.ndarray:
        """`places`, which are allocated if absent."""
        numbers = cells >> _PAGE_BITS
        absent = np.unique(numbers[self.table[numbers] == 0])
        if absent.size:
            self.table[absent] = np.arange(self.pages, self.pages + absent.size)
            self.pages += absent.size
            if self.pages << _PAGE_BITS > self.last.size:
                self._grow(max(self.pages << _PAGE_BITS, 2 * self.last.size))
        return self.places(cells)

    def _grow(self, size: int) -> None:
        for name in ("writer", "last", "clock", "code", "time", "read_code", "several", "unfenced"):
            if (array := getattr(self, name)) is not None:
                larger = np.full(size, -1 if name in ("writer", "last") else 0, array.dtype)
                larger[: array.size] = array
                setattr(self, name, larger)


class GlobalCells:
    """One allocation. ``pending`` are reads not yet compared with a write, ``log`` the others, by their places in
    ``writes``."""

    __slots__ = ("copies", "log", "pending", "pending_reads", "size", "writes")

    def __init__(self, size: int, copies: bool) -> None:
        self.size = size
        self.copies = copies  # whether copies of the asynchronous proxy may read here
        self.writes: PagedCells | None = None
        self.pending: list[tuple] = []
        self.pending_reads = 0
        self.log: list[tuple[np.ndarray, ...]] = []

    def note_read(self, cells: np.ndarray, count: int, threads: np.ndarray, times: np.ndarray, code: int) -> None:
        """Record reads of ``count`` granules from each of ``cells`` on."""
        self.pending.append((cells, count, threads, times, code))
        self.pending_reads += cells.size * count
        while self.pending_reads > _LOG_READS and len(self.pending) > 1:
            first = self.pending.pop(0)
            self.pending_reads -= first[0].size * first[1]

    def begin_writes(self, cells: np.ndarray) -> PagedCells:
        """Record the pending reads, before writes of ``cells``."""
        if self.writes is None:
            self.writes = PagedCells(self.size, self.copies)
        writes = self.writes
        for read_cells, count, threads, times, code in self.pending:
            read_cells, threads, times = expand(read_cells, count, threads, times)
            at = writes.add(read_cells)
            mixed = (writes.last[at] != -1) & (writes.last[at] != threads)
            writes.last[at] = threads
            mixed |= writes.last[at] != threads
            writes.several[at[mixed]] = True
            writes.time[at] = times
            writes.read_code[at] = code
            self.log.append((at, threads, times, np.full(at.size, code, np.int32)))
        self.pending, self.pending_reads = [], 0
        if sum(entry[0].size for entry in self.log) > _LOG_READS:
            self._compact(writes.several)
        writes.add(cells)
        return writes

    def _compact(self, places: np.ndarray) -> None:
        """Keep the log only for ``places`` places: for others the last read suffices."""
        columns = [np.concatenate(column) for column in zip(*self.log)]
        keep = places[columns[0]]
        self.log = [tuple(column[keep][-_LOG_READS:] for column in columns)]

    def unordered_reads(self, clocks: Clocks, cells: np.ndarray, threads: np.ndarray):
        """As `SharedCells.unordered_reads`; also discards the reads of ``cells``."""
        writes = self.writes
        places = writes.places(cells)
        last, several = writes.last[places], writes.several[places]
        at = np.flatnonzero((last != -1) & (last != threads) & ~several)
        bad = clocks.unordered(threads[at], last[at], writes.time[places[at]])
        at = at[bad]
        result = at, last[at], writes.read_code[places[at]]
        if several.any() and not at.size:
            result = self._logged(clocks, places[several], threads[several], np.flatnonzero(several))
        writes.last[places] = -1
        writes.several[places] = False
        return result

    def _logged(self, clocks: Clocks, places: np.ndarray, threads: np.ndarray, positions: np.ndarray):
        self._compact(self.writes.several)
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        logged, others, times, codes = self.log[0]
        at = np.maximum(np.searchsorted(ordered, logged, side="right") - 1, 0)
        is_write, at = ordered[at] == logged, order[at]
        rival = is_write & (others != threads[at])
        at, others, times, codes = at[rival], others[rival], times[rival], codes[rival]
        bad = clocks.unordered(threads[at], others, times)
        return positions[at[bad]], others[bad], codes[bad]


def expand(cells: np.ndarray, count: int, *columns: np.ndarray):
    """``count`` granules from each of ``cells`` on, and the columns' elements repeated for each."""
    if count == 1:
        return cells, *columns
    return (cells[:, None] + np.arange(count)).reshape(-1), *(np.repeat(column, count) for column in columns)


def repeated(column: np.ndarray, count: int) -> np.ndarray:
    return column if count == 1 else np.repeat(column, count)
