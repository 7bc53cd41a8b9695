"""Loops whose operations have stages (`nv_tile.aws.stage`), for one agent: loads run ahead through rings, operations of
a later stage run beside the first ones of the next iteration.

The ring is created first: an iteration then reads stages of it.  A stage is held until the last of its readers has run,
so a load whose tile is read in a later stage of the schedule has as many stages more.  Then the loop is rotated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.dots_in_flight import is_of_warpgroups, is_only_added_to
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, UnitAttr, Value
from tileiras.schedule.dependence_graph import loop_waits
from tileiras.schedule.schedule_analysis import ScheduleAnalysis, analysis_of, is_published, withdraw
from tileiras.schedule.staging import StagedLoad, staged_load
from tileiras.schedule.tensor_boxes import comes_in_boxes
from tileiras.targets import CopyAtom

from .rotation import rotate
from .software_pipeline import run_ahead


def pipeline_in_stages(
    loop: scf.ForOp, loads: Sequence[tileas.Load], stages: int, atom: CopyAtom | None
) -> bool:
    """Materialize the schedule of a loop, in place; return False, and leave the loop unchanged, if `atom` cannot
    copy one of the loads, or `stages` are too few for loads to run ahead.

    Raises CompileError if the schedule of its operations is impossible.
    """
    if atom is None or not is_published(loop) or any(isinstance(op, scf.ForOp) for op in loop.body.block.operations):
        return False
    analysis = analysis_of(loop)
    staged = [result for each in loads if (result := staged_load(each, loop, atom)) is not None]
    stages_in_use = [held_iterations(each, analysis) for each in staged]
    ahead = stages - max(stages_in_use, default=0)
    if len(staged) < len(loads) or ahead < 1:
        return False
    loop = run_ahead(loop, staged, ahead, stages_in_use, atom)
    around = loop.parent
    overlap_iterations(loop)
    if any(map(comes_in_boxes, staged)):
        mark_fresh(around)
    return True


def overlap_iterations(loop: scf.ForOp) -> None:
    """Split the iterations of a loop, in place, by the stages of its operations, and remove these attributes."""
    slots = slots_in(loop)
    withdraw(loop)
    if any(stage for stage, _ in slots.values()):
        _await_next(rotate(loop, slots, loop_waits))


def mark_fresh(block: Block) -> None:
    """Mark acquisitions of stages before a loop as the first of their stages, where that holds."""
    for op in (inner for outer in block.operations for inner in outer.walk()):
        if isinstance(op, tileas.ProducerAcquireOp):
            count, iterator = 0, op.iterator.defining_op
            while isinstance(iterator, tileas.IncIterOp):
                count, iterator = count + 1, iterator.iterator.defining_op
            pipe: Any = op.token.defining_op
            if isinstance(iterator, tileas.CreateIteratorOp) and count < pipe.num_stages.value:
                op.attributes["fresh"] = UnitAttr()


def _await_next(loop: scf.ForOp) -> None:
    """Has the next round wait for the dots of warpgroups that are in flight at the end of a round: ptxas moves a wait
    up in its block, and the operations before it are then no longer computed under the dot.  Not if A is a carried
    tile: the registers of the next round's A are written before that round begins."""
    for value in loop.yield_op.operands:
        dot = value.defining_op
        if not is_of_warpgroups(dot) or dot.parent_op is not loop or not value.has_one_use or is_only_added_to(dot):
            continue
        if not _is_carried(tileas.instruction_a(dot), loop):
            dot.attributes[tileas.AWAITED_NEXT] = UnitAttr()


def _is_carried(tile: Value, loop: scf.ForOp) -> bool:
    """Whether a tile is loop-carried, perhaps under another shape."""
    while isinstance(tile.defining_op, tileas.VIEW_LIKE):
        tile = tile.defining_op.operands[0]
    return tile in loop.iter_args


def held_iterations(staged: StagedLoad, analysis: ScheduleAnalysis) -> int:
    """How many iterations' stages of a load are not free when the copies of another begin: those until its last reader
    has run, and one more where dots may still be in flight."""
    slots = analysis.slot_of()
    block = analysis.loop.body.block
    last = 0
    readers: list[Operation] = [user for user in staged.load.data.users if user is not block.last]
    # Operations between a tile and a conversion are recomputed at the conversion.
    readers += [leaf.convert for leaf in staged.leaves]
    in_place = {leaf.convert for leaf in staged.leaves if leaf.in_place}
    for op in readers:
        last = max(last, slots[op if op.parent is block else block.find_ancestor_op(op)][0])
        if op in in_place or isinstance(op, (*tileas.VIEW_LIKE, tileas.ConvertLayoutOp)):
            readers += [user for value in op.results for user in value.users if user is not block.last]
    under_way = tileas.DOTS_IN_FLIGHT in analysis.loop.attributes and bool(in_place)
    return 1 + last + under_way


def slots_in(loop: scf.ForOp) -> dict[Operation, tuple[int, int]]:
    """Stage and place of the operations of a loop with rings or pipes: operations that fill and free stages come with
    the first operations of an iteration; an operation without a slot is in the first stage in which its dependences are
    complete, and after the operations that precede it."""
    operations = list(loop.body.block.operations)[:-1]
    stages, places = [0] * len(operations), []
    place = -1
    has_slot = [tileas.AWS_STAGE in op.attributes for op in operations]
    for number, op in enumerate(operations):
        if has_slot[number]:
            stages[number], place = (op.attributes[name].value for name in tileas.AWS_SLOT)  # type: ignore[attr-defined]
        places.append(place)
    waits = loop_waits(loop)
    assert waits is not None, "the waits of the loop were looked at"
    changed = True
    while changed:
        changed = False
        for wait in waits:
            least = stages[wait.source] - wait.distance
            if stages[wait.target] < least:
                assert not has_slot[wait.target], "the schedule keeps the dependences of its operations"
                stages[wait.target], changed = least, True
    return {op: (stage, place) for op, stage, place in zip(operations, stages, places)}
