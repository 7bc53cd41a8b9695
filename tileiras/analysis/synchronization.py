"""Where all threads have to wait for each other: between uses of scratch memory, and along tokens.

Operations of nv_tileas are executed by all threads of a CTA, or of an agent, each on its share.  Which token edges need
a barrier, `analysis/memory_conflicts.py` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileiras.analysis.barrier_needs import is_followed, is_of_cluster, is_of_pair, is_read_by_threads
from tileiras.analysis.barrier_times import Barriers, BarrierTimes, Loop, Place, Range
from tileiras.analysis.dots import feeds_dots, joined_conversions
from tileiras.analysis.dots_in_flight import buffers_read
from tileiras.analysis.memory_conflicts import MemoryConflicts, operations_before, reaches_memory
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Block, Operation, Value, VerifyError
from tileiras.layout.encoding import is_in_shared
from tileiras.targets.sm import WARP_SIZE, WARPGROUP

_FIRST_COLUMN = 1 << 32
"""Columns of tensor memory are ranges behind all bytes of shared memory."""


class Synchronization(BarrierTimes):
    """The barriers of a function, or of one of its agents, found on one way through it.

    Every memory operation gets a time; a barrier makes all earlier effects visible.  On the way into a loop the
    operations of its body count as passed, since an earlier iteration may have run them.  What one thread has the
    tensor core do for a pair of CTAs is behind barriers of the cluster.
    """

    def __init__(self, func: aa.FuncOp, num_warps: int) -> None:
        super().__init__(any(isinstance(op, tileas.TensorReserveOp) and op.pair is not None for op in func.walk()))
        self.cluster_meets: dict[Place, Operation] = {}
        """Where they do before one uses mbarriers of another, behind the barriers of `places`."""
        self.exchanging: list[Operation] = []
        """The operations with scratch areas."""
        self.agents: list[tuple[Synchronization, int, Operation]] = []
        """Those of the agents inside, how many warps each has, and the operation that divides them."""
        self._func = func
        self._num_warps = num_warps
        self._buffers: dict[Value, Range] = {}
        self._staged: dict[Value, Range] = {}
        """Tiles that dots read from their buffers, until the first one does."""
        self._unfenced: list[Range] = []
        """What threads wrote since the last fence for the asynchronous proxy."""
        self._under_way: dict[Range, None] = {}
        """What asynchronous dots read, which are complete behind a wait."""
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
            self.wait(Place(op))
        for region in op.regions if kind in ("produce_one", "consume_one") else ():
            self.block(region.blocks[0])
        if kind in ("consumer_release", "consume_one"):
            self._stage_read(op)
        elif kind == "consumer_tail":
            self._drained(op.consumer.defining_op)

    def _show_mbarriers(self, last: Operation) -> None:
        """A barrier behind the last of the pipes that are created together: of the cluster, where its CTAs fill each
        other's stages."""
        place = Place(last.next)  # type: ignore[arg-type]
        at_start = last.parent_op is self._func
        if at_start and self.joint:
            ordered = not self._only_columns_were_reserved()
        elif at_start and is_of_cluster(last):
            ordered = self.stages_were_used()
        else:
            self.wait(place, last)
            return
        if ordered:
            self.wait(place, last, cluster=True)
            return
        # Nothing that other CTAs do depends on what threads did before, but for mbarriers, which have a fence of their
        # own, and columns, which a pair allocates together. An arrival that releases is a fence of the GPU first.
        self.wait(place, last) if self.is_pending() else self.wait()
        self.cluster_meets[place] = last
        self.cluster = self.barrier

    def _only_columns_were_reserved(self) -> bool:
        """Whether nothing else was done to memory than to write the address of columns for the threads of the CTA."""
        reserved = {each for value, each in self._buffers.items() if isinstance(value.type, tileas.TensorMemoryType)}
        return not self.passed and reserved.issuperset(self.used())

    def _stage_read(self, op: Any) -> None:
        """What takes the place of a pipe's buffers after their lives has to wait for the loads from them."""
        from tileiras.analysis.pipes import pipe_of

        pipe = pipe_of(op.token)
        for buffer in () if pipe is None else pipe.buffers:
            if buffer in self._buffers:
                self.read(self._buffers[buffer])

    def _drained(self, pipe: Any) -> None:
        """Each thread has waited for the dots that read the stages, where dots do; else for its own loads."""
        from tileiras.targets.pipe_protocol import BY_DOTS

        for buffer in pipe.buffers if pipe.kinds[1] in BY_DOTS else ():
            found = self._buffers[buffer]
            self._under_way.pop(found, None)
            found.last_read = 0

    def _agent_switch(self, switch: Any) -> None:
        """All agents begin when what stands before them is over, and what follows begins when all have ended."""
        if self.is_pending():
            self.wait(Place(switch))
        for region, count in zip(switch.agents, switch.warps(self._func.kernel_spec.num_warps)):
            agent = Synchronization(self._func, count)
            for buffer, outer in self._buffers.items():
                agent._buffers[buffer] = inner = agent.new_range(outer.start, outer.end)
                inner.piped = outer.piped
            agent.block(region.block)
            self.agents.append((agent, count, switch))
        if is_followed(switch):
            self.wait(Place(switch.next), switch)

    # -- scratch memory ------------------------------------------------------------------------------------------------

    def _exchange(self, op: Operation) -> None:
        """An operation that exchanges elements between threads, through one area after the other."""
        areas = tileas.scratch_areas(op)
        self.exchanging.append(op)
        group: list[Range] = []
        for number, area in enumerate(areas):
            group.append(self.scratch_range(area))
            if area.rounds > 1 and isinstance(op, tileas.PrintOp):
                self.wait(Place(op, number))  # at the head of a loop
            else:
                self.before_stores(Place(op, number), group[-1])
            if number + 1 < len(areas) and areas[number + 1].joins:
                continue
            self._handed_on(group, area.rounds)
            group = []

    def _handed_on(self, ranges: list[Range], rounds: int) -> None:
        """Behind the first stores to areas: a barrier, and the loads; further rounds begin and go on with one."""
        for _ in range(rounds):
            self.wait()
            for each in ranges:
                self.read(each)

    def _conversions(self, op: Operation) -> None:
        """A conversion, with those that share its barrier."""
        areas = tileas.scratch_areas(op)
        if not areas or areas[0].joins:
            return
        group = [op, *joined_conversions(op)]
        self.exchanging += group
        found = [tileas.scratch_areas(each)[0] for each in group]
        ranges = [self.scratch_range(area) for area in found]
        for each, area in zip(group, ranges):
            self.before_stores(Place(each, 0), area)
        self._handed_on(ranges, found[0].rounds)

    def _barrier_op(self, op: tileas.BarrierOp) -> None:
        """A barrier that stands there already counts where all threads come to it."""
        if op.relaxed is not None:
            return  # nobody sees what others did
        if op.cluster is not None:
            self.wait()
            self.cluster = self.barrier
        elif op.threads is None or op.threads.value == WARP_SIZE * self._num_warps:
            self.wait()

    # -- buffers -------------------------------------------------------------------------------------------------------

    def _allocate(self, op: Any) -> None:
        """Copies into a buffer start any time from now on; what used the place before must be done."""
        if op.offset is None:
            if tileas.SCRATCH in op.attributes:
                self._exchange(op)
            return
        size = op.result.type.bytes if isinstance(op, tileas.AllocTensorOp) else op.bytes
        found = self._buffers[op.result] = self.new_range(op.offset.value, op.offset.value + size)
        found.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)
        # Stages of a pipe are filled behind the barrier that shows its mbarriers.
        self.before_stores(Place(op), found)

    def _buffer(self, op: Any) -> Range:
        found = self._buffers.get(op.buffer)
        if found is None:
            raise VerifyError("expects a buffer that is allocated here, and not one of several", location=op.location)
        return found

    def _store_tensor(self, op: Any) -> None:
        buffer = self._buffer(op)
        if op.buffer.type.is_of_registers:
            # No other thread reads it. What takes the place after the buffer's life has to wait for stores as well.
            self.read(buffer)
            return
        self.before_stores(Place(op), buffer)
        self.write(buffer)
        self._unfenced.append(buffer)

    def _copy(self, op: Any) -> None:
        if is_in_shared(op.result.type):
            return  # where it is; asynchronous dots read it there
        buffer = self._buffer(op)
        if not op.buffer.type.is_of_registers:
            self.before_loads(Place(op), buffer)
            if feeds_dots(op.result, op.parent):
                self._staged[op.result] = buffer
                return
        self.read(buffer)

    def _dot(self, op: Operation) -> None:
        for value in op.operands if self._staged else ():
            while isinstance(value.defining_op, tileas.VIEW_LIKE):
                value = value.defining_op.operand
            buffer = self._staged.pop(value, None)
            if buffer is not None:
                self.read(buffer)

    def _async_copy(self, op: tileas.AsyncTiledLoadOp | tileas.AsyncLoadOp) -> None:
        """What threads have read of a buffer of one stage is over before it is filled again.  Of rings the wait for
        another stage says so, and of what asynchronous dots read the wait for these."""
        if op.buffer in self._buffers and op.buffer.type.stages == 1 and is_read_by_threads(op.buffer):
            self.before_stores(Place(op), self._buffers[op.buffer])
        self._access(op)

    def _async_wait(self, op: tileas.AsyncWaitOp) -> None:
        """Each thread waits for its own copies; the barrier makes all of them visible to those that read others'."""
        self._access(op)
        if op.own is not None:
            return
        behind = op.next
        while behind.name == names.FENCE_PROXY:
            behind = behind.next
        self.wait(Place(behind), op, self.joint and any(map(is_of_pair, op.parent.operations)))

    def _fence_proxy(self, op: Operation) -> None:
        """What the thread wrote is written for the asynchronous proxy here, behind whatever barrier stands between."""
        self.time += 1
        for each in self._unfenced:
            each.last_written = self.time
        self._unfenced.clear()

    def _async_dot(self, op: tileas.AsyncDotOp | tileas.TensorDotOp) -> None:
        """What it reads of shared memory has to be there now, and is not free before a wait."""
        for buffer in self._read_in_place(op):
            self.before_loads(Place(op), buffer, is_of_pair(op))
            self.read(buffer)
            self._under_way[buffer] = None

    def _future_wait(self, op: tileas.FutureWaitOp | tileas.TensorWaitOp) -> None:
        """The dots before are complete, or some of them: their reads end here at the earliest."""
        for buffer in self._under_way:
            self.read(buffer)

    def _read_in_place(self, dot: tileas.AsyncDotOp | tileas.TensorDotOp) -> list[Range]:
        return [self._buffers[buffer] for buffer in buffers_read(dot) if buffer in self._buffers]

    def _tma_store(self, op: Any) -> None:
        """One thread copies a buffer to memory, when all have written it, and has read it when it goes on."""
        buffer = self._buffer(op)
        self.before_loads(Place(op), buffer)
        self._access(op)
        if not op.leaves_all:
            self.read(buffer)

    def _tma_store_tail(self, op: Any) -> None:
        """One thread knows of the last copies that their buffer has been read."""
        self.read(self._buffer(op))

    # -- tensor memory -------------------------------------------------------------------------------------------------

    def _reserve(self, op: tileas.TensorReserveOp | tileas.MapReserveOp) -> None:
        """The address of the columns, and the mbarriers, are for all threads behind a barrier; or the slot's number."""
        if op.offset is None:
            return
        found = self.new_range(op.offset.value, op.offset.value + op.bytes)
        self.before_stores(Place(op), found)
        if op.name != names.TENSOR_RESERVE:
            self.wait(Place(op.next), op)
            return
        self.write(found)
        self._buffers[op.result] = found

    def _reserved(self, op: tileas.TensorOpenOp | tileas.TensorCommitOp | tileas.TensorWaitOp) -> None:
        """What is used of a reservation is there behind the first barrier after it."""
        if op.memory in self._buffers:
            # The other CTA's are used from here as well.
            self.before_loads(Place(op), self._buffers[op.memory], self.joint)
        if isinstance(op, tileas.TensorWaitOp):
            self._future_wait(op)

    def _tensor_alloc(self, op: tileas.TensorAllocOp) -> None:
        if op.column is not None:
            start = _FIRST_COLUMN + op.column.value
            self._buffers[op.result] = found = self.new_range(start, start + op.result.type.columns)
            found.piped = any(user.name == names.CREATE_PIPELINE for user in op.result.users)

    def _tensor_slice(self, op: tileas.TensorSliceOp) -> None:
        if op.buffer in self._buffers:
            self._buffers[op.result] = self._buffers[op.buffer]

    def _tensor_load(self, op: tileas.TensorLoadOp) -> None:
        self.read(self._buffer(op))

    def _tensor_scale(self, op: tileas.TensorScaleOp) -> None:
        buffer = self._buffer(op)
        self.read(buffer)
        self.write(buffer)

    def _tensor_store(self, op: tileas.TensorStoreOp) -> None:
        """A thread has the same elements of a buffer in all loads and stores: others' loads are of other buffers.  Of
        four warps each reaches the lanes of its own only (PTX ISA, "Access restrictions" of tensor memory), and of a
        pipe of several groups of warps each has columns of its own."""
        buffer = self._buffer(op)
        if self._num_warps == WARPGROUP or any(getattr(user, "groups", None) is not None for user in op.buffer.users):
            self.write(buffer)
            return
        alloc = op.buffer.defining_op
        if any(r.last_read > self.barrier for r in self.ranges if r.overlaps(buffer) and r is not buffer):
            self.wait(Place(op))
        else:
            # Where each iteration has a buffer of its own, an earlier one may have loaded from another in its place.
            for loop in self.loops:
                if self.barrier <= loop.entered and loop.op.is_ancestor_of(alloc):
                    loop.pending.append((Place(op), buffer, False))
        self.write(buffer)

    def _tensor_dot(self, op: tileas.TensorDotOp) -> None:
        """One thread issues it: what the others stored or loaded in its columns has to be over."""
        buffer, cluster = self._buffer(op), is_of_pair(op)
        self.before_loads(Place(op), buffer, cluster)
        self.before_stores(Place(op), buffer, cluster)
        if op.a in self._buffers:
            self.before_loads(Place(op), self._buffers[op.a], cluster)
        self._async_dot(op)

    def _release(self, op: tileas.TensorReleaseOp) -> None:
        """Once all threads have loaded what they load."""
        columns = [each for each in self.ranges if each.start >= _FIRST_COLUMN]
        if not columns or any(max(each.last_read, each.last_written) > self.barrier for each in columns):
            self.wait(Place(op))

    def _fence(self, op: Operation) -> None:
        """The fence is a thread's own (PTX ISA, membar / fence.proxy): barriers hand its effect to the others."""
        self.wait(Place(op))
        self.wait(Place(op.next), op)

    def _deallocate(self, op: Operation) -> None:
        """Once all threads have made their accesses."""
        self.wait(Place(op))

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _access(self, op: Any) -> None:
        """A memory operation: behind a barrier if its token asks for one."""
        token = getattr(op, "token", None)
        if token is not None:
            earlier = operations_before(token).items()
            if any(self.passed.get(s, 0) > self.barrier and self._conflicts.meet(s, op, c) for s, c in earlier):
                self.wait(Place(op))
        self.time += 1
        self.passed[op] = self.time
        if tileas.SCRATCH in op.attributes:
            self._exchange(op)

    # -- control flow --------------------------------------------------------------------------------------------------

    def _for(self, op: Any) -> None:
        self._enter_loop(op)
        self.block(op.body.block)
        self._keep_together(op.body.block)
        loop = self.leave_loop()
        # What an iteration did before its last barrier is over after the loop, if it was done at all.
        self.forget(op.body, self.barrier)
        self.restore_reads(loop.reads, self.settled(self.barriers))
        self.barriers = loop.saved

    def _keep_together(self, block: Block, *others: Block) -> None:
        """Has warps wait for each other at the end of every iteration of a loop in which groups of dots are committed,
        unless they do so somewhere in it: a warp that falls back by a round of the mbarriers takes the phase that it
        waits for, complete for long, for the one that comes."""
        if self.barrier <= self.loops[-1].entered:
            commits = (inner for each in (block, *others) for op in each.operations for inner in op.walk())
            if any(inner.name == f"{names.TENSOR_MEMORY}commit" for inner in commits):
                self.wait(Place(block.last))

    def _while(self, op: Any) -> None:
        """The first part runs once more than the second."""
        self._enter_loop(op)
        self.block(op.before.block)
        barriers, reads = self.barriers, self.reads()
        self.block(op.after.block)
        self._keep_together(op.after.block, op.before.block)
        loop = self.leave_loop()
        if self.settled(barriers) > loop.entered:
            # Whatever barrier is in the first part stands behind all of the second.
            self.forget(op.after, self.time)
            self.restore_reads(reads, self.time)
            self.barriers = barriers
        else:
            self.forget(op.after, self.barrier)
            self.barriers = loop.saved

    def _if(self, op: Any) -> None:
        """A barrier stands behind a branch only if every way had one."""
        before, ends = self.barriers, []
        for region in (op.then_region, op.else_region):
            self.barriers = before
            if region.blocks:
                self.block(region.blocks[0])
            ends.append(self.barriers)
        self.barriers = Barriers(*map(min, zip(*ends)))

    def _enter_loop(self, op: Operation) -> None:
        buffered = (tileas.StoreTensorOp, tileas.CopyOp)
        inside = [inner for inner in op.walk() if reaches_memory(inner) or isinstance(inner, buffered)]
        # What the body reads that was written before the loop: one barrier here, not one in each iteration.
        for inner in inside:
            if isinstance(inner, tileas.CopyOp) and inner.buffer in self._buffers:
                self.before_loads(Place(op), self._buffers[inner.buffer])
        for dot in (inner for inner in op.walk() if inner.name in (names.ASYNC_DOT, names.TENSOR_DOT)):
            for buffer in self._read_in_place(dot):
                self.before_loads(Place(op), buffer, is_of_pair(dot))
            if is_of_pair(dot) and dot.buffer in self._buffers:  # type: ignore[attr-defined]
                self.before_loads(Place(op), self._buffers[dot.buffer], True)  # type: ignore[attr-defined]
        self.time += 1
        for inner in inside:
            if reaches_memory(inner):
                self.passed[inner] = self.time
            elif isinstance(inner, tileas.StoreTensorOp) and inner.buffer in self._buffers:
                self._buffers[inner.buffer].last_written = self.time
        writes = (f"{names.TENSOR_MEMORY}store", f"{names.TENSOR_MEMORY}scale")
        for store in (inner for inner in op.walk() if inner.name in writes):
            if store.buffer in self._buffers:  # type: ignore[attr-defined]
                self._buffers[store.buffer].last_written = self.time  # type: ignore[attr-defined]
        self.loops.append(Loop(op, self.time, self.barriers, self.reads()))


_RULES: dict[type[Operation], Callable[[Synchronization, Any], None]] = {
    **dict.fromkeys(
        (
            tileas.TiledLoadOp, tileas.TiledStoreOp, tileas.LoadOp, tileas.StoreOp, tileas.TiledAtomicRMWOp,
            tileas.AtomicRMWOp, tileas.AtomicCASOp,
        ),
        Synchronization._access,
    ),
    **dict.fromkeys((tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp), Synchronization._async_copy),
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
    names.TMA_STORE_TAIL: Synchronization._tma_store_tail,
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
