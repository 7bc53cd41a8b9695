"""Recording of a launch for the timing model: for each warp the basic blocks of the PTX that it executed, in order,
with their events.

The records of single operations (`Copy`, `Multiply`, `Arrive` and so on) are the emulator's own, of
`sim.emulator.launch.recording`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tileiras.sim.emulator.launch.recording import Copy, Multiply, Operation
from tileiras.sim.memory import distinct

SECTOR = 32
"""Bytes of an L2 transfer (CUDA C++ Programming Guide, "Global Memory")."""
LINE = 128
BANKS = 32


class Access:
    """One memory instruction of a warp: ``size`` bytes at each of ``addresses``, one for each active lane.

    ``space`` is `shared`, `global` or `local`. Costs are computed on demand.
    """

    __slots__ = ("__dict__", "addresses", "atomic", "lanes", "size", "space", "summed", "write")

    def __init__(
        self, space: str, addresses: np.ndarray, lanes: np.ndarray, size: int, write: bool, atomic: bool
    ) -> None:
        self.space = space
        self.addresses = addresses
        self.lanes = lanes
        self.size = size
        self.write = write
        self.atomic = atomic
        self.summed = False
        """Whether the machine code sums up the lanes and updates once."""

    @functools.cached_property
    def bytes(self) -> int:
        return self.addresses.size * self.size

    @functools.cached_property
    def wavefronts(self) -> int:
        """Cycles of the port of shared memory."""
        return wavefronts_of(self.addresses, self.lanes, self.size, self.atomic)

    @functools.cached_property
    def turns(self) -> int:
        """Lanes that access the address with most of them: updates of one address take turns."""
        if self.summed:
            return 1
        return int(np.unique(self.addresses, return_counts=True)[1].max()) if self.addresses.size else 1

    @functools.cached_property
    def sectors(self) -> np.ndarray:
        """Numbers of the 32-byte sectors that it touches, in order."""
        return sectors_of(self.addresses, self.size)

    @functools.cached_property
    def lines(self) -> int:
        """Number of lines that it touches."""
        return distinct(self.sectors // (LINE // SECTOR)).size if self.sectors.size > 1 else 1


class ThreadCopy(Copy):
    """A copy of the threads of a warp (`cp.async`). Costs are computed on demand."""

    @functools.cached_property
    def sectors(self) -> int:
        """Number of the sectors that it reads."""
        return _sector_count((self.addresses - (self.addresses[0] & -SECTOR)).tobytes(), self.element)

    @functools.cached_property
    def wavefronts(self) -> int:
        """Cycles of the port of shared memory, when the data arrive."""
        return wavefronts_of(self.targets, self.lanes, self.element)


_PATTERNS = 1 << 12
"""Patterns of addresses whose costs are remembered: accesses of a loop repeat few."""


def wavefronts_of(addresses: np.ndarray, lanes: np.ndarray, size: int, atomic: bool = False) -> int:
    """Wavefronts of an access to shared memory: they depend on the addresses up to a multiple of a line."""
    offsets, numbers = (each.astype(np.int64, copy=False) for each in (addresses - (addresses[0] & -LINE), lanes))
    return _wavefronts(offsets.tobytes(), numbers.tobytes(), size, atomic)


@functools.lru_cache(_PATTERNS)
def _wavefronts(offsets: bytes, lane_numbers: bytes, size: int, atomic: bool) -> int:
    """32 banks of 4 bytes; a warp is served in phases of 32 lanes with up to 4 bytes each, 16 lanes with 8, 8 with 16,
    and in a phase a bank delivers one word per wavefront, to any number of lanes (CUDA C++ Programming Guide, "Shared
    Memory"). Atomic operations on one address take a turn each.
    """
    addresses, lanes = np.frombuffer(offsets, np.int64), np.frombuffer(lane_numbers, np.int64)
    addresses = addresses - (addresses.min() & -LINE)
    phases = lanes // (BANKS * 4 // max(4, size))
    words = (addresses[:, None] // 4 + np.arange(max(1, size // 4))).reshape(-1)
    phase = np.repeat(phases, max(1, size // 4))
    pairs = phase << 40 | words
    if not atomic:
        pairs = distinct(pairs)
    load = np.bincount((pairs >> 40) * BANKS + (pairs & BANKS - 1))
    return int(sum(load[start : start + BANKS].max() for start in range(0, load.size, BANKS)))


@functools.lru_cache(_PATTERNS)
def _sector_count(offsets: bytes, size: int) -> int:
    """Number of sectors of an access: it depends on the addresses up to a multiple of a sector."""
    return sectors_of(np.frombuffer(offsets, np.int64), size).size


def sectors_of(addresses: np.ndarray, size: int) -> np.ndarray:
    """Numbers of the sectors that ``size`` bytes at each of the addresses touch, in order, without duplicates."""
    first = addresses // SECTOR
    # Aligned elements whose size divides that of a sector do not cross its end.
    if size > 1 and (SECTOR % size or (addresses & size - 1).any()):
        last = (addresses + (size - 1)) // SECTOR
        if (last != first).any():
            spread = np.arange(int((last - first).max()) + 1)
            every = first[:, None] + spread
            return distinct(every[every <= last[:, None]])
    if not first.size:
        return first
    steps = first[1:] - first[:-1]
    if steps.size and steps.min() < 0:  # false for boxes and most accesses
        return distinct(first)
    rises = np.empty(first.size, bool)
    rises[0] = True
    np.greater(steps, 0, out=rises[1:])
    return first[rises]


def sectors_of_each(addresses: Sequence[np.ndarray], size: int) -> list[np.ndarray]:
    """The same for accesses of as many addresses each, of ``size`` bytes: aligned ascending ones together, which takes
    a tenth of the time."""
    rows = np.stack(addresses)
    first = rows // SECTOR
    steps = np.diff(first, axis=1)
    rises = np.ones(rows.shape, bool)
    np.greater(steps, 0, out=rises[:, 1:])
    ends = np.cumsum(rises.sum(axis=1))
    every = first[rises]
    plain = np.logical_and.reduce(steps >= 0, axis=1)
    if size > 1:
        plain &= ~(rows & (size - 1)).any(axis=1) & (SECTOR % size == 0)
    return [
        every[start:end] if simple else sectors_of(own, size)
        for own, simple, start, end in zip(addresses, plain.tolist(), [0, *ends[:-1].tolist()], ends.tolist())
    ]


class Event(NamedTuple):
    """An operation of a warp at a line of the PTX."""

    line: int
    operation: Access | Operation


class PtxBlock(NamedTuple):
    """A basic block of the PTX, as in the emulator, and the lines of its instructions."""

    number: int
    lines: tuple[int, ...]
    branch: int
    """Line of the branch that ends it, 0 for a fallthrough."""
    jump: int
    """Line of the unconditional branch behind a conditional one, 0 without."""


class WarpTrace:
    """``visits``: numbers of the PTX blocks that the warp executed; ``lanes``: number of threads that executed them;
    ``events``: position in ``visits`` -> events there, in order; ``updates``: the atomic accesses among them."""

    __slots__ = ("events", "lanes", "rank", "updates", "visits", "warp")

    def __init__(self, rank: int, warp: int) -> None:
        self.rank = rank
        self.warp = warp
        self.visits: list[int] = []
        self.lanes: list[int] = []
        self.events: dict[int, list[Event]] = {}
        self.updates: list[Access] = []


class ClusterTrace(NamedTuple):
    """The warps of a cluster (of one CTA without clusters), by rank and number."""

    ctaids: tuple[tuple[int, int, int], ...]
    """Of its CTAs, by rank."""
    warps: tuple[WarpTrace, ...]


class Allocation(NamedTuple):
    """Global memory passed to the kernel, in bytes."""

    name: str
    address: int
    size: int


class Recording(NamedTuple):
    """Recording of some clusters of a launch. Operations name CTAs by position; the rank is the position modulo
    ``members``."""

    blocks: dict[int, PtxBlock]
    clusters: tuple[ClusterTrace, ...]
    members: int
    """CTAs of a cluster."""
    threads: int
    """Of a CTA."""
    shared_bytes: int
    """Of a CTA, static and dynamic."""
    allocations: tuple[Allocation, ...]
    steps: int
    """Instructions that the emulator executed for all warps."""
    products: dict[int, Multiply]
    """PTX line -> the `mma` there."""
    asynchronous: bool = False
    """Whether warps executed dots of `wgmma` or `tcgen05`."""
    skipped: frozenset[int] = frozenset()
    """PTX lines of the blocks that no warp has executed."""
