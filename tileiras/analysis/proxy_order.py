"""Order of shared-memory accesses by threads and by the asynchronous proxy, on every path through a function.

Dots of warpgroups and into tensor memory, stores of boxes and bulk copies read and write shared memory through the
asynchronous proxy.  Each pair of uses of the same bytes requires (PTX ISA, "Proxies", "Async Proxy",
"wgmma.wait_group", "cp.async.bulk.wait_group", "cp.async.wait_group"):

- threads write, the asynchronous proxy reads or writes: copies have arrived, then a fence and a barrier, in any order;
- threads read, the asynchronous proxy writes: a fence and a barrier;
- the asynchronous proxy reads, either writes: a wait for the read and, if only one thread or one warpgroup has waited
  for its own reads, a barrier; or the stage of a pipe is released: a wait.

Accesses of agents to the stages of one pipe are ordered by its mbarriers, with the fences of its protocol.  Each use is
a record with the part of that order that has been established after it; loops are iterated to a fixed point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from tileiras import analysis
from tileiras.analysis.dots import joined_conversions
from tileiras.analysis.proxy_uses import (
    FENCED,
    FLIGHT,
    MOST_GROUPS,
    OWN,
    SEEN,
    UNCOMMITTED,
    Kind,
    Place,
    Progress,
    Use,
    Uses,
    join,
    less,
    missing_order,
    within,
)
from tileiras.analysis.stage_numbers import Number, StageNumbers
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Block, Operation, Value
from tileiras.layout.encoding import is_in_shared
from tileiras.targets.pipe_protocol import PipeProtocol
from tileiras.targets.sm import WARP_SIZE

Finding = tuple[Operation, str]


def order_errors(func: Any) -> Iterator[Finding]:
    """Errors in the order of proxies in a function of nv_tileas whose barriers are in place."""
    walk = _Walk(func)
    walk.block(func.body.blocks[0])
    yield from walk.found.items()


class _Walk:
    """A walk along the paths of a function, with the earlier uses that later ones may have to be ordered after."""

    def __init__(self, func: Any) -> None:
        self.found: dict[Operation, str] = {}
        self.uses: Uses = {}
        self._numbers = StageNumbers()
        self._program: Block = func.body.blocks[0]
        self._threads = WARP_SIZE * tileas.block_warps(func)
        self._inherited = func.kernel_spec.num_warps
        self._events: dict[Block, list[tuple[Callable[[_Walk, Any], None], Operation]]] = {}

    def block(self, block: Block) -> None:
        events = self._events.get(block)
        if events is None:
            events = self._events[block] = [(rule, op) for op in block.operations if (rule := self._rule(op))]
        for rule, op in events:
            rule(self, op)

    def _rule(self, op: Operation) -> Callable[[_Walk, Any], None] | None:
        rule = _RULES.get(op.name)
        if rule is not None and op.regions:
            return rule if any(self._events_of(region.blocks) for region in op.regions) else None
        if rule is None and tileas.SCRATCH in op.attributes:
            return _Walk._exchange
        if rule is None and isinstance(op, tileas.DOTS):
            return _Walk._dot if any(self._tiles(op, False)) else None
        return rule

    def _events_of(self, blocks: Sequence[Block]) -> bool:
        return any(self._rule(op) is not None for block in blocks for op in block.operations)

    # -- uses ----------------------------------------------------------------------------------------------------------

    def _use(self, kind: Kind, op: Operation, place: Place, state: int = OWN, groups: int = UNCOMMITTED) -> None:
        self._look(kind, op, place)
        self.uses[Use(kind, op, place, self._program)] = Progress(state, groups)

    def _look(self, kind: Kind, op: Operation, place: Place, writes: bool = False) -> None:
        """Report an operation that uses bytes before an earlier use of them is ordered."""
        if op in self.found:
            return
        overwrites = writes or kind in ("write", "copy")
        threads = kind in ("write", "copy", "read")
        for use, progress in self.uses.items():
            if not place.meets(use.place):
                continue
            if _pipe(place.buffer) is not None and _pipe(place.buffer) is _pipe(use.place.buffer):
                continue  # ordered by the pipe's mbarriers
            wrong = missing_order(use, progress, threads, overwrites)
            if wrong:
                self.found[op] = wrong
                return

    def _place(self, buffer: Value, stage: Value) -> Place | None:
        alloc: Any = buffer.defining_op
        if not isinstance(alloc, tileas.AllocTensorOp) or alloc.offset is None:
            return None
        stages, start = buffer.type.stages, alloc.offset.value  # type: ignore[attr-defined]
        number = self._numbers.number_of(stage) if stages > 1 else Number(None, 0)
        end = start + buffer.type.bytes  # type: ignore[attr-defined]
        return Place(start, end, buffer, stages, within(number, stages))

    def _each(self, change: Callable[[Use, Progress], Progress | None]) -> None:
        """Update the progress of all uses; those for which `change` returns None are dropped."""
        self.uses = {use: after for use, progress in self.uses.items() if (after := change(use, progress)) is not None}

    # -- accesses of threads -------------------------------------------------------------------------------------------

    def _store(self, op: Any) -> None:
        place = self._place(op.buffer, op.stage)
        if place is not None:
            self._use("write", op, place)

    def _copy_in(self, op: Any) -> None:
        place = self._place(op.buffer, op.stage)
        if place is None:
            return
        if _pipe(op.buffer) is None:
            self._use("copy", op, place, FLIGHT)
        else:
            self._look("copy", op, place)  # consumers continue only after it has arrived

    def _dealloc(self, op: Any) -> None:
        """Complete copies that run ahead: they are issued for existing iterations only, which have waited for them."""

        def ended(use: Use, progress: Progress) -> Progress:
            runs_ahead = use.kind == "copy" and isinstance(use.op.parent_op, scf.IfOp)
            ends = runs_ahead and use.place.buffer is op.buffer and progress.state == FLIGHT
            return Progress(OWN) if ends else progress

        self._each(ended)

    def _copy(self, op: Any) -> None:
        if is_in_shared(op.result.type):
            return
        place = self._place(op.buffer, op.stage)
        if place is not None:
            self._use("read", op, place)

    def _exchange(self, op: Any) -> None:
        """Record the stores to scratch areas, a barrier, and the loads; areas that join another share its barrier."""
        areas = list(tileas.scratch_areas(op))
        conversion = isinstance(op, tileas.ConvertLayoutOp)
        if conversion and areas and areas[0].joins:
            return  # recorded with the first conversion of the group
        if conversion:
            areas += [tileas.scratch_areas(each)[0] for each in joined_conversions(op)]
        group: list[Any] = []
        for number, area in enumerate(areas):
            if area.waits:
                self._meet()
            group.append(area)
            self._use("write", op, Place(area.offset, area.offset + area.bytes))
            if number + 1 < len(areas) and areas[number + 1].joins:
                continue
            for each in group:
                self._meet()
                self._use("read", op, Place(each.offset, each.offset + each.bytes))
            group = []

    def _fence(self, op: Any = None) -> None:
        """Record a fence: each thread has executed one after its own part of the uses known to be complete."""
        program = self._program

        def fenced(use: Use, progress: Progress) -> Progress | None:
            if use.kind not in ("write", "copy", "read") or progress.state == FLIGHT:
                return progress
            if progress.state == SEEN:
                return None
            return Progress(FENCED, progress.groups) if use.program is program else progress

        self._each(fenced)

    def _barrier(self, op: Any) -> None:
        if op.relaxed is not None:
            return  # a relaxed barrier makes no accesses visible to other threads
        if op.cluster is not None or op.threads is None or op.threads.value == self._threads:
            self._meet()

    def _meet(self) -> None:
        """Record a barrier of all threads of the program."""
        program = self._program

        def after_barrier(use: Use, progress: Progress) -> Progress | None:
            if progress.state == FLIGHT or use.program is not program:
                return progress
            if progress.state == FENCED or use.kind not in ("write", "copy", "read"):
                return None
            return Progress(SEEN, progress.groups)

        self._each(after_barrier)

    # -- groups --------------------------------------------------------------------------------------------------------

    def _commit(self, kind: Kind) -> None:
        def committed(use: Use, progress: Progress) -> Progress:
            if use.kind != kind or progress.state != FLIGHT or use.program is not self._program:
                return progress
            return Progress(FLIGHT, min(MOST_GROUPS, progress.groups + 1))

        self._each(committed)

    def _wait(self, kind: Kind, pending: int, known_to_all: bool = False) -> None:
        """Record a wait: all groups but the last `pending` are complete."""

        def waited(use: Use, progress: Progress) -> Progress | None:
            if use.kind != kind or progress.state != FLIGHT or use.program is not self._program:
                return progress
            if not pending <= progress.groups:
                return progress
            return None if known_to_all else Progress(OWN, progress.groups)

        self._each(waited)

    def _commit_copies(self, op: Any) -> None:
        self._commit("copy")

    def _wait_for_copies(self, op: Any) -> None:
        self._wait("copy", op.pending.value)

    def _commit_dots(self, op: Any) -> None:
        self._commit("wgmma")

    def _wait_for_dots(self, op: Any) -> None:
        self._wait("wgmma", op.pending.value)

    def _commit_tensor_dots(self, op: Any) -> None:
        self._commit("tcgen05")

    def _wait_for_tensor_dots(self, op: Any) -> None:
        """Record a wait; groups committed after the one that is waited for also remain pending."""
        commit = op.count.defining_op
        behind = 0
        if commit is not None and commit.parent is op.parent:
            between = commit.next
            while between is not None and between is not op:
                behind += between.name == commit.name
                between = between.next
        self._wait("tcgen05", op.pending.value + behind, known_to_all=True)

    # -- accesses of the asynchronous proxy ----------------------------------------------------------------------------

    def _tiles(self, dot: Any, in_place: bool) -> Iterator[Any]:
        """The copies of a dot's operands: those read in place in shared memory, or those that its threads load."""
        for value in dot.operands:
            op = value.defining_op
            while isinstance(op, tileas.VIEW_LIKE):
                op = op.operand.defining_op
            if isinstance(op, tileas.CopyOp) and is_in_shared(op.result.type) is in_place:
                yield op

    def _dot(self, op: Any) -> None:
        """Record the reads of operands: threads may load them as late as at the dot."""
        for copy in self._tiles(op, False):
            self._copy(copy)

    def _async_dot(self, op: Any) -> None:
        kind: Kind = "wgmma" if op.name == names.ASYNC_DOT else "tcgen05"
        for copy in self._tiles(op, True):
            place = self._place(copy.buffer, copy.stage)
            if place is not None:
                self._use(kind, op, place, FLIGHT)

    def _tma_store(self, op: Any) -> None:
        place = self._place(op.buffer, op.stage)
        if place is None:
            return
        self._use("bulk", op, place, FLIGHT)
        self._commit("bulk")
        if not op.leaves_all:
            self._wait("bulk", 0 if op.unread is None else op.unread.value)

    def _tma_store_tail(self, op: Any) -> None:
        self._wait("bulk", 0)

    def _tma_load(self, op: Any) -> None:
        """Check that earlier uses of the bytes of a stage are complete when a bulk copy fills it."""
        pipe = _pipe_of(op.token)
        if pipe is not None:
            place = self._place(pipe.buffers[0 if op.buffer is None else op.buffer.value], op.token)
            if place is not None:
                self._look("bulk", op, place, writes=True)

    # -- pipes ---------------------------------------------------------------------------------------------------------

    def _consumer_wait(self, op: Any) -> None:
        protocol = _protocol(op)
        if protocol is not None and protocol.fence == "behind wait" and not protocol.is_drained_by_one_thread:
            self._fence()

    def _producer_commit(self, op: Any) -> None:
        protocol = _protocol(op)
        if protocol is not None and protocol.fence == "before commit":
            self._fence()

    def _release(self, op: Any) -> None:
        """Check that dots have read the stage, unless their commit releases it."""
        pipe, protocol = _pipe_of(op.token), _protocol(op)
        if pipe is None or protocol is None:
            return
        stages = pipe.num_stages.value
        number = self._numbers.of(op.token)
        for use, progress in self.uses.items() if not protocol.frees_by_commit and op not in self.found else ():
            if progress.state != FLIGHT or use.place.buffer not in pipe.buffers or use.kind != "wgmma":
                continue
            if number is not None and not number.is_apart(use.place.stage, stages):
                self.found[op] = f"releases a stage that '{use.op.name}' still reads: it is not waited for"
                break
        if protocol.fence == "before release" and op.last is None:
            self._fence()

    def _tail(self, op: Any) -> None:
        """Drop the dots that read stages: agents have released all stages, so these dots are complete."""
        self._each(lambda use, progress: None if use.kind == "tcgen05" and _pipe(use.place.buffer) else progress)

    # -- control flow --------------------------------------------------------------------------------------------------

    def _renumbered(self, uses: Uses, number: Callable[[Number], Number]) -> Uses:
        """The uses with their stage numbers expressed by other values."""
        result: Uses = {}
        for use, progress in uses.items():
            place = use.place
            if place.stages > 1:
                place = place._replace(stage=within(number(place.stage), place.stages))
                use = use._replace(place=place)
            result[use] = less(result[use], progress) if use in result else progress
        return result

    def _renumber(self, op: Operation, sources: Sequence[Value], targets: Sequence[Value]) -> Uses:
        return self._renumbered(self.uses, lambda number: self._numbers.renumber(number, sources, targets, op))

    def _entered(self, sources: Sequence[Value], targets: Sequence[Value]) -> Uses:
        return self._renumbered(self.uses, lambda number: self._numbers.entered(number, sources, targets))

    def _for(self, op: Any) -> None:
        arguments = op.body.block.arguments
        begins = [op.lower_bound, *op.init_args]
        self._numbers.of(arguments[0])
        entered = self._entered(begins, arguments)
        trips = op.trip_count
        exits: Uses = {} if trips else self._entered(op.init_args, op.results)
        for _ in count() if trips is None else range(trips):
            self.uses = dict(entered)
            self.block(op.body.block)
            join(exits, self._renumber(op, op.yield_op.operands, op.results))
            if not join(entered, self._renumbered(self.uses, lambda number: self._numbers.advanced(number, op))):
                break
        self.uses = exits

    def _while(self, op: Any) -> None:
        before, after = op.before.block, op.after.block
        values = before.last.args
        entered = self._renumber(op, op.inits, before.arguments)
        exits: Uses = {}
        while True:
            self.uses = dict(entered)
            self.block(before)
            join(exits, self._renumber(op, values, op.results))
            self.uses = self._renumber(op, values, after.arguments)
            self.block(after)
            if not join(entered, self._renumber(op, after.last.operands, before.arguments)):
                break
        self.uses = exits

    def _if(self, op: Any) -> None:
        entered: Uses = self.uses
        exits: Uses = {}
        for region in (op.then_region, op.else_region):
            self.uses = dict(entered)
            if region.blocks:
                self.block(region.blocks[0])
                self.uses = self._renumber(op, region.blocks[0].last.operands, op.results)
            join(exits, self.uses)
        self.uses = exits

    def _agents(self, op: Any) -> None:
        """Walk each agent from the state before the switch; the function continues when all have ended."""
        program, threads, entered = self._program, self._threads, self.uses
        exits: Uses = {}
        for region, warps in zip(op.agents, op.warps(self._inherited)):
            self.uses, self._program, self._threads = dict(entered), region.block, WARP_SIZE * warps
            self.block(region.block)
            self._program = program
            for use, progress in self.uses.items():
                if use.program is not program:
                    if use.kind == "tcgen05" and _pipe(use.place.buffer):
                        continue  # their stages have been released, which the checks of pipes verify
                    progress = Progress(OWN) if progress.state == SEEN else progress
                    use = use._replace(program=program)
                join(exits, {use: progress})
        self._program, self._threads, self.uses = program, threads, exits

    def _one(self, op: Any) -> None:
        """Walk the region with which threads write or read a stage of a pipe."""
        self.block(op.regions[0].blocks[0])


def _pipe(buffer: Value | None) -> Any:
    return None if buffer is None else tileas.pipe_of_buffer(buffer)


def _pipe_of(token: Value) -> Any:
    return analysis.pipes.pipe_of(token)


def _protocol(op: Any) -> PipeProtocol | None:
    pipe = _pipe_of(op.token)
    return None if pipe is None else analysis.pipes.protocol_of(pipe)


_RULES: dict[str, Callable[[_Walk, Any], None]] = {
    tileas.StoreTensorOp.name: _Walk._store,
    tileas.CopyOp.name: _Walk._copy,
    tileas.DeallocTensorOp.name: _Walk._dealloc,
    tileas.AsyncTiledLoadOp.name: _Walk._copy_in,
    tileas.AsyncLoadOp.name: _Walk._copy_in,
    tileas.AsyncCommitGroupOp.name: _Walk._commit_copies,
    tileas.AsyncWaitOp.name: _Walk._wait_for_copies,
    tileas.BarrierOp.name: _Walk._barrier,
    names.FENCE_PROXY: _Walk._fence,
    names.ASYNC_DOT: _Walk._async_dot,
    "nv_tileas.async.commit_dots": _Walk._commit_dots,
    "nv_tileas.async.future_wait": _Walk._wait_for_dots,
    names.TENSOR_DOT: _Walk._async_dot,
    f"{names.TENSOR_MEMORY}commit": _Walk._commit_tensor_dots,
    f"{names.TENSOR_MEMORY}wait": _Walk._wait_for_tensor_dots,
    names.TMA_STORE: _Walk._tma_store,
    names.TMA_STORE_TAIL: _Walk._tma_store_tail,
    names.TMA_LOAD: _Walk._tma_load,
    "nv_tileas.async.bulk_load": _Walk._tma_load,
    names.CONSUMER_WAIT: _Walk._consumer_wait,
    names.CONSUMER_RELEASE: _Walk._release,
    names.PRODUCER_COMMIT: _Walk._producer_commit,
    names.CONSUMER_TAIL: _Walk._tail,
    names.PRODUCER_TAIL: _Walk._tail,
    names.AGENT_SWITCH: _Walk._agents,
    f"{names.PIPELINE}produce_one": _Walk._one,
    f"{names.PIPELINE}consume_one": _Walk._one,
    scf.ForOp.name: _Walk._for,
    scf.IfOp.name: _Walk._if,
    scf.WhileOp.name: _Walk._while,
}
