"""Undefined values, and the detection of their uses.

A run substitutes a fixed byte for every undefined value. A kernel with undefined values is run again with other bytes:
elements of memory that differ afterwards are undefined, and a kernel that then takes another path or accesses other
memory uses an undefined value, which is an error. Kernels without undefined values run only once, and no operation has
to track how its result depends on its operands.
"""

from __future__ import annotations

import zlib
from contextvars import ContextVar

import numpy as np

from ..memory import UNINITIALISED

#: Substitutes for undefined bytes in the first runs: two of different sign as integers and as floats, and different in
#: every bit; then the least and the greatest, which minima and maxima propagate. None: the results of wrapping and of
#: masked loads, as on hardware. Further runs have random bytes, since the exclusive-or of equal bytes is 0.
STAND_INS = (UNINITIALISED, UNINITIALISED ^ 0xFF, 0x00, 0xFF, None)


class Run:
    """One run.  ``seen`` has a number per address, condition or index used since the first undefined value."""

    __slots__ = ("expected", "generator", "keeps", "position", "seen", "stand_in", "used")

    def __init__(self, number: int, numbers: list[int] | None = None) -> None:
        self.stand_in = STAND_INS[number] if number < len(STAND_INS) else None
        self.keeps = number < len(STAND_INS) and self.stand_in is None
        self.generator = np.random.default_rng(number)
        self.expected = numbers
        self.seen: list[int] = []
        self.position = 0
        self.used = False

    def decide(self, *values: int | np.ndarray) -> bool:
        """Record values on which the run depends; False if the first run had others at this position."""
        if not self.used:
            return True
        digest = 0
        for value in values:
            digest = zlib.crc32(np.ascontiguousarray(value).view(np.uint8).reshape(-1), digest)
        if self.expected is None:
            self.seen.append(digest)
            return True
        self.position += 1
        return self.position <= len(self.expected) and self.expected[self.position - 1] == digest


RUN: ContextVar[Run] = ContextVar("run")


def keeps_results() -> bool:
    """Whether an undefined result that is computed anyway keeps its computed value in this run."""
    run = RUN.get()
    run.used |= run.keeps
    return run.keeps


def undefined_bytes(count: int) -> np.ndarray:
    """This run's bytes for memory or values that are undefined."""
    run = RUN.get()
    run.used = True
    if run.stand_in is None:
        return run.generator.integers(0, 256, count, np.uint8)
    return np.full(count, run.stand_in, np.uint8)
