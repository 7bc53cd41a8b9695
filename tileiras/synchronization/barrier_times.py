"""Times of memory uses and of barriers, in one pass over a function.

Every use gets a time; a barrier makes all earlier ones visible.  On entry to a loop the uses in its body count as
passed, since an earlier iteration may have made them.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, Operation, Region
from tileiras.support.named_tuple import NamedTuple


class Place(NamedTuple):
    """The position before an operation, or before its stores to scratch area number `area`."""

    op: Operation
    area: int | None = None


class Barriers(NamedTuple):
    """Times of the last barrier of the CTA's or agent's threads, and of the last one of the whole cluster."""

    own: int
    cluster: int


class Range:
    """Bytes of the arena, with the times of the last read and of the last write that may be read at any later time.

    `piped`: they are the buffer of a pipe, whose mbarriers order the accesses of agents to it.
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
    """A loop being processed: the state on entry, and the stores to shared memory that may conflict with loads of an
    earlier iteration, perhaps in the other CTA of a pair."""

    __slots__ = ("entered", "op", "pending", "reads", "saved")

    def __init__(self, op: Operation, entered: int, saved: Barriers, reads: dict[Range, int]) -> None:
        self.op = op
        self.entered = entered
        self.saved = saved
        self.reads = reads
        self.pending: list[tuple[Place, Range, bool]] = []


class BarrierTimes:
    """Times of the uses of memory, and the places of the barriers that they require."""

    def __init__(self, joint: bool) -> None:
        """`joint`: dots are of pairs of CTAs, so that some reads are complete only behind barriers of the cluster."""
        self.places: dict[Place, Operation] = {}
        """Place of each barrier, besides those between the stores and the loads of scratch areas -> the operation that
        requires it."""
        self.of_cluster: set[Place] = set()
        """The places where all CTAs of the cluster wait."""
        self.joint = joint
        self.ranges: list[Range] = []
        self.scratch: dict[tuple[int, int], Range] = {}
        self.time = 1
        self.barrier = 0
        self.cluster = 0
        """Time of the last barrier of the cluster."""
        self.loops: list[Loop] = []
        self.passed: dict[Operation, int] = {}
        """Memory operations ordered by tokens -> their times."""

    # -- barriers ------------------------------------------------------------------------------------------------------

    def wait(self, place: Place | None = None, cause: Operation | None = None, cluster: bool = False) -> None:
        """Record a barrier of one CTA or of the cluster; it is inserted at `place`, and exists already without one."""
        if place is not None:
            self.places[place] = cause or place.op
        self.time += 1
        self.barrier = self.time
        if cluster:
            assert place is not None, "exchanges are of one CTA"
            self.of_cluster.add(place)
            self.cluster = self.time

    def last_barrier(self, cluster: bool) -> int:
        """Time of the last barrier."""
        return self.cluster if cluster else self.barrier

    @property
    def barriers(self) -> Barriers:
        return Barriers(self.barrier, self.cluster)

    @barriers.setter
    def barriers(self, times: Barriers) -> None:
        self.barrier, self.cluster = times

    def read_time(self, times: Barriers) -> int:
        """The time up to which reads are complete for all later operations."""
        return min(times) if self.joint else times.own

    def is_pending(self) -> bool:
        """Whether memory on which other threads may depend has been accessed since the last barrier."""
        shared = (time for range in self.ranges for time in (range.last_read, range.last_written))
        return any(time > self.barrier for time in (*self.passed.values(), *shared))

    # -- ranges --------------------------------------------------------------------------------------------------------

    def new_range(self, start: int, end: int) -> Range:
        result = Range(start, end)
        self.ranges.append(result)
        return result

    def ranges_in_use(self) -> list[Range]:
        """The ranges that have been read or written."""
        return [each for each in self.ranges if each.last_read or each.last_written]

    def stages_were_used(self) -> bool:
        """Whether bytes of shared memory that are stages of a pipe have been read or written."""
        piped = [each for each in self.ranges if each.piped]
        return any(a.overlaps(b) for a in self.ranges_in_use() for b in piped)

    def scratch_range(self, area: tileas.ScratchAttr) -> Range:
        key = area.offset, area.offset + area.bytes
        result = self.scratch.get(key)
        if result is None:
            result = self.scratch[key] = self.new_range(*key)
        return result

    def read(self, range: Range) -> None:
        self.time += 1
        range.last_read = self.time

    def write(self, range: Range) -> None:
        self.time += 1
        range.last_written = self.time

    def before_stores(self, place: Place, range: Range, cluster: bool = False) -> None:
        """Require that earlier loads from overlapping ranges are complete in all threads."""
        if range.piped:
            return
        if any(r.last_read > self.last_barrier(cluster) for r in self.ranges if r.overlaps(range)):
            self.wait(place, cluster=cluster)
            return
        # An earlier iteration may have read the range; the end of the body shows whether a barrier stands between.
        for loop in self.loops:
            if self.last_barrier(cluster) <= loop.entered:
                loop.pending.append((place, range, cluster))

    def before_loads(self, place: Place, range: Range, cluster: bool = False) -> None:
        """Require that writes of other threads to a range are visible."""
        if not range.piped and range.last_written > self.last_barrier(cluster):
            self.wait(place, cluster=cluster)

    # -- loops ---------------------------------------------------------------------------------------------------------

    def leave_loop(self) -> Loop:
        """End a loop; place the barriers that an iteration needs because of accesses at the end of the previous one."""
        loop = self.loops.pop()
        blocks: set[Block | None] = set()
        for place, range, cluster in loop.pending:
            block = place.op.parent
            # A barrier before an earlier store of the same block, for this loop or an inner one, is sufficient.
            if block in blocks or place in self.places:
                if not cluster or place in self.of_cluster:
                    blocks.add(block)
                    continue
            settling = max(self.last_barrier(cluster), loop.entered)
            if any(r.last_read > settling for r in self.ranges if r.overlaps(range)):
                self.places[place] = loop.op
                if cluster:
                    self.of_cluster.add(place)
                blocks.add(block)
        return loop

    def reads(self) -> dict[Range, int]:
        return {range: range.last_read for range in self.ranges}

    def restore_reads(self, reads: dict[Range, int], until: int) -> None:
        """Reset to the times of `reads` the ranges that were read again no later than `until`."""
        for range in self.ranges:
            before = reads.get(range, 0)
            if before < range.last_read <= until:
                range.last_read = before

    def forget(self, part: Region, until: int) -> None:
        """Drop the operations of `part` that were passed no later than `until`; later ones need not wait for them."""
        for op in part.block.operations:
            for inner in op.walk():
                if self.passed.get(inner, 0) <= until:
                    self.passed.pop(inner, None)
