"""An agent of threads that executes operations of another one on stages that both fill, and everything that crosses.

    agent that had the operations        new agent
      write %f                             read %f                      tiles, through shared memory
      store ... into %o; signal            wait                         buffers in tensor memory
      producer_acquire %p                  producer_acquire %p
      store ... into one buffer            scale %o by %f               stages that both fill
      producer_commit                      producer_commit

Both agents wait until a stage is empty, and a stage is full once all threads of both have arrived.  A tile crosses
where it is computed, as early as its operands allow.  A buffer crosses after accesses outside of such stages; it comes
back with the wait for the products that have followed (`producer_tail`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any

from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp
from tileiras.ir import Block, Builder, Operation, Pure, TensorType, Value
from tileiras.layout import row_major_shared
from tileiras.layout.encoding import with_layout
from tileiras.targets.pipe_protocol import ACCUMULATOR_LOADS, OPERAND_STORES, STORES, THREADS

from .channels import Channel
from .slice import AgentSlice
from .split import Agent, AgentProgram, Remainder

# ---- tiles -----------------------------------------------------------------------------------------------------------


class TilePipe(Channel):
    """The pipe of a tile that threads of one agent compute and those of another use, through shared memory."""

    __slots__ = ("value",)
    STAGES = 2

    def __init__(self, value: Value, builder: Builder, groups: int = 1) -> None:
        self.value = value
        buffer = builder.insert(tileas.AllocTensorOp(result=self.buffer_type(value))).results[0]
        super().__init__(builder, [buffer], self.STAGES, (STORES, THREADS), groups=groups)

    @classmethod
    def buffer_type(cls, value: Value) -> tileas.BufferType:
        tile: Any = value.type
        return tileas.BufferType(cls.STAGES, with_layout(tile, row_major_shared(tile.shape)))

    def write(self, builder: Builder, at: dict[Any, Value], tile: Value) -> None:
        token = self.begin(builder, at, True)
        builder.insert(tileas.ProducerWriteOp(tile, token))
        self.end(builder, token, at, True)

    def read(self, builder: Builder, at: dict[Any, Value]) -> Value:
        token = self.begin(builder, at, False)
        tile = builder.insert(tileas.ConsumerReadOp(token, result=self.value.type)).results[0]
        self.end(builder, token, at, False)
        return tile


def tiles_that_cross(value: Value) -> list[Value]:
    """The tiles of another agent from which an agent computes a value: those of the fewest bits in all.  Operations
    between them, such as a broadcast, are repeated."""
    return _cheapest(value, {})[1]


def _cheapest(value: Value, cache: dict[Value, tuple[float, list[Value]]]) -> tuple[float, list[Value]]:
    """The bits of such tiles, and the tiles.  A buffer has elements of whole bytes."""
    tile, op = value.type, value.defining_op
    if not isinstance(tile, TensorType):
        return 0, []
    if value not in cache:
        bits: float = getattr(tile.element_type, "width", 1)
        cache[value] = inf if bits % 8 else bits * tile.num_elements, [value]
        if op is not None and op.has_trait(Pure) and not op.regions:
            parts = [_cheapest(operand, cache) for operand in op.operands]
            bits = sum(each for each, _ in parts)
            if bits < cache[value][0]:
                cache[value] = bits, list(dict.fromkeys(each for _, tiles in parts for each in tiles))
    return cache[value]


def _hoist(op: Operation) -> None:
    """Move an operation, and operations without effects that it uses, to the first place in its block at which their
    operands are known."""
    block: Any = op.parent
    last: Operation | None = None
    for value in op.operands:
        each = value.defining_op
        if each is None or each.parent is not block:
            continue
        if each.has_trait(Pure) and not each.regions:
            _hoist(each)
        last = each if last is None or last.is_before_in_block(each) else last
    place = block.first if last is None else last.next
    if place is not op:
        block.insert_before(op.detach(), place)


# ---- buffers ---------------------------------------------------------------------------------------------------------


class HandOver(Channel):
    """A pipe without buffers, by which threads of one agent pass a buffer in tensor memory to those of another: loads
    and stores of the former precede the accesses of the latter."""

    __slots__ = ()

    def __init__(self, builder: Builder, groups: int = 1) -> None:
        super().__init__(builder, (), 1, (OPERAND_STORES, ACCUMULATOR_LOADS), groups=groups)

    def signal(self, builder: Builder, at: dict[Any, Value], fills: bool) -> None:
        self.end(builder, self.begin(builder, at, fills), at, fills)


def places_of_crossing(
    accesses: Collection[Operation], fills: Collection[Operation], inside: Sequence[Operation]
) -> list[Operation]:
    """The accesses to a buffer that another agent has to wait for before it fills stages: all but those before another
    one of the same block, and those after which no stage is filled.  `inside`: all operations, in order."""
    events = [op for op in inside if op in fills or op in accesses]
    places = []
    for number, op in enumerate(events):
        later = events[number + 1 :]
        is_followed = bool(later) and later[0] in accesses and later[0].parent is op.parent
        again = any(loop.is_ancestor_of(fill) for loop in scf.loops_around(op) for fill in fills)
        if op in accesses and not is_followed and (again or any(each in fills for each in later)):
            places.append(op)
    return places


# ---- the agent -------------------------------------------------------------------------------------------------------


class AgentBeside(Agent[Any]):
    """Operations on stages that both agents fill.

    `fills`: the acquires of stages, with the operations between each and its commit that move; `accesses`: operations
    after which the buffers of a pipe cross; `tiles`: those that cross.
    """

    def __init__(
        self, builder: Builder, slice: AgentSlice, fills: Mapping[Operation, list[Operation]],
        accesses: Mapping[Operation, CreatePipelineOp], tiles: Sequence[Value],
    ) -> None:  # fmt: skip
        self._fills = fills
        filled: dict[Operation, Any] = {op: pipe_of(op.token) for op in fills}  # type: ignore[attr-defined]
        joined = {pipe: Channel.of(pipe) for pipe in dict.fromkeys(filled.values())}
        handed = {pipe: HandOver(builder, pipe.num_groups) for pipe in dict.fromkeys(accesses.values())}
        groups = max(pipe.num_groups for pipe in joined)
        self._tiles = [TilePipe(tile, builder, groups) for tile in tiles]
        self._of: dict[Operation, list[Channel]] = {op: [joined[pipe]] for op, pipe in filled.items()}
        self._of.update((op, [handed[pipe]]) for op, pipe in accesses.items())
        for pipe in self._tiles:
            producer = pipe.value.defining_op
            assert producer is not None, "a tile crosses where it is computed"
            self._of.setdefault(producer, []).append(pipe)
        self.joined = list(joined.values())
        super().__init__(slice, [*handed.values(), *self._tiles])

    def fills(self, pipe: Channel) -> bool:
        return pipe in self.joined

    def of(self, op: Operation) -> Sequence[Channel]:
        return self._of.get(op, ())

    def takes(self, op: Operation) -> bool:
        return op in self._of

    def execute(
        self, op: Operation, program: AgentProgram[Channel], builder: Builder, at: dict[Channel, Value]
    ) -> None:
        for pipe in self._of[op]:
            if isinstance(pipe, TilePipe):
                program.values[pipe.value] = pipe.read(builder, at)
            elif isinstance(pipe, HandOver):
                pipe.signal(builder, at, False)
            else:
                token = pipe.begin(builder, at, True)
                for op_to_clone in self._fills[op]:
                    builder.insert(op_to_clone.clone(program.values))
                pipe.end(builder, token, at, True)

    # -- the agent that had the operations -----------------------------------------------------------------------------

    def begin(self, work: Block) -> None:
        for pipe in self._tiles:
            _hoist(pipe.value.defining_op)  # type: ignore[arg-type]

    def hands_over(self, op: Operation) -> bool:
        return op in self._of and op not in self._fills

    def hand_over(
        self, op: Operation, rest: Remainder[Channel], at: dict[Channel, Value], runs_once: bool
    ) -> None:
        builder = Builder.after(op)
        builder.location = op.location
        for pipe in self._of[op]:
            if isinstance(pipe, TilePipe):
                pipe.write(builder, at, pipe.value)
            elif isinstance(pipe, HandOver):
                pipe.signal(builder, at, True)

    def end(self, work: Block) -> None:
        """Remove the operations that have moved; the others are preceded by their wait for the stage."""
        for acquire, ops in self._fills.items():
            for op in ops:
                op.erase()
            place: Any = acquire.next
            while not isinstance(place, (tileas.TensorStoreOp, tileas.ProducerCommitOp)) and not place.regions:
                place = place.next
            place.parent.insert_before(acquire.detach(), place)
