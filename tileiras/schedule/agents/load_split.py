"""A kernel whose loads run ahead becomes two agents: one that loads, and one that does everything else.

    scf.for %i = ... {                     agent that computes                agent that loads
      %a = load ...                          scf.for %i = ... {                 scf.for %i = ... {
      %b = load ...              ->            consumer_wait                      producer_acquire
      %d = dot %a, %b, ...                     dot of the stage                   copies into the stage
      ...                                      consumer_release                   producer_commit
    }                                        }                                  }

Where a dot may be in flight when the next iteration begins, the stage that it reads is released after the next
iteration's dot.  Pipes run on through the loops around: iterators are handed from one run of a loop to the next, and
from a loop to a later one that continues with its ring.
"""

from __future__ import annotations

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.ir import Block, Builder, DenseArrayAttr, IntegerAttr, Region, i32
from tileiras.reasons import Reason
from tileiras.remarks import Remark
from tileiras.schedule.agents.channels import Pipes
from tileiras.schedule.agents.load_consumer import Consumer
from tileiras.schedule.agents.load_plan import LoadPlan, leave_plain, plan_loads
from tileiras.schedule.agents.load_producer import Producer
from tileiras.schedule.agents.slice import CannotSpecialize
from tileiras.schedule.materialize.cluster_tiles import ClusterTiles
from tileiras.schedule.materialize.cluster_trips import most_trips
from tileiras.targets import Target


def specialize(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Splits a function of nv_tileas into agents, in place, if the schedules of its loops require it.

    Where that cannot be, these loops are left to the plain schedule, with a remark.
    """
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp) and _is_to_be_specialized(op)]
    if not loops:
        return
    try:
        plan = plan_loads(func, target, loops)
    except CannotSpecialize as found:
        leave_plain(loops, target)
        if engine is not None:
            engine.emit(Remark(Reason("agents.not-split", cause=found.reason), found.op.location))
        return
    for loop in loops:
        for op in loop.body.block.operations:
            op.attributes.pop(tileas.RUNS_AHEAD, None)
            op.attributes.pop(tileas.STAGES, None)
    _split(func, plan)


def _is_to_be_specialized(loop: scf.ForOp) -> bool:
    schedule = loop.attributes.get(tileas.LOOP_SCHEDULE)
    if not isinstance(schedule, tileas.LoopScheduleAttr) or schedule.kind != tileas.WARP_SPECIALIZE:
        return False
    return any(tileas.RUNS_AHEAD in op.attributes for op in loop.body.block.operations)


def _split(func: aa.FuncOp, plan: LoadPlan) -> None:
    """Makes the agents, which have as many warps as the kernel has."""
    entry = func.body.blocks[0]
    end = entry.last
    assert end is not None
    work = Block()
    for op in entry.operations:
        if op is not end and op not in plan.slice.outside:
            work.append(op.detach())
    location = plan.loops[0].loop.location
    builder = Builder.before(end)
    pipes = Pipes(plan.loops, builder)
    counted = {each.loop: most_trips(func, each, builder) for each in plan.loops}
    most = {loop: trips for loop, trips in counted.items() if trips is not None}
    programs = [work, Producer(plan, pipes, most, ClusterTiles(func)).program(work)]
    Consumer(pipes, most).rewrite(work)
    for block in programs:
        Builder.at_end(block, location).insert(YieldOp.create(()))
    count = {"num_agents_per_group": DenseArrayAttr(i32, [1] * len(programs))}
    regions = [Region([block]) for block in programs]
    builder.location = location
    builder.insert(AgentSwitchOp.create((), (), count, regions, location=location))
    for ring in reversed(pipes.rings):
        for buffer in reversed(ring.buffers):
            builder.insert(tileas.DeallocTensorOp(buffer))
    func.attributes[tileas.BLOCK_WARPS] = IntegerAttr(len(programs) * func.kernel_spec.num_warps, i32)
