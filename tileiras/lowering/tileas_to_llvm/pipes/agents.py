"""Agents: a branch to the program of each warp's agent, with the registers that the agent asks for.

The program of an agent is lowered as that of a CTA: threads count from its first warp, tiles are spread over its warps,
its barriers count its threads, and scratch memory is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tileiras.analysis.agents import least_ctas_of, warpgroup_registers
from tileiras.dialects import llvm, nvvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import INHERITED, AgentSwitchOp
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import Block, IntegerAttr, Value, VerifyError, i32
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.sm import WARP_SIZE, WARPGROUP, entry_registers

from ..emit.emitter import FULL_WARP
from ..emit.function import FunctionLowering
from ..tensor_core.warpgroup_dot import uniform_warp


class Segment(NamedTuple):
    """Neighbouring warps, from `first` up to `end`, of one agent; or of none, in one warpgroup."""

    first: int
    end: int
    program: Block | None


def segments(switch: AgentSwitchOp, compute: int, warps: int) -> list[Segment]:
    """Every warp of a CTA of `warps`, in order; agents have `compute` warps where the switch gives no number."""
    segments_of_agents = sorted(
        Segment(first, first + count, region.block)
        for first, count, region in zip(switch.first_warps(compute), switch.warps(compute), switch.agents)
    )
    result: list[Segment] = []
    at = 0
    for each in (*segments_of_agents, Segment(warps, warps, None)):
        while at < each.first:
            end = min(each.first, (at // WARPGROUP + 1) * WARPGROUP)
            result.append(Segment(at, end, None))
            at = end
        if each.program is not None:
            result.append(each)
        at = each.end
    return result


def agent_switch(op: AgentSwitchOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    emit, func = lowering.emit, lowering.func
    parts = segments(op, func.kernel_spec.num_warps, tileas.block_warps(func))
    limits = warpgroup_registers(op, func)
    # The number is that of one lane: the branch is uniform in the warp, as required by the `.aligned` instructions
    # after
    # it.
    lane, whole = emit.integer(0), emit.integer(31)
    own = emit.lshr(emit.register("tid.x"), 5)
    warp = emit.insert(nvvm.ShflOp(emit.integer(FULL_WARP), own, lane, whole, kind=nvvm.ShflKindAttr("idx")))
    blocks = [lowering.new_block() for _ in parts]
    _dispatch(warp, parts, blocks, lowering)
    exit_block = lowering.new_block()
    for part, block in zip(parts, blocks):
        emit.block = block
        emit.location = op.location
        (limit,) = limits[part.first // WARPGROUP] or {INHERITED}
        _set_registers(limit, lowering)
        if part.program is not None:
            with lowering.agent(part.first, part.end - part.first):
                _program(part.program, lowering)
        emit.location = op.location
        emit.insert(llvm.BrOp([], dest=exit_block))
    emit.block = exit_block


def _dispatch(warp: Value, parts: list[Segment], blocks: list[Block], lowering: FunctionLowering) -> None:
    emit = lowering.emit
    for part, block in zip(parts[:-1], blocks):
        rest = lowering.new_block()
        here = emit.icmp("ult", warp, emit.integer(part.end))
        emit.insert(llvm.CondBrOp(here, [], [], trueDest=block, falseDest=rest))
        emit.block = rest
    emit.insert(llvm.BrOp([], dest=blocks[-1]))


def _program(program: Block, lowering: FunctionLowering) -> None:
    for op in program.operations:
        if op is not program.last:
            lowering.operation(op)


def _set_registers(limit: int, lowering: FunctionLowering) -> None:
    """Adjust the registers of a warpgroup: it releases some, or takes those that other warpgroups release."""
    if limit == INHERITED:
        return
    func = lowering.func
    if not func.kernel_spec.occupancy and tileas.MIN_CTAS not in func.attributes:
        raise VerifyError("sets registers without a number of CTAs for an SM: run 'tileas-assign-launch-bounds' first")
    entry = entry_registers(WARP_SIZE * tileas.block_warps(func), least_ctas_of(func))
    if limit != entry:
        action = nvvm.SetMaxRegisterActionAttr("decrease" if limit < entry else "increase")
        lowering.emit.insert(THREAD["setmaxnreg"](action=action, regCount=IntegerAttr(limit, i32)))


@contextmanager
def elected(lowering: FunctionLowering, condition: Value | None) -> Iterator[None]:
    """Context: the emitted code is executed by the threads for which `condition` holds, by all for None."""
    if condition is None:
        yield
        return
    emit = lowering.emit
    inside, rest = lowering.new_block(), lowering.new_block()
    emit.insert(llvm.CondBrOp(condition, [], [], trueDest=inside, falseDest=rest))
    emit.block = inside
    yield
    emit.insert(llvm.BrOp([], dest=rest))
    emit.block = rest


def copies_for_others(lowering: FunctionLowering) -> Value | None:
    """Whether the CTAs that pipes are between have been launched as a cluster; None if every launch is one.

    Neighbours along x form a cluster only if the launch has requested it; in a cluster of another shape each CTA copies
    for itself, as it does without a cluster.
    """
    blocks, emit = tileas.number_of(lowering.func, tileas.CLUSTER_BLOCKS), lowering.emit
    if blocks is None:
        return None
    along_x = emit.icmp("eq", emit.register("cluster.nctaid.x"), emit.integer(blocks))
    return emit.both(along_x, emit.icmp("eq", emit.register("cluster.nctarank"), emit.integer(blocks)))


def in_first_warp(lowering: FunctionLowering) -> Value | None:
    """Whether this is the agent's first warp, which allocates tensor memory, and one of whose threads issues
    single-thread operations: uniform in the warp, as `.aligned` requires.  None if there is no other warp."""
    if lowering.num_warps == 1:
        return None
    return lowering.emit.icmp("eq", uniform_warp(lowering), lowering.emit.integer(0))


@contextmanager
def by_one_thread(lowering: FunctionLowering, meeting: bool = False) -> Iterator[None]:
    """Context: the emitted code is executed by one thread of the agent, the same one each time; of a CTA without
    agents, by one of its first warp.

    ptxas knows that a thread elected by `elect.sync` is alone, and keeps the operands of copies in boxes in uniform
    registers; for a thread selected by its number it emits a loop over the threads for each copy.
    `meeting`: once all threads of its warp have arrived here (PTX ISA, "elect.sync").
    `meeting`: once all threads of its warp have come here (PTX ISA, "elect.sync").
    """
    emit = lowering.emit
    if lowering.is_one_thread:
        yield
        return

    def elect() -> Value:
        return emit.insert(THREAD["elect"]())

    thread = elect() if meeting else emit.by_thread("elected thread", elect)
    with elected(lowering, in_first_warp(lowering)), elected(lowering, thread):
        yield


@contextmanager
def by_thread_of_pair(lowering: FunctionLowering, pair: bool, meeting: bool = False) -> Iterator[None]:
    """As `by_one_thread`; for a pair of CTAs, by that thread of the CTA whose rank is even (PTX ISA, "CTA Pair")."""
    with by_one_thread(lowering, meeting), elected(lowering, in_first_of_pair(lowering) if pair else None):
        yield


def in_first_of_pair(lowering: FunctionLowering) -> Value:
    """Whether this is the CTA of a pair that issues the dots of both."""
    emit = lowering.emit
    odd = emit.and_(emit.register("cluster.ctarank"), 1)
    return emit.icmp("eq", emit.value(odd), emit.integer(0))
