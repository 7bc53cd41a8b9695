"""Memory for the search for sizes: more behind each pointer than a launch can use, and a record of accesses."""

from __future__ import annotations

import numpy as np

from tileiras.sim.memory import Memory

GUARD = 1 << 26
"""Bytes of memory behind each pointer; untouched pages cost nothing."""


class Guarded(Memory):
    """Records which bytes of each allocation are touched."""

    def __init__(self) -> None:
        super().__init__()
        Memory._live.pop()
        self._private_cursor = Memory.scratch()._private_cursor
        self.ends: dict[int, int] = {}
        self.stores: set[int] = set()
        self.touched: list[np.ndarray] = []
        """Addresses of the elements that the tile block which runs has accessed."""
        self._seen: dict[int, np.ndarray] = {}
        """Address of an allocation -> whether an accessed element starts at each byte."""

    def accesses(self, addresses, dtype, mask, alignment, write=False):
        places = np.asarray(addresses).reshape(-1)
        if mask is not None:
            places = places[np.broadcast_to(np.asarray(mask, bool), np.shape(addresses)).reshape(-1)]
        if places.size:
            allocation = self.find(int(places.min()))
            if allocation is not None:
                end = int(places.max()) + dtype.itemsize - allocation.address
                self.ends[allocation.address] = max(self.ends.get(allocation.address, 0), end)
                if write:
                    self.stores.add(allocation.address)
            self.touched.append(places)
        yield from super().accesses(addresses, dtype, mask, alignment, write)

    def settle(self) -> bool:
        """The tile block has run: whether it accessed elements that no earlier one has."""
        is_fresh = False
        for addresses in self.touched:
            rest = addresses
            while rest.size:
                allocation = self.find(int(rest[0]))
                if allocation is None:
                    break
                offsets = rest - allocation.address
                inside = (offsets >= 0) & (offsets < allocation.size)
                marks = self._seen.setdefault(allocation.address, np.zeros(allocation.size, bool))
                is_fresh = is_fresh or not marks[offsets[inside]].all()
                marks[offsets[inside]] = True
                rest = rest[~inside]
        return is_fresh

    def untouched(self, address: int, count: int, itemsize: int) -> np.ndarray:
        """Which of the elements of an allocation no tile block accesses, such as the padding of rows."""
        marks = self._seen.get(address)
        if marks is None:
            return np.ones(count, bool)
        return ~marks[: count * itemsize].reshape(count, itemsize).any(1)
