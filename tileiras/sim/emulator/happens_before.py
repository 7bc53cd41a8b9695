"""Which accesses happen before which: clocks of warps, and what synchronisation passes from one to another (PTX ISA,
"Memory Consistency Model").

Every warp has a clock, which goes on whenever the warp releases anything, and knows how far it has seen the other
warps of its cluster: a row of a matrix.  What it learns of warps elsewhere, or of single lanes, goes into dictionaries,
since only locks and the like teach it.  Their keys are the number of a warp, for all of its lanes, or ~n for thread n.

- A barrier joins the rows of those that arrive into those that wait; a barrier of the cluster likewise.
- A warp's lanes are threads of their own: what one of them did is before what another does only when `bar.warp.sync` or
  a barrier that they wait at lies between.
- A release is kept with the location it wrote; an acquire that reads there takes it over, when the scope of each takes
  in the other's thread.  A fence before a relaxed write, or after a relaxed read, does the same.  Read-modify-writes
  continue the release that they read; other writes end it.
- An arrival at a transaction barrier releases to it and a wait that succeeds acquires from it.

What was released to one place is kept as a chain, of which an acquire takes the length over and not the content, so
that thousands of threads may update one counter.  Still, releases and acquires are followed as long as that is cheap;
past a budget, everything counts as ordered, and `exhausted` says so.

The order of two `fence.sc` as such is not used: what they are for shows in what the reads behind them see.
"""

from __future__ import annotations

import bisect
from typing import NamedTuple

import numpy as np

CTA, CLUSTER, GPU, SYSTEM = range(4)
SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "gl": GPU, "sys": SYSTEM}


class Order(NamedTuple):
    """An access's semantics, `weak`, `nc`, `relaxed`, `acquire`, `release` or `acq_rel`, and its scope (-1: weak)."""

    semantics: str
    scope: int

    @property
    def strong(self) -> bool:
        return self.scope >= 0

    @property
    def acquires(self) -> bool:
        return self.semantics in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        return self.semantics in ("release", "acq_rel")


WEAK = Order("weak", -1)

#: Entries of dictionaries that may be joined or looked at in one launch: some seconds' worth.
_BUDGET = 1 << 23
#: Sets of chains whose content is remembered.
_REACHES = 4096


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


class Chain:
    """What the threads of a block released to one place at one scope, one after the other."""

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
        waiting = list(chains.items())
        while waiting:
            chain, length = waiting.pop()
            if self.lengths.get(chain, 0) >= length:
                continue
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


class Published(NamedTuple):
    """What threads of ``block`` released at ``scope``: so much of a chain."""

    scope: int
    block: int
    chain: Chain
    length: int


class Fence(NamedTuple):
    """A warp's last fence: which lanes ran it, its scope, its time, and what the warp had seen."""

    lanes: int
    scope: int
    clock: int
    vector: Vector


class Clocks:
    """The clocks of one launch.  Warps and threads are numbered through the launch, ``rows`` are warps of the batch."""

    def __init__(self, launch) -> None:
        self.threads = launch.threads
        self.per_block = -(-launch.threads // 32)
        self.members = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        self.width = self.members * self.per_block  # warps of a cluster
        self.seen: dict[int, Vector] = {}  # warp -> what it knows beyond its row
        self.lanes: dict[int, dict[int, Vector]] = {}  # warp -> thread -> what it alone acquired since its warp met
        self.locations: dict[int, list[Published]] = {}
        self.fences: dict[int, Fence] = {}
        self.observed: dict[int, dict[Chain, Published]] = {}  # thread -> releases that relaxed reads saw
        self.version = 0
        self.work = 0
        self.reaches: dict[tuple[tuple[Chain, int], ...], Reach] = {}

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

    def begin(self, batch, first_block: int) -> None:
        rows = batch.count * self.per_block
        self.first = first_block * self.per_block
        self.own = np.ones(rows, np.int32)
        self.met = np.ones(rows, np.int32)  # clock when the warp's lanes last met
        self.known = np.zeros((rows, self.width), np.int32)
        self.known[np.arange(rows), np.arange(rows) % self.width] = 1
        self.joined = np.zeros((batch.count, 16, self.width), np.int32)
        self.joined_beyond: dict[tuple[int, int], Vector] = {}
        self.exited = np.zeros((batch.count, self.width), np.int32)
        clusters = batch.count // self.members
        self.arriving = np.zeros((clusters, self.width), np.int32)
        self.passed = np.zeros((clusters, self.width), np.int32)
        self.arriving_beyond: dict[int, Vector] = {}
        self.passed_beyond: dict[int, Vector] = {}
        self.locations = {key: value for key, value in self.locations.items() if key >= 0}
        self.version += 1

    # -- threads ---------------------------------------------------------------------------------------------------

    def rows(self, group, chosen: np.ndarray | None = None) -> np.ndarray:
        """Rows of the warps with active threads, or with ``chosen`` threads."""
        lanes = group.active_lanes() if chosen is None else chosen.reshape(-1, 32)
        warps = np.flatnonzero(lanes.any(1))
        return group.warp_cta[warps] * self.per_block + group.thread[warps * 32] // 32

    def numbers(self, group) -> np.ndarray:
        """The launch's number of each of the group's threads."""
        return ((self.first + group.cta * self.per_block) * 32 + group.thread).astype(np.int32)

    def _advance(self, rows: np.ndarray) -> None:
        self.own[rows] += 1
        self.known[rows, rows % self.width] = self.own[rows]
        self.version += 1

    def block_of(self, warps):
        return warps // self.per_block

    # -- barriers --------------------------------------------------------------------------------------------------

    def _beyond(self, row: int) -> Vector:
        """What a warp and its lanes know beyond the row."""
        warp = self.first + row
        beyond = self.seen[warp].copy() if warp in self.seen else Vector()
        for vector in self.lanes.get(warp, {}).values():
            self.join(beyond, vector)
        return beyond

    def arrive(self, group, numbers: np.ndarray) -> None:
        """The active warps arrive at barriers, one number per warp."""
        rows = self.rows(group)
        blocks = rows // self.per_block
        np.maximum.at(self.joined, (blocks, numbers), self.known[rows])
        if self.seen or self.lanes:
            for row, block, number in zip(rows.tolist(), blocks.tolist(), numbers.tolist()):
                self.join(self.joined_beyond.setdefault((block, number), Vector()), self._beyond(row))
        self._advance(rows)

    def leave(self, group, lanes: np.ndarray, number: int) -> None:
        """The warps of ``lanes`` go on after a barrier."""
        rows = self.rows(group, lanes)
        blocks = rows // self.per_block
        seen = np.maximum(self.joined[blocks, number], self.exited[blocks])
        self.known[rows] = np.maximum(self.known[rows], seen)
        for row, block in zip(rows.tolist(), blocks.tolist()):
            beyond = self.joined_beyond.get((block, number))
            if beyond:
                self.join(self.seen.setdefault(self.first + row, Vector()), beyond)
        self.meet(rows)

    def reset(self, full: np.ndarray) -> None:
        """``full`` (blocks, 16): barriers that start over."""
        self.joined[full] = 0
        for block, number in np.argwhere(full).tolist():
            self.joined_beyond.pop((block, number), None)

    def exit(self, group) -> None:
        """Barriers do not wait for threads that have ended."""
        rows = self.rows(group)
        np.maximum.at(self.exited, rows // self.per_block, self.known[rows])
        self._advance(rows)

    def meet(self, rows: np.ndarray) -> None:
        """The lanes of warps meet: what one has done or learnt, all of them know."""
        self._advance(rows)
        self.met[rows] = self.own[rows]
        if self.lanes:
            for row in rows.tolist():
                if self.first + row in self.lanes:
                    self.seen[self.first + row] = self._beyond(row)
                    del self.lanes[self.first + row]

    def arrive_cluster(self, group, relaxed: bool) -> None:
        rows = self.rows(group)
        if relaxed:
            return
        clusters = rows // self.width
        np.maximum.at(self.arriving, clusters, self.known[rows])
        if self.seen or self.lanes:
            for row, cluster in zip(rows.tolist(), clusters.tolist()):
                self.join(self.arriving_beyond.setdefault(cluster, Vector()), self._beyond(row))
        self._advance(rows)

    def complete_cluster(self, full: np.ndarray) -> None:
        self.passed[full] = self.arriving[full]
        self.arriving[full] = 0
        for cluster in np.flatnonzero(full).tolist():
            self.passed_beyond[cluster] = self.arriving_beyond.pop(cluster, Vector())

    def leave_cluster(self, group, lanes: np.ndarray) -> None:
        rows = self.rows(group, lanes)
        clusters = rows // self.width
        self.known[rows] = np.maximum(self.known[rows], self.passed[clusters])
        for row, cluster in zip(rows.tolist(), clusters.tolist()):
            if beyond := self.passed_beyond.get(cluster):
                self.join(self.seen.setdefault(self.first + row, Vector()), beyond)
        self.meet(rows)

    # -- locations -------------------------------------------------------------------------------------------------

    def _row_vector(self, row: int) -> Vector:
        """What a warp has seen, itself only as far as its lanes have met."""
        warp, known = self.first + row, self.known[row]
        base = warp - row % self.width
        vector = Vector({base + column: int(known[column]) for column in np.flatnonzero(known).tolist()})
        vector.clocks[warp] = int(self.met[row]) - 1
        if warp in self.seen:
            self.join(vector, self.seen[warp])
        return vector

    def _takes_in(self, published: Published, scope: int, block: int) -> bool:
        """Whether the release's scope and the reader's each take in the other (PTX ISA, "Morally Strong")."""
        if published.block == block:
            return True
        if published.block // self.members == block // self.members:
            return min(published.scope, scope) >= CLUSTER
        return min(published.scope, scope) >= GPU

    def synchronise(self, threads: list[int], keys: list[int], order: Order, reads: bool, writes: bool) -> None:
        """Accesses by ``threads`` of the locations ``keys`` take place, one after the other."""
        if not (self.locations or self.fences or order.releases) or self.exhausted:
            return
        advanced: set[int] = set()
        released: dict[tuple[int, int], set[int]] = {}
        places = list(zip(threads, keys))
        if reads and len(places) > 1 and order.semantics in ("acquire", "release"):
            places = self._synchronise_warps(places, order, writes, advanced)
        for thread, key in places:
            if self.exhausted:
                break
            self.work += 1
            warp = thread >> 5
            row, block = warp - self.first, self.block_of(warp)
            found = self.locations.get(key)
            if reads and found and order.strong:
                visible = self._visible(found, order.scope, block)
                if order.acquires:
                    self.acquire(thread, visible)
                else:
                    self.observed.setdefault(thread, {}).update((each.chain, each) for each in visible)
            if not writes:
                continue
            if not reads and found:
                del self.locations[key]
            if not order.strong:
                continue
            if order.releases:
                vector = self.knowledge(thread)
                vector.clocks[~thread] = int(self.own[row])
                lanes = released.setdefault((warp, key), set())
                lanes.add(thread)
                if reads and len(lanes) == len(self._lanes_of(warp)):
                    # Who has seen this has seen the other lanes' too.
                    vector.clocks[warp] = int(self.own[row])
                self._publish(key, order.scope, block, vector)
                advanced.add(row)
            fence = self.fences.get(warp)
            if fence is not None and fence.lanes >> (thread & 31) & 1:
                vector = fence.vector.copy()
                vector.clocks[~thread] = fence.clock
                self._publish(key, min(fence.scope, order.scope), block, vector)
        if advanced:
            self._advance(np.array(sorted(advanced)))

    def _visible(self, found: list[Published], scope: int, block: int) -> list[Published]:
        """What a read sees of the releases to its location."""
        return [each._replace(length=each.chain.length) for each in found if self._takes_in(each, scope, block)]

    def _synchronise_warps(
        self, places: list[tuple[int, int]], order: Order, writes: bool, advanced: set[int]
    ) -> list[tuple[int, int]]:
        """Do for whole warps, all of whose lanes read one location and then with ``writes`` release to it, what
        `synchronise` does thread by thread; gives the threads and locations that are left."""
        by_warp: dict[tuple[int, int], list[int]] = {}
        for thread, key in places:
            by_warp.setdefault((thread >> 5, key), []).append(thread)
        rest = []
        for (warp, key), threads in by_warp.items():
            every = (1 << len(self._lanes_of(warp))) - 1
            fence = self.fences.get(warp) if writes else None
            if len(threads) != every.bit_count() or fence is not None and fence.lanes & every != every:
                rest += [(thread, key) for thread in threads]
                continue
            self.work += 1
            row, block = warp - self.first, self.block_of(warp)
            visible = self._visible(self.locations.get(key, []), order.scope, block)
            if visible and order.acquires:
                acquired = Vector(chains={each.chain: each.length for each in visible})
                self.join(self.seen.setdefault(warp, Vector()), acquired)
            elif visible:
                for thread in threads:
                    self.observed.setdefault(thread, {}).update((each.chain, each) for each in visible)
            if writes:
                vector = self._row_vector(row)
                self.join(vector, self._beyond(row))
                vector.clocks[warp] = int(self.own[row])
                self._publish(key, order.scope, block, vector)
                advanced.add(row)
            if fence is not None:
                vector = fence.vector.copy()
                vector.clocks[warp] = fence.clock
                self._publish(key, min(fence.scope, order.scope), block, vector)
        return rest

    def overwrite(self, keys: np.ndarray) -> None:
        """Weak writes of locations: what was released there can no longer be acquired."""
        if not self.locations or not keys.size:
            return
        low, high = int(keys.min()), int(keys.max())
        near = [key for key in self.locations if low <= key <= high]
        if near:
            for key in np.array(near)[np.isin(near, keys)].tolist():
                del self.locations[key]

    def _publish(self, key: int, scope: int, block: int, vector: Vector) -> None:
        """Releases of one block at one scope are kept as one chain."""
        self.work += len(vector)
        entries = self.locations.setdefault(key, [])
        for each in entries:
            if (each.scope, each.block) == (scope, block):
                each.chain.append(vector)
                return
        entries.append(Published(scope, block, Chain(), 0))
        entries[-1].chain.append(vector)

    def acquire(self, thread: int, published: list[Published]) -> None:
        if published:
            vector = self.lanes.setdefault(thread >> 5, {}).setdefault(thread, Vector())
            self.join(vector, Vector(chains={each.chain: each.length for each in published}))

    def complete(self, thread: int, block: int, key: int, known: Vector | None = None) -> None:
        """An asynchronous copy of ``thread`` completes on the transaction barrier of ``block`` at ``key``; ``known`` is
        what its thread had seen and passes on with it."""
        row = (thread >> 5) - self.first
        vector = known.copy() if known is not None else Vector()
        vector.clocks[~thread] = int(self.own[row])
        self._publish(key, CLUSTER, block, vector)
        self._advance(np.array([row]))

    def knowledge(self, thread: int) -> Vector:
        """What a thread has seen by now."""
        warp = thread >> 5
        vector = self._row_vector(warp - self.first)
        if thread in self.lanes.get(warp, ()):
            self.join(vector, self.lanes[warp][thread])
        return vector

    def fence(self, group, scope: int) -> None:
        """The active threads run a fence that both acquires and releases."""
        rows = self.rows(group)
        bits = np.packbits(group.active_lanes(), axis=1, bitorder="little").view(np.uint32).reshape(-1)
        bits = bits[bits != 0]
        if self.observed:
            for thread in self.numbers(group)[group.active()].tolist():
                block = self.block_of(thread >> 5)
                seen = self.observed.pop(thread, {}).values()
                self.acquire(thread, [each for each in seen if self._takes_in(each, scope, block)])
        for row, lanes in zip(rows.tolist(), bits.tolist()):
            warp = self.first + row
            vector = self._row_vector(row)
            self.join(vector, self._beyond(row))
            self.fences[warp] = Fence(lanes, scope, int(self.own[row]), vector)
        self._advance(rows)

    # -- the question ----------------------------------------------------------------------------------------------

    def unordered(self, threads: np.ndarray, others: np.ndarray, clocks: np.ndarray) -> np.ndarray:
        """Whether the accesses that ``others`` made at their ``clocks`` are not before what ``threads`` do now.

        A thread -2-w stands for all lanes of warp w.  No thread is compared with itself.
        """
        if self.exhausted or not threads.size:
            return np.zeros(threads.size, bool)
        # What lanes have released together is known of their warp; few have to be asked about one by one.  Neighbours
        # mostly are of one warp.
        earlier = warp_of(others)
        changes = (threads[1:] != threads[:-1]) | (earlier[1:] != earlier[:-1])
        starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
        limits = self._limits_by_warp(threads[starts], earlier[starts], np.maximum.reduceat(clocks, starts))
        bad = clocks > (limits if starts.size == 1 else np.repeat(limits, np.diff(starts, append=threads.size)))
        if (self.seen or self.lanes) and bad.any():
            at = np.flatnonzero(bad)
            bad[at] = clocks[at] > self._limits(threads[at], others[at], clocks[at])
        return bad

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
        pairs = threads.astype(np.int64) << 32 | others.astype(np.int64) & 0xFFFFFFFF
        distinct, inverse = (pairs, np.zeros(1, np.int64)) if pairs.size == 1 else np.unique(pairs, return_inverse=True)
        latest = np.zeros(distinct.size, np.int64)
        np.maximum.at(latest, inverse, asked)
        numbers = zip((distinct >> 32).tolist(), distinct.astype(np.int32).tolist(), latest.tolist())
        return np.array([self._known_of(*each) for each in numbers])[inverse]

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
        if any(each.clocks.get(key, 0) >= clock for each in vectors for key in keys):
            return True
        reaches = {id(found): found for found in (each.reach or self._reach(each) for each in vectors)}
        return any(found.clock(key) >= clock for found in reaches.values() for key in keys)

    def _known_of(self, thread: int, other: int, asked: int) -> int:
        """How far ``thread`` has seen ``other``; from ``asked`` on, so far at least."""
        if thread < 0 and (lanes := self.lanes.get(-2 - thread)):
            # What a warp reads together, every lane has to know of; many know the same.
            differ: dict[tuple, int] = {}
            for lane in self._lanes_of(-2 - thread):
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
            for lane in self._lanes_of(-2 - other):
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

    def _lanes_of(self, warp: int) -> range:
        """The threads of a warp."""
        return range(warp * 32, warp * 32 + min(32, self.threads - warp % self.per_block * 32))

    def _known_by(self, thread: int, other: int) -> int:
        warp, earlier = (number >> 5 if number >= 0 else -2 - number for number in (thread, other))
        keys = [earlier] * (earlier != warp) + [~other] * (other >= 0)
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


def warp_of(threads: np.ndarray) -> np.ndarray:
    """Warp numbers of threads, where -2-w is all of warp w."""
    return np.where(threads >= 0, threads >> 5, -2 - threads).astype(np.int64)
