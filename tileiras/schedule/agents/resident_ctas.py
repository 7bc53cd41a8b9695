"""How many CTAs an SM may hold with the plain schedule of a kernel, and with additional warps that load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.agents import least_ctas_of
from tileiras.dialects import nv_tileas as tileas
from tileiras.resources.agent_registers import FEWER_REGISTERS, loading_warps
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import threads_of
from tileiras.resources.shared_memory import ring_bytes, scratch_before, scratch_beside, shared_budget
from tileiras.schedule.agents.load_plan import LoadPlan
from tileiras.targets import Target, occupancy, registers_per_thread
from tileiras.targets.sm import WARP_SIZE

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def resident_ctas(func: aa.FuncOp, plan: LoadPlan, target: Target, in_boxes: bool) -> tuple[int, int]:
    """The CTAs that an SM may hold with the plain schedule, and the CTAs that it is expected to hold with another
    agent; at least one.  A thread gets no more registers than allow the SM the CTAs that it has to hold."""
    threads, registers, least = threads_of(func), expected_registers(func), least_ctas_of(func)
    # Rings are freed after their loops, pipes live as long as the kernel.
    rings, budget = plan.beside, shared_budget(func, target)
    for loop, pipes in plan.loops:
        staged = [each for pipe in pipes for each in pipe.loads]
        stages = loop.attributes[tileas.LOOP_SCHEDULE].stages  # type: ignore[attr-defined]
        gone = {leaf.convert for each in staged for leaf in each.leaves} | {each.load for each in staged}
        ring = stages * sum(each.stage_bytes for each in staged)
        scratch = max(scratch_beside(loop, gone), scratch_before(loop, budget))
        rings = max(rings, ring + ring_bytes(loop) + scratch)
    held = plan.beside + sum(pipe.bytes for each in plan.loops for pipe in each.pipes)
    together = threads + WARP_SIZE * loading_warps(func.kernel_spec.num_warps, in_boxes)
    with_agents = registers
    if plan.registers.compute:  # threads start with equal shares; the agent that computes changes its own later
        together, with_agents = WARP_SIZE * plan.registers.warps, plan.registers.entry
    few = round(registers * FEWER_REGISTERS)
    alone, beside = (
        occupancy(target, count, min(each, registers_per_thread(count, least)), shared)
        for count, each, shared in ((threads, few, rings), (together, with_agents, held))
    )
    return max(1, alone.ctas), max(1, beside.ctas)
