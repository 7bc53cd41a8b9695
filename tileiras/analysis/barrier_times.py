"""When threads used what of memory, and when they waited for each other, on one way through a function.

Every use gets a time; a barrier makes all earlier ones visible.  On the way into a loop what its body does counts as
done, since an earlier iteration may have done it.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation, Region
from tileiras.named_tuple import NamedTuple


class Place(NamedTuple):
    """Before an operation, or before the stores to scratch area number `area` of it."""

    op: Operation
    area: int | None = None


class Barriers(NamedTuple):
    """When the last barrier was, of the CTA's or agent's threads, and of those of the whole cluster."""

    own: int
    cluster: int


class Range:
    """Bytes of the arena, and when they were last read, and written to be read at any time.

    `piped`: they are the buffer of a pipe, whose mbarriers order what agents do in it.
    """

    __slots__ = ("end", "last_read", "last_written", "piped", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.last_read = 0
        self.last_written = 0
        self.piped = False

    def overlaps(self, other: Range) -> bool:
        return self.start < other.end and other.start < self.end


class Loop:
    """A loop on the way through it: what was so when it was entered, and stores to shared memory that loads of an
    earlier iteration may meet, perhaps in the other CTA of a pair."""

    __slots__ = ("entered", "op", "pending", "reads", "saved")

    def __init__(self, op: Operation, entered: int, saved: Barriers, reads: dict[Range, int]) -> None:
        self.op = op
        self.entered = entered
        self.saved = saved
        self.reads = reads
        self.pending: list[tuple[Place, Range, bool]] = []


class BarrierTimes:
    """What was used when, and where barriers have to stand for it."""

    def __init__(self, joint: bool) -> None:
        """`joint`: dots are of pairs of CTAs, so that some reads are over behind barriers of the cluster only."""
        self.places: dict[Place, Operation] = {}
        """Where barriers have to stand, beside those between the stores and the loads of scratch areas, and the
        operation for which each is there."""
        self.of_cluster: set[Place] = set()
        """Those where all CTAs of the cluster wait."""
        self.joint = joint
        self.ranges: list[Range] = []
        self.scratch: dict[tuple[int, int], Range] = {}
        self.time = 1
        self.barrier = 0
        self.cluster = 0
        """When the last barrier of the cluster was."""
        self.loops: list[Loop] = []
        self.passed: dict[Operation, int] = {}
        """Operations on memory that tokens order."""

    # -- barriers ------------------------------------------------------------------------------------------------------

    def wait(self, place: Place | None = None, cause: Operation | None = None, cluster: bool = False) -> None:
        """All threads, of the cluster or of one CTA, wait for each other; `place` is where that has to be said."""
        if place is not None:
            self.places[place] = cause or place.op
        self.time += 1
        self.barrier = self.time
        if cluster:
            assert place is not None, "exchanges are of one CTA"
            self.of_cluster.add(place)
            self.cluster = self.time

    def last_barrier(self, cluster: bool) -> int:
        """When the last barrier was."""
        return self.cluster if cluster else self.barrier

    @property
    def barriers(self) -> Barriers:
        return Barriers(self.barrier, self.cluster)

    @barriers.setter
    def barriers(self, times: Barriers) -> None:
        self.barrier, self.cluster = times

    def settled(self, times: Barriers) -> int:
        """Until when reads are over for whatever follows."""
        return min(times) if self.joint else times.own

    def is_pending(self) -> bool:
        """Whether anything has been done to memory since the last barrier that other threads may depend on."""
        shared = (time for range in self.ranges for time in (range.last_read, range.last_written))
        return any(time > self.barrier for time in (*self.passed.values(), *shared))

    # -- ranges --------------------------------------------------------------------------------------------------------

    def new_range(self, start: int, end: int) -> Range:
        found = Range(start, end)
        self.ranges.append(found)
        return found

    def used(self) -> list[Range]:
        """The ranges in which anything was done."""
        return [each for each in self.ranges if each.last_read or each.last_written]

    def stages_were_used(self) -> bool:
        """Whether anything was done in a place in shared memory in which a pipe has stages."""
        piped = [each for each in self.ranges if each.piped]
        return any(a.overlaps(b) for a in self.used() for b in piped)

    def scratch_range(self, area: tileas.ScratchAttr) -> Range:
        key = area.offset, area.offset + area.bytes
        found = self.scratch.get(key)
        if found is None:
            found = self.scratch[key] = self.new_range(*key)
        return found

    def read(self, range: Range) -> None:
        self.time += 1
        range.last_read = self.time

    def write(self, range: Range) -> None:
        self.time += 1
        range.last_written = self.time

    def before_stores(self, place: Place, range: Range, cluster: bool = False) -> None:
        """Earlier loads from what a range overlaps must be over in all threads."""
        if range.piped:
            return
        if any(r.last_read > self.last_barrier(cluster) for r in self.ranges if r.overlaps(range)):
            self.wait(place, cluster=cluster)
            return
        # An earlier iteration read the range; whether a barrier stood between is known at the end of the body.
        for loop in self.loops:
            if self.last_barrier(cluster) <= loop.entered:
                loop.pending.append((place, range, cluster))

    def before_loads(self, place: Place, range: Range, cluster: bool = False) -> None:
        """What other threads wrote to a range must be visible."""
        if not range.piped and range.last_written > self.last_barrier(cluster):
            self.wait(place, cluster=cluster)

    # -- loops ---------------------------------------------------------------------------------------------------------

    def leave_loop(self) -> Loop:
        """Asks for the barriers at the head of an iteration that the end of the one before turned out to need."""
        loop = self.loops.pop()
        settled: set[Block | None] = set()
        for place, range, cluster in loop.pending:
            block = place.op.parent
            # A barrier before an earlier store of the same block, for this loop or one inside, serves as well.
            if block in settled or place in self.places:
                if not cluster or place in self.of_cluster:
                    settled.add(block)
                    continue
            settling = max(self.last_barrier(cluster), loop.entered)
            if any(r.last_read > settling for r in self.ranges if r.overlaps(range)):
                self.places[place] = loop.op
                if cluster:
                    self.of_cluster.add(place)
                settled.add(block)
        return loop

    def reads(self) -> dict[Range, int]:
        return {range: range.last_read for range in self.ranges}

    def restore_reads(self, reads: dict[Range, int], until: int) -> None:
        """Ranges that were read again no later than `until` were last read when `reads` says."""
        for range in self.ranges:
            before = reads.get(range, 0)
            if before < range.last_read <= until:
                range.last_read = before

    def forget(self, part: Region, until: int) -> None:
        """No operation after the loop has to mind those of this part that were passed no later than `until`."""
        for op in part.block.operations:
            for inner in op.walk():
                if self.passed.get(inner, 0) <= until:
                    self.passed.pop(inner, None)
