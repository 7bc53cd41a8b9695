"""Materializes the schedule of each loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tileiras.analysis.copied_loads import LOADS, loads_of
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.reasons import Reason
from tileiras.schedule.induction_variable import can_look_ahead
from tileiras.schedule.schedule_analysis import withdraw
from tileiras.targets import CopyAtom, Target, find_copy_atom

from .register_prefetch import prefetch_loads
from .single_buffer import refill_single_buffers
from .software_pipeline import pipeline
from .stream_ring import stream
from .unspecialized import pipeline_in_stages

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext

Rewrite = Callable[[scf.ForOp, Sequence[tileas.Load], int, "CopyAtom | None"], bool]

REWRITES: Mapping[str, Rewrite] = {
    tileas.PLAIN: pipeline, tileas.PREFETCH: prefetch_loads, tileas.WARP_SPECIALIZE: pipeline,
    tileas.UNSPECIALIZE: pipeline_in_stages, tileas.SINGLE_BUFFER: refill_single_buffers,
    tileas.STREAM: stream,
}  # fmt: skip
"""Kind of schedule -> `rewrite(loop, loads, stages, atom)`, which moves the loads that run ahead, in place, and returns
whether it could; `atom` copies asynchronously to shared memory, None if the target has no such instruction.  Loads that
were to go to an agent of their own have gone there, or run ahead in a ring."""


class UnspecializedPipeline(FunctionPass):
    name = "tileas-unspecialized-pipeline"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "schedules"
    establishes = "buffers and asynchronous copies, or loop-carried tiles, for loads that run ahead"
    keeps = "values, token order, other loops"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(map(_is_to_change, func.walk())):
            materialize_loops(func, gpu, context.engine)


def _is_to_change(op: Operation) -> bool:
    """Whether an operation is a loop with a schedule other than serial, or a load that runs ahead."""
    schedule = op.attributes.get(tileas.LOOP_SCHEDULE)
    if schedule is None:
        return tileas.RUNS_AHEAD in op.attributes
    return isinstance(schedule, tileas.LoopScheduleAttr) and schedule.kind != tileas.SERIAL


def materialize_loops(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Rewrite the loops of a function of nv_tileas, in place, as their schedules say.

    A loop that cannot be rewritten in this way is left as it is, and becomes serial with a remark; so does a loop whose
    schedule moves loads but that has no load to move.
    """
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        schedule = loop.attributes[tileas.LOOP_SCHEDULE]
        assert isinstance(schedule, tileas.LoopScheduleAttr)
        loads = [op for op in loads_of(loop) if op.attributes.pop(tileas.RUNS_AHEAD, None) is not None]
        if loads:
            is_complete = _rewrite(loop, loads, schedule, atom)
            reason = Reason("loops.schedule-not-met")
            if not is_complete and schedule.kind == tileas.UNSPECIALIZE:
                schedule = _plain(loop, schedule)
                is_complete = _rewrite(loop, loads, schedule, atom)
                if is_complete and engine is not None:
                    engine.emit(Remark(Reason("loops.not-in-stages", cause=reason), loop.location))
        else:
            is_complete = schedule.kind == tileas.SERIAL or _is_rewritten(loop, schedule.kind)
            reason = Reason("loops.schedule-without-loads", schedule=schedule.kind)
        if not is_complete:
            loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.SERIAL, 1)
            if engine is not None:
                engine.emit(Remark(Reason("loops.not-pipelined", cause=reason), loop.location))


def _rewrite(
    loop: scf.ForOp, loads: Sequence[tileas.Load], schedule: tileas.LoopScheduleAttr, atom: CopyAtom | None
) -> bool:
    rewrite = REWRITES.get(schedule.kind)
    return rewrite is not None and can_look_ahead(loop) and rewrite(loop, loads, schedule.stages, atom)


def _plain(loop: scf.ForOp, schedule: tileas.LoopScheduleAttr) -> tileas.LoopScheduleAttr:
    """Give a loop whose operations cannot overlap the plain schedule."""
    withdraw(loop)
    loop.attributes[tileas.LOOP_SCHEDULE] = plain = tileas.LoopScheduleAttr(tileas.PLAIN, schedule.stages)
    return plain


def _is_rewritten(loop: scf.ForOp, kind: str) -> bool:
    """Whether a loop without a load that is to run ahead is one whose loads do: the pass may have run before."""
    body = loop.body.block.operations
    if kind in (tileas.PLAIN, tileas.UNSPECIALIZE, tileas.SINGLE_BUFFER, tileas.STREAM):
        return any(isinstance(op, tileas.AsyncWaitOp) for op in body)
    if kind == tileas.WARP_SPECIALIZE:
        return any(op.name == names.CONSUMER_WAIT for op in body)
    return any(isinstance(inner, LOADS) for op in body if isinstance(op, scf.IfOp) for inner in op.walk())
