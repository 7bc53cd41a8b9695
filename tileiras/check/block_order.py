"""Which accesses of the tile blocks of a run are ordered: through atomic operations and ordered accesses at one place.

Each tile block has a vector clock: for each block, how many of its ordering operations happened before. An ordering
operation learns the clocks that earlier ones left at its places, and leaves its own. That is more than memory orders
promise (a relaxed operation orders nothing), so that accesses which are not ordered here are a race of the program.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tileiras.sim.memory import Allocation


class Access(NamedTuple):
    """An access: number of the tile block, its ordering operations before, its clock, the allocation's address, and
    the first byte of each element."""

    block: int
    wrote: bool
    time: int
    clock: np.ndarray
    owner: int
    places: np.ndarray
    itemsize: int

    @property
    def unit(self) -> int:
        """Bytes of the largest aligned runs that elements cover as a whole."""
        return int(np.gcd.reduce(self.places, initial=self.itemsize))

    def units(self, size: int) -> np.ndarray:
        """The numbers of the runs of `size` bytes that the elements cover, where it divides `unit`."""
        return ((self.places // size).reshape(-1, 1) + np.arange(self.itemsize // size)).reshape(-1)


class BlockOrder:
    """The accesses of a run in the order of their execution."""

    def __init__(self) -> None:
        self.record: list[Access] = []
        self.orders = False
        """Whether the operation that accesses memory now may order its tile block after others."""
        self.synchronises = False
        """Whether any has."""
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._clocks: list[np.ndarray] = []
        self._releases: list[np.ndarray] = []
        """Clocks that ordering operations have left."""
        self._last: dict[int, np.ndarray] = {}
        """Address of an allocation -> by byte, the number from 1 of the clock that was left there last."""
        self._sites: list[tuple[int, np.ndarray]] = []
        """Places of the present operation."""

    def record_access(
        self, block: tuple[int, int, int], wrote: bool, allocation: Allocation, places: np.ndarray, itemsize: int
    ) -> None:
        number = self._number(block)
        if self.orders:
            last = self._last.setdefault(allocation.address, np.zeros(allocation.size, np.int32))
            self._sites.append((allocation.address, places))
            for at in np.unique(last[places]).tolist():
                if at:
                    self._clocks[number] = _join(self._clocks[number], self._releases[at - 1])
        clock = self._clocks[number]
        self.record.append(Access(number, wrote, int(clock[number]), clock, allocation.address, places, itemsize))

    def end(self, block: tuple[int, int, int]) -> None:
        """An ordering operation has ended: it leaves its clock."""
        if self._sites:
            number = self._number(block)
            clock = self._clocks[number] = self._clocks[number].copy()
            clock[number] += 1
            self._releases.append(clock)
            for owner, places in self._sites:
                self._last[owner][places] = len(self._releases)
            self._sites, self.synchronises = [], True
        self.orders = False

    def _number(self, block: tuple[int, int, int]) -> int:
        number = self._numbers.setdefault(block, len(self._numbers))
        if number == len(self._clocks):
            # Clocks have room for twice the blocks, so that few have to grow.
            self._clocks = [_of_size(each, 2 * number + 2) for each in self._clocks]
            self._releases = [_of_size(each, 2 * number + 2) for each in self._releases]
            self._clocks.append(np.zeros(2 * number + 2, np.int64))
        return number

    def races_at(self, allocation: Allocation, byte: int, count: int) -> bool:
        """Whether any of `count` bytes races."""
        return bool(self.races(allocation, 1)[byte : byte + count].any())

    def races(self, allocation: Allocation, itemsize: int) -> np.ndarray:
        """Which elements of an allocation race: one store writes them twice, or two tile blocks access them, one of
        them writing, and neither access happens before the other."""
        record = [each for each in self.record if each.owner == allocation.address]
        unit = math.gcd(*(each.unit for each in record)) or 1
        count = -(-allocation.size // unit)
        result = np.zeros(count, bool)
        writer, write_time = np.full(count, -1), np.zeros(count, np.int64)
        reads: dict[int, np.ndarray] = {}
        """Tile block -> by unit, the time of its last read, -1 without one since the last write."""
        for each in record:
            at, times = np.unique(each.units(unit), return_counts=True)
            last = writer[at]
            result[at] |= (last >= 0) & (last != each.block) & (each.clock[last] <= write_time[at])
            if not each.wrote:
                reads.setdefault(each.block, np.full(count, -1))[at] = each.time
                continue
            result[at[times > 1]] = True
            for block, time in reads.items():
                if block != each.block:
                    result[at] |= (time[at] >= 0) & (each.clock[block] <= time[at])
                time[at] = -1
            writer[at], write_time[at] = each.block, each.time
        elements = np.zeros(-(-allocation.size // itemsize) * itemsize, bool)
        elements[: allocation.size] = np.repeat(result, unit)[: allocation.size]
        return elements.reshape(-1, itemsize).any(1)


class Updates:
    """The atomic updates of a run: whether those of a tile block may have others of another one between them."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        """Tile block -> the number of its updates."""
        self._blocks: dict[int, np.ndarray] = {}
        """Address of an allocation -> by byte, the number from 1 of the tile block of the last update."""
        self._meet = False
        """Whether several tile blocks update one place."""

    @property
    def interleave(self) -> bool:
        """Whether the orders of whole tile blocks are not all orders: a tile block may see an update of another one
        behind its first, and none behind its second."""
        return self._meet and max(self._counts.values()) > 1

    def note(self, accesses: Iterable[Access]) -> None:
        """Record the accesses of one operation."""
        stores = [each for each in accesses if each.wrote and each.places.size]
        self._counts.update({each.block for each in stores})
        for each in stores:
            blocks = _of_size(self._blocks.get(each.owner, np.zeros(0, np.int64)), int(each.places.max()) + 1)
            self._blocks[each.owner], before = blocks, blocks[each.places]
            self._meet |= bool(((before != 0) & (before != each.block + 1)).any())
            blocks[each.places] = each.block + 1


def _of_size(clock: np.ndarray, size: int) -> np.ndarray:
    result = np.zeros(max(size, clock.size), np.int64)
    result[: clock.size] = clock
    return result


def _join(clock: np.ndarray, other: np.ndarray) -> np.ndarray:
    size = max(clock.size, other.size)
    return np.maximum(_of_size(clock, size), _of_size(other, size))
