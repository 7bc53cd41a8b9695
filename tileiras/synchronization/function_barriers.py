"""Placement of barriers between uses of scratch memory, and along tokens.

Operations of nv_tileas are executed by all threads of a CTA, or of an agent, each on its share.
`memory_conflicts.py` decides which token edges need a barrier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from tileiras import analysis
from tileiras.analysis.barrier_needs import is_followed, is_of_cluster, is_of_pair
from tileiras.analysis.dots_in_flight import buffers_read
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Block, Operation
from tileiras.targets.pipe_protocol import BY_DOTS

from .barrier_times import Barriers, Loop, Place
from .memory_conflicts import reaches_memory
from .operation_barriers import OperationBarriers


class Synchronization(OperationBarriers):
    """The barriers of a function, or of one of its agents, found in one pass over it.

    Every memory operation gets a time; a barrier makes all earlier effects visible.  On entry to a loop the operations
    of its body count as passed, since an earlier iteration may have run them.  Dots that one thread issues for a pair
    of CTAs are ordered by barriers of the cluster.
    """

    def __init__(self, func: aa.FuncOp, num_warps: int) -> None:
        super().__init__(func, num_warps)
        self.cluster_meets: dict[Place, Operation] = {}
        """Places, behind the barriers of `places`, at which the CTAs of a cluster wait for each other before one uses
        mbarriers of another."""
        self.agents: list[tuple[Synchronization, int, Operation]] = []
        """The barriers of each agent, its number of warps, and the operation with the agents."""
        self._func = func

    def block(self, block: Block) -> None:
        """Process the operations of a block."""
        for op in block.operations:
            rule = _RULES.get(type(op)) or _BY_NAME.get(op.name)
            if rule is not None:
                rule(self, op)
            elif tileas.SCRATCH in op.attributes:
                self.exchange(op)
            elif op.name.startswith(names.PIPELINE):
                self._pipeline(op)
            else:
                for region in op.regions:
                    self.block(region.blocks[0])

    # -- agents --------------------------------------------------------------------------------------------------------

    def _pipeline(self, op: Any) -> None:
        """Process an operation of agents or pipes.  Mbarriers order the accesses of agents to the stages of a pipe."""
        kind = op.name.removeprefix(names.PIPELINE)
        if kind == "agent_switch":
            self._agent_switch(op)
        elif kind == "create_pipeline" and analysis.pipes.is_last_pipe(op):
            # It makes the mbarriers, which one thread has initialised, visible to the others.
            self._show_mbarriers(op)
        elif kind == "destroy_pipeline":
            # No thread may still be waiting at the mbarriers.
            self.wait(Place(op))
        for region in op.regions if kind in ("produce_one", "consume_one") else ():
            self.block(region.blocks[0])
        if kind in ("consumer_release", "consume_one"):
            self._stage_read(op)
        elif kind == "consumer_tail":
            self._drained(op.consumer.defining_op)

    def _show_mbarriers(self, last: Operation) -> None:
        """Place a barrier behind the last of the pipes that are created together; one of the cluster if its CTAs fill
        each other's stages."""
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
        # Other CTAs do not depend on earlier accesses of these threads, except for mbarriers, which have a fence of
        # their own, and columns, which a pair allocates together. A releasing arrival would begin with a fence of the
        # GPU.
        self.wait(place, last) if self.is_pending() else self.wait()
        self.cluster_meets[place] = last
        self.cluster = self.barrier

    def _only_columns_were_reserved(self) -> bool:
        """Whether the only access to memory was to write the address of columns for the threads of the CTA."""
        reserved = {each for value, each in self.buffers.items() if isinstance(value.type, tileas.TensorMemoryType)}
        return not self.passed and reserved.issuperset(self.ranges_in_use())

    def _stage_read(self, op: Any) -> None:
        """Record the loads from a pipe's buffers, for which later buffers in their place have to wait."""
        pipe = analysis.pipes.pipe_of(op.token)
        for buffer in () if pipe is None else pipe.buffers:
            if buffer in self.buffers:
                self.read(self.buffers[buffer])

    def _drained(self, pipe: Any) -> None:
        """Clear the reads of stages by dots, for which each thread has waited; stages that threads load are kept, since
        each has waited for its own loads only."""
        for buffer in pipe.buffers if pipe.kinds[1] in BY_DOTS else ():
            result = self.buffers[buffer]
            self.under_way.pop(result, None)
            result.last_read = 0

    def _agent_switch(self, switch: Any) -> None:
        """Process the agents: all begin when the operations before the switch are complete, and the operations after it
        begin when all agents have ended."""
        if self.is_pending():
            self.wait(Place(switch))
        for region, count in zip(switch.agents, switch.warps(self._func.kernel_spec.num_warps)):
            agent = Synchronization(self._func, count)
            for buffer, outer in self.buffers.items():
                agent.buffers[buffer] = inner = agent.new_range(outer.start, outer.end)
                inner.piped = outer.piped
            agent.block(region.block)
            self.agents.append((agent, count, switch))
        if is_followed(switch):
            self.wait(Place(switch.next), switch)

    # -- control flow --------------------------------------------------------------------------------------------------

    def _for(self, op: Any) -> None:
        self._enter_loop(op)
        self.block(op.body.block)
        self._keep_together(op.body.block)
        loop = self.leave_loop()
        # After the loop, all accesses of an iteration before its last barrier are complete.
        self.forget(op.body, self.barrier)
        self.restore_reads(loop.reads, self.read_time(self.barriers))
        self.barriers = loop.saved

    def _keep_together(self, block: Block, *others: Block) -> None:
        """Place a barrier at the end of the body of a loop that commits groups of dots, unless the body has one: a warp
        that lags by a round of the mbarriers would take the phase that it waits for, completed long before, for the
        next one of the same parity."""
        if self.barrier <= self.loops[-1].entered:
            commits = (inner for each in (block, *others) for op in each.operations for inner in op.walk())
            if any(inner.name == f"{names.TENSOR_MEMORY}commit" for inner in commits):
                self.wait(Place(block.last))

    def _while(self, op: Any) -> None:
        """Process a `while`, whose first part runs once more than the second."""
        self._enter_loop(op)
        self.block(op.before.block)
        barriers, reads = self.barriers, self.reads()
        self.block(op.after.block)
        self._keep_together(op.after.block, op.before.block)
        loop = self.leave_loop()
        if self.read_time(barriers) > loop.entered:
            # A barrier in the first part follows every access of the second.
            self.forget(op.after, self.time)
            self.restore_reads(reads, self.time)
            self.barriers = barriers
        else:
            self.forget(op.after, self.barrier)
            self.barriers = loop.saved

    def _if(self, op: Any) -> None:
        """Process a branch: a barrier has been passed behind it only if every alternative has one."""
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
        # Values written before the loop and read in its body: one barrier here, not one in each iteration.
        for inner in inside:
            if isinstance(inner, tileas.CopyOp) and inner.buffer in self.buffers:
                self.before_loads(Place(op), self.buffers[inner.buffer])
        for dot in (inner for inner in op.walk() if inner.name in (names.ASYNC_DOT, names.TENSOR_DOT)):
            for buffer in self.read_in_place(dot):
                self.before_loads(Place(op), buffer, is_of_pair(dot))
            if is_of_pair(dot) and dot.buffer in self.buffers:  # type: ignore[attr-defined]
                self.before_loads(Place(op), self.buffers[dot.buffer], True)  # type: ignore[attr-defined]
            # A dot of an earlier iteration may be in flight until a wait of this iteration, before the next stores.
            stores = (user for value in buffers_read(dot) for user in value.users if _is_stored_by(user, op))
            self.under_way.update((self.buffers[user.buffer], None) for user in stores if user.buffer in self.buffers)
        self.time += 1
        for inner in inside:
            if reaches_memory(inner):
                self.passed[inner] = self.time
            elif isinstance(inner, tileas.StoreTensorOp) and inner.buffer in self.buffers:
                self.buffers[inner.buffer].last_written = self.time
        writes = (f"{names.TENSOR_MEMORY}store", f"{names.TENSOR_MEMORY}scale")
        for store in (inner for inner in op.walk() if inner.name in writes):
            if store.buffer in self.buffers:  # type: ignore[attr-defined]
                self.buffers[store.buffer].last_written = self.time  # type: ignore[attr-defined]
        self.loops.append(Loop(op, self.time, self.barriers, self.reads()))


def _is_stored_by(user: Operation, loop: Operation) -> TypeGuard[tileas.StoreTensorOp]:
    return isinstance(user, tileas.StoreTensorOp) and loop.is_ancestor_of(user)


_RULES: dict[type[Operation], Callable[[Synchronization, Any], None]] = {
    **dict.fromkeys(
        (
            tileas.TiledLoadOp, tileas.TiledStoreOp, tileas.LoadOp, tileas.StoreOp, tileas.TiledAtomicRMWOp,
            tileas.AtomicRMWOp, tileas.AtomicCASOp,
        ),
        OperationBarriers.access,
    ),
    **dict.fromkeys((tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp), OperationBarriers.async_copy),
    **dict.fromkeys((tileas.AllocTensorOp, tileas.AllocaOp), OperationBarriers.allocate),
    **dict.fromkeys(tileas.DOTS, OperationBarriers.dot),
    tileas.BarrierOp: OperationBarriers.barrier_op,
    tileas.AsyncWaitOp: OperationBarriers.async_wait,
    tileas.ConvertLayoutOp: OperationBarriers.conversions,
    tileas.CopyOp: OperationBarriers.copy,
    tileas.DeallocOp: OperationBarriers.deallocate,
    tileas.FenceAliasOp: OperationBarriers.fence,
    tileas.ExternCallOp: OperationBarriers.fence,
    tileas.StoreTensorOp: OperationBarriers.store_tensor,
    scf.ForOp: Synchronization._for,
    scf.IfOp: Synchronization._if,
    scf.WhileOp: Synchronization._while,
}  # fmt: skip


_BY_NAME: dict[str, Callable[[Synchronization, Any], None]] = {
    names.ASYNC_DOT: OperationBarriers.async_dot,
    "nv_tileas.async.future_wait": OperationBarriers.future_wait,
    names.TMA_STORE: OperationBarriers.tma_store,
    names.TMA_STORE_TAIL: OperationBarriers.tma_store_tail,
    names.MAP_RESERVE: OperationBarriers.reserve,
    names.MAP_ASSEMBLE: OperationBarriers.assemble,
    names.MAP_OPEN: OperationBarriers.reserved,
    names.MAP_BUILD: OperationBarriers.build,
    f"{names.TENSOR_MEMORY}alloc": OperationBarriers.tensor_alloc,
    names.TENSOR_DOT: OperationBarriers.tensor_dot,
    f"{names.TENSOR_MEMORY}load": OperationBarriers.tensor_load,
    f"{names.TENSOR_MEMORY}release": OperationBarriers.release,
    names.TENSOR_RESERVE: OperationBarriers.reserve,
    f"{names.TENSOR_MEMORY}scale": OperationBarriers.tensor_scale,
    f"{names.TENSOR_MEMORY}slice": OperationBarriers.tensor_slice,
    f"{names.TENSOR_MEMORY}store": OperationBarriers.tensor_store,
    f"{names.TENSOR_MEMORY}open": OperationBarriers.reserved,
    f"{names.TENSOR_MEMORY}commit": OperationBarriers.reserved,
    f"{names.TENSOR_MEMORY}wait": OperationBarriers.reserved,
    names.FENCE_PROXY: OperationBarriers.fence_proxy,
}
