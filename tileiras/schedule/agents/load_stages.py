"""The heavy variant of warp specialization: the loop of the agent that computes is modulo-scheduled as well.

The light variant leaves the loads of a loop to another agent, with as many stages as the plain schedule, and keeps the
order of the other operations.  Here the loop is placed (`modulo_placement.py`) on the units that remain when another
agent loads, with the registers that `setmaxnreg` gives the agent that computes.  Where overlapping iterations are
shorter, operations get a stage and an order, `nv_tile.aws.stage` and `nv_tile.aws.order`; pipes get as many stages as
the latency of a load requires, as long as an SM holds the same number of CTAs.
"""

from __future__ import annotations

from tileiras.analysis.agents import least_ctas_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.resources.agent_registers import POINTER_COPIES, TILED_COPIES, loading_warps, register_shares
from tileiras.resources.limits import RESERVE
from tileiras.schedule.agents.budget import resident_ctas
from tileiras.schedule.agents.load_plan import LoadPlan, LoopPlan, plan_loads
from tileiras.schedule.agents.slice import CannotSpecialize
from tileiras.schedule.dependence_graph import LoopGraph
from tileiras.schedule.induction_variable import trip_count
from tileiras.schedule.overlap import Choice, Computing, LoopOverlap
from tileiras.schedule.schedule_analysis import publish, withdraw
from tileiras.schedule.strategy import Strategy
from tileiras.schedule.tensor_boxes import ctas_of
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import PAIR, TENSOR_MEMORY

ALL_THERE_ARE = 1 << 16
"""A number of registers for tiles with which an agent requests all that it can have."""


def place_agents(
    func: aa.FuncOp, plan: LoadPlan, target: Target, strategy: Strategy, engine: DiagnosticEngine | None = None
) -> LoadPlan:
    """The plan with the loops of the agent that computes placed; their operations have their stages from now on.

    Where a rule decides about agents, iterations overlap only if an SM has one CTA of one warpgroup.  With more CTAs,
    one already computes under the dots of another: attention of 64 heads over 4,096 positions in tiles of 64x64,
    d 64, three CTAs on an SM of H200, takes 753 us by our estimate, and 799 where iterations overlap.
    """
    for loop in [each.loop for each in plan.loops]:
        (each,) = (each for each in plan.loops if each.loop is loop)
        # CTAs that fill each other's stages come to each operation equally often; dots into tensor memory have
        # accumulators and groups of their own.
        if any(ctas_of(pipe.loads) > 1 or pipe.consumer in (PAIR, TENSOR_MEMORY) for pipe in each.pipes):
            continue
        computing = _computing(func, plan, target)._replace(only_alone=strategy.is_by_rule)
        overlap = LoopOverlap(func, loop, target, plan.atom, strategy, engine, computing)
        choice = overlap.place()
        if choice is not None:
            plan = _Placing(func, plan, target, overlap, computing).place(each, *choice, strategy.stages is not None)
    return plan


class _Placing:
    """The placement of one loop, in a plan with which an SM holds the CTAs of `computing`."""

    def __init__(
        self, func: aa.FuncOp, plan: LoadPlan, target: Target, overlap: LoopOverlap, computing: Computing
    ) -> None:
        self._func = func
        self._plan = plan
        self._target = target
        self._overlap = overlap
        self._computing = computing

    def place(self, each: LoopPlan, graph: LoopGraph, choice: Choice, forced: bool) -> LoadPlan:
        """The plan with a loop placed; the given plan where the stages do not fit."""
        loop = each.loop
        before = dict(loop.attributes)
        overlaps = any(stage for stage, _ in choice.slots)
        if overlaps:
            loop.attributes.pop(tileas.DOTS_IN_FLIGHT, None)
            publish(graph, choice.slots)
        for stages in self._depths(each, choice, forced or _is_asked_for(each)):
            loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.PLAIN, stages)
            ctas = self._with_as_many_ctas()
            if ctas is not None:
                if overlaps:
                    self._overlap.announce(graph, choice)
                return ctas
        withdraw(loop)
        loop.attributes.clear()
        loop.attributes.update(before)
        return self._plan

    def _depths(self, each: LoopPlan, choice: Choice, forced: bool) -> list[int]:
        """Numbers of stages for the pipes of a loop, to be tried in this order: one for each iteration that passes
        while a load is in flight plus those that are held, and the number of the plain schedule."""
        if forced:
            return [each.stages]
        stages_in_use = 1 + any(pipe.held for pipe in each.pipes)
        count = stages_in_use + self._overlap.iterations_ahead(choice.cycles)
        trips = trip_count(each.loop)
        count = count if trips is None else min(count, trips)
        return list(range(max(count, each.stages), each.stages - 1, -1))

    def _with_as_many_ctas(self) -> LoadPlan | None:
        try:
            result = plan_loads(self._func, self._target, [each.loop for each in self._plan.loops])
        except CannotSpecialize:
            return None
        now = _computing(self._func, result, self._target)
        return result if now.ctas >= self._computing.ctas else None


def _is_asked_for(each: LoopPlan) -> bool:
    """Whether a load's hint determines the number of iterations by which it runs ahead."""
    return any(aa.LATENCY in staged.load.attributes for staged in each.staged)


def _computing(func: aa.FuncOp, plan: LoadPlan, target: Target) -> Computing:
    """The CTAs of an SM, and the registers that each thread that computes has for its tiles."""
    warps = func.kernel_spec.num_warps
    pointers = any(isinstance(staged.load, tileas.LoadOp) for staged in plan.staged)
    service = POINTER_COPIES if pointers else TILED_COPIES
    others, least = loading_warps(warps, plan.in_boxes), least_ctas_of(func)
    shares = register_shares(ALL_THERE_ARE, ALL_THERE_ARE, warps, others, service, least)
    _, ctas = resident_ctas(func, plan, target)
    return Computing(ctas, shares.most - RESERVE)
