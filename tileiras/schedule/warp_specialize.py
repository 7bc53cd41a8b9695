"""Whether the warps of a kernel are specialized: loads that run ahead go to an agent of their own.

`pipeline-strategy=warp-specialize` asks for it, `auto` leaves it to a rule.  Loops get the plain schedule first, which
says what runs ahead and by how many stages; where all of them can be split (`agent_plan.py`), they are.

The rule: specialize where a thread copies all tiles in boxes of tensor maps, at least 8 KiB of them an iteration, in
loops that may run three times.  Threads that copy with `cp.async` gain nothing by being others than those that
multiply: by our estimate a product of f16 matrices of 4096, 128x256x64, takes 309 us on H200 so, and 239 us with the
plain schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.diagnostics import DiagnosticEngine, counted
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import BOXES

from .agent_plan import AgentPlan, leave_plain, plan_agents
from .induction_variable import trip_count
from .producer_slice import NotSeparable

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

AUTO = "auto"

LEAST_TRIPS, LEAST_BYTES = 3, 8192
"""Of a loop that `auto` specializes, where its trip count is known, and of the tiles of an iteration."""


def specialize_loops(func: aa.FuncOp, target: Target, variant: str, engine: DiagnosticEngine | None = None) -> bool:
    """Whether the loops of a function of nv_tileas with a plain schedule leave their loads to an agent, which their
    schedules say from now on; a remark gives the reason where they do not."""
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp) and _is_plain(op)]
    if not loops and variant == AUTO:
        return False
    try:
        if not loops:
            raise NotSeparable(func, "no loads run ahead of a loop")
        plan = plan_agents(func, target, loops)
        if variant == AUTO:
            _check_that_it_pays(plan)
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


def _check_that_it_pays(plan: AgentPlan) -> None:
    """Raises NotSeparable, with the reason, where the rule of `auto` leaves a kernel with one agent."""
    for loop, pipes in plan.loops:
        trips, size = trip_count(loop), sum(each.stage_bytes for pipe in pipes for each in pipe.loads)
        if trips is not None and trips < LEAST_TRIPS:
            raise NotSeparable(loop, f"the loop runs {trips} times")
        if size < LEAST_BYTES:
            raise NotSeparable(loop, f"an iteration loads {size} bytes, fewer than {LEAST_BYTES}")
        for pipe in pipes:
            if pipe.producer != BOXES:
                raise NotSeparable(pipe.loads[0].load, "its tile is not copied in boxes of a tensor map")


def _is_plain(loop: scf.ForOp) -> bool:
    schedule = loop.attributes[tileas.LOOP_SCHEDULE]
    assert isinstance(schedule, tileas.LoopScheduleAttr)
    return schedule.kind == tileas.PLAIN
