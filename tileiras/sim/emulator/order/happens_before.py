"""Happens-before order of accesses: clocks of warps, and their transfer by synchronisation (PTX ISA, "Memory
Consistency Model").

A warp's clock advances at each of its releases (`knowledge` has the queries of clocks).

- A barrier joins the rows of arriving warps into those of waiting warps; a barrier of the cluster likewise.
- Lanes of a warp are separate threads: an access of one happens before an access of another only if `bar.warp.sync`
  or a barrier at which they wait lies between.
- A release is kept with the location it wrote; an acquire that reads there joins it, if the scope of each includes
  the other's thread. A fence before a relaxed write, or after a relaxed read, does the same. Read-modify-writes
  continue the release that they read; other writes end it.
- An arrival at an mbarrier releases to it and a successful wait acquires from it. An arrival at the scope of the own
  block at an mbarrier of another block orders one thing: accesses of its block's shared memory, which are complete,
  before asynchronous copies into that memory by the thread that has waited. CUTLASS and the reference compiler let
  other blocks refill stages by it; no data is passed on.

The order of two `fence.sc` as such is not used: their effect shows in the values of later reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .knowledge import Chain, Knowledge, Vector
from .memory_order import CLUSTER, CTA, GPU, Order

if TYPE_CHECKING:
    from ..launch.scheduler import Batch, Launch
    from ..launch.warps import WarpGroup

#: Used instead of the number of a barrier of the block.
_CLUSTER_BARRIER = -1


class Published(NamedTuple):
    """Releases that a read may acquire for its block, its cluster or its GPU (``level``, a scope): a length of a
    chain."""

    level: int
    chain: Chain
    length: int


class Fence(NamedTuple):
    """A warp's last fence: its lanes, scope and clock, and the knowledge of the warp."""

    lanes: int
    scope: int
    clock: int
    vector: Vector


class Clocks(Knowledge):
    """The clocks of one launch, advanced by barriers, releases and acquires."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.locations: dict[int, dict[tuple[int, int], Chain]] = {}
        """Releases to each location, by level and number of the block, cluster or GPU that may acquire them."""
        self.phase_ends: dict[int, dict[tuple[int, int], tuple[Chain, int]]] = {}
        """Releases to each mbarrier up to the end of its last complete phase, which a wait acquires."""
        self.shared_locations: list[int] = []
        self.fences: dict[int, Fence] = {}
        self.observed: dict[int, dict[Chain, Published]] = {}  # thread -> releases read by relaxed reads
        self.accesses = 0

    def begin(self, batch: Batch, first_block: int) -> None:
        super().begin(batch, first_block)
        self.joined = np.zeros((batch.count, 16, self.width), np.int32)
        self.joined_beyond: dict[tuple[int, int], Vector] = {}
        self.exited = np.zeros((batch.count, self.width), np.int32)
        self.freed = {}
        clusters = batch.count // self.members
        self.arriving = np.zeros((clusters, self.width), np.int32)
        self.passed = np.zeros((clusters, self.width), np.int32)
        self.arriving_beyond: dict[int, Vector] = {}
        self.passed_beyond: dict[int, Vector] = {}
        self.first_arrival = np.zeros((batch.count, 16), np.int64)
        self.settled = np.zeros(batch.count, np.int64)
        """By block: accesses with a `stamp` up to this one happen before all present accesses of its threads."""
        for key in self.shared_locations:
            self.locations.pop(key, None)
        self.phase_ends = {}
        self.shared_locations = []
        self.handed: dict[tuple[int, int], Vector] = {}
        """(row, barrier or `_CLUSTER_BARRIER`) -> knowledge that the warp released on arrival there."""

    def stamp(self) -> int:
        """A number for a present access, greater than all earlier ones."""
        self.accesses += 1
        return self.accesses

    # -- threads ---------------------------------------------------------------------------------------------------

    def rows(self, group: WarpGroup, threads: np.ndarray | None = None) -> np.ndarray:
        """Rows of the warps with active threads, or with ``threads`` threads."""
        lanes = group.active_lanes() if threads is None else threads.reshape(-1, 32)
        warps = np.flatnonzero(lanes.any(1))
        return group.warp_cta[warps] * self.per_block + group.thread[warps * 32] // 32

    def numbers(self, group: WarpGroup) -> np.ndarray:
        """The launch's number of each of the group's threads."""
        return ((self.first + group.cta * self.per_block) * 32 + group.thread).astype(np.int32)

    def advance(self, rows: np.ndarray) -> None:
        self.own[rows] += 1
        self.known[rows, rows % self.width] = self.own[rows]
        self.version += 1

    # -- barriers --------------------------------------------------------------------------------------------------

    def _beyond(self, row: int) -> Vector:
        """Knowledge of a warp and its lanes beyond the row."""
        warp = self.first + row
        beyond = self.seen[warp].copy() if warp in self.seen else Vector()
        for vector in self.lanes.get(warp, {}).values():
            self.join(beyond, vector)
        return beyond

    def arrive(self, group: WarpGroup, numbers: np.ndarray) -> None:
        """The active warps arrive at barriers, one number per warp."""
        rows = self.rows(group)
        blocks = rows // self.per_block
        np.maximum.at(self.joined, (blocks, numbers), self.known[rows])
        earlier = self.first_arrival[blocks, numbers]
        self.first_arrival[blocks, numbers] = np.where(earlier == 0, self.accesses, earlier)
        if self.seen or self.lanes:
            for row, block, number in zip(rows.tolist(), blocks.tolist(), numbers.tolist()):
                self._hand_over(row, number, self.joined_beyond.setdefault((block, number), Vector()))
        self.advance(rows)

    def _hand_over(self, row: int, number: int, joined: Vector) -> None:
        beyond = self.handed[row, number] = self._beyond(row)
        self.join(joined, beyond)

    def _take_over(self, row: int, number: int, joined: Vector) -> None:
        """Join the knowledge of all arrivals, ``joined``, into a warp that leaves a barrier, without its own
        contribution."""
        joined.shorten()
        beyond = self._beyond(row)
        if (handed := self.handed.pop((row, number), None)) is not None:
            beyond.remove(handed)
        self.join(beyond, joined)
        beyond.shorten()
        self.seen[self.first + row] = beyond
        self.lanes.pop(self.first + row, None)

    def leave(self, group: WarpGroup, lanes: np.ndarray, number: int) -> None:
        """The warps of ``lanes`` leave a barrier."""
        rows = self.rows(group, lanes)
        blocks = rows // self.per_block
        seen = np.maximum(self.joined[blocks, number], self.exited[blocks])
        self.known[rows] = np.maximum(self.known[rows], seen)
        for row, block in zip(rows.tolist(), blocks.tolist()):
            if beyond := self.joined_beyond.get((block, number)):
                self._take_over(row, number, beyond)
        self.meet(rows)

    def reset(self, full: np.ndarray, everyone: np.ndarray) -> None:
        """``full`` (blocks, 16): barriers that are reset; ``everyone``: those of them at which all threads waited."""
        if self.members == 1:
            horizons = np.where(full & everyone, self.first_arrival, 0).max(1)
            self.settled = np.maximum(self.settled, horizons)
        self.first_arrival[full] = 0
        self.joined[full] = 0
        for block, number in np.argwhere(full).tolist():
            self.joined_beyond.pop((block, number), None)

    def exit(self, group: WarpGroup) -> None:
        """Barriers do not wait for threads that have ended."""
        rows = self.rows(group)
        np.maximum.at(self.exited, rows // self.per_block, self.known[rows])
        self.advance(rows)

    @staticmethod
    def _fence(warp: int, fence: Fence) -> Vector:
        """Knowledge that the lanes of a fence have released by it."""
        vector = fence.vector.copy()
        lanes = [lane for lane in range(32) if fence.lanes >> lane & 1]
        vector.clocks.update(dict.fromkeys((~(warp << 5 | lane) for lane in lanes), fence.clock))
        return vector

    def meet(self, rows: np.ndarray) -> None:
        """The lanes of warps converge and share their operations and knowledge."""
        self.advance(rows)
        self.met[rows] = self.own[rows]
        if self.lanes:
            for row in rows.tolist():
                if self.first + row in self.lanes:
                    beyond = self.seen[self.first + row] = self._beyond(row)
                    beyond.shorten()
                    del self.lanes[self.first + row]

    def arrive_cluster(self, group: WarpGroup, relaxed: bool) -> None:
        rows = self.rows(group)
        clusters = rows // self.width
        if relaxed:
            # A relaxed arrival releases what an earlier fence covers.
            for row, cluster in zip(rows.tolist(), clusters.tolist()):
                fence = self.fences.get(self.first + row)
                if fence is not None and fence.scope >= CLUSTER:
                    self.join(self.arriving_beyond.setdefault(cluster, Vector()), self._fence(self.first + row, fence))
            return
        np.maximum.at(self.arriving, clusters, self.known[rows])
        if self.seen or self.lanes:
            for row, cluster in zip(rows.tolist(), clusters.tolist()):
                self._hand_over(row, _CLUSTER_BARRIER, self.arriving_beyond.setdefault(cluster, Vector()))
        self.advance(rows)

    def complete_cluster(self, full: np.ndarray) -> None:
        self.passed[full] = self.arriving[full]
        self.arriving[full] = 0
        for cluster in np.flatnonzero(full).tolist():
            self.passed_beyond[cluster] = self.arriving_beyond.pop(cluster, Vector())

    def leave_cluster(self, group: WarpGroup, lanes: np.ndarray) -> None:
        rows = self.rows(group, lanes)
        clusters = rows // self.width
        self.known[rows] = np.maximum(self.known[rows], self.passed[clusters])
        for row, cluster in zip(rows.tolist(), clusters.tolist()):
            if beyond := self.passed_beyond.get(cluster):
                self._take_over(row, _CLUSTER_BARRIER, beyond)
        self.meet(rows)

    # -- locations -------------------------------------------------------------------------------------------------

    def _row_vector(self, row: int) -> Vector:
        """Knowledge of a warp; of itself only up to its last convergence."""
        warp, clocks = self.first + row, self.known[row]
        base = warp - row % self.width
        vector = Vector({base + column: int(clocks[column]) for column in np.flatnonzero(clocks).tolist()})
        vector.clocks[warp] = int(self.met[row]) - 1
        if warp in self.seen:
            self.join(vector, self.seen[warp])
        return vector

    def _levels(self, scope: int, block: int) -> list[tuple[int, int]]:
        """(level, number) of the block, the cluster and the GPU of a thread, as far as a scope includes them.

        The scopes of a release and an acquire include each other's thread if both have one of these (PTX ISA, "Morally
        Strong").
        """
        levels = [(CTA, block)]
        if scope >= CLUSTER and self.members > 1:
            levels.append((CLUSTER, block // self.members))
        if scope >= GPU:
            levels.append((GPU, 0))
        return levels

    def end_phase(self, key: int) -> None:
        """The phase of an mbarrier is complete: later arrivals belong to the next one."""
        entry = self.locations.get(key, {})
        self.phase_ends[key] = {level: (chain, chain.length) for level, chain in entry.items()}

    def synchronise(
        self, threads: list[int], keys: list[int], order: Order, reads: bool, writes: bool, waited: bool = False
    ) -> None:
        """Execute accesses by ``threads`` of the locations ``keys``, one after the other; ``waited``: they are waits
        for phases of mbarriers."""
        if not (self.locations or self.fences or order.releases) or self.exhausted:
            return
        advanced: set[int] = set()
        released: dict[tuple[int, int], set[int]] = {}
        places = list(zip(threads, keys))
        if reads and len(places) > 1 and order.semantics in ("acquire", "release"):
            places = self._synchronise_warps(places, order, writes, advanced, waited)
        for thread, key in places:
            if self.exhausted:
                break
            self.work += 1
            warp = thread >> 5
            row, block = warp - self.first, self.block_of(warp)
            entry = self.locations.get(key)
            if waited and entry and order.acquires:
                self._note_freed([thread], key, block)
            if reads and entry and order.strong:
                visible = self._visible(entry, order.scope, block, self.phase_ends.get(key, {}) if waited else None)
                if order.acquires:
                    self.acquire(thread, visible)
                else:
                    self.observed.setdefault(thread, {}).update((each.chain, each) for each in visible)
            if not writes:
                continue
            if not reads and entry:
                del self.locations[key]
            if not order.strong:
                continue
            if order.releases:
                vector = self.knowledge(thread)
                vector.clocks[~thread] = int(self.own[row])
                lanes = released.setdefault((warp, key), set())
                lanes.add(thread)
                if reads and len(lanes) == len(self.lanes_of(warp)):
                    # A thread that has seen this lane has seen the other lanes as well.
                    vector.clocks[warp] = int(self.own[row])
                self._publish(key, order.scope, block, vector)
                advanced.add(row)
            fence = self.fences.get(warp)
            if fence is not None and fence.lanes >> (thread & 31) & 1:
                vector = fence.vector.copy()
                vector.clocks[~thread] = fence.clock
                self._publish(key, min(fence.scope, order.scope), block, vector)
        if advanced:
            self.advance(np.array(sorted(advanced)))

    def _visible(
        self, location: dict[tuple[int, int], Chain], scope: int, block: int,
        ends: dict[tuple[int, int], tuple[Chain, int]] | None = None,
    ) -> list[Published]:  # fmt: skip
        """Releases to a location that a read of it may acquire, or a wait for a phase of these ``ends``."""
        visible = []
        for level in self._levels(scope, block):
            chain = location.get(level)
            if chain is not None and ends is None:
                visible.append(Published(level[0], chain, chain.length))
            elif chain is not None and level in ends and ends[level][0] is chain:
                visible.append(Published(level[0], chain, ends[level][1]))
        return visible

    def _note_freed(self, threads: list[int], key: int, block: int) -> None:
        """Threads of a block have waited for a phase at which other blocks arrived at their own scope."""
        for level, (chain, length) in self.phase_ends.get(key, {}).items():
            if level[0] != CTA or level[1] == block:
                continue
            for thread in threads:
                vector = self.freed.setdefault((thread, level[1]), Vector())
                self.join(vector, Vector(chains={chain: length}))

    def _synchronise_warps(
        self, places: list[tuple[int, int]], order: Order, writes: bool, advanced: set[int], waited: bool
    ) -> list[tuple[int, int]]:
        """Execute `synchronise` for whole warps, all of whose lanes read one location and with ``writes`` then
        release to it; returns the remaining threads and locations."""
        by_warp: dict[tuple[int, int], list[int]] = {}
        for thread, key in places:
            by_warp.setdefault((thread >> 5, key), []).append(thread)
        rest = []
        for (warp, key), threads in by_warp.items():
            every = (1 << len(self.lanes_of(warp))) - 1
            fence = self.fences.get(warp) if writes else None
            if len(threads) != every.bit_count() or fence is not None and fence.lanes & every != every:
                rest += [(thread, key) for thread in threads]
                continue
            self.work += 1
            row, block = warp - self.first, self.block_of(warp)
            ends = self.phase_ends.get(key, {}) if waited else None
            if waited and order.acquires:
                self._note_freed(threads, key, block)
            visible = self._visible(self.locations.get(key, {}), order.scope, block, ends)
            if visible and order.acquires:
                acquired = Vector(chains={each.chain: each.length for each in visible})
                seen = self.seen.setdefault(warp, Vector())
                self.join(seen, acquired)
                seen.shorten()
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
        """Weak writes of locations: earlier releases there can no longer be acquired."""
        if not self.locations or not keys.size:
            return
        if keys.size < len(self.locations):
            for key in keys.tolist():
                self.locations.pop(key, None)
            return
        near = np.fromiter(self.locations, np.int64, len(self.locations))
        for key in near[np.isin(near, keys)].tolist():
            del self.locations[key]

    def _publish(self, key: int, scope: int, block: int, vector: Vector) -> None:
        """Keep a release for all threads that may acquire it."""
        self.work += len(vector)
        location = self.locations.get(key)
        if location is None:
            location = self.locations[key] = {}
            if key < 0:
                self.shared_locations.append(key)
        for level in self._levels(scope, block):
            chain = location.get(level)
            if chain is None:
                chain = location[level] = Chain()
            chain.append(vector)

    def acquire(self, thread: int, published: list[Published]) -> None:
        if published:
            vector = self.lanes.setdefault(thread >> 5, {}).setdefault(thread, Vector())
            self.join(vector, Vector(chains={each.chain: each.length for each in published}))
            vector.shorten()

    def released(self, thread: int, order: Order) -> int | None:
        """The clock that a thread releases by a write at present, if it is of this order; None without a release."""
        warp = thread >> 5
        if order.releases:
            return int(self.own[warp - self.first])
        fence = self.fences.get(warp)
        return fence.clock if fence is not None and fence.lanes >> (thread & 31) & 1 else None

    def block_knows(self, block: int, other: int, clock: int) -> bool:
        """Whether a thread of a block has seen another block's thread ``other`` at ``clock``, if only by arrivals."""
        warps = range(block * self.per_block, (block + 1) * self.per_block)
        threads = {warp << 5 for warp in warps} | {thread for warp in warps for thread in self.lanes.get(warp, ())}
        threads |= {thread for thread, _ in self.freed if thread >> 5 in warps}
        with self.copying(self.block_of(other >> 5)):
            each = np.array(sorted(threads))
            return not self.unordered(each, np.full(each.size, other), np.full(each.size, clock)).all()

    def complete(self, thread: int, block: int, key: int, knowledge: Vector | None = None) -> None:
        """An asynchronous copy of ``thread`` completes on the mbarrier of ``block`` at ``key``; ``knowledge`` is its
        thread's knowledge at issue, which is released with it."""
        row = (thread >> 5) - self.first
        vector = knowledge.copy() if knowledge is not None else Vector()
        vector.clocks[~thread] = int(self.own[row])
        self._publish(key, CLUSTER, block, vector)
        self.advance(np.array([row]))

    def knowledge(self, thread: int) -> Vector:
        """Present knowledge of a thread."""
        warp = thread >> 5
        vector = self._row_vector(warp - self.first)
        if thread in self.lanes.get(warp, ()):
            self.join(vector, self.lanes[warp][thread])
        return vector

    def fence(self, group: WarpGroup, scope: int, releases: bool = True) -> None:
        """The active threads run a fence that acquires and, with ``releases``, releases."""
        rows = self.rows(group)
        bits = np.packbits(group.active_lanes(), axis=1, bitorder="little").view(np.uint32).reshape(-1)
        bits = bits[bits != 0]
        if self.observed:
            for thread in self.numbers(group)[group.active()].tolist():
                seen = self.observed.pop(thread, {}).values()
                self.acquire(thread, [each for each in seen if each.level <= scope])
        for row, lanes in zip(rows.tolist(), bits.tolist()) if releases else ():
            warp = self.first + row
            vector = self._row_vector(row)
            self.join(vector, self._beyond(row))
            vector.shorten()
            self.fences[warp] = Fence(lanes, scope, int(self.own[row]), vector)
        self.advance(rows)
