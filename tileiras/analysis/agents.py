"""Checks of the agents of a function: warps and registers, pipes with two ends, barriers that all expected threads
reach, and no use of a tile that another agent holds in registers.

Sources: PTX ISA, "setmaxnreg" (multiples of 8 from 24 to 256, executed by all warps of a warpgroup, on targets with the
letter a), and "bar{.cta}" (sixteen barriers, thread counts that are multiples of a warp's).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras import analysis
from tileiras.diagnostics import plural
from tileiras.dialects import arith, nvvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import INHERITED, AgentSwitchOp
from tileiras.ir import Operation, Region, TensorType, Value
from tileiras.targets import Target
from tileiras.targets.sm import (
    MAX_THREADS_PER_CTA,
    NAMED_BARRIERS,
    SETMAXNREG,
    WARP_SIZE,
    WARPGROUP,
    register_pool,
)

from .pipes import PipeUses, agent_of, is_multicast, protocol_of
from .pipes.errors import pipe_errors, warpgroup_errors
from .pipes.model import Unchecked, order_errors
from .warpgroup_turns import TURNS, barriers_of

Finding = tuple[Operation, str]

INCONSISTENT = (
    "inconsistent numWarps in the agent switch, maybe it is called in different agents with different numWarps"
)


def agent_errors(func: aa.FuncOp, gpu: Target, unchecked: Unchecked | None = None) -> Iterator[Finding]:
    """The errors in the agents of a function, as operations and messages that follow their names.

    The order of their events (`pipes.model`) is checked if no other error is found; `unchecked` is called if not all
    orders have been checked.
    """
    wrong = False
    for finding in _errors(func, gpu):
        wrong = True
        yield finding
    if not wrong:
        yield from order_errors(func, PipeUses(func), unchecked)


def _errors(func: aa.FuncOp, gpu: Target) -> Iterator[Finding]:
    switches = [op for op in func.walk() if isinstance(op, AgentSwitchOp)]
    compute = func.kernel_spec.num_warps
    if switches and compute is None:
        yield switches[0], "stands in a function without a number of warps"
        return
    budget = tileas.block_warps(func) if compute is not None else 0
    if budget * WARP_SIZE > MAX_THREADS_PER_CTA or compute is not None and budget < compute:
        yield func, f"has {budget} warps in a CTA, and {compute} warps compute a tile"
        return
    uses = PipeUses(func)
    total: int | None = None
    for switch in switches:
        counts = switch.warps(compute)
        if total is not None and sum(counts) != total:
            yield switch, INCONSISTENT
        total = sum(counts) if total is None else total
        if switch.parent_op is not func:
            yield switch, "expects to stand in the function's own block"
        yield from _warp_errors(switch, counts, compute, budget)
        yield from _register_errors(switch, func, gpu)
        yield from _crossing_errors(switch)
        yield from _barrier_errors(switch, counts)
        yield from _warpgroup_errors(switch, uses, compute)
    yield from pipe_errors(func, uses, gpu)
    if any(
        pipe.ctas is not None or protocol_of(pipe).is_of_pair or any(map(is_multicast, users))
        for pipe, users in uses.pipes.items()
    ):
        for pipe, users in uses.pipes.items():
            yield from analysis.pipes.clusters.cluster_errors(pipe, users, gpu)


def agent_warps(op: Operation, func: aa.FuncOp) -> int:
    """The warps that run an operation: those of the nearest agent around it, else the CTA's."""
    region = agent_of(op)
    if region is None:
        return tileas.block_warps(func)
    switch: Any = region.parent
    return switch.warps_in(region)


def _warp_errors(switch: AgentSwitchOp, counts: list[int], compute: int, budget: int) -> Iterator[Finding]:
    if sum(counts) > budget:
        yield switch, f"takes {sum(counts)} warps of a kernel that has {budget}"
        return
    agent_by_warp: dict[int, int] = {}
    for agent, (first, count) in enumerate(zip(switch.first_warps(compute), counts)):
        if first + count > budget:
            yield switch, f"gives agent {agent} warps {first} to {first + count - 1} of a kernel that has {budget}"
            return
        for warp in range(first, first + count):
            if warp in agent_by_warp:
                yield switch, f"gives warp {warp} to agents {agent_by_warp[warp]} and {agent}"
                return
            agent_by_warp[warp] = agent


def _warpgroup_errors(switch: AgentSwitchOp, uses: PipeUses, compute: int) -> Iterator[Finding]:
    counts, firsts = switch.warps(compute), switch.first_warps(compute)
    for pipe in uses.pipes:
        for region in uses.draining(pipe):
            if region is not None and region.parent is switch:
                agent = list(switch.regions).index(region)
                yield from warpgroup_errors(pipe, agent, firsts[agent], counts[agent])


# ---- registers -------------------------------------------------------------------------------------------------------


def warpgroup_registers(switch: AgentSwitchOp, func: aa.FuncOp) -> list[set[int]]:
    """For each warpgroup of a CTA, the limits of the agents with warps in it; warps of no agent follow the others of
    their warpgroup."""
    compute = func.kernel_spec.num_warps
    elements = switch.max_regs.elements if switch.max_regs is not None else [INHERITED] * len(switch.agents)
    result: list[set[int]] = [set() for _ in range(-(-tileas.block_warps(func) // WARPGROUP))]
    for limit, first, count in zip(elements, switch.first_warps(compute), switch.warps(compute)):
        for group in range(first // WARPGROUP, -(-(first + count) // WARPGROUP)):
            result[group].add(limit)
    return result


def least_ctas_of(func: aa.FuncOp) -> int:
    """The least number of CTAs that an SM has to hold, which bounds the initial registers of threads."""
    entry = func.attributes.get(tileas.MIN_CTAS)
    return func.kernel_spec.occupancy or 1 if entry is None else entry.value  # type: ignore[attr-defined]


def _register_errors(switch: AgentSwitchOp, func: aa.FuncOp, gpu: Target) -> Iterator[Finding]:
    elements = switch.max_regs.elements if switch.max_regs is not None else []
    if not any(elements):
        return
    if not gpu.has("setmaxnreg"):
        yield switch, f"asks for registers by agent, which {gpu.name} cannot give"
        return
    for agent, limit in enumerate(elements):
        if limit != INHERITED and limit not in SETMAXNREG:
            yield switch, (
                f"asks for {limit} registers for agent {agent}; a limit is a multiple of {SETMAXNREG.step} from "
                f"{SETMAXNREG.start} to {SETMAXNREG[-1]}"
            )
    warps = tileas.block_warps(func)
    if warps % WARPGROUP:
        yield switch, f"limits registers in a CTA of {warps} warps, which are not whole warpgroups of {WARPGROUP}"
        return
    groups = warpgroup_registers(switch, func)
    for number, limits in enumerate(groups):
        if len(limits) > 1:
            yield switch, (
                f"gives warps {WARPGROUP * number} to {WARPGROUP * number + WARPGROUP - 1}, a warpgroup, different "
                f"numbers of registers: {sorted(limits)}"
            )
    pool = register_pool(WARP_SIZE * warps, least_ctas_of(func))
    inherited = pool // (WARP_SIZE * warps)
    total = sum(WARP_SIZE * WARPGROUP * (max(limits, default=INHERITED) or inherited) for limits in groups)
    if total > pool:
        yield switch, f"asks for {total} registers of {pool}; threads start with {inherited} each"
    after = [op for op in _following(switch) if not isinstance(op, (aa.ReturnOp, tileas.DeallocTensorOp))]
    if after:
        yield after[0], "stands behind agents that have set their own numbers of registers"


def _following(op: Operation) -> Iterator[Operation]:
    current = op.next
    while current is not None:
        yield current
        current = current.next


# ---- values ----------------------------------------------------------------------------------------------------------


def _crossing_errors(switch: AgentSwitchOp) -> Iterator[Finding]:
    for region in switch.agents:
        for op in _walk(region):
            for value in op.operands:
                if isinstance(value.type, TensorType) and not _inside(value, region):
                    yield op, f"uses a tile that another agent has in registers: {value.type}"
                    break


def _walk(region: Region) -> Iterator[Any]:
    for op in region.operations:
        yield from op.walk()


def _inside(value: Value, region: Region) -> bool:
    block = value.parent_block
    while block is not None and block.parent is not region:
        block = block.parent_op.parent if block.parent_op is not None else None
    return block is not None


# ---- barriers --------------------------------------------------------------------------------------------------------


def _barrier_errors(switch: AgentSwitchOp, counts: list[int]) -> Iterator[Finding]:
    """The errors in named barriers: a number out of range, or a thread count other than that of the agents at it."""
    uses: dict[int, list[tuple[int, Any, int | None]]] = {}
    turns: dict[int, Any] = {}
    for agent, region in enumerate(switch.agents):
        for op in _walk(region):
            if op.name in TURNS:
                parts = counts[agent] // WARPGROUP
                if parts < 2 or counts[agent] % WARPGROUP:
                    yield op, f"expects an agent of two or more warpgroups, but got {plural(counts[agent], 'warp')}"
                elif barriers_of(op, parts)[-1] >= NAMED_BARRIERS:
                    yield op, f"takes barriers {barriers_of(op, parts)[0]} to {barriers_of(op, parts)[-1]}"
                turns.update(dict.fromkeys(barriers_of(op, parts), op))
                continue
            if isinstance(op, tileas.BarrierOp):
                number, threads = op.id.value, None if op.threads is None else op.threads.value
                waits_for_all = threads is None
            elif isinstance(op, (nvvm.BarrierOp, nvvm.BarrierArriveOp)):
                number, threads = _constant(op.barrierId), _constant(op.numberOfThreads)
                waits_for_all = op.barrierId is None or op.numberOfThreads is None
            else:
                continue
            if waits_for_all:
                yield op, "waits for all warps of the kernel, in an agent of " + plural(counts[agent], "warp")
            elif number is not None and not 0 <= number < NAMED_BARRIERS:
                yield op, f"expects one of barriers 0 to {NAMED_BARRIERS - 1}, but got {number}"
            elif number is not None:
                uses.setdefault(number, []).append((agent, op, threads))
    for number, result in uses.items():
        if number in turns:
            yield turns[number], f"orders warpgroups at barrier {number}, which others wait at"
        here = WARP_SIZE * sum(counts[agent] for agent in {agent for agent, _, _ in result})
        for _, op, threads in result:
            if threads is not None and threads != here:
                yield op, f"waits for {threads} threads on barrier {number}, to which agents of {here} come"


def _constant(value: Value | None) -> int | None:
    op = value.defining_op if value is not None else None
    if isinstance(op, arith.ConstantOp):
        return op.value.value
    return op.value.value if op is not None and op.name == "llvm.mlir.constant" else None
