"""Whether the warps of a kernel are specialized: loads that run ahead go to an agent of their own.

`pipeline-strategy=warp-specialize` requests it, `auto` leaves it to a rule.  Loops get the plain schedule first, which
determines the loads that run ahead and their stages; the kernel is split where all of these loops can be
(`agent_plan.py`).

The rule: specialize where a loop may run three times and loads 8 KiB or more in each iteration, where an SM holds as
many CTAs with the further warps as without them (two suffice where threads only wait for dots into tensor memory, and
one thread copies), and

- one thread copies the tiles, in boxes of tensor maps: no warp waits for the whole CTA, and the threads that compute
  issue no copies; or
- threads copy (`cp.async`), and the threads that compute issue instructions of their own for as long as it takes to
  issue the copies and to compute their addresses.  `mma.sync` and exponentials are such instructions, under which other
  warps copy.  Threads whose dots are `wgmma` or `tcgen05` only wait, and can copy as well as others.

Kernels whose dots are `mma.sync` keep one agent where a thread is likely to need all registers that it can have:
beside another agent it has no more, and the control flow of agents takes some.  Gradients of K and V in tiles of 64x64,
d 128, on RTX PRO 6000, would have 416 bytes of local memory instead of 0, and take 210 us instead of 165 by our
estimate; those of 32x64 488 bytes, and 197 us instead of 164.  So do kernels whose dots are `wgmma` if the agent would
take registers from such threads: ptxas serializes their dots instead of spilling.  The gradient of Q in tiles of
128x128, d 128, 1024 positions, takes 21.6 us on H200 by our estimate, and 24.9 us with the agent.

A loop with single stages (`single_buffer.py`) is specialized where a pipe can have two, and dots leave as well or
threads issue the copies.  Attention over one row in tiles of 64x256, 1024 keys, takes 11.3 us on B200 by our estimate
with two stages of V, and 13.3 us without agents.

By our estimate a multiplication of f16 matrices of 8192, 128x128x64, takes 1,468 us on B200 where an agent copies,
and 1,066 us with the plain schedule; on RTX 5090 it takes 5,646 us with the agent and 6,350 us without
(docs/scheduling.md).
"""

from __future__ import annotations

import contextlib

from tileiras.analysis.agents import least_ctas_of
from tileiras.analysis.dots_in_flight import is_of_tensor_memory, is_of_warpgroups
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.attributes import LOAD
from tileiras.ir import IntegerAttr, i32
from tileiras.layout.accumulators import reads_a_in_tensor_memory
from tileiras.layout.tensor_memory import COLUMNS, LEAST_COLUMNS
from tileiras.reasons import Reason
from tileiras.resources.agent_registers import FEWER_REGISTERS
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import threads_of
from tileiras.schedule.agents.budget import resident_ctas
from tileiras.schedule.agents.issue_cycles import issue_cycles, only_waits
from tileiras.schedule.agents.load_plan import LoadPlan, LoopPlan, leave_plain, pairs_need_dot_agent, plan_loads
from tileiras.schedule.agents.partition import mark
from tileiras.schedule.agents.slice import CannotSpecialize
from tileiras.schedule.induction_variable import trip_count
from tileiras.schedule.materialize.tensor_buffers import columns_taken
from tileiras.schedule.plain import DEFAULT_STAGES
from tileiras.schedule.resource_table import resources
from tileiras.schedule.strategy import Strategy, Variant
from tileiras.targets import Target, registers_per_thread
from tileiras.targets.pipe_protocol import BOXES

LEAST_TRIPS, LEAST_BYTES = 3, 8192
"""The least trip count, where it is known, of a loop that `auto` specializes, and the least bytes of the tiles of an
iteration."""


def specialize_loops(
    func: aa.FuncOp, target: Target, strategy: Strategy, engine: DiagnosticEngine | None = None
) -> bool:
    """Whether the loops of a function of nv_tileas with a plain schedule leave their loads to an agent; their schedules
    then say so.  Where they do not, a remark gives the reason."""
    kinds = {op: _kind(op) for op in func.walk() if isinstance(op, scf.ForOp)}
    single = [loop for loop, kind in kinds.items() if kind == tileas.SINGLE_BUFFER]
    by_threads = [loop for loop in single if not _is_freed_by_commits(loop)]
    loops = [loop for loop, kind in kinds.items() if kind in (tileas.PLAIN, tileas.SINGLE_BUFFER)]
    loops = [loop for loop in loops if loop not in by_threads]
    by_rule, variant = strategy.is_by_rule, strategy.agents
    if not loops and by_rule:
        return False
    try:
        if not loops:
            raise CannotSpecialize(func, "agents.no-loads-ahead")
        for loop in by_threads:
            raise CannotSpecialize(loop, "agents.stages-filled-by-threads")
        plan = plan_loads(func, target, loops)
        # Without agents, all threads of both CTAs would meet in each iteration of a dot in a loop over tiles.
        why = _gain(func, plan, target) if by_rule and not pairs_need_dot_agent(func) else None
        if by_rule:
            plan = _beside_another(func, plan, target)
        if strategy.variant is Variant.HEAVY:
            from tileiras.schedule.agents.load_stages import place_agents

            with_stages = place_agents(func, plan, target, strategy, engine)
            if with_stages is plan and engine is not None and engine.remarks:
                engine.emit(Remark(Reason("agents.heavy-as-light"), func.location))
            plan = with_stages
    except CannotSpecialize as error:
        leave_plain(loops, target, engine)
        if engine is not None:
            reason = Reason("agents.loads-stay", variant=variant, cause=error.reason)
            engine.emit(Remark(reason, error.op.location))
        return False
    for each in plan.loops:
        each.loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.WARP_SPECIALIZE, each.stages)
        mark((staged.load for staged in each.staged), LOAD)
        if each.loop in single:
            _mark_stages(each, engine)
    if engine is not None:
        reason = Reason("agents.loads-specialized", variant=variant, loops=len(plan.loops), cause=why)
        engine.emit(Remark(reason, func.location))
    return True


def _mark_stages(each: LoopPlan, engine: DiagnosticEngine | None) -> None:
    """Record on loads of a loop with single stages where their pipes have more."""
    for pipe in each.pipes:
        if pipe.stages == each.stages:
            continue
        for staged in pipe.loads:
            staged.load.attributes[tileas.STAGES] = IntegerAttr(pipe.stages, i32)
            if engine is not None:
                engine.emit(Remark(Reason("agents.pipe-stages", stages=pipe.stages), staged.load.location))


def _gain(func: aa.FuncOp, plan: LoadPlan, target: Target) -> Reason:
    """The reason for which the rule of `auto` gives a kernel another agent, for a remark.

    Raises CannotSpecialize, with the reason, where it does not.
    """
    why = Reason("agents.one-thread-copies")
    for each in plan.loops:
        loop, trips = each.loop, trip_count(each.loop)
        size = sum(staged.stage_bytes for staged in each.staged)
        if trips is not None and trips < LEAST_TRIPS:
            raise CannotSpecialize(loop, "agents.few-iterations", iterations=trips)
        if _kind(loop) == tileas.SINGLE_BUFFER:
            _check_single(func, each)
        if size < LEAST_BYTES:
            raise CannotSpecialize(loop, "agents.few-bytes", bytes=size, least=LEAST_BYTES)
        if any(pipe.producer != BOXES for pipe in each.pipes):
            copies, others = issue_cycles(loop, each.staged, resources(target), func.kernel_spec.num_warps)
            if others < copies:
                raise CannotSpecialize(loop, "agents.copies-dominate", copies=round(copies), others=round(others))
            why = Reason("agents.copies-are-covered", copies=round(copies), others=round(others))
    _check_registers(func, plan)
    alone, beside = resident_ctas(func, plan, target)
    if beside < (min(alone, 2) if plan.in_boxes and _only_wait(func, plan, target) else alone):
        raise CannotSpecialize(func, "agents.fewer-ctas", alone=alone, beside=beside)
    return why


def _beside_another(func: aa.FuncOp, plan: LoadPlan, target: Target) -> LoadPlan:
    """Return a plan with two CTAs on an SM, recorded as the kernel's occupancy, where `plan` has one with deep rings;
    `plan` where two do not fit or gain nothing.

    One CTA multiplies while the other one begins or ends.  A kernel gains if its threads only wait for dots and it has
    no loop over tiles, in which an SM has one CTA for all of them.  Loads with a latency keep their stages.
    """
    loops, spec = [each.loop for each in plan.loops], func.kernel_spec
    if spec.occupancy or not plan.in_boxes or any(loop.parent_op is not func for loop in loops):
        return plan
    with_latency = any(aa.LATENCY in staged.load.attributes for staged in plan.staged)
    if with_latency or not _only_wait(func, plan, target) or resident_ctas(func, plan, target)[1] > 1:
        return plan
    dots = [op for op in func.walk() if isinstance(op, tileas.DOTS)]
    if 2 * max(LEAST_COLUMNS, 1 << (columns_taken(dots) - 1).bit_length()) > COLUMNS:
        return plan
    func.attributes["kernel_spec"] = spec.with_occupancy(2)
    with contextlib.suppress(CannotSpecialize):
        beside = plan_loads(func, target, loops)
        shallow = any(each.stages < DEFAULT_STAGES for each in beside.loops)
        if not shallow and expected_registers(func) * FEWER_REGISTERS <= beside.registers.entry:
            return beside
    func.attributes["kernel_spec"] = spec
    return plan


def _only_wait(func: aa.FuncOp, plan: LoadPlan, target: Target) -> bool:
    """Whether the threads of all loops of a plan only wait for dots into tensor memory."""
    return all(only_waits(each.loop, each.staged, target, func.kernel_spec.num_warps) for each in plan.loops)


def _check_single(func: aa.FuncOp, each: LoopPlan) -> None:
    """Raise CannotSpecialize unless a loop with single stages gains: a pipe has two, and threads leave copies, or
    dots, to others."""
    if all(pipe.stages == 1 for pipe in each.pipes):
        raise CannotSpecialize(each.loop, "agents.no-second-stage")
    if any(pipe.producer != BOXES for pipe in each.pipes):
        return
    dots = [op for op in each.loop.body.block.operations if isinstance(op, tileas.DOTS)]
    fits = columns_taken(dots) <= COLUMNS // (func.kernel_spec.occupancy or 1)
    if not fits or not any(map(reads_a_in_tensor_memory, dots)):
        raise CannotSpecialize(each.loop, "agents.one-thread-copies-already")


def _check_registers(func: aa.FuncOp, plan: LoadPlan) -> None:
    """Raise CannotSpecialize where a thread likely has no register left: where warps hold the operands of dots, or
    where beside another agent it has fewer registers for those of warpgroups, which ptxas then serializes (C7512)."""
    dots = [op for op in func.walk() if isinstance(op, tileas.DOTS)]
    if not dots or any(map(is_of_tensor_memory, dots)):
        return
    most = registers_per_thread(threads_of(func), least_ctas_of(func))
    if any(map(is_of_warpgroups, dots)) and plan.registers.most >= most:
        return
    if expected_registers(func) >= most:
        raise CannotSpecialize(func, "agents.no-register-left", most=most)


def _is_freed_by_commits(loop: scf.ForOp) -> bool:
    """Whether all dots of a loop are into tensor memory, whose commits signal that a single stage may be filled
    again."""
    return all(is_of_tensor_memory(op) for op in loop.body.block.operations if isinstance(op, tileas.DOTS))


def _kind(loop: scf.ForOp) -> str:
    schedule = loop.attributes[tileas.LOOP_SCHEDULE]
    assert isinstance(schedule, tileas.LoopScheduleAttr)
    return schedule.kind
