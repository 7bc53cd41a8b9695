"""Barriers: between uses of scratch memory, and along tokens.

Operations of nv_tileas are executed by all threads of a CTA, each on its share.  A token edge from one memory
operation to another says that the second sees the first's effect; when another thread made that effect, a barrier has
to stand between. It need not when both only read, or when both touch the same addresses from the same threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.alias import AliasAnalysis, address_of
from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, MemoryWrite, Operation, Region, TensorType, Value
from tileiras.layout.arena import ARENA_ALIGNMENT

if TYPE_CHECKING:
    from .function import FunctionLowering

_VIEWED = (aa.TiledLoadOp, aa.TiledStoreOp)
_POINTED = (aa.LoadOp, aa.StoreOp)
_ASYNCHRONOUS = (tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp, tileas.AsyncWaitOp)
_MEMORY = (*_VIEWED, *_POINTED, *_ASYNCHRONOUS, aa.TiledAtomicRMWOp, aa.AtomicRMWOp, aa.AtomicCASOp)


class ScratchArea:
    """A part of the scratch arena, `start` to `end` in bytes, and when it was last read, and written to be read at any
    time."""

    __slots__ = ("end", "last_read", "last_written", "piped", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.last_read = 0
        self.last_written = 0
        self.piped = False
        """Whether it is the buffer of a pipe, whose mbarriers order what agents do in it."""

    @property
    def alignment(self) -> int:
        """What the address of its start is a multiple of."""
        return self.start & -self.start or ARENA_ALIGNMENT


class _Loop:
    """A loop being lowered: what was so when it was entered, and stores to scratch that loads of an earlier iteration
    may meet.  `tested` is what was so behind the first part of a `while`: the barrier, and when regions were read."""

    __slots__ = ("entered", "op", "pending", "reads", "saved_barrier", "tested")

    def __init__(self, op: Operation, entered: int, saved_barrier: int, reads: dict[ScratchArea, int]) -> None:
        self.op = op
        self.entered = entered
        self.saved_barrier = saved_barrier
        self.reads = reads
        self.tested: tuple[int, dict[ScratchArea, int]] = (saved_barrier, {})
        self.pending: list[tuple[Block, Operation | None, ScratchArea]] = []


class Synchronization:
    """Where barriers stand already, on the way through the function.

    Every memory operation gets a time when it is emitted; a barrier makes all earlier effects visible.  On the way into
    a loop the operations of its body count as emitted, since an earlier iteration may have run them.
    """

    def __init__(self, lowering: FunctionLowering) -> None:
        self._lowering = lowering
        self._time = 1
        self._barrier = 0
        self._regions: list[ScratchArea] = []
        self._loops: list[_Loop] = []
        self._settled: set[tuple[Block, Operation | None]] = set()
        self._emitted: dict[Operation, int] = {}
        self._aliases = AliasAnalysis()

    def barrier(self) -> None:
        """All threads of the CTA arrive, and see what any of them wrote to shared or global memory before."""
        self._time += 1
        self._barrier = self._time
        self._lowering.emit.insert(self._lowering.barrier_op())

    def pending(self) -> bool:
        """Whether anything has been done to memory since the last barrier that other threads may depend on."""
        scratch = (time for area in self._regions for time in (area.last_read, area.last_written))
        return any(time > self._barrier for time in (*self._emitted.values(), *scratch))

    # -- scratch -------------------------------------------------------------------------------------------------------

    def region(self, start: int, end: int) -> ScratchArea:
        region = ScratchArea(start, end)
        self._regions.append(region)
        return region

    def before_scratch(self, region: ScratchArea) -> None:
        """Before stores to a region: earlier loads from what it overlaps must be over in all threads."""
        if region.piped:
            return
        overlapping = [r for r in self._regions if r.start < region.end and region.start < r.end]
        if any(r.last_read > self._barrier for r in overlapping):
            self.barrier()
            return
        # An earlier iteration read the region; whether a barrier stood between is known at the end of the body.
        block = self._lowering.emit.block
        for loop in self._loops:
            if self._barrier <= loop.entered:
                loop.pending.append((block, block.last, region))

    def scratch_read(self, region: ScratchArea) -> None:
        """After loads from a region."""
        self._time += 1
        region.last_read = self._time

    def scratch_written(self, region: ScratchArea) -> None:
        """After stores to a region that are not followed by a barrier of their own."""
        self._time += 1
        region.last_written = self._time

    def before_scratch_read(self, region: ScratchArea) -> None:
        """Before loads from a region: what other threads wrote there must be visible."""
        if not region.piped and region.last_written > self._barrier:
            self.barrier()

    def before_loop(self, op: Operation) -> None:
        """Before a loop whose body reads what was written before it: one barrier here, not one in each iteration."""
        for inner in op.walk():
            if isinstance(inner, tileas.CopyOp) and (buffer := self._lowering.values.get(inner.buffer)) is not None:
                self.before_scratch_read(buffer.region)

    def _settle(self, loop: _Loop) -> None:
        """Puts the barriers at the head of an iteration that the end of the one before turned out to need."""
        settled: set[Block] = set()
        for block, after, region in loop.pending:
            # A barrier put in front of an earlier store of the same block, for this loop or one inside, serves as well.
            if block in settled or (block, after) in self._settled:
                settled.add(block)
                continue
            read = [r for r in self._regions if r.start < region.end and region.start < r.end]
            if any(r.last_read > self._barrier and r.last_read > loop.entered for r in read):
                barrier = self._lowering.barrier_op()
                barrier.location = self._lowering.emit.location
                block.insert_before(barrier, block.first if after is None else after.next)
                settled.add(block)
                self._settled.add((block, after))

    # -- tokens -------------------------------------------------------------------------------------------------------

    def before_access(self, op: Operation) -> None:
        """Before a memory operation: a barrier if its token asks for one."""
        token = getattr(op, "token", None)
        if token is not None:
            sources: dict[Operation, bool] = {}
            _collect(token, sources, set(), False)
            if any(self._emitted.get(s, 0) > self._barrier and self._conflict(s, op, c) for s, c in sources.items()):
                self.barrier()
        self._time += 1
        self._emitted[op] = self._time

    def _conflict(self, first: Any, second: Any, carried: bool) -> bool:
        """Whether some thread's access of `second` may need another thread's access of `first` to be over.

        `carried`: `first` may be of an earlier iteration, so that equal names need not be equal values.
        """
        if self._by_one_thread(first) and self._by_one_thread(second):
            return False
        # What one thread's acquire has seen, and what its release hands on, is all threads' business.
        if first.mem_semantic.value in ("acquire", "acq_rel") or second.mem_semantic.value in ("release", "acq_rel"):
            return True
        if not (first.has_trait(MemoryWrite) or second.has_trait(MemoryWrite)):
            return False
        if not self._aliases.may_alias(address_of(first), address_of(second)):
            return False
        layout = self._lowering.layout(second.data) if isinstance(second, (*_VIEWED, *_POINTED)) else None
        if layout is None or not isinstance(first, (*_VIEWED, *_POINTED)):
            return True
        if self._lowering.layout(first.data) != layout:
            return True
        # One thread stores what several hold, and all of them load it.
        free = layout.free_variable_masks()
        loads = any(isinstance(op, (aa.TiledLoadOp, aa.LoadOp)) for op in (first, second))
        if loads and (free["lane"] or free["warp"]):
            return True
        if isinstance(first, _VIEWED) and isinstance(second, _VIEWED):
            view = first.view
            if view is not second.view:
                return True
            # Tiles of a partition are disjoint or equal; equal ones are laid out alike over the threads.
            partition = view.type.traversal_strides == view.type.shape
            if partition and (not carried or not _in_loop(view)):
                return False
            return carried or list(first.coords) != list(second.coords)
        if isinstance(first, _POINTED) and isinstance(second, _POINTED):
            return carried or first.pointer is not second.pointer or not self._distinct(first.pointer)
        return True

    def _by_one_thread(self, op: Any) -> bool:
        """Whether the first thread alone executes the access: of a single element, unless all load it."""
        if isinstance(op, _ASYNCHRONOUS):
            return False
        if isinstance(op, (aa.TiledLoadOp, aa.LoadOp)) and op.mem_semantic.value == "weak":
            return False
        layout = self._lowering.layout(op.pointer if isinstance(op, (aa.AtomicRMWOp, aa.AtomicCASOp)) else op.data)
        return all(size == 1 for size in layout.shape)

    def _distinct(self, pointer: Value) -> bool:
        """Whether the pointers of a tile are surely different from each other."""
        shape = pointer.type.shape if isinstance(pointer.type, TensorType) else ()
        long = [d for d, n in enumerate(shape) if n > 1]
        return not long or len(long) == 1 and self._lowering.facts.contiguity(pointer)[long[0]] == shape[long[0]]

    # -- control flow -------------------------------------------------------------------------------------------------

    def enter_loop(self, op: Operation) -> None:
        """Before the body of a loop."""
        self._time += 1
        for inner in op.walk():
            if isinstance(inner, _MEMORY):
                self._emitted[inner] = self._time
            elif isinstance(inner, tileas.StoreTensorOp) and inner.buffer in self._lowering.values:
                self._lowering.values[inner.buffer].region.last_written = self._time
        self._loops.append(_Loop(op, self._time, self._barrier, self._reads()))

    def leave_condition(self) -> None:
        """Behind the first part of a `while`, which is the last that runs of it."""
        self._loops[-1].tested = self._barrier, self._reads()

    def leave_loop(self) -> None:
        """After the body of a loop, which may not run at all (the first part of a `while` runs)."""
        loop = self._loops.pop()
        self._settle(loop)
        if isinstance(loop.op, scf.ForOp):
            # What an iteration did before its last barrier is over after the loop, if it was done at all.
            self._forget(loop.op.body, self._barrier)
            self._restore_reads(loop.reads, self._barrier)
            self._barrier = loop.saved_barrier
            return
        # The first part ran once more than the second, and whatever barrier is in it stands behind all of the second.
        barrier, reads = loop.tested
        if barrier > loop.entered:
            self._forget(loop.op.after, self._time)
            self._restore_reads(reads, self._time)
            self._barrier = barrier
        else:
            self._forget(loop.op.after, self._barrier)
            self._barrier = loop.saved_barrier

    def _reads(self) -> dict[ScratchArea, int]:
        return {region: region.last_read for region in self._regions}

    def _restore_reads(self, reads: dict[ScratchArea, int], until: int) -> None:
        """Regions that were read again no later than `until` were last read when `reads` says."""
        for region in self._regions:
            before = reads.get(region, 0)
            if before < region.last_read <= until:
                region.last_read = before

    def _forget(self, part: Region, until: int) -> None:
        """No operation after the loop has to mind those of this part that were emitted no later than `until`."""
        for op in part.block.operations:
            for inner in op.walk():
                if self._emitted.get(inner, 0) <= until:
                    self._emitted.pop(inner, None)

    def branch_state(self) -> int:
        return self._barrier

    def join(self, before: int, ends: list[int]) -> None:
        """After a branch: a barrier stands between only if every way had one."""
        self._barrier = min(ends, default=before)

    def restore(self, state: int) -> None:
        self._barrier = state


def _collect(token: Value, found: dict[Operation, bool], seen: set[tuple[Value, bool]], carried: bool) -> None:
    """The memory operations that a token waits for; true for those that may be of an earlier iteration."""
    if (token, carried) in seen or (token, True) in seen:
        return
    seen.add((token, carried))

    handed_on = incoming(token)
    if handed_on is not None:
        for value, around in handed_on:
            _collect(value, found, seen, carried or around)
        return
    op: Any = token.defining_op
    if isinstance(op, _MEMORY):
        found[op] = found.get(op, False) or carried
    # Order is transitive, and an operation that needed no barrier of its own passes the earlier ones on.
    for operand in op.operands:
        if isinstance(operand.type, aa.MemTokenType):
            _collect(operand, found, seen, carried)


def _in_loop(value: Value) -> bool:
    """Whether a value is made anew in every iteration of some loop."""
    op = value.defining_op
    parent = op.parent_op if op is not None else None
    while parent is not None:
        if isinstance(parent, (scf.ForOp, scf.WhileOp)):
            return True
        parent = parent.parent_op
    return False
