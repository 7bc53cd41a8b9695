"""Bank conflicts of shared-memory accesses.

Shared memory has 32 banks of 4-byte words (CUDA C++ Programming Guide, "Shared Memory"). A warp's access is served in
phases of 32 lanes for up to 4 bytes per lane, 16 lanes for 8 bytes and 8 lanes for 16; in a phase every bank delivers
one word per wavefront, to any number of lanes.
"""

from __future__ import annotations

import numpy as np

BANKS = 32


def wavefronts(offsets: np.ndarray, threads: np.ndarray, size: int) -> tuple[int, int]:
    """(wavefronts, wavefronts without any conflict) of one access by many warps.

    ``offsets`` are byte offsets, ``threads`` thread numbers with 32 to a warp, ``size`` the bytes per thread.
    """
    lanes = BANKS * 4 // max(4, size)
    phases = threads // lanes
    words = (offsets[:, None] // 4 + np.arange(max(1, size // 4))).reshape(-1)
    pairs = np.unique(np.repeat(phases, max(1, size // 4)) << 32 | words)
    rows, per_phase = np.unique(pairs >> 32, return_inverse=True)
    load = np.bincount(per_phase * BANKS + (pairs & BANKS - 1), minlength=rows.size * BANKS).reshape(-1, BANKS)
    return int(load.max(1).sum()), rows.size


class BankCounter:
    """``lines``: PTX line -> [wavefronts, wavefronts without conflicts]."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: dict[int, list[int]] = {}

    def count(self, line: int, offsets: np.ndarray, threads: np.ndarray, size: int) -> None:
        entry = self.lines.setdefault(line, [0, 0])
        total, least = wavefronts(offsets, threads, size)
        entry[0] += total
        entry[1] += least
