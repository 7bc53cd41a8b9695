"""Places of tiles in the scratch memory of a thread: offsets that are free while a tile lives."""

from __future__ import annotations

ALIGNMENT = 64
"""Bytes of the widest vector."""


class Arena:
    """Ranges of bytes in use, first fit."""

    def __init__(self) -> None:
        self.size = 0
        self._used: list[tuple[int, int]] = []

    def take(self, size: int) -> int:
        """The offset of a free range."""
        size = -(-max(1, size) // ALIGNMENT) * ALIGNMENT
        place, position = 0, 0
        for position, (start, end) in enumerate(self._used):
            if start - place >= size:
                break
            place = end
        else:
            position = len(self._used)
        self._used.insert(position, (place, place + size))
        self.size = max(self.size, place + size)
        return place

    def give_back(self, offset: int) -> None:
        """Free the range at an offset."""
        self._used = [each for each in self._used if each[0] != offset]
