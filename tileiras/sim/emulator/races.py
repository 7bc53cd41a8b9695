"""Races on shared memory: two accesses of one byte by different warps of a block, one of them a write, that no barrier
orders (PTX ISA, "Memory Consistency Model": morally strong or ordered by causality).

Every warp has a vector clock over the warps of its block; a barrier joins the clocks of those that arrive into those
that wait.  Memory remembers, per granule of the smallest access in the program, the last write and every warp's last
read.  Within a warp, program order counts as order.  Atomics and transaction barriers order more than the model says
here: each joins a clock of the whole block, so that hand-written synchronisation is never called a race.
"""

from __future__ import annotations

import numpy as np

from .ptx_parser import Instruction


class RaceChecker:
    """``granule`` bytes are told apart; ``warps`` per block."""

    def __init__(self, batch, granule: int, warps: int) -> None:
        self.granule = granule
        self.items: list[Instruction] = []
        self.numbers: dict[int, int] = {}
        cells = batch.shared.size // granule
        self.clocks = np.zeros((batch.count, warps, warps), np.int32)
        self.clocks[:, np.arange(warps), np.arange(warps)] = 1
        self.common = np.zeros((batch.count, warps), np.int32)  # what atomics and exited warps have published
        self.joined = np.zeros((batch.count, 16, warps), np.int32)  # per barrier, what has arrived
        self.writer = np.zeros(cells, np.int8)
        self.write_clock = np.zeros(cells, np.int32)
        self.write_item = np.zeros(cells, np.int32)
        self.read_clock = np.zeros((cells, warps), np.int32)
        self.read_item = np.zeros(cells, np.int32)

    def _number(self, item: Instruction) -> int:
        number = self.numbers.get(id(item))
        if number is None:
            number = self.numbers[id(item)] = len(self.items)
            self.items.append(item)
        return number

    # -- order -----------------------------------------------------------------------------------------------------

    def publish(self, group, barrier: np.ndarray | None) -> None:
        """The active warps arrive at a barrier (one number per warp), or release to the whole block when None."""
        warps, blocks = _active_warps(group)
        own = self.clocks[blocks, warps]
        if barrier is None:
            np.maximum.at(self.common, blocks, own)
        else:
            np.maximum.at(self.joined, (blocks, barrier), own)
        self.clocks[blocks, warps, warps] += 1

    def acquire(self, group) -> None:
        """The active warps see all that has been published to the block."""
        warps, blocks = _active_warps(group)
        self.clocks[blocks, warps] = np.maximum(self.clocks[blocks, warps], self.common[blocks])

    def release(self, group, lanes: np.ndarray, number: int) -> None:
        """The warps of ``lanes`` leave a barrier."""
        chosen = np.flatnonzero(lanes.reshape(-1, 32).any(1))
        warps, blocks = group.thread[chosen * 32] // 32, group.warp_cta[chosen]
        seen = np.maximum(self.joined[blocks, number], self.common[blocks])
        self.clocks[blocks, warps] = np.maximum(self.clocks[blocks, warps], seen)

    def reset(self, full: np.ndarray) -> None:
        """``full`` (blocks, 16): barriers that start over."""
        self.joined[full] = 0

    # -- accesses --------------------------------------------------------------------------------------------------

    def _cells(self, group, offsets: np.ndarray, size: int, threads: np.ndarray):
        """Per granule touched: its number, the thread's position, the warp, the warp's clock."""
        count = max(1, size // self.granule)
        cells = (offsets[:, None] // self.granule + np.arange(count)).reshape(-1)
        lanes = np.repeat(np.arange(offsets.size), count)
        warps = group.thread[threads[lanes]] // 32
        return cells, lanes, warps, self.clocks[group.cta[threads[lanes]], warps]

    def read(self, group, item: Instruction, offsets: np.ndarray, size: int, threads: np.ndarray | None) -> None:
        """Check and record loads of ``size`` bytes at byte ``offsets`` of the batch's shared memory."""
        threads = np.arange(group.n) if threads is None else threads
        count = max(1, size // self.granule)
        cells = offsets[:, None] // self.granule + np.arange(count)
        warps, blocks = group.thread[threads] // 32, group.cta[threads]
        last = self.writer[cells]
        seen = self.clocks[blocks[:, None], warps[:, None], last]
        bad = (seen < self.write_clock[cells]) & (last != warps[:, None])
        if bad.any():
            flat = [each.reshape(-1) for each in (bad, cells, last)]
            self._report(group, item, np.repeat(threads, count), *flat, self.write_item[flat[1]], "written")
        self.read_clock[cells, warps[:, None]] = self.clocks[blocks, warps, warps][:, None]
        self.read_item[cells] = self._number(item)

    def write(self, group, item: Instruction, access, values: np.ndarray) -> None:
        """Store ``values``, one per thread of ``access``, checking and recording.

        Writing what is there already is no race: threads that hold copies of one element may all store it.
        """
        data, index = access.data, access.index
        size = data.dtype.itemsize
        threads = np.arange(group.n) if access.threads is None else access.threads
        wanted = _bytes(values)
        changes = (_bytes(data[index]) != wanted).any(1)
        data[index] = values
        lost = (_bytes(data[index]) != wanted).any(1)
        if not changes.any():
            return
        cells, lanes, warps, clocks = self.begin_write(group, item, index[changes] * size, size, threads[changes])
        self.writer[cells] = warps
        self.write_clock[cells] = clocks[np.arange(cells.size), warps]
        self.write_item[cells] = self._number(item)
        bad = (self.writer[cells] != warps) & lost[changes][lanes]
        if bad.any():
            places = threads[changes][lanes]
            self._report(group, item, places, bad, cells, self.writer[cells], self.write_item[cells], "written")

    def begin_write(self, group, item: Instruction, offsets: np.ndarray, size: int, threads: np.ndarray):
        """Check that a write of ``size`` bytes at byte ``offsets`` may happen now; gives what `_cells` does."""
        cells, lanes, warps, clocks = self._cells(group, offsets, size, threads)
        rows = np.arange(cells.size)
        last = self.writer[cells].astype(np.int64)
        bad = (last != warps) & (clocks[rows, last] < self.write_clock[cells])
        if bad.any():
            self._report(group, item, threads[lanes], bad, cells, last, self.write_item[cells], "written")
        unseen = clocks < self.read_clock[cells]
        unseen[rows, warps] = False
        if unseen.any():
            bad, who = unseen.any(1), unseen.argmax(1)
            self._report(group, item, threads[lanes], bad, cells, who, self.read_item[cells], "read")
        return cells, lanes, warps, clocks

    def _report(self, group, item, threads, bad, cells, others, items, what: str) -> None:
        at = int(bad.argmax())
        thread, other = int(threads[at]), self.items[int(items[at])]
        address = int(cells[at]) * self.granule - int(group.shared_base[thread])
        group.fault(
            f"race on shared address {address:#x}: {what} by warp {int(others[at])} at line {other.line} "
            f"({other.text}), and no barrier between",
            item,
            thread,
            address,
        )


def _bytes(values: np.ndarray) -> np.ndarray:
    """(n, size) uint8."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(values.size, -1)


def _active_warps(group) -> tuple[np.ndarray, np.ndarray]:
    """Warp numbers and blocks of the warps with active threads."""
    chosen = np.flatnonzero(group.active_lanes().any(1))
    return group.thread[chosen * 32] // 32, group.warp_cta[chosen]
