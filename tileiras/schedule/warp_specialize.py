"""Whether the warps of a kernel are specialized: loads that run ahead go to an agent of their own.

Asked for by `pipeline-strategy=warp-specialize`.  Loops get the plain schedule first, which says what runs ahead and by
how many stages; where all of them can be split (`agent_plan.py`), they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.diagnostics import DiagnosticEngine, counted
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.targets import Target

from .agent_plan import leave_plain, plan_agents
from .producer_slice import NotSeparable

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def specialize_loops(func: aa.FuncOp, target: Target, variant: str, engine: DiagnosticEngine | None = None) -> bool:
    """Whether the loops of a function of nv_tileas with a plain schedule leave their loads to an agent, which their
    schedules say from now on; a remark gives the reason where they do not."""
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp) and _is_plain(op)]
    try:
        if not loops:
            raise NotSeparable(func, "no loads run ahead of a loop")
        plan = plan_agents(func, target, loops)
    except NotSeparable as found:
        leave_plain(loops, target)
        if engine is not None:
            engine.remark(
                found.op.location,
                f"warp-specialize ({variant}): the warps of this kernel are not specialized, its loops get the "
                f"unspecialized pipeline: {found.reason}",
            )
        return False
    for each in plan.loops:
        each.loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.WARP_SPECIALIZE, each.stages)
    if engine is not None:
        count = counted(len(plan.loops), "loop")
        engine.remark(func.location, f"warp-specialize ({variant}): the loads of {count} go to an agent of their own")
    return True


def _is_plain(loop: scf.ForOp) -> bool:
    schedule = loop.attributes[tileas.LOOP_SCHEDULE]
    assert isinstance(schedule, tileas.LoopScheduleAttr)
    return schedule.kind == tileas.PLAIN
