"""Values that the specification leaves undefined, and who must not look at them.

A run puts the same byte wherever the specification gives no value.  A kernel that did so is run again with other bytes:
what differs in memory afterwards is undefined, and a kernel that then takes another way or accesses other memory uses
what is undefined, which is an error.  Nothing is lost to kernels that have no undefined values, and no operation has to
know how its result depends on its operands.
"""

from __future__ import annotations

import zlib
from contextvars import ContextVar

import numpy as np

from ..memory import UNINITIALISED

#: What stands in for undefined bytes in the first runs: two of different sign as integers and as floats, and different
#: in every bit; then the least and the greatest, which minima and maxima let through.  None: what wrapping and masked
#: loads give, as machines have it.  Further runs have random bytes, as exclusive-ors of equal ones vanish.
STAND_INS = (UNINITIALISED, UNINITIALISED ^ 0xFF, 0x00, 0xFF, None)


class Run:
    """One run.  ``seen`` has a number per address, condition or index used since the first undefined value."""

    __slots__ = ("expected", "generator", "keeps", "position", "seen", "stand_in", "used")

    def __init__(self, number: int, expected: list[int] | None = None) -> None:
        self.stand_in = STAND_INS[number] if number < len(STAND_INS) else None
        self.keeps = number < len(STAND_INS) and self.stand_in is None
        self.generator = np.random.default_rng(number)
        self.expected = expected
        self.seen: list[int] = []
        self.position = 0
        self.used = False

    def decide(self, *values: int | np.ndarray) -> bool:
        """Note values on which the run depends; False when the first run had others in this place."""
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
    """Whether in this run an undefined result, which there is one of, is to stay what was computed."""
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
