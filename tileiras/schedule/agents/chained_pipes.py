"""The pipes between the agent that multiplies and threads that compute between its dots."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Builder, IntegerAttr, Operation, TensorType, Value, i32
from tileiras.layout.linear_layout import log2_exact
from tileiras.schedule.agents.channels import create_pipe
from tileiras.schedule.agents.rules.chained_dots import ChainedDot, ChainedPlan
from tileiras.targets.pipe_protocol import ACCUMULATOR_LOADS, OPERAND_STORES, PRODUCTS, RUNS, STORES, TENSOR_MEMORY


class ChainedPipe:
    """A pipe between the agent that multiplies and threads that compute: of accumulators, of operands with the
    accumulators that they add to, or of an operand that does not change."""

    __slots__ = ("buffers", "consumer", "own", "producer")

    def __init__(
        self, buffers: list[Value], own: list[Value], kinds: tuple[str, str], builder: Builder, groups: int = 1
    ) -> None:
        self.buffers = buffers
        self.own = own
        """The buffers in tensor memory that are the pipe's own."""
        self.producer, self.consumer = create_pipe(builder, buffers, 1, *kinds)
        if groups > 1:
            self.producer.defining_op.attributes["groups"] = IntegerAttr(groups, i32)  # type: ignore[union-attr]


class ChainedPipes:
    """The pipes of the dots of a kernel, as `Consumer` asks for them."""

    def __init__(self, plan: ChainedPlan, base: Value, builder: Builder) -> None:
        self.by_loop: dict[Operation, list[ChainedPipe]] = {}
        """A pipe for each dot of a loop; loops of a kind share theirs."""
        self.fixed: dict[Value, ChainedPipe] = {}
        """Buffer of an operand that does not change -> its pipe."""
        self.fills = {each.fill: each for each in plan.fixed}
        self.in_turn = plan.takes_turns
        self.groups = plan.groups
        of_kind: dict[Any, list[ChainedPipe]] = {}
        for each in plan.loops:
            if each.kind not in of_kind:
                made = of_kind[each.kind] = []
                for dot in each.dots:
                    over = made[0].own[0] if plan.takes_turns and not dot.is_ahead else None
                    made.append(self._pipe(dot, base, over, builder))
            self.by_loop[each.loop] = of_kind[each.kind]
        for operand in plan.fixed:
            builder.location = operand.buffer.defining_op.location  # type: ignore[union-attr]
            builder.insert(operand.buffer.defining_op.detach())  # type: ignore[union-attr]
            filled = STORES if isinstance(operand.fill, tileas.StoreTensorOp) else RUNS
            self.fixed[operand.buffer] = ChainedPipe([operand.buffer], [], (filled, TENSOR_MEMORY), builder)
        shared = [pipe for pipes in of_kind.values() for pipe in pipes]
        self.rings = [*shared, *self.fixed.values()]

    def _pipe(self, dot: ChainedDot, base: Value, over: Value | None, builder: Builder) -> ChainedPipe:
        """The pipe of a dot, with a buffer of its own, which lies where another one does where it is `over` it."""
        builder.location = dot.dot.location
        type: Any = dot.buffers[0].type
        if over is not None:
            type = _apart(type, over.type, self.groups)  # type: ignore[arg-type]
        own = builder.insert(tileas.TensorAllocOp(base, over, result=type)).results[0]
        kinds = (PRODUCTS, ACCUMULATOR_LOADS) if dot.is_ahead else (OPERAND_STORES, TENSOR_MEMORY)
        return ChainedPipe([own, *dot.buffers[1:]], [own], kinds, builder, self.groups)

    def of(self, loop: Operation) -> list[ChainedPipe]:
        """No pipes: loops drain no further stages in each iteration."""
        return []

    def inside(self, op: Operation) -> list[ChainedPipe]:
        """The pipes of an operation that is such a loop or fills an operand, and of those in it, in order."""
        found: dict[ChainedPipe, None] = {}
        for inner in op.walk():
            found.update(dict.fromkeys(self.by_loop.get(inner, ())))
            if inner in self.fills:
                found[self.fixed[self.fills[inner].buffer]] = None
        return list(found)


def _apart(
    type: tileas.TensorBufferType, over: tileas.TensorBufferType, groups: int
) -> tileas.TensorBufferType:
    """An A whose rows of each group of warps lie in the first columns of those of the accumulator that it is over."""
    tile, layout = type.tile, type.tile.encoding
    free = log2_exact(over.columns // type.columns)
    own = len(layout.column) - log2_exact(groups)
    column = (*layout.column[:own], *[(0,) * len(tile.shape)] * free, *layout.column[own:])
    encoding = tileas.TensorLayoutAttr(layout.lane, column, layout.element)
    return tileas.TensorBufferType(TensorType(tile.shape, tile.element_type, encoding))
