"""The intervals of elements in memory, and the updates of atomic operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tileiras.sim.memory import Allocation


class Shadow:
    """The intervals of one allocation, by element of the size that inexact values were first stored with."""

    def __init__(self, size: int, itemsize: int) -> None:
        count = -(-size // itemsize)
        self.itemsize = itemsize
        self.low, self.high = np.zeros(count), np.zeros(count)
        self.active = np.zeros(count, bool)
        self.magnitude, self.radius, self.count = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
        """For atomic additions: sums of the magnitudes and of the radii of the terms, and their number."""
        self.lowest = np.full(count, 1 << 20)
        self.flushed = np.zeros(count, bool)


class Update(NamedTuple):
    """One store of an atomic operation: the bytes of an allocation, and the positions among the stored elements."""

    allocation: Allocation
    places: np.ndarray
    positions: np.ndarray
    itemsize: int
