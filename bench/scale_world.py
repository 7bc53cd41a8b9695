"""The model of `bench.scale`: kernels and their keys, a server, a cluster, and a calendar of events.

Times are seconds of one day from midnight, sizes bytes.  Stages' times and rows' sizes are those recorded of the
examples (`bench.scale_record`).
"""

from __future__ import annotations

import functools
import heapq
import json
import os
import random
from collections.abc import Generator, Sequence
from typing import NamedTuple

FIGURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scale_figures.json")

EFFECT = 0.3
"""The share of kernels whose product an edit of a stage's code changes."""

Key = tuple
"""Key of a stage's row: kernel, stage, origin of its input, the version of the stage's code."""

Process = Generator[float, None, None]
"""Something that goes on: yields the time at which it wants to be resumed."""


class Version(NamedTuple):
    """A kernel's source: another text each time, another meaning unless only comments changed."""

    text: int = 0
    meaning: int = 0


class Kernels:
    """`count` kernels with the figures of the examples in turn; `stages` are those from text to PTX."""

    def __init__(self, count: int) -> None:
        with open(FIGURES, encoding="utf-8") as file:
            recorded = json.load(file)
        self.stages = ("read", "tileaa", "tileas", "llvm", "ptx")
        self.hit: float = recorded["hit"]
        rows = [kernel for kernel in recorded["kernels"].values() if all(name in kernel for name in self.stages)]
        self.seconds = [[rows[n % len(rows)][name][0] for name in self.stages] for n in range(count)]
        self.sizes = [[int(rows[n % len(rows)][name][1]) for name in self.stages] for n in range(count)]
        self.count = count

    @functools.lru_cache(1 << 16)
    def keys(self, kernel: int, version: Version, code: tuple[int, ...]) -> list[Key]:
        """The keys of a kernel's stages, with `code` the version of each stage's code."""
        effective = _effective(kernel, code)
        result: list[Key] = [(kernel, 0, version.text, code[0])]
        for stage in range(1, len(self.stages)):
            result.append((kernel, stage, version.meaning, effective[:stage], code[stage]))
        return result


def _effective(kernel: int, code: Sequence[int]) -> tuple[int, ...]:
    """For each stage the last version of its code that changed this kernel's product."""
    result = []
    for stage, version in enumerate(code):
        while version and random.Random(kernel * 64 + stage * 8 + version).random() >= EFFECT:
            version -= 1
        result.append(version)
    return tuple(result)


class Calendar:
    """Runs processes in the order of their times."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Process]] = []
        self._number = 0
        self.now = 0.0

    def start(self, at: float, process: Process) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, process))

    def run(self) -> None:
        while self._events:
            self.now, _, process = heapq.heappop(self._events)
            at = next(process, None)
            if at is not None:
                self.start(max(at, self.now), process)


PIECE = 2_000_000
"""Bytes after which a server turns to another client."""


class Server:
    """One machine behind one line: a queue of requests, `weather` the times when it is slow or gone."""

    def __init__(
        self, per_request: float, bytes_per_second: float, weather: Sequence[tuple[float, float, str]]
    ) -> None:
        self.rows: dict[Key, float] = {}
        """When each row was there."""
        self._per_request = per_request
        self._bandwidth = bytes_per_second
        self._weather = weather
        self._free_at = 0.0
        self.busy = self.sent = self.received = 0.0

    def state(self, at: float) -> str:
        return next((state for start, end, state in self._weather if start <= at < end), "well")

    def serve(self, at: float, requests: int, size: int) -> float:
        """When requests that arrive at a time, and `size` bytes of replies or uploads, have been worked on."""
        start = max(at, self._free_at)
        taken = requests * self._per_request + size / self._bandwidth
        self._free_at = start + taken
        self.busy += taken
        return self._free_at

    def pieces(self, requests: int, size: int) -> list[tuple[int, int]]:
        """A wave, cut so that others have their turn in between."""
        count = max(1, -(-size // PIECE))
        shares = [(requests * n // count, size * n // count) for n in range(count + 1)]
        return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(shares, shares[1:])]


class Cluster:
    """Workers that take chains of stages in the order in which they were sent."""

    def __init__(self, workers: int, trip: float) -> None:
        self._free_at = [0.0] * workers
        heapq.heapify(self._free_at)
        self._trip = trip
        self.waits: list[float] = []
        self.busy = 0.0

    def work(self, at: float, chains: Sequence[float]) -> float:
        """When the last of some chains is done."""
        last = at
        for seconds in chains:
            start = max(at, heapq.heappop(self._free_at))
            self.waits.append(start - at)
            end = start + seconds + self._trip
            self.busy += seconds + self._trip
            heapq.heappush(self._free_at, end)
            last = max(last, end)
        return last
