"""Pipes between agents, made where a tile or a buffer crosses from one to the other.

The kinds of a pipe's ends are a row of the protocol table (`targets/pipe_protocol.py`), from which signals, arrivals
and fences follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
from tileiras.ir import Builder, IntegerAttr, Operation, UnitAttr, Value, i32
from tileiras.schedule.staging import StagedLoad
from tileiras.schedule.tensor_boxes import ctas_of, descriptor_type
from tileiras.targets.pipe_protocol import BOXES

from .load_plan import LoopPlan, PipePlan


class Channel:
    """A pipe: the buffers of its stages, and its two ends."""

    __slots__ = ("buffers", "consumer", "producer")

    def __init__(
        self, builder: Builder, buffers: Sequence[Value], stages: int, kinds: tuple[str, str], ctas: int = 1,
        groups: int = 1,
    ) -> None:  # fmt: skip
        """`ctas` CTAs fill each other's stages; `groups` warpgroups have mbarriers of their own."""
        self.buffers = list(buffers)
        self.producer, self.consumer = create_pipe(builder, buffers, stages, *kinds, ctas)
        if groups > 1:
            self.producer.defining_op.attributes["groups"] = IntegerAttr(groups, i32)  # type: ignore[union-attr]

    @classmethod
    def of(cls, pipe: CreatePipelineOp) -> Channel:
        """A pipe that exists."""
        instance = cls.__new__(cls)
        instance.buffers, (instance.producer, instance.consumer) = list(pipe.buffers), pipe.results
        return instance

    @property
    def op(self) -> CreatePipelineOp:
        return self.producer.defining_op  # type: ignore[return-value]

    def begin(self, builder: Builder, at: Mapping[Any, Value], fills: bool, **attributes: Any) -> Value:
        """Wait for the next stage, an empty one for an agent that `fills` it and a full one for another; return its
        token."""
        end, op = (self.producer, tileas.ProducerAcquireOp) if fills else (self.consumer, tileas.ConsumerWaitOp)
        return builder.insert(op(end, at[self], **attributes)).results[0]

    def end(self, builder: Builder, token: Value, at: dict[Any, Value], fills: bool, **attributes: Any) -> None:
        """Signal that the stage is full, or empty, and move the iterator to the next one."""
        builder.insert((tileas.ProducerCommitOp if fills else tileas.ConsumerReleaseOp)(token, **attributes))
        self.advance(builder, at)

    def advance(self, builder: Builder, at: dict[Any, Value]) -> None:
        at[self] = builder.insert(tileas.IncIterOp(at[self])).results[0]


class Ring(Channel):
    """The pipe of some loads, with a buffer for each; `last`: the last loop that uses it."""

    __slots__ = ("last",)

    def __init__(self, plan: PipePlan, builder: Builder) -> None:
        buffers = []
        for each in plan.loads:
            builder.location = each.load.location
            buffers.append(builder.insert(tileas.AllocTensorOp(result=each.buffer_type(plan.stages))).results[0])
        super().__init__(builder, buffers, plan.stages, (plan.producer, plan.consumer), ctas_of(plan.loads))
        self.last: Operation | None = None


class Pipe:
    """A loop's use of a ring: its plan, and the descriptors of loads in boxes."""

    __slots__ = ("descriptors", "plan", "ring")

    def __init__(self, plan: PipePlan, ring: Ring, builder: Builder) -> None:
        self.plan = plan
        self.ring = ring
        self.descriptors = [descriptor_of(each, builder) for each in plan.loads if plan.producer == BOXES]


def create_pipe(
    builder: Builder, buffers: Sequence[Value], stages: int, producer: str, consumer: str, ctas: int = 1
) -> Sequence[Value]:
    """The producer's and the consumer's end of a pipe whose stages are those of some buffers; `ctas`: how many CTAs
    fill each other's."""
    pipeline = tileas.CreatePipelineOp(
        buffers,
        num_stages=IntegerAttr(stages, i32),
        producer_kind=tileas.ProducerKindAttr(producer),
        consumer_kind=tileas.ConsumerKindAttr(consumer),
        ctas=IntegerAttr(ctas, i32) if ctas > 1 else None,
    )
    return builder.insert(pipeline).results


def descriptor_of(staged: StagedLoad, builder: Builder) -> Value:
    """The descriptor of the view of a load in boxes."""
    type = descriptor_type(staged)
    assert type is not None, "the schedule has looked at the boxes of the load"
    builder.location = staged.load.location
    return builder.insert(tileas.MakeTmaDescOp(staged.load.view, result=type)).results[0]


def copy_box(
    builder: Builder, desc: Value, coords: Sequence[Value], token: Value, number: int, multicast: bool,
    together: Value | None = None,
) -> None:  # fmt: skip
    """Copy a tile in boxes into buffer `number` of an acquired stage; `multicast`: of all CTAs of a cluster, where
    the condition `together` holds."""
    buffer = IntegerAttr(number, i32) if number else None
    everywhere = UnitAttr() if multicast else None
    operands = {"token": token, "together": together, "buffer": buffer, "multicast": everywhere}
    builder.insert(tileas.TmaLoadOp(desc=desc, coords=coords, **operands))


class Pipes:
    """The pipes of a function, by the loops that use them."""

    def __init__(self, loops: Sequence[LoopPlan], builder: Builder) -> None:
        self._of_loops: dict[Operation, list[Pipe]] = {}
        rings: dict[PipePlan, Ring] = {}
        for plan in loops:
            items = self._of_loops[plan.loop] = []
            for pipe in plan.pipes:
                if pipe.first not in rings:
                    rings[pipe.first] = Ring(pipe, builder)
                ring = rings[pipe.first]
                ring.last = plan.loop
                items.append(Pipe(pipe, ring, builder))
        self.rings = list(rings.values())

    @property
    def all(self) -> list[Pipe]:
        return [pipe for pipes in self._of_loops.values() for pipe in pipes]

    def of(self, loop: Operation) -> Sequence[Pipe]:
        """The pipes of a loop's own loads."""
        return self._of_loops.get(loop, ())
