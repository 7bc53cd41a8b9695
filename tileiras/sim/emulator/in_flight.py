"""Registers whose values are still to come."""

from __future__ import annotations

import numpy as np

from .ptx_module import Instruction


class InFlight:
    """A register that asynchronous instructions are to write: whatever looks at its value is told ``message``.

    ``count`` has for each thread how many of them are to write it; the others' values are ``values``, and ``item`` is
    the last of these instructions.
    """

    __slots__ = ("count", "group", "item", "message", "values")

    def __init__(self, group, item: Instruction, values: np.ndarray, message: str) -> None:
        self.group = group
        self.item = item
        self.values = values
        self.message = message
        self.count = np.zeros(group.n, np.int32)

    def settled(self) -> np.ndarray:
        active = self.group.active()
        if (flying := self.count[active] > 0).any():
            self.group.fault(self.message, self.item, int(active[flying.argmax()]))
        return self.values

    def __getattr__(self, name: str):
        return getattr(self.settled(), name)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.settled(), dtype)

    def __getitem__(self, index):
        return self.settled()[index]

    def __invert__(self) -> np.ndarray:
        return ~self.settled()

    def __neg__(self) -> np.ndarray:
        return -self.settled()
