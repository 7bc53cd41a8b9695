"""The pipes of a kernel that is split into agents: those of each plan, and the loops that use them."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Builder, IntegerAttr, Operation, UnitAttr, Value, i32
from tileiras.schedule.agents.load_plan import LoopPlan, PipePlan
from tileiras.schedule.staging import StagedLoad
from tileiras.schedule.tensor_boxes import ctas_of, descriptor_type
from tileiras.targets.pipe_protocol import BOXES


class Ring:
    """A pipe: the buffers of its stages, one for each load, and its two ends; `last`: the last loop that uses it."""

    __slots__ = ("buffers", "consumer", "last", "producer")

    def __init__(self, plan: PipePlan, builder: Builder) -> None:
        self.buffers = []
        for each in plan.loads:
            builder.location = each.load.location
            buffer = tileas.AllocTensorOp(result=each.buffer_type(plan.stages))
            self.buffers.append(builder.insert(buffer).results[0])
        ctas = ctas_of(plan.loads)
        ends = create_pipe(builder, self.buffers, plan.stages, plan.producer, plan.consumer, ctas)
        self.producer, self.consumer = ends
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
    made = tileas.CreatePipelineOp(
        buffers,
        num_stages=IntegerAttr(stages, i32),
        producer_kind=tileas.ProducerKindAttr(producer),
        consumer_kind=tileas.ConsumerKindAttr(consumer),
        ctas=IntegerAttr(ctas, i32) if ctas > 1 else None,
    )
    return builder.insert(made).results


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
    """Copies a tile in boxes into buffer `number` of an acquired stage; `multicast`: of all CTAs of a cluster, where
    the condition `together` holds."""
    buffer = IntegerAttr(number, i32) if number else None
    everywhere = UnitAttr() if multicast else None
    named = {"token": token, "together": together, "buffer": buffer, "multicast": everywhere}
    builder.insert(tileas.TmaLoadOp(desc=desc, coords=coords, **named))


class Pipes:
    """The pipes of a function, by the loops that use them."""

    def __init__(self, loops: Sequence[LoopPlan], builder: Builder) -> None:
        self._of_loops: dict[Operation, list[Pipe]] = {}
        rings: dict[PipePlan, Ring] = {}
        for plan in loops:
            found = self._of_loops[plan.loop] = []
            for pipe in plan.pipes:
                if pipe.first not in rings:
                    rings[pipe.first] = Ring(pipe, builder)
                ring = rings[pipe.first]
                ring.last = plan.loop
                found.append(Pipe(pipe, ring, builder))
        self.rings = list(rings.values())

    @property
    def all(self) -> list[Pipe]:
        return [pipe for pipes in self._of_loops.values() for pipe in pipes]

    def of(self, loop: Operation) -> Sequence[Pipe]:
        """The pipes of a loop's own loads."""
        return self._of_loops.get(loop, ())

    def inside(self, op: Operation) -> list[Ring]:
        """The rings of an operation that is a loop, and of those in it, in order."""
        if not op.regions:
            return []
        return list(dict.fromkeys(pipe.ring for inner in op.walk() for pipe in self.of(inner)))
