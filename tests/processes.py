"""The processes of this machine, as tests wait for them and look for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from bench.service_kills import parent, processes

__all__ = ["children", "descendants", "parent", "processes", "until"]

_Found = TypeVar("_Found")


def until(condition: Callable[[], _Found], what: str) -> _Found:
    """The first true result; long enough for a machine with much else to do."""
    limit = time.monotonic() + 300
    while not (result := condition()):
        assert time.monotonic() < limit, what
        time.sleep(0.02)
    return result


def children(of: int) -> set[int]:
    """The processes that one has started."""
    return {number for number in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent(number) == of}


def descendants(of: int) -> set[int]:
    """The processes that one has started, and theirs."""
    result = children(of)
    return result.union(*map(descendants, result))
