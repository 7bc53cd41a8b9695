"""Vector clocks: the knowledge of warps and threads about each other, and queries whether one access happens before
another.

Every warp has a clock and a row of a matrix: the clocks of the other warps of its cluster as far as it has seen them.
Knowledge about warps of other clusters, or about single lanes, is in vectors. Their keys are the number of a warp, for
all of its lanes, or ~n for thread n. In lists of threads, -2-w represents all lanes of warp w.

The releases to one location form a chain; an acquire copies the length of the chain and not its content, so that
thousands of threads may update one counter. A vector that has grown long becomes a chain, shared by all that acquire
it, so that a release costs the same however many locations its thread has acquired from. Releases and acquires are
tracked within a budget; when it is exhausted, all accesses count as ordered, and `exhausted` is true.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

#: Entries of dictionaries that may be joined or looked up in one launch: some seconds of work.
_BUDGET = 1 << 23
#: Sets of chains whose content is cached.
_REACHES = 4096
#: Most queries that are answered one by one rather than sorted.
_FEW = 64
#: Most entries of a vector that are copied rather than shared.
_SHORT = 16


class Vector:
    """Vector clock: clocks by key, and a length of each chain. ``reach`` caches the content of the chains from the
    first query until the vector changes."""

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
        """Move the entries to a chain if there are many, so that copies and joins need not repeat them."""
        if len(self) > _SHORT:
            chain = Chain()
            chain.append(self)
            self.clocks, self.chains, self.reach = {}, {chain: 1}, None

    def remove(self, other: Vector) -> None:
        """Remove the entries that ``other`` contains as well."""
        self.reach = None
        self.clocks = {key: value for key, value in self.clocks.items() if other.clocks.get(key, 0) < value}
        self.chains = {chain: length for chain, length in self.chains.items() if other.chains.get(chain, 0) < length}


class Chain:
    """Successive releases to one location, for the threads of one block, cluster or GPU; or the content of a
    shortened vector."""

    __slots__ = ("chains", "clocks", "length")

    def __init__(self) -> None:
        self.length = 0
        # Key or other chain -> the lengths at which its value increased, and the values.
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
    """Content of lengths of chains, including all chains reachable from them."""

    __slots__ = ("known", "lengths", "limits")

    def __init__(self, chains: dict[Chain, int]) -> None:
        self.limits: dict[int, int] = {}  # thread or -2-w for all of warp w -> clock up to which it has been seen
        self.lengths: dict[Chain, int] = {}
        self.known: dict[int, int] = {}
        # Breadth first: most chains are first reached at their greatest length.
        waiting = list(chains.items())
        for chain, length in waiting:
            if self.lengths.get(chain, 0) < length:
                self.lengths[chain] = length
                waiting += ((inner, _at(steps, length)) for inner, steps in chain.chains.items())

    def clock(self, key: int) -> int:
        """Clock up to which the owner of ``key`` has been seen."""
        result = self.known.get(key)
        if result is None:
            result = 0
            for chain, length in self.lengths.items():
                if (steps := chain.clocks.get(key)) is not None:
                    result = max(result, _at(steps, length))
            self.known[key] = result
        return result

    def has_seen(self, keys: list[int], clock: int) -> bool:
        """Whether the owner of one of ``keys`` has been seen at ``clock``."""
        clocks = self.known
        for key in keys:
            seen = clocks.get(key)
            if (self.clock(key) if seen is None else seen) >= clock:
                return True
        return False


class Knowledge:
    """Knowledge of one launch. Warps and threads are numbered through the launch; ``rows`` are warps of the running
    batch, beginning with ``first``; ``width`` is the number of warps of a cluster.

    ``own`` is the clock of each row, ``met`` its clock when the warp's lanes last converged, and ``known`` the last
    seen clock of each warp of its cluster. ``seen`` adds the knowledge of warps about the rest, and ``lanes`` the
    acquires of single threads since their warp converged.
    """

    def __init__(self, launch) -> None:
        self.threads = launch.threads
        self.per_block = -(-launch.threads // 32)
        self.members = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        self.width = self.members * self.per_block
        self.seen: dict[int, Vector] = {}
        self.lanes: dict[int, dict[int, Vector]] = {}
        self.freed: dict[tuple[int, int], Vector] = {}
        """(thread, block) -> knowledge by which it may copy into that block's shared memory."""
        self.destination: int | None = None
        """The block into whose shared memory an asynchronous copy writes at present."""
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
        """Whether accesses count as ordered because the budget for tracking releases is exhausted."""
        return self.work > _BUDGET

    @contextmanager
    def copying(self, block: int | None) -> Iterator[None]:
        """Context: the accesses are writes of an asynchronous copy into shared memory of a block, None for others."""
        outer, self.destination = self.destination, block
        try:
            yield
        finally:
            self.destination = outer

    @property
    def _knows_beyond(self) -> bool:
        """Whether some thread may know more than its warp's row."""
        return bool(self.seen or self.lanes or self.destination is not None and self.freed)

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
        """Whether the accesses of ``others`` at their ``clocks`` do not happen before the present accesses of
        ``threads``.

        A thread -2-w represents all lanes of warp w. No thread is compared with itself.
        """
        if self.exhausted or not threads.size:
            return np.zeros(threads.size, bool)
        # Warps know the releases of whole warps; few lanes have to be queried one by one. Neighbours mostly belong to
        # one warp.
        earlier = warp_of(others)
        starts = _run_starts(threads, earlier)
        limits = self._limits_by_warp(threads[starts], earlier[starts], np.maximum.reduceat(clocks, starts))
        bad = clocks > spread(limits, starts, threads.size)
        if self._knows_beyond and bad.any():
            (at,) = bad.nonzero()
            bad[at] = self._unordered_each(threads[at], others[at], clocks[at])
        return bad

    def _unordered_each(self, threads: np.ndarray, others: np.ndarray, clocks: np.ndarray) -> np.ndarray:
        """As `unordered`, for accesses that the knowledge of whole warps does not order."""
        starts = _run_starts(threads, others)
        limits = self._limits(threads[starts], others[starts], np.maximum.reduceat(clocks, starts))
        return clocks > spread(limits, starts, threads.size)

    def _limits_by_warp(self, threads: np.ndarray, earlier: np.ndarray, clocks: np.ndarray) -> np.ndarray:
        """Clock up to which each of ``threads`` has seen all lanes of each warp of ``earlier``; only the knowledge
        of its whole warp if that suffices for ``clocks``."""
        warps = warp_of(threads)
        rows = warps - self.first
        near = warps // self.width == earlier // self.width
        limits = np.where(near, self.known[rows, earlier % self.width], 0)
        limits = np.where(warps == earlier, self.met[rows] - 1, limits)
        if self._knows_beyond:
            (at,) = (clocks > limits).nonzero()
            if at.size:
                of_warps = self._limits(threads[at], -2 - earlier[at], np.zeros(at.size, np.int64))
                limits[at] = np.maximum(limits[at], of_warps)
        return limits

    def _limits(self, threads: np.ndarray, others: np.ndarray, clocks: np.ndarray) -> np.ndarray:
        """Clock up to which each of ``threads`` has seen each of ``others``, beyond the knowledge of its whole warp;
        results of ``clocks`` or more are lower bounds."""
        if threads.size > _FEW:
            pairs = threads.astype(np.int64) << 32 | others.astype(np.int64) & 0xFFFFFFFF
            distinct, inverse = np.unique(pairs, return_inverse=True)
            latest = np.zeros(distinct.size, np.int64)
            np.maximum.at(latest, inverse, clocks)
            return self._limits_of(distinct >> 32, distinct.astype(np.int32), latest)[inverse]
        return self._limits_of(threads, others, clocks)

    def _limits_of(self, threads: np.ndarray, others: np.ndarray, clocks: np.ndarray) -> np.ndarray:
        result: dict[tuple[int, int], int] = {}
        limits = []
        for thread, other, clock in zip(threads.tolist(), others.tolist(), clocks.tolist()):
            if result.get((thread, other), -1) < clock:
                result[thread, other] = self._known_of(thread, other, clock)
            limits.append(result[thread, other])
        return np.array(limits)

    def one_knows(self, threads: list[int], others: list[int], clock: int) -> bool:
        """Whether one of ``threads``, of one warp, has seen one of ``others``, of another warp, at ``clock``; -2-w
        among ``others`` represents operations of all lanes."""
        if self.exhausted:
            return True
        warp, earlier = (each[0] >> 5 if each[0] >= 0 else -2 - each[0] for each in (threads, others))
        row = warp - self.first
        if warp // self.width == earlier // self.width and self.known[row, earlier % self.width] >= clock:
            return True
        lanes = self.lanes.get(warp, {})
        freed = (self.freed.get((thread, self.destination)) for thread in threads if self.destination is not None)
        vectors = [each for each in (self.seen.get(warp), *map(lanes.get, threads), *freed) if each is not None]
        keys = [earlier, *(~other for other in others if other >= 0)]
        # Most knowledge is in chains.
        for each in vectors:
            if (clocks := each.clocks) and any(clocks.get(key, 0) >= clock for key in keys):
                return True
        reaches = {id(item): item for item in (each.reach or self._reach(each) for each in vectors)}
        return any(value.has_seen(keys, clock) for value in reaches.values())

    def _known_of(self, thread: int, other: int, clock: int) -> int:
        """Clock up to which ``thread`` has seen ``other``; a result of ``clock`` or more is a lower bound."""
        if thread < 0 and (lanes := self.lanes.get(-2 - thread)):
            # If the whole warp reads, every lane must have seen the other; many lanes have equal knowledge.
            differ: dict[tuple, int] = {}
            for lane in self.lanes_of(-2 - thread):
                vector = lanes.get(lane)
                signature = () if vector is None else (vector.reach or self._reach(vector), *vector.clocks.items())
                differ.setdefault(signature, lane)
            return min(self._known_of(lane, other, clock) for lane in differ.values())
        vectors = self._vectors(thread)
        if len(vectors) != 1 or vectors[0].clocks or self._same_warp(thread, other):
            return self._least_clock(thread, other, clock)
        # Knowledge through chains alone is equal for all threads that acquired the same chains.
        limits = (vectors[0].reach or self._reach(vectors[0])).limits
        if limits.get(other, -1) < clock:
            limits[other] = self._least_clock(thread, other, clock)
        return limits[other]

    def _least_clock(self, thread: int, other: int, clock: int) -> int:
        limit = self._known_by(thread, other)
        if other < 0 and limit < clock:
            # The lanes of a warp may have released one by one.
            least = clock
            for lane in self.lanes_of(-2 - other):
                if (of_lane := self._known_by(thread, lane)) < clock:
                    return limit  # one unseen lane decides
                least = min(least, of_lane)
            limit = least
        return limit

    @staticmethod
    def _same_warp(thread: int, other: int) -> bool:
        return (thread >> 5 if thread >= 0 else -2 - thread) == (other >> 5 if other >= 0 else -2 - other)

    def _vectors(self, thread: int) -> list[Vector]:
        """Knowledge of a thread beyond its warp's row."""
        warp = thread >> 5 if thread >= 0 else -2 - thread
        of_warp, lanes = self.seen.get(warp), self.lanes.get(warp)
        result = [] if of_warp is None else [of_warp]
        if lanes is not None and (of_lane := lanes.get(thread)) is not None:
            result.append(of_lane)
        if self.destination is not None and (freed := self.freed.get((thread, self.destination))) is not None:
            result.append(freed)
        return result

    def lanes_of(self, warp: int) -> range:
        """The threads of a warp."""
        return range(warp * 32, warp * 32 + min(32, self.threads - warp % self.per_block * 32))

    def _known_by(self, thread: int, other: int) -> int:
        keys = [other >> 5, ~other] if other >= 0 else [-2 - other]
        limit = 0
        for vector in self._vectors(thread):
            reach = vector.reach or self._reach(vector)
            for key in keys:
                limit = max(limit, vector.clocks.get(key, 0), reach.clock(key))
        return limit

    def _reach(self, vector: Vector) -> Reach:
        """Threads that acquired the same chains share the result."""
        key = tuple(vector.chains.items())
        result = self.reaches.get(key)
        if result is None:
            if len(self.reaches) >= _REACHES:
                self.reaches.clear()
            result = self.reaches[key] = Reach(vector.chains)
            self.work += sum(len(chain.chains) + 1 for chain in result.lengths)
        vector.reach = result
        return result


def _run_starts(threads: np.ndarray, others: np.ndarray) -> np.ndarray:
    """First positions of runs of equal pairs."""
    changes = (threads[1:] != threads[:-1]) | (others[1:] != others[:-1])
    return np.concatenate([[0], changes.nonzero()[0] + 1])


def spread(values: np.ndarray, starts: np.ndarray, size: int) -> np.ndarray:
    """The value of each run, repeated for its elements; runs begin at ``starts``. A single run keeps its one value."""
    if starts.size == 1:
        return values
    ends = np.empty_like(starts)
    ends[:-1], ends[-1] = starts[1:], size
    return np.repeat(values, ends - starts)


def warp_of(threads: np.ndarray) -> np.ndarray:
    """Warp numbers of threads, where -2-w is all of warp w."""
    if threads.size and threads.min() >= 0:
        return (threads >> 5).astype(np.int64)
    return np.where(threads >= 0, threads >> 5, -2 - threads).astype(np.int64)
