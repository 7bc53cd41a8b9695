"""Registers in flight: the accumulators of incomplete dots of a warpgroup."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.module import Instruction

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_ROWS = 16
"""Rows of D of each warp of a warpgroup (PTX ISA, "wgmma.mma_async": "Register Fragments")."""


class Accumulators:
    """Registers of a group that incomplete dots will write, kept as ``tiles``, (warps, 16, n) bits of D.

    ``count`` is the number of incomplete dots of each warp, and ``item`` the last of them; an access to the registers
    of such a warp fails with ``message``. The group's slots hold the ``registers`` until all dots are complete, and so
    do slots that they were moved to meanwhile.
    """

    __slots__ = ("_values", "count", "group", "item", "message", "registers", "tiles", "type")

    def __init__(self, group: WarpGroup, item: Instruction, slots: list[int], type: str, message: str) -> None:
        self.group = group
        self.item = item
        self.type = type
        self.message = message
        self.count = np.zeros(group.n // 32, np.int32)
        # Fails for a slot that is in flight in another shape.
        self._values: list[np.ndarray] | None = [np.asarray(group.full(slot)) for slot in slots]
        self.tiles = _tiles(self._values, type)
        self.registers = [InFlight(self, number) for number in range(len(slots))]
        for slot, register in zip(slots, self.registers):
            group.R[slot] = register

    def issue(self, item: Instruction, warps: np.ndarray) -> None:
        """A dot of ``warps`` begins."""
        self.item = item
        self.count[warps] += 1

    def are_in(self, slots: list[int]) -> bool:
        R = self.group.R
        return len(slots) == len(self.registers) and all(R[at] is own for at, own in zip(slots, self.registers))

    def land(self, warps: np.ndarray, tiles: np.ndarray, slots: list[int]) -> bool:
        """A dot has computed ``tiles`` for ``warps``. True if all dots are complete: ``slots`` hold values again."""
        self.tiles[warps] = tiles
        self._values = None
        self.count[warps] -= 1
        if self.count.any():
            return False
        R = self.group.R
        for slot, register, value in zip(slots, self.registers, self.values()):
            if R[slot] is register:
                R[slot] = value
        return True

    def values(self) -> list[np.ndarray]:
        """The registers; those of warps in flight have their previous values."""
        if self._values is None:
            self._values = _fragments(self.tiles, self.type)
        return self._values

    def value(self, number: int) -> np.ndarray:
        active = self.group.active()
        if (flying := self.count[active // 32] > 0).any():
            self.group.fault(self.message, self.item, int(active[flying.argmax()]))
        return self.values()[number]

    def write(self, number: int, lanes: np.ndarray, value: np.ndarray) -> None:
        """Threads of warps that are not in flight write a register."""
        values = list(self.values())
        values[number] = np.where(lanes, value, self.value(number))
        self._values, self.tiles = values, _tiles(values, self.type)


class InFlight:
    """Placeholder in a slot in flight: register ``number`` of ``accumulators``."""

    __slots__ = ("accumulators", "number")

    def __init__(self, accumulators: Accumulators, number: int) -> None:
        self.accumulators = accumulators
        self.number = number

    def value(self) -> np.ndarray:
        return self.accumulators.value(self.number)

    def __getattr__(self, name: str):
        return getattr(self.value(), name)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.value(), dtype)

    def __array_function__(self, function, types, arguments, options):
        """If other warps of the group write the register, those in flight stay in flight."""
        if function is np.where and len(arguments) == 3 and arguments[2] is self:
            self.accumulators.write(self.number, *arguments[:2])
            return self
        return function(*map(_current, arguments), **options)

    def __getitem__(self, index):
        return self.value()[index]

    def __invert__(self) -> np.ndarray:
        return ~self.value()

    def __neg__(self) -> np.ndarray:
        return -self.value()


def _current(argument):
    if isinstance(argument, list | tuple):
        return type(argument)(map(_current, argument))
    return argument.value() if isinstance(argument, InFlight) else argument


@functools.lru_cache(maxsize=64)
def _places(n: int) -> np.ndarray:
    """Positions in a tile of (16, n) of the elements of the fragment, (n / 2, 32): element e of each lane."""
    lane = np.arange(32)
    element = np.arange(n // 2)[:, None]
    row = lane // 4 + 8 * (element % 4 // 2)
    column = 8 * (element // 4) + lane % 4 * 2 + element % 2
    return row * n + column


def _tiles(values: list[np.ndarray], type: str) -> np.ndarray:
    words = np.stack(values).reshape(len(values), -1, 32).swapaxes(0, 1)  # (warps, registers, 32)
    if type == "f16":
        halves = np.ascontiguousarray(words)[..., None].view(np.uint16)
        words = halves.swapaxes(2, 3).reshape(len(words), -1, 32)
    n = 2 * words.shape[1]
    tiles = np.empty((len(words), _ROWS * n), words.dtype)
    tiles[:, _places(n)] = words
    return tiles.reshape(-1, _ROWS, n)


def _fragments(tiles: np.ndarray, type: str) -> list[np.ndarray]:
    words = tiles.reshape(len(tiles), -1)[:, _places(tiles.shape[2])]
    if type == "f16":
        pairs = words.reshape(len(words), -1, 2, 32).swapaxes(2, 3)
        words = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
    return list(np.ascontiguousarray(words.swapaxes(0, 1)).reshape(words.shape[1], -1))
