"""What warps and threads have seen of each other: the clocks, and the question whether one access is before another.

Every warp has a clock and knows how far it has seen the other warps of its cluster: a row of a matrix.  What it knows
of warps elsewhere, or of single lanes, is in vectors.  Their keys are the number of a warp, for all of its lanes, or ~n
for thread n.  Where threads are meant, -2-w stands for all lanes of warp w.

What was released to one place is kept as a chain, of which an acquire takes the length over and not the content, so
that thousands of threads may update one counter.  A vector that has grown long becomes a chain of its own, shared by
all that take it over, so that a release costs the same however many locations its thread has acquired from.  Still,
releases and acquires are followed as long as that is cheap; past a budget, everything counts as ordered, and
`exhausted` says so.
"""

from __future__ import annotations

import bisect

import numpy as np

#: Entries of dictionaries that may be joined or looked at in one launch: some seconds' worth.
_BUDGET = 1 << 23
#: Sets of chains whose content is remembered.
_REACHES = 4096
#: Questions that are answered one by one rather than sorted.
_FEW = 64
#: Entries of a vector that are copied rather than shared.
_SHORT = 16


class Vector:
    """How far something has seen others: clocks by key, and how much of which chains.  ``reach`` is what the chains
    say, once somebody has asked and until the vector changes."""

    __slots__ = ("chains", "clocks", "reach")

    def __init__(self, clocks: dict[int, int] | None = None, chains: dict[Chain, int] | None = None) -> None:
        self.clocks = clocks if clocks is not None else {}
        self.chains = chains if chains is not None else {}
        self.reach: Reach | None = None

    def copy(self) -> Vector:
        return Vector(dict(self.clocks), dict(self.chains))

    def __len__(self) -> int:
        return len(self.clocks) + len(self.chains)

    def shorten(self) -> None:
        """Say the same in one entry if there are many, so that copies and joins need not repeat them."""
        if len(self) > _SHORT:
            chain = Chain()
            chain.append(self)
            self.clocks, self.chains, self.reach = {}, {chain: 1}, None

    def remove(self, other: Vector) -> None:
        """Remove the entries that ``other`` has as well."""
        self.reach = None
        self.clocks = {key: value for key, value in self.clocks.items() if other.clocks.get(key, 0) < value}
        self.chains = {chain: length for chain, length in self.chains.items() if other.chains.get(chain, 0) < length}


class Chain:
    """What was released to one place, for the threads of one block, cluster or GPU, one after the other; or what a
    vector said that has been shortened."""

    __slots__ = ("chains", "clocks", "length")

    def __init__(self) -> None:
        self.length = 0
        # Key or other chain -> the lengths at which what is known of it grew, and what it grew to.
        self.clocks: dict[int, tuple[list[int], list[int]]] = {}
        self.chains: dict[Chain, tuple[list[int], list[int]]] = {}

    def append(self, vector: Vector) -> None:
        self.length += 1
        for steps, news in ((self.clocks, vector.clocks), (self.chains, vector.chains)):
            for key, value in news.items():
                lengths, values = steps.setdefault(key, ([], []))
                if not values or values[-1] < value:
                    lengths.append(self.length)
                    values.append(value)


def _at(steps: tuple[list[int], list[int]] | None, length: int) -> int:
    place = bisect.bisect_right(steps[0], length) if steps is not None else 0
    return steps[1][place - 1] if steps is not None and place else 0


class Reach:
    """What lengths of chains say, with all the chains behind them."""

    __slots__ = ("known", "lengths", "limits")

    def __init__(self, chains: dict[Chain, int]) -> None:
        self.limits: dict[int, int] = {}  # thread or -2-w for all of warp w -> how far it has been seen
        self.lengths: dict[Chain, int] = {}
        self.known: dict[int, int] = {}
        # Breadth first: chains are mostly met at their greatest length first.
        waiting = list(chains.items())
        for chain, length in waiting:
            if self.lengths.get(chain, 0) < length:
                self.lengths[chain] = length
                waiting += ((inner, _at(steps, length)) for inner, steps in chain.chains.items())

    def clock(self, key: int) -> int:
        """How far the owner of ``key`` has been seen."""
        found = self.known.get(key)
        if found is None:
            found = 0
            for chain, length in self.lengths.items():
                if (steps := chain.clocks.get(key)) is not None:
                    found = max(found, _at(steps, length))
            self.known[key] = found
        return found


class Knowledge:
    """What is known in one launch.  Warps and threads are numbered through the launch, ``rows`` are warps of the batch
    that is running, the first of which is ``first``; ``width`` is the number of warps of a cluster.

    ``own`` has the clock of each row, ``met`` its clock when the warp's lanes last met, and ``known`` how far it has
    seen each warp of its cluster.  Beyond that, ``seen`` has what warps know and ``lanes`` what single threads of them
    have acquired since their warp met.
    """

    def __init__(self, launch) -> None:
        self.threads = launch.threads
        self.per_block = -(-launch.threads // 32)
        self.members = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        self.width = self.members * self.per_block
        self.seen: dict[int, Vector] = {}
        self.lanes: dict[int, dict[int, Vector]] = {}
        self.version = 0
        self.work = 0
        self.reaches: dict[tuple[tuple[Chain, int], ...], Reach] = {}

    def begin(self, batch, first_block: int) -> None:
        rows = batch.count * self.per_block
        self.first = first_block * self.per_block
        self.own = np.ones(rows, np.int32)
        self.met = np.ones(rows, np.int32)
        self.known = np.zeros((rows, self.width), np.int32)
        self.known[np.arange(rows), np.arange(rows) % self.width] = 1
        self.version += 1

    @property
    def exhausted(self) -> bool:
        """Whether accesses count as ordered because following releases has become too much."""
        return self.work > _BUDGET

    def join(self, into: Vector, other: Vector) -> None:
        self.work += len(other)
        into.reach = None
        for mine, theirs in ((into.clocks, other.clocks), (into.chains, other.chains)):
            for key, value in theirs.items():
                if mine.get(key, 0) < value:
                    mine[key] = value

    def block_of(self, warps):
        return warps // self.per_block

    def unordered(self, threads: np.ndarray, others: np.ndarray, clocks: np.ndarray) -> np.ndarray:
        """Whether the accesses that ``others`` made at their ``clocks`` are not before what ``threads`` do now.

        A thread -2-w stands for all lanes of warp w.  No thread is compared with itself.
        """
        if self.exhausted or not threads.size:
            return np.zeros(threads.size, bool)
        # What lanes have released together is known of their warp; few have to be asked about one by one.  Neighbours
        # mostly are of one warp.
        earlier = warp_of(others)
        starts = _run_starts(threads, earlier)
        limits = self._limits_by_warp(threads[starts], earlier[starts], np.maximum.reduceat(clocks, starts))
        bad = clocks > (limits if starts.size == 1 else np.repeat(limits, np.diff(starts, append=threads.size)))
        if (self.seen or self.lanes) and bad.any():
            at = np.flatnonzero(bad)
            bad[at] = self._unordered_each(threads[at], others[at], clocks[at])
        return bad

    def _unordered_each(self, threads: np.ndarray, others: np.ndarray, clocks: np.ndarray) -> np.ndarray:
        """As `unordered`, of accesses that are not before by what is known of their warps together."""
        starts = _run_starts(threads, others)
        limits = self._limits(threads[starts], others[starts], np.maximum.reduceat(clocks, starts))
        return clocks > (limits if starts.size == 1 else np.repeat(limits, np.diff(starts, append=threads.size)))

    def _limits_by_warp(self, threads: np.ndarray, earlier: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """How far each of ``threads`` has seen all lanes of each warp of ``earlier``; at least what its own warp knows
        together, where that is all that is ``asked`` for."""
        warps = warp_of(threads)
        rows = warps - self.first
        near = warps // self.width == earlier // self.width
        limits = np.where(near, self.known[rows, earlier % self.width], 0)
        limits = np.where(warps == earlier, self.met[rows] - 1, limits)
        if self.seen or self.lanes:
            at = np.flatnonzero(asked > limits)
            if at.size:
                of_warps = self._limits(threads[at], -2 - earlier[at], np.zeros(at.size, np.int64))
                limits[at] = np.maximum(limits[at], of_warps)
        return limits

    def _limits(self, threads: np.ndarray, others: np.ndarray, asked: np.ndarray) -> np.ndarray:
        """How far each of ``threads`` has seen each of ``others``, beyond what its warp knows together; from the clock
        that is ``asked`` for on, so far at least."""
        if threads.size > _FEW:
            pairs = threads.astype(np.int64) << 32 | others.astype(np.int64) & 0xFFFFFFFF
            distinct, inverse = np.unique(pairs, return_inverse=True)
            latest = np.zeros(distinct.size, np.int64)
            np.maximum.at(latest, inverse, asked)
            return self._limits_of(distinct >> 32, distinct.astype(np.int32), latest)[inverse]
        return self._limits_of(threads, others, asked)

    def _limits_of(self, threads: np.ndarray, others: np.ndarray, asked: np.ndarray) -> np.ndarray:
        found: dict[tuple[int, int], int] = {}
        limits = []
        for thread, other, clock in zip(threads.tolist(), others.tolist(), asked.tolist()):
            if found.get((thread, other), -1) < clock:
                found[thread, other] = self._known_of(thread, other, clock)
            limits.append(found[thread, other])
        return np.array(limits)

    def one_knows(self, threads: list[int], others: list[int], clock: int) -> bool:
        """Whether one of ``threads``, of one warp, has seen one of ``others``, of another warp, as it was at ``clock``;
        of what all lanes of the other warp did, -2-w is one of ``others``."""
        if self.exhausted:
            return True
        warp, earlier = (int(warp_of(np.array(each[:1]))[0]) for each in (threads, others))
        row = warp - self.first
        if warp // self.width == earlier // self.width and self.known[row, earlier % self.width] >= clock:
            return True
        lanes = self.lanes.get(warp, {})
        vectors = [each for each in (self.seen.get(warp), *map(lanes.get, threads)) if each is not None]
        keys = [earlier, *(~other for other in others if other >= 0)]
        # Mostly all that is known is in chains.
        told = [each.clocks for each in vectors if each.clocks]
        if any(clocks.get(key, 0) >= clock for clocks in told for key in keys):
            return True
        reaches = {id(found): found for found in (each.reach or self._reach(each) for each in vectors)}
        return any(found.clock(key) >= clock for found in reaches.values() for key in keys)

    def _known_of(self, thread: int, other: int, asked: int) -> int:
        """How far ``thread`` has seen ``other``; from ``asked`` on, so far at least."""
        if thread < 0 and (lanes := self.lanes.get(-2 - thread)):
            # What a warp reads together, every lane has to know of; many know the same.
            differ: dict[tuple, int] = {}
            for lane in self.lanes_of(-2 - thread):
                vector = lanes.get(lane)
                known = () if vector is None else (vector.reach or self._reach(vector), *vector.clocks.items())
                differ.setdefault(known, lane)
            return min(self._known_of(lane, other, asked) for lane in differ.values())
        vectors = self._vectors(thread)
        if len(vectors) != 1 or vectors[0].clocks or self._same_warp(thread, other):
            return self._known(thread, other, asked)
        # What a thread knows through chains alone is the same for every thread that acquired the same.
        limits = (vectors[0].reach or self._reach(vectors[0])).limits
        if limits.get(other, -1) < asked:
            limits[other] = self._known(thread, other, asked)
        return limits[other]

    def _known(self, thread: int, other: int, asked: int) -> int:
        known = self._known_by(thread, other)
        if other < 0 and known < asked:
            # A warp's lanes may have released what they did one by one.
            least = asked
            for lane in self.lanes_of(-2 - other):
                if (of_lane := self._known_by(thread, lane)) < asked:
                    return known  # one that has not says what all have
                least = min(least, of_lane)
            known = least
        return known

    @staticmethod
    def _same_warp(thread: int, other: int) -> bool:
        first, second = (number >> 5 if number >= 0 else -2 - number for number in (thread, other))
        return first == second

    def _vectors(self, thread: int) -> list[Vector]:
        """What a thread knows beyond its warp's row."""
        warp = thread >> 5 if thread >= 0 else -2 - thread
        found = (self.seen.get(warp), self.lanes.get(warp, {}).get(thread))
        return [vector for vector in found if vector is not None]

    def lanes_of(self, warp: int) -> range:
        """The threads of a warp."""
        return range(warp * 32, warp * 32 + min(32, self.threads - warp % self.per_block * 32))

    def _known_by(self, thread: int, other: int) -> int:
        keys = [other >> 5, ~other] if other >= 0 else [-2 - other]
        known = 0
        for vector in self._vectors(thread):
            reach = vector.reach or self._reach(vector)
            for key in keys:
                known = max(known, vector.clocks.get(key, 0), reach.clock(key))
        return known

    def _reach(self, vector: Vector) -> Reach:
        """Threads that acquired the same share what it says."""
        key = tuple(vector.chains.items())
        found = self.reaches.get(key)
        if found is None:
            if len(self.reaches) >= _REACHES:
                self.reaches.clear()
            found = self.reaches[key] = Reach(vector.chains)
            self.work += sum(len(chain.chains) + 1 for chain in found.lengths)
        vector.reach = found
        return found


def _run_starts(threads: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The first positions of runs of the same pair."""
    changes = (threads[1:] != threads[:-1]) | (others[1:] != others[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def warp_of(threads: np.ndarray) -> np.ndarray:
    """Warp numbers of threads, where -2-w is all of warp w."""
    if threads.size and threads.min() >= 0:
        return (threads >> 5).astype(np.int64)
    return np.where(threads >= 0, threads >> 5, -2 - threads).astype(np.int64)
