"""The ring of a loop whose tiles come in boxes of tensor maps: a pipe that one agent, the kernel itself, fills and
drains.

    if iteration s exists: acquire stage s; its boxes; commit               for s in 0 .. ahead - 1
    for i in ...:
      if i is not one of the first `held` iterations: release the stage of iteration i - held
      wait for stage i
      if iteration i + ahead exists: acquire its stage; its boxes; commit
      ... read stage i ...

One thread acquires stages and issues boxes; each warp releases the stages that it has read.  A stage is released one or
two iterations after it was waited for, when the dots that read it are surely complete; at the end of its own iteration
where a commit of these dots frees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.analysis.barrier_needs import accesses_buffer
from tileiras.analysis.ranges import RangeAnalysis
from tileiras.analysis.tensor_map_rules import memref_of, needs_fence
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import compare, integer
from tileiras.ir import Block, Builder, Operation, Pure, Region, UnitAttr, Value
from tileiras.layout.scratch import Warps, exchanges
from tileiras.schedule.agents.channels import copy_box, create_pipe, descriptor_of
from tileiras.schedule.staging import StagedLoad
from tileiras.schedule.tensor_boxes import consumer_kind, ctas_of, is_multicast
from tileiras.targets.pipe_protocol import BOXES, PIPE_PROTOCOLS

Again = Callable[[Value], Value]
"""Value of the loop's body -> its value in the requested iteration."""

Access = tileas.TiledLoadOp | tileas.TiledStoreOp | tileas.TiledAtomicRMWOp


class BoxRing:
    """The pipe of the loads of one loop whose stages are read in one way, and for as long."""

    def __init__(
        self, builder: Builder, staged: Sequence[StagedLoad], buffers: Sequence[Value], stages: int, stages_in_use: int
    ) -> None:
        """`builder` inserts before the loop; `stages_in_use`: iterations whose stages are not free."""
        self._staged = staged
        self.stages = stages
        self.held = stages_in_use
        self._ranges = RangeAnalysis()
        kind = consumer_kind(staged[0])
        assert kind is not None, "the schedule has checked the readers of the stages"
        self.producer, self.consumer = create_pipe(builder, buffers, stages, BOXES, kind, ctas_of(staged))
        self._protocol = PIPE_PROTOCOLS[BOXES, kind]
        self.is_freed_by_all = ctas_of(staged) > 1
        """Whether each release arrives in all CTAs of the cluster; they may not exit before."""
        self._descriptors = [_descriptor(each) for each in staged]
        self.fill = builder.insert(tileas.CreateIteratorOp(self.producer)).results[0]
        """The iterator at the stage that is filled next."""
        self.drain = builder.insert(tileas.CreateIteratorOp(self.consumer)).results[0]
        """The iterator at the stage that is read next."""

    @property
    def frees_by_commit(self) -> bool:
        """Whether dots in flight free a stage when they are complete."""
        return self._protocol.frees_by_commit

    # -- filling -------------------------------------------------------------------------------------------------------

    def start(self, builder: Builder, iterator: Value, again: Again, fresh: bool) -> None:
        """The boxes of an iteration that exists, into the stage that an iterator of the producer's end is at; `fresh`:
        for the first time."""
        flag = UnitAttr() if fresh else None
        acquired = builder.insert(tileas.ProducerAcquireOp(self.producer, iterator, fresh=flag)).results[0]
        of_loop = builder.location
        for number, (staged, desc) in enumerate(zip(self._staged, self._descriptors)):
            builder.location = staged.load.location  # profiles attribute the copies to it
            coords = box_coordinates(builder, staged.load, again, self._ranges)
            copy_box(builder, desc, coords, acquired, number, is_multicast(staged))
        builder.location = of_loop
        builder.insert(tileas.ProducerCommitOp(acquired))

    # -- draining ------------------------------------------------------------------------------------------------------

    def wait(self, builder: Builder, iterator: Value) -> Value:
        """Wait for the stage that an iterator of the consumer's end is at; the token of the stage."""
        return builder.insert(tileas.ConsumerWaitOp(self.consumer, iterator)).results[0]

    def tail(self, builder: Builder, iterator: Value) -> None:
        """Wait, after the loop, until the dots of other CTAs have freed the stages; the iterator is at the stage after
        the last one that was filled.  Releases by threads are waited for in the loop."""
        if self._protocol.is_of_pair or self.is_freed_by_all and self.frees_by_commit:
            builder.insert(tileas.ProducerTailOp(self.producer, iterator))

    def end(self, builder: Builder) -> None:
        """Destroy the pipe after a loop that an outer loop may enter again."""
        builder.insert(tileas.DestroyPipelineOp(self.producer))

    def release(self, builder: Builder, token: Value) -> None:
        """Give back the stage of a token."""
        builder.insert(tileas.ConsumerReleaseOp(token))

    def release_if(self, builder: Builder, token: Value, condition: Value) -> None:
        """Release the stage of a token under a condition."""
        body = Block()
        inner = Builder.at_end(body)
        inner.location = builder.location
        inner.insert(tileas.ConsumerReleaseOp(token))
        inner.insert(scf.YieldOp.create(()))
        builder.insert(scf.IfOp.create((condition,), (), {}, (Region([body]), Region())))


def rings_of(builder: Builder, staged: Sequence[tuple[StagedLoad, Value, int]], ahead: int) -> list[BoxRing]:
    """A ring for each way in which stages of loads, each with its buffer and the iterations for which a stage is held,
    are read."""
    rings = []
    fence_before_boxes(builder, staged[0][1], [each for each, _, _ in staged])
    for kind, count in dict.fromkeys((consumer_kind(each), count) for each, _, count in staged):
        members = [pair for pair in staged if (consumer_kind(pair[0]), pair[2]) == (kind, count)]
        loads, buffers = [each for each, _, _ in members], [buffer for _, buffer, _ in members]
        rings.append(BoxRing(builder, loads, buffers, ahead + count, count))
    return rings


def fence_before_boxes(builder: Builder, first: Value, staged: Sequence[StagedLoad]) -> None:
    """Insert a fence before the pipes of a loop, where boxes may overwrite shared memory that threads have accessed;
    `first` is one of their buffers.  The fence precedes the barrier after the pipes; a fence that is already there is
    used.

    Boxes that are ordered after writes of threads, or after writes of others that the threads have observed, need one
    for all memory: each thread fences its own and the observed writes, and the copying thread is after the barrier.
    """
    op = first.defining_op
    while op is not None and (op.has_trait(Pure) or isinstance(op, tileas.AllocTensorOp)):
        op = op.prev
    if any(needs_fence(token) for each in staged for token in each.tokens):
        if not isinstance(op, tileas.FenceProxyOp) or op.global_memory is None:
            builder.insert(tileas.FenceProxyOp(global_memory=UnitAttr()))
    elif not isinstance(op, tileas.FenceProxyOp) and _shared_memory_was_used(first.defining_op):
        builder.insert(tileas.FenceProxyOp())


def _shared_memory_was_used(buffer: Operation) -> bool:
    """Whether an operation before the first buffer of a ring, or one of a loop around, has threads access shared
    memory."""
    place: Operation = buffer
    while place.parent_op is not None and not isinstance(place.parent_op, aa.FuncOp):
        place = place.parent_op
    func: Any = place.parent_op
    warps = Warps.of(func, func.target_spec.value)
    before = place.prev if place is buffer else place
    while before is not None:
        if any(accesses_buffer(op) or bool(exchanges(op, warps)) for op in before.walk()):
            return True
        before = before.prev
    return False


def box_coordinates(builder: Builder, access: Access, again: Again, ranges: RangeAnalysis) -> list[Value]:
    """The coordinates of a tile that is copied in boxes; after the first tile, where all is filled and nothing
    stored, along a dimension without elements: the map has one element there, since a map of none cannot be made."""
    view, memref = access.view.type, memref_of(access.view)
    values = []
    for dim, coordinate in enumerate(access.coords):
        value, size = again(coordinate), memref.size(view.dim_map[dim])
        if not isinstance(size, int) and ranges.range(size).low < 1:
            empty = compare(builder, "eq", size, integer(builder, 0, size.type))
            value = builder.insert(arith.SelectOp(empty, integer(builder, 1, value.type), value)).results[0]
        values.append(value)
    return values


def following(builder: Builder, iterator: Value) -> Value:
    """The iterator at the next stage."""
    return builder.insert(tileas.IncIterOp(iterator)).results[0]


def _descriptor(staged: StagedLoad) -> Value:
    """The descriptor of the view of a load, made where the view is."""
    view = staged.load.view.defining_op
    assert view is not None, "the schedule has looked at the boxes of the load"
    return descriptor_of(staged, Builder.before(view.next))
