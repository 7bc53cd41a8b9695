"""Where all threads have to wait for each other: between uses of scratch memory, and along tokens.

Operations of nv_tileas are executed by all threads of a CTA, or of an agent, each on its share.  Which token edges need
a barrier, `analysis/memory_conflicts.py` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.analysis.dots import feeds_dots, joined_conversions
from tileiras.analysis.dots_in_flight import buffers_read
from tileiras.analysis.memory_conflicts import MemoryConflicts, operations_before, reaches_memory
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Block, MemoryRead, MemoryWrite, Operation, Region, Value, VerifyError
from tileiras.layout.encoding import is_in_shared
from tileiras.named_tuple import NamedTuple
from tileiras.targets.sm import WARP_SIZE, WARPGROUP

_FIRST_COLUMN = 1 << 32
"""Columns of tensor memory are ranges behind all bytes of shared memory."""


class Place(NamedTuple):
    """Before an operation, or before the stores to scratch area number `area` of it."""

    op: Operation
    area: int | None = None


class _Barriers(NamedTuple):
    """When the last barrier was, of the CTA's or agent's threads, and of those of the whole cluster."""

    own: int
    cluster: int


class _Range:
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


class _Loop:
    """A loop on the way through it: what was so when it was entered, and stores to shared memory that loads of an
    earlier iteration may meet, perhaps in the other CTA of a pair."""

    __slots__ = ("entered", "op", "pending", "reads", "saved")

    def __init__(self, op: Operation, entered: int, saved: _Barriers, reads: dict[_Range, int]) -> None:
        self.op = op
        self.entered = entered
        self.saved = saved
        self.reads = reads
        self.pending: list[tuple[Place, _Range, bool]] = []


class Synchronization:
    """The barriers of a function, or of one of its agents, found on one way through it.

    Every memory operation gets a time; a barrier makes all earlier effects visible.  On the way into a loop the
    operations of its body count as passed, since an earlier iteration may have run them.  What one thread has the
    tensor core do for a pair of CTAs is behind barriers of the cluster.
    """

    def __init__(self, func: aa.FuncOp, num_warps: int) -> None:
        self.places: dict[Place, Operation] = {}
        """Where barriers have to stand, beside those between the stores and the loads of scratch areas, and the
        operation for which each is there."""
        self.of_cluster: set[Place] = set()
        """Those where all CTAs of the cluster wait."""
        self.cluster_meets: dict[Place, Operation] = {}
        """Where they do before one uses mbarriers of another, behind the barriers of `places`."""
        self.exchanging: list[Operation] = []
        """The operations with scratch areas."""
        self.agents: list[tuple[Synchronization, int]] = []
        """Those of the agents inside, and how many warps each has."""
        self._func = func
        self._num_warps = num_warps
        self._ranges: list[_Range] = []
        self._scratch: dict[tuple[int, int], _Range] = {}
        self._buffers: dict[Value, _Range] = {}
        self._staged: dict[Value, _Range] = {}
        """Tiles that dots read from their buffers, until the first one does."""
        self._unfenced: list[_Range] = []
        """What threads wrote since the last fence for the asynchronous proxy."""
        self._under_way: dict[_Range, None] = {}
        """What asynchronous dots read, which are complete behind a wait."""
        self._time = 1
        self._barrier = 0
        self._cluster = 0
        """When the last barrier of the cluster was."""
        self._joint = any(isinstance(op, tileas.TensorReserveOp) and op.pair is not None for op in func.walk())
        """Whether dots are of pairs of CTAs."""
        self._loops: list[_Loop] = []
        self._passed: dict[Operation, int] = {}
        self._conflicts = MemoryConflicts(func, num_warps)

    def block(self, block: Block) -> None:
        """Goes through the operations of a block."""
        for op in block.operations:
            rule = _RULES.get(type(op)) or _BY_NAME.get(op.name)
            if rule is not None:
                rule(self, op)
            elif tileas.SCRATCH in op.attributes:
                self._exchange(op)
            elif op.name.startswith(names.PIPELINE):
                self._pipeline(op)
            else:
                for region in op.regions:
                    self.block(region.blocks[0])

    def _wait(self, place: Place | None = None, cause: Operation | None = None, cluster: bool = False) -> None:
        """All threads, of the cluster or of one CTA, wait for each other; `place` is where that has to be said."""
        if place is not None:
            self.places[place] = cause or place.op
        self._time += 1
        self._barrier = self._time
        if cluster:
            assert place is not None, "exchanges are of one CTA"
            self.of_cluster.add(place)
            self._cluster = self._time

    def _last(self, cluster: bool) -> int:
        """When the last barrier was."""
        return self._cluster if cluster else self._barrier

    @property
    def _barriers(self) -> _Barriers:
        return _Barriers(self._barrier, self._cluster)

    @_barriers.setter
    def _barriers(self, times: _Barriers) -> None:
        self._barrier, self._cluster = times

    def _settled(self, times: _Barriers) -> int:
        """Until when reads are over for whatever follows."""
        return min(times) if self._joint else times.own

    def _pending(self) -> bool:
        """Whether anything has been done to memory since the last barrier that other threads may depend on."""
        shared = (time for range in self._ranges for time in (range.last_read, range.last_written))
        return any(time > self._barrier for time in (*self._passed.values(), *shared))

    # -- agents --------------------------------------------------------------------------------------------------------

    def _pipeline(self, op: Any) -> None:
        """An operation of agents or pipes.  Mbarriers order what agents do in the stages of a pipe."""
        from tileiras.analysis.pipes import is_last_pipe

        kind = op.name.removeprefix(names.PIPELINE)
        if kind == "agent_switch":
            self._agent_switch(op)
        elif kind == "create_pipeline" and is_last_pipe(op):
            # It shows the mbarriers, which one thread has initialised, to the others.
            self._show_mbarriers(op)
        elif kind == "destroy_pipeline":
            # Nobody waits any longer.
            self._wait(Place(op))
        for region in op.regions if kind in ("produce_one", "consume_one") else ():
            self.block(region.blocks[0])
        if kind in ("consumer_release", "consume_one"):
            self._stage_read(op)

    def _show_mbarriers(self, last: Operation) -> None:
        """A barrier behind the last of the pipes that are created together: of the cluster, where its CTAs fill each
        other's stages."""
        place = Place(last.next)  # type: ignore[arg-type]
        if self._joint and last.parent_op is self._func:
            self._wait(place, last, cluster=True)
        elif last.parent_op is not self._func or not _is_of_cluster(last):
            self._wait(place, last)
        elif self._stages_were_used():
            self._wait(place, last, cluster=True)
        else:
            # Nothing that other CTAs do depends on what threads did before.
            self._wait(place, last) if self._pending() else self._wait()
            self.cluster_meets[place] = last

    def _stages_were_used(self) -> bool:
        """Whether anything was done in a place in shared memory in which a pipe has stages."""
        used = [each for each in self._ranges if each.last_read or each.last_written]
        piped = [each for each in self._ranges if each.piped]
        return any(a.start < b.end and b.start < a.end for a in used for b in piped)

    def _stage_read(self, op: Any) -> None:
        """What takes the place of a pipe's buffers after their lives has to wait for the loads from them."""
        from tileiras.analysis.pipes import pipe_of

        pipe = pipe_of(op.token)
        for buffer in () if pipe is None else pipe.buffers:
            if buffer in self._buffers:
                self._read(self._buffers[buffer])

    def _agent_switch(self, switch: Any) -> None:
        """All agents begin when what stands before them is over, and what follows begins when all have ended."""
        if self._pending():
            self._wait(Place(switch))
        for region, count in zip(switch.agents, switch.warps(self._func.kernel_spec.num_warps)):
            agent = Synchronization(self._func, count)
            for buffer, outer in self._buffers.items():
                agent._buffers[buffer] = inner = agent._new_range(outer.start, outer.end)
                inner.piped = outer.piped
            agent.block(region.block)
            self.agents.append((agent, count))
        if _is_followed(switch):
            self._wait(Place(switch.next), switch)

    # -- scratch memory ------------------------------------------------------------------------------------------------

    def _new_range(self, start: int, end: int) -> _Range:
        found = _Range(start, end)
        self._ranges.append(found)
        return found

    def _area(self, area: tileas.ScratchAttr) -> _Range:
        key = area.offset, area.offset + area.bytes
        found = self._scratch.get(key)
        if found is None:
            found = self._scratch[key] = self._new_range(*key)
        return found

    def _before_stores(self, place: Place, range: _Range, cluster: bool = False) -> None:
        """Earlier loads from what a range overlaps must be over in all threads."""
        if range.piped:
            return
        overlapping = [r for r in self._ranges if r.start < range.end and range.start < r.end]
        if any(r.last_read > self._last(cluster) for r in overlapping):
            self._wait(place, cluster=cluster)
            return
        # An earlier iteration read the range; whether a barrier stood between is known at the end of the body.
        for loop in self._loops:
            if self._last(cluster) <= loop.entered:
                loop.pending.append((place, range, cluster))

    def _read(self, range: _Range) -> None:
        self._time += 1
        range.last_read = self._time

    def _before_loads(self, place: Place, range: _Range, cluster: bool = False) -> None:
        """What other threads wrote to a range must be visible."""
        if not range.piped and range.last_written > self._last(cluster):
            self._wait(place, cluster=cluster)

    def _exchange(self, op: Operation) -> None:
        """An operation that exchanges elements between threads, through one area after the other."""
        areas = tileas.scratch_areas(op)
        self.exchanging.append(op)
        group: list[_Range] = []
        for number, area in enumerate(areas):
            group.append(self._area(area))
            if area.rounds > 1 and isinstance(op, tileas.PrintOp):
                self._wait(Place(op, number))  # at the head of a loop
            else:
                self._before_stores(Place(op, number), group[-1])
            if number + 1 < len(areas) and areas[number + 1].joins:
                continue
            self._handed_on(group, area.rounds)
            group = []

    def _handed_on(self, ranges: list[_Range], rounds: int) -> None:
        """Behind the first stores to areas: a barrier, and the loads; further rounds begin and go on with one."""
        for _ in range(rounds):
            self._wait()
            for each in ranges:
                self._read(each)

    def _conversions(self, op: Operation) -> None:
        """A conversion, with those that share its barrier."""
        areas = tileas.scratch_areas(op)
        if not areas or areas[0].joins:
            return
        group = [op, *joined_conversions(op)]
        self.exchanging += group
        found = [tileas.scratch_areas(each)[0] for each in group]
        ranges = [self._area(area) for area in found]
        for each, area in zip(group, ranges):
            self._before_stores(Place(each, 0), area)
        self._handed_on(ranges, found[0].rounds)

    def _barrier_op(self, op: tileas.BarrierOp) -> None:
        """A barrier that stands there already counts where all threads come to it."""
        if op.relaxed is not None:
            return  # nobody sees what others did
        if op.cluster is not None:
            self._wait()
            self._cluster = self._barrier
        elif op.threads is None or op.threads.value == WARP_SIZE * self._num_warps:
            self._wait()

    # -- buffers -------------------------------------------------------------------------------------------------------

    def _allocate(self, op: Any) -> None:
        """Copies into a buffer start any time from now on; what used the place before must be done."""
        if op.offset is None:
            if tileas.SCRATCH in op.attributes:
                self._exchange(op)
            return
        size = op.result.type.bytes if isinstance(op, tileas.AllocTensorOp) else op.bytes
        found = self._buffers[op.result] = self._new_range(op.offset.value, op.offset.value + size)
        found.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)
        # Stages of a pipe are filled behind the barrier that shows its mbarriers.
        self._before_stores(Place(op), found)

    def _buffer(self, op: Any) -> _Range:
        found = self._buffers.get(op.buffer)
        if found is None:
            raise VerifyError("expects a buffer that is allocated here, and not one of several", location=op.location)
        return found

    def _store_tensor(self, op: Any) -> None:
        buffer = self._buffer(op)
        if op.buffer.type.is_of_registers:
            # No other thread reads it. What takes the place after the buffer's life has to wait for stores as well.
            self._read(buffer)
            return
        self._before_stores(Place(op), buffer)
        self._time += 1
        buffer.last_written = self._time
        self._unfenced.append(buffer)

    def _copy(self, op: Any) -> None:
        if is_in_shared(op.result.type):
            return  # where it is; asynchronous dots read it there
        buffer = self._buffer(op)
        if not op.buffer.type.is_of_registers:
            self._before_loads(Place(op), buffer)
            if feeds_dots(op.result, op.parent):
                self._staged[op.result] = buffer
                return
        self._read(buffer)

    def _dot(self, op: Operation) -> None:
        for value in op.operands if self._staged else ():
            while isinstance(value.defining_op, tileas.VIEW_LIKE):
                value = value.defining_op.operand
            buffer = self._staged.pop(value, None)
            if buffer is not None:
                self._read(buffer)

    def _async_wait(self, op: Operation) -> None:
        """Each thread waits for its own copies; the barrier makes all of them visible."""
        self._access(op)
        behind = op.next
        while behind.name == names.FENCE_PROXY:
            behind = behind.next
        self._wait(Place(behind), op, self._joint and any(map(_is_of_pair, op.parent.operations)))

    def _fence_proxy(self, op: Operation) -> None:
        """What the thread wrote is written for the asynchronous proxy here, behind whatever barrier stands between."""
        self._time += 1
        for each in self._unfenced:
            each.last_written = self._time
        self._unfenced.clear()

    def _async_dot(self, op: tileas.AsyncDotOp | tileas.TensorDotOp) -> None:
        """What it reads of shared memory has to be there now, and is not free before a wait."""
        for buffer in self._read_in_place(op):
            self._before_loads(Place(op), buffer, _is_of_pair(op))
            self._read(buffer)
            self._under_way[buffer] = None

    def _future_wait(self, op: tileas.FutureWaitOp | tileas.TensorWaitOp) -> None:
        """The dots before are complete, or some of them: their reads end here at the earliest."""
        for buffer in self._under_way:
            self._read(buffer)

    def _read_in_place(self, dot: tileas.AsyncDotOp | tileas.TensorDotOp) -> list[_Range]:
        return [self._buffers[buffer] for buffer in buffers_read(dot) if buffer in self._buffers]

    def _tma_store(self, op: Any) -> None:
        """One thread copies a buffer to memory, when all have written it, and has read it when it goes on."""
        buffer = self._buffer(op)
        self._before_loads(Place(op), buffer)
        self._access(op)
        self._read(buffer)

    # -- tensor memory -------------------------------------------------------------------------------------------------

    def _reserve(self, op: tileas.TensorReserveOp | tileas.MapReserveOp) -> None:
        """The address of the columns, and the mbarriers, are for all threads behind a barrier; or the slot's number."""
        if op.offset is None:
            return
        found = self._new_range(op.offset.value, op.offset.value + op.bytes)
        self._before_stores(Place(op), found)
        if op.name != names.TENSOR_RESERVE:
            self._wait(Place(op.next), op)
            return
        self._time += 1
        found.last_written = self._time
        self._buffers[op.result] = found

    def _reserved(self, op: tileas.TensorOpenOp | tileas.TensorCommitOp | tileas.TensorWaitOp) -> None:
        """What is used of a reservation is there behind the first barrier after it."""
        if op.memory in self._buffers:
            # The other CTA's are used from here as well.
            self._before_loads(Place(op), self._buffers[op.memory], self._joint)
        if isinstance(op, tileas.TensorWaitOp):
            self._future_wait(op)

    def _tensor_alloc(self, op: tileas.TensorAllocOp) -> None:
        if op.column is not None:
            start = _FIRST_COLUMN + op.column.value
            self._buffers[op.result] = found = self._new_range(start, start + op.result.type.columns)
            found.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)

    def _tensor_slice(self, op: tileas.TensorSliceOp) -> None:
        if op.buffer in self._buffers:
            self._buffers[op.result] = self._buffers[op.buffer]

    def _tensor_load(self, op: tileas.TensorLoadOp) -> None:
        self._read(self._buffer(op))

    def _tensor_scale(self, op: tileas.TensorScaleOp) -> None:
        buffer = self._buffer(op)
        self._read(buffer)
        self._time += 1
        buffer.last_written = self._time

    def _tensor_store(self, op: tileas.TensorStoreOp) -> None:
        """A thread has the same elements of a buffer in all loads and stores: others' loads are of other buffers.  Of
        four warps each reaches the lanes of its own only (PTX ISA, "Access restrictions" of tensor memory)."""
        buffer = self._buffer(op)
        if self._num_warps == WARPGROUP:
            self._time += 1
            buffer.last_written = self._time
            return
        alloc = op.buffer.defining_op
        overlapping = [r for r in self._ranges if r.start < buffer.end and buffer.start < r.end and r is not buffer]
        if any(r.last_read > self._barrier for r in overlapping):
            self._wait(Place(op))
        else:
            # Where each iteration has a buffer of its own, an earlier one may have loaded from another in its place.
            for loop in self._loops:
                if self._barrier <= loop.entered and loop.op.is_ancestor_of(alloc):
                    loop.pending.append((Place(op), buffer, False))
        self._time += 1
        buffer.last_written = self._time

    def _tensor_dot(self, op: tileas.TensorDotOp) -> None:
        """One thread issues it: what the others stored or loaded in its columns has to be over."""
        buffer, cluster = self._buffer(op), _is_of_pair(op)
        self._before_loads(Place(op), buffer, cluster)
        self._before_stores(Place(op), buffer, cluster)
        if op.a in self._buffers:
            self._before_loads(Place(op), self._buffers[op.a], cluster)
        self._async_dot(op)

    def _release(self, op: tileas.TensorReleaseOp) -> None:
        """Once all threads have loaded what they load."""
        self._wait(Place(op))

    def _fence(self, op: Operation) -> None:
        """The fence is a thread's own (PTX ISA, membar / fence.proxy): barriers hand its effect to the others."""
        self._wait(Place(op))
        self._wait(Place(op.next), op)

    def _deallocate(self, op: Operation) -> None:
        """Once all threads have made their accesses."""
        self._wait(Place(op))

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _access(self, op: Any) -> None:
        """A memory operation: behind a barrier if its token asks for one."""
        token = getattr(op, "token", None)
        if token is not None:
            earlier = operations_before(token).items()
            if any(self._passed.get(s, 0) > self._barrier and self._conflicts.meet(s, op, c) for s, c in earlier):
                self._wait(Place(op))
        self._time += 1
        self._passed[op] = self._time
        if tileas.SCRATCH in op.attributes:
            self._exchange(op)

    # -- control flow --------------------------------------------------------------------------------------------------

    def _for(self, op: Any) -> None:
        self._enter_loop(op)
        self.block(op.body.block)
        self._keep_together(op.body.block)
        loop = self._leave_loop()
        # What an iteration did before its last barrier is over after the loop, if it was done at all.
        self._forget(op.body, self._barrier)
        self._restore_reads(loop.reads, self._settled(self._barriers))
        self._barriers = loop.saved

    def _keep_together(self, block: Block, *others: Block) -> None:
        """Has warps wait for each other at the end of every iteration of a loop in which groups of dots are committed,
        unless they do so somewhere in it: a warp that falls back by a round of the mbarriers takes the phase that it
        waits for, complete for long, for the one that comes."""
        if self._barrier <= self._loops[-1].entered:
            commits = (inner for each in (block, *others) for op in each.operations for inner in op.walk())
            if any(inner.name == f"{names.TENSOR_MEMORY}commit" for inner in commits):
                self._wait(Place(block.last))

    def _while(self, op: Any) -> None:
        """The first part runs once more than the second."""
        self._enter_loop(op)
        self.block(op.before.block)
        barriers, reads = self._barriers, self._reads()
        self.block(op.after.block)
        self._keep_together(op.after.block, op.before.block)
        loop = self._leave_loop()
        if self._settled(barriers) > loop.entered:
            # Whatever barrier is in the first part stands behind all of the second.
            self._forget(op.after, self._time)
            self._restore_reads(reads, self._time)
            self._barriers = barriers
        else:
            self._forget(op.after, self._barrier)
            self._barriers = loop.saved

    def _if(self, op: Any) -> None:
        """A barrier stands behind a branch only if every way had one."""
        before, ends = self._barriers, []
        for region in (op.then_region, op.else_region):
            self._barriers = before
            if region.blocks:
                self.block(region.blocks[0])
            ends.append(self._barriers)
        self._barriers = _Barriers(*map(min, zip(*ends)))

    def _enter_loop(self, op: Operation) -> None:
        buffered = (tileas.StoreTensorOp, tileas.CopyOp)
        inside = [inner for inner in op.walk() if reaches_memory(inner) or isinstance(inner, buffered)]
        # What the body reads that was written before the loop: one barrier here, not one in each iteration.
        for inner in inside:
            if isinstance(inner, tileas.CopyOp) and inner.buffer in self._buffers:
                self._before_loads(Place(op), self._buffers[inner.buffer])
        for dot in (inner for inner in op.walk() if inner.name in (names.ASYNC_DOT, names.TENSOR_DOT)):
            for buffer in self._read_in_place(dot):
                self._before_loads(Place(op), buffer, _is_of_pair(dot))
            if _is_of_pair(dot) and dot.buffer in self._buffers:  # type: ignore[attr-defined]
                self._before_loads(Place(op), self._buffers[dot.buffer], True)  # type: ignore[attr-defined]
        self._time += 1
        for inner in inside:
            if reaches_memory(inner):
                self._passed[inner] = self._time
            elif isinstance(inner, tileas.StoreTensorOp) and inner.buffer in self._buffers:
                self._buffers[inner.buffer].last_written = self._time
        writes = (f"{names.TENSOR_MEMORY}store", f"{names.TENSOR_MEMORY}scale")
        for store in (inner for inner in op.walk() if inner.name in writes):
            if store.buffer in self._buffers:  # type: ignore[attr-defined]
                self._buffers[store.buffer].last_written = self._time  # type: ignore[attr-defined]
        self._loops.append(_Loop(op, self._time, self._barriers, self._reads()))

    def _leave_loop(self) -> _Loop:
        """Asks for the barriers at the head of an iteration that the end of the one before turned out to need."""
        loop = self._loops.pop()
        settled: set[Block | None] = set()
        for place, range, cluster in loop.pending:
            block = place.op.parent
            # A barrier before an earlier store of the same block, for this loop or one inside, serves as well.
            if block in settled or place in self.places:
                if not cluster or place in self.of_cluster:
                    settled.add(block)
                    continue
            read = [r for r in self._ranges if r.start < range.end and range.start < r.end]
            if any(r.last_read > self._last(cluster) and r.last_read > loop.entered for r in read):
                self.places[place] = loop.op
                if cluster:
                    self.of_cluster.add(place)
                settled.add(block)
        return loop

    def _reads(self) -> dict[_Range, int]:
        return {range: range.last_read for range in self._ranges}

    def _restore_reads(self, reads: dict[_Range, int], until: int) -> None:
        """Ranges that were read again no later than `until` were last read when `reads` says."""
        for range in self._ranges:
            before = reads.get(range, 0)
            if before < range.last_read <= until:
                range.last_read = before

    def _forget(self, part: Region, until: int) -> None:
        """No operation after the loop has to mind those of this part that were passed no later than `until`."""
        for op in part.block.operations:
            for inner in op.walk():
                if self._passed.get(inner, 0) <= until:
                    self._passed.pop(inner, None)


_RULES: dict[type[Operation], Callable[[Synchronization, Any], None]] = {
    **dict.fromkeys(
        (
            tileas.TiledLoadOp, tileas.TiledStoreOp, tileas.LoadOp, tileas.StoreOp, tileas.TiledAtomicRMWOp,
            tileas.AtomicRMWOp, tileas.AtomicCASOp, tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp,
        ),
        Synchronization._access,
    ),
    **dict.fromkeys((tileas.AllocTensorOp, tileas.AllocaOp), Synchronization._allocate),
    **dict.fromkeys(tileas.DOTS, Synchronization._dot),
    tileas.BarrierOp: Synchronization._barrier_op,
    tileas.AsyncWaitOp: Synchronization._async_wait,
    tileas.ConvertLayoutOp: Synchronization._conversions,
    tileas.CopyOp: Synchronization._copy,
    tileas.DeallocOp: Synchronization._deallocate,
    tileas.FenceAliasOp: Synchronization._fence,
    tileas.StoreTensorOp: Synchronization._store_tensor,
    scf.ForOp: Synchronization._for,
    scf.IfOp: Synchronization._if,
    scf.WhileOp: Synchronization._while,
}  # fmt: skip


_BY_NAME: dict[str, Callable[[Synchronization, Any], None]] = {
    names.ASYNC_DOT: Synchronization._async_dot,
    "nv_tileas.async.future_wait": Synchronization._future_wait,
    names.TMA_STORE: Synchronization._tma_store,
    names.MAP_RESERVE: Synchronization._reserve,
    f"{names.TENSOR_MEMORY}alloc": Synchronization._tensor_alloc,
    names.TENSOR_DOT: Synchronization._tensor_dot,
    f"{names.TENSOR_MEMORY}load": Synchronization._tensor_load,
    f"{names.TENSOR_MEMORY}release": Synchronization._release,
    names.TENSOR_RESERVE: Synchronization._reserve,
    f"{names.TENSOR_MEMORY}scale": Synchronization._tensor_scale,
    f"{names.TENSOR_MEMORY}slice": Synchronization._tensor_slice,
    f"{names.TENSOR_MEMORY}store": Synchronization._tensor_store,
    f"{names.TENSOR_MEMORY}open": Synchronization._reserved,
    f"{names.TENSOR_MEMORY}commit": Synchronization._reserved,
    f"{names.TENSOR_MEMORY}wait": Synchronization._reserved,
    names.FENCE_PROXY: Synchronization._fence_proxy,
}


def _is_of_pair(op: Operation) -> bool:
    """Whether an operation is a dot that one CTA has issued for two."""
    return op.name == names.TENSOR_DOT and op.atom.is_of_pair  # type: ignore[attr-defined]


def _is_of_cluster(last: Operation) -> bool:
    """Whether CTAs of a cluster fill each other's stages of a pipe, or of one before it that nobody uses yet."""
    current: Operation | None = last
    while current is not None:
        if current.name == names.CREATE_PIPELINE and current.ctas is not None:  # type: ignore[attr-defined]
            return True
        if current is not last and current.regions:
            return False
        current = current.prev
    return False


def _is_followed(op: Operation) -> bool:
    """Whether anything behind an operation depends on what it did to memory."""
    current = op.next
    while current is not None:
        if current.regions or current.has_trait(MemoryRead) or current.has_trait(MemoryWrite):
            return True
        current = current.next
    return False
