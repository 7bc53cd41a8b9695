"""The schedule of a loop's operations in the IR: for each, a stage and an order, as attributes.

    nv_tile.aws.stage : i32      operations of stage s execute together with the first ones of the iteration s later
    nv_tile.aws.order : i32      the order of the operations within an iteration of the rewritten loop

`publish` writes a placement into the IR, `analysis_of` reads the attributes, generated or written by hand, and rejects
impossible schedules: each operation of the loop has both attributes, no two have the same order, and no operation
precedes one that it depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Attribute, IntegerAttr, Operation, i32
from tileiras.layout.encoding import is_in_shared
from tileiras.support.named_tuple import NamedTuple

from .dependence_graph import LoopGraph, Wait, loop_waits
from .modulo_placement import Placement

MOST_STAGES = 8
"""The most iterations that overlap: each has its share of the code in the prologue and the epilogue."""


class ScheduleAnalysis(NamedTuple):
    """The schedule of a loop's operations, in program order: `slots`, stage and order of each; `waits`, their
    dependences."""

    loop: scf.ForOp
    operations: tuple[Operation, ...]
    slots: tuple[tuple[int, int], ...]
    waits: tuple[Wait, ...]

    @property
    def stages(self) -> int:
        return 1 + max((stage for stage, _ in self.slots), default=0)

    def slot_of(self) -> dict[Operation, tuple[int, int]]:
        return dict(zip(self.operations, self.slots))


def slots_of(graph: LoopGraph, placement: Placement, shift: int = 0) -> tuple[tuple[int, int], ...]:
    """Stage and order of each operation of a graph whose nodes are placed; `shift`: by how much iterations of the
    rewritten loop begin earlier than source iterations."""
    nodes = {node: number for number, node in enumerate(sorted(set(graph.node_of)))}
    starts = [placement.starts[nodes[node]] + shift for node in graph.node_of]
    first = min((start // placement.interval for start in starts), default=0)
    stages = [start // placement.interval - first for start in starts]
    numbers = range(len(starts))
    # Of operations that begin together, those of earlier iterations are first; a node's operations keep their order.
    order = sorted(numbers, key=lambda n: (starts[n] % placement.interval, -stages[n], n))
    places = {number: place for place, number in enumerate(order)}
    return tuple((stages[number], places[number]) for number in numbers)


def publish(graph: LoopGraph, slots: tuple[tuple[int, int], ...]) -> None:
    """Write the schedule of a loop's operations into their attributes."""
    for op, (stage, place) in zip(graph.operations, slots):
        op.attributes[tileas.AWS_STAGE] = IntegerAttr(stage, i32)
        op.attributes[tileas.AWS_ORDER] = IntegerAttr(place, i32)


def is_published(loop: scf.ForOp) -> bool:
    """Whether an operation of a loop has schedule attributes."""
    return any(name in op.attributes for op in loop.body.block.operations for name in tileas.AWS_SLOT)


def slot_attributes(op: Operation | None) -> dict[str, Attribute]:
    """The schedule attributes of an operation of a loop, if it has them."""
    return {} if op is None else {name: op.attributes[name] for name in tileas.AWS_SLOT if name in op.attributes}


def withdraw(loop: scf.ForOp) -> None:
    """Remove the attributes."""
    for op in loop.body.block.operations:
        for name in tileas.AWS_SLOT:
            op.attributes.pop(name, None)


def analysis_of(loop: scf.ForOp) -> ScheduleAnalysis:
    """The schedule that the attributes of a loop's operations give.

    Raises CompileError (located, code 3) if an operation has no attributes, two have the same order, or one precedes an
    operation that it depends on, or passes a tile in shared memory to another stage.
    """
    operations = tuple(loop.body.block.operations)[:-1]
    slots = tuple(_slot(op) for op in operations)
    by_place: dict[int, Operation] = {}
    for op, (_, place) in zip(operations, slots):
        if place in by_place:
            raise _wrong(op, f"has the place {place} in a round of its loop, which '{by_place[place].name}' has")
        by_place[place] = op
    waits = loop_waits(loop)
    if waits is None:
        raise _wrong(loop, "hands a value on over too many iterations for a schedule of stages")
    broken = broken_wait(waits, slots)
    if broken is not None:
        raise _wrong(
            operations[broken.target],
            f"begins before '{operations[broken.source].name}', which it waits for"
            + (f", of {broken.distance} iteration{'s' * (broken.distance > 1)} before" if broken.distance else ""),
        )
    for wait in waits:
        if wait.value is not None and slots[wait.source][0] < slots[wait.target][0] and is_in_shared(wait.value.type):
            message = "uses a tile in shared memory of an earlier stage, which has no buffer of its own"
            raise _wrong(operations[wait.target], message)
    return ScheduleAnalysis(loop, operations, slots, waits)


def broken_wait(waits: Iterable[Wait], slots: Sequence[tuple[int, int]]) -> Wait | None:
    """A dependence that a schedule violates: the target is in an earlier iteration of the rewritten loop than the
    source, or precedes it in the same one.  `slots`: of each operation, by its number."""
    for wait in waits:
        (stage, place), (other_stage, other_place) = slots[wait.source], slots[wait.target]
        rounds = other_stage + wait.distance - stage
        if rounds < 0 or rounds == 0 and place >= other_place and wait.source != wait.target:
            return wait
    return None


def _slot(op: Operation) -> tuple[int, int]:
    items = []
    for name in tileas.AWS_SLOT:
        value = op.attributes.get(name)
        if not isinstance(value, IntegerAttr) or value.type is not i32:
            raise _wrong(op, f"expects a 32-bit integer '{name}', as all operations of its loop")
        items.append(value.value)
    stage, place = items
    if not 0 <= stage < MOST_STAGES:
        raise _wrong(op, f"expects '{tileas.AWS_STAGE}' to be from 0 to {MOST_STAGES - 1}, got {stage}")
    return stage, place


def _wrong(op: Operation, message: str) -> CompileError:
    return CompileError.at_operation(op, message, ExitCode.INVALID_INPUT)
