"""Random stages and places for the operations of a loop, as attributes in the text."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import IntegerAttr, Operation, i32
from tileiras.layout.encoding import is_in_shared
from tileiras.schedule.dependence_graph import loop_waits

Slots = Sequence[tuple[int, int]]


def loop_of(module: Operation) -> scf.ForOp:
    """The only loop of a module; the kernel for pairs of tile blocks is removed."""
    for func in [op for op in module.walk() if tileas.PAIRS_OF in op.attributes]:
        func.erase()
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    return loop


def slot(loop: scf.ForOp, slots: Slots, stages: int) -> None:
    """Set stages and places of the operations of a loop."""
    loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.UNSPECIALIZE, stages)
    for op, (stage, place) in zip(loop.body.block.operations, slots):
        op.attributes[tileas.AWS_STAGE] = IntegerAttr(stage, i32)
        op.attributes[tileas.AWS_ORDER] = IntegerAttr(place, i32)


def random_slots(loop: scf.ForOp, rng: random.Random, stages: int) -> list[tuple[int, int]]:
    """Random stages and places that respect the dependences of the operations."""
    return slots_from(loop, rng, [rng.randrange(stages) for _ in list(loop.body.block.operations)[:-1]])


def slots_from(loop: scf.ForOp, rng: random.Random, stage: list[int]) -> list[tuple[int, int]]:
    """Stages, at least the given ones, and random places that respect the dependences of the operations."""
    count = len(stage)
    waits = loop_waits(loop)
    # Tiles in shared memory are not buffered from stage to stage.
    together = [(w.source, w.target) for w in waits if w.value is not None and is_in_shared(w.value.type)]
    changed = True
    while changed:
        changed = False
        for wait in waits:
            least = stage[wait.source] - wait.distance
            if stage[wait.target] < least:
                stage[wait.target], changed = least, True
        for pair in together:
            most = max(stage[number] for number in pair)
            changed = changed or any(stage[number] < most for number in pair)
            for number in pair:
                stage[number] = most
    before = {n: set() for n in range(count)}
    for wait in waits:
        if stage[wait.target] + wait.distance == stage[wait.source] and wait.source != wait.target:
            before[wait.target].add(wait.source)
    order: list[int] = []
    while len(order) < count:
        order.append(rng.choice([n for n in range(count) if n not in order and before[n] <= set(order)]))
    return [(stage[n], order.index(n)) for n in range(count)]
