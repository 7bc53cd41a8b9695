"""Whether the agents of a function fit together: its warps and registers, pipes with two ends, barriers that everybody
reaches, and no tile that one agent holds in registers and another one uses.

Sources: PTX ISA, "setmaxnreg" (multiples of 8 from 24 to 256, of whole warp groups, on targets with the letter a), and
"bar{.cta}" (sixteen barriers, thread counts that are multiples of a warp's).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.diagnostics import counted
from tileiras.dialects import arith, nvvm, scf
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import (
    INHERITED,
    AgentSwitchOp,
    ConsumeOneOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreatePipelineOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
)
from tileiras.ir import Operation, Region, TensorType, Value
from tileiras.targets import Target
from tileiras.targets.sm import NAMED_BARRIERS, REGISTERS_PER_SM, WARP_SIZE

Finding = tuple[Operation, str]

GROUP = 4
"""Warps of a warp group."""

LEAST_REGISTERS, MOST_REGISTERS, REGISTER_STEP = 24, 256, 8

INCONSISTENT = (
    "inconsistent numWarps in the agent switch, maybe it is called in different agents with different numWarps"
)


def agent_errors(func: Any, gpu: Target) -> Iterator[Finding]:
    """What is wrong with the agents of a function: operations, and texts that start behind their names."""
    budget = func.kernel_spec.num_warps
    taken: int | None = None
    for switch in [op for op in func.walk() if isinstance(op, AgentSwitchOp)]:
        if budget is None:
            yield switch, "stands in a function without a number of warps"
            return
        counts = switch.warps(budget)
        if taken is not None and sum(counts) != taken:
            yield switch, INCONSISTENT
        taken = sum(counts) if taken is None else taken
        yield from _warp_errors(switch, counts, budget)
        yield from _register_errors(switch, counts, budget, gpu)
        yield from _crossing_errors(switch)
        yield from _barrier_errors(switch, counts)
    yield from _pipe_errors(func)


def agent_warps(op: Operation, inherited: int) -> int:
    """The warps that run an operation: those of the nearest agent around it, else the kernel's."""
    region = _agent_of(op)
    if region is None:
        return inherited
    switch: Any = region.parent
    return switch.warps(inherited)[list(switch.regions).index(region)]


def _agent_of(op: Operation) -> Region | None:
    """The region of the nearest agent around an operation; None for the kernel itself."""
    while op.parent_op is not None:
        if isinstance(op.parent_op, AgentSwitchOp):
            return op.parent.parent  # type: ignore[union-attr]
        op = op.parent_op
    return None


def _warp_errors(switch: AgentSwitchOp, counts: list[int], budget: int) -> Iterator[Finding]:
    if sum(counts) > budget:
        yield switch, f"takes {sum(counts)} warps of a kernel that has {budget}"
    taken: dict[int, int] = {}
    for agent, (first, count) in enumerate(zip(switch.first_warps(budget), counts)):
        for warp in range(first, first + count):
            if warp in taken:
                yield switch, f"gives warp {warp} to agents {taken[warp]} and {agent}"
                return
            taken[warp] = agent


def _register_errors(switch: AgentSwitchOp, counts: list[int], budget: int, gpu: Target) -> Iterator[Finding]:
    asked = switch.max_regs.elements if switch.max_regs is not None else []
    if not any(asked):
        return
    if not gpu.has("setmaxnreg"):
        yield switch, f"asks for registers by agent, which {gpu.name} cannot give"
        return
    total = 0
    for agent, (limit, first, count) in enumerate(zip(asked, switch.first_warps(budget), counts)):
        if limit == INHERITED:
            continue
        if limit % REGISTER_STEP or not LEAST_REGISTERS <= limit <= MOST_REGISTERS:
            yield switch, (
                f"asks for {limit} registers for agent {agent}; a limit is a multiple of {REGISTER_STEP} from "
                f"{LEAST_REGISTERS} to {MOST_REGISTERS}"
            )
        if first % GROUP or count % GROUP:
            yield switch, f"limits the registers of agent {agent}, whose warps are not whole groups of {GROUP}"
        total += limit * count * WARP_SIZE
    if total > REGISTERS_PER_SM:
        yield switch, f"asks for {total} registers of {REGISTERS_PER_SM}"


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
    """Named barriers: a number that there is, and as many threads as the agents that come to it have."""
    uses: dict[int, list[tuple[int, Any, int | None]]] = {}
    for agent, region in enumerate(switch.agents):
        for op in _walk(region):
            if isinstance(op, tileas.BarrierOp):
                number, threads = op.id.value, None if op.threads is None else op.threads.value
                waits_for_all = threads is None
            elif isinstance(op, (nvvm.BarrierOp, nvvm.BarrierArriveOp)):
                number, threads = _constant(op.barrierId), _constant(op.numberOfThreads)
                waits_for_all = op.barrierId is None or op.numberOfThreads is None
            else:
                continue
            if waits_for_all:
                yield op, "waits for all warps of the kernel, in an agent of " + counted(counts[agent], "warp")
            elif number is not None and not 0 <= number < NAMED_BARRIERS:
                yield op, f"expects one of barriers 0 to {NAMED_BARRIERS - 1}, but got {number}"
            elif number is not None:
                uses.setdefault(number, []).append((agent, op, threads))
    for number, found in uses.items():
        here = WARP_SIZE * sum(counts[agent] for agent in {agent for agent, _, _ in found})
        for _, op, threads in found:
            if threads is not None and threads != here:
                yield op, f"waits for {threads} threads on barrier {number}, to which agents of {here} come"


def _constant(value: Value | None) -> int | None:
    op = value.defining_op if value is not None else None
    if isinstance(op, arith.ConstantOp):
        return op.value.value
    return op.value.value if op is not None and op.name == "llvm.mlir.constant" else None


# ---- pipes -----------------------------------------------------------------------------------------------------------

_FILL = (ProducerAcquireOp, ProduceOneOp)
_DRAIN = (ConsumerWaitOp, ConsumeOneOp)
_OPENED = {ProducerAcquireOp: (ProducerCommitOp, "acquires a stage that it never commits"),
           ConsumerWaitOp: (ConsumerReleaseOp, "waits for a stage that it never releases")}  # fmt: skip
_CLOSED = {ProducerCommitOp: (ProducerAcquireOp, "commits a stage that it has not acquired"),
           ConsumerReleaseOp: (ConsumerWaitOp, "releases a stage that it has not waited for")}  # fmt: skip


def _pipe_errors(func: Any) -> Iterator[Finding]:
    for pipe in [op for op in func.walk() if isinstance(op, CreatePipelineOp)]:
        fills, drains = (list(_steps(end)) for end in (pipe.producer, pipe.consumer))
        filling = {_agent_of(op) for op in fills if isinstance(op, _FILL)}
        draining = {_agent_of(op) for op in drains if isinstance(op, _DRAIN)}
        if draining and not filling:
            yield pipe, "is a pipe that an agent waits for and none fills"
        if filling and not draining:
            yield pipe, "is a pipe that an agent fills and none drains"
        if len(filling) > 1:
            yield pipe, "is a pipe that two agents fill"
        for op in (*fills, *drains):
            wrong = _unpaired(op)
            if wrong:
                yield op, wrong


def _unpaired(op: Any) -> str:
    partner, text = _OPENED.get(type(op), (None, ""))
    if partner is not None:
        return "" if any(isinstance(user, partner) for user in op.result.users) else text
    partner, text = _CLOSED.get(type(op), (None, ""))
    return "" if partner is None or isinstance(op.token.defining_op, partner) else text


def _steps(end: Value) -> Iterator[Any]:
    """The operations that an end of a pipe goes through."""
    seen = {end}
    pending = [end]
    while pending:
        for user in pending.pop().users:
            if isinstance(user, (*_FILL, *_DRAIN, ProducerCommitOp, ConsumerReleaseOp)):
                yield user
            for value in (*user.results, *_carried(user)):
                if value.type is end.type and value not in seen:
                    seen.add(value)
                    pending.append(value)


def _carried(op: Any) -> tuple[Value, ...]:
    """What a loop passes on to its body."""
    return tuple(op.body.block.arguments) if isinstance(op, scf.ForOp) else ()
