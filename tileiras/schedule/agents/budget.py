"""The warps, registers and shared memory of agents, and the CTAs of an SM that follow from them.

An agent of fewer warps than the kernel has is narrowed: its threads hold the elements of the other warps in further
registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tileiras.analysis.agents import least_ctas_of
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import DenseArrayAttr, IntegerAttr, Operation, Region, TensorType, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import encode, layout_of, with_layout
from tileiras.reasons import Reason
from tileiras.resources.agent_registers import (
    FEWER_REGISTERS,
    POINTER_COPIES,
    TILED_COPIES,
    RegisterShares,
    loading_warps,
    register_shares,
)
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import LEAST_RESERVE, threads_of
from tileiras.resources.register_bounds import least_of_reads
from tileiras.resources.registers import block_registers
from tileiras.resources.shared_memory import (
    MBARRIER_BYTES,
    bytes_in_use,
    ring_bytes,
    scratch_before,
    scratch_beside,
    shared_budget,
)
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target, occupancy, registers_per_thread
from tileiras.targets.sm import MAX_THREADS_PER_CTA, REGISTERS_PER_THREAD, WARP_SIZE, entry_registers

from .slice import CannotSpecialize

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

    from .load_plan import LoadPlan

FURTHER_WARPS = 1
"""The warps of an agent that issues dots, or stores: one thread issues all of them."""

RUNS = (tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp)
"""Copies by all threads of an agent."""


class ResolveAgentBoundary(FunctionPass):
    name = "tileas-resolve-agent-boundary"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "agents with as many warps as the kernel has"
    establishes = "warps and registers of agents, layouts of operations of agents with fewer warps"
    keeps = "operations, other functions"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        for op in func.body.blocks[0].operations:
            if isinstance(op, AgentSwitchOp):
                resolve_boundary(op, func, gpu, context.engine)


def resolve_boundary(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None
) -> None:
    """Give the agents of a switch, whose first one computes, their warps and registers, in place; a remark says how
    many.

    Leaves a switch unchanged that already has the numbers of warps.
    """
    if switch.num_warps is not None:
        return
    compute = func.kernel_spec.num_warps
    counts = [compute, *(loading_warps(compute, not _has(region, RUNS)) for region in switch.agents[1:])]
    for region, warps in zip(switch.agents[1:], counts[1:]):
        if warps < compute:
            narrow(region, warps)
    tiles, estimate = block_registers(switch.agents[0].block), expected_registers(func)
    others, service = sum(counts[1:]), service_registers(switch)
    shares = register_shares(tiles, estimate, compute, others, service, least_ctas_of(func))
    # ptxas 13.5 holds single instructions to the registers that threads start with, without those that `setmaxnreg`
    # adds (C7602).
    least_registers = min(least_of_reads(func.walk()), REGISTERS_PER_THREAD)
    while (ctas := least_ctas_of(func)) > 1 and entry_registers(WARP_SIZE * shares.warps, ctas) < least_registers:
        func.attributes["kernel_spec"] = func.kernel_spec.with_occupancy(ctas - 1)
        if engine is not None:
            cause = Reason("kernel.registers-of-instruction", registers=least_registers)
            engine.emit(Remark(Reason("kernel.fewer-ctas", ctas=ctas - 1, asked=ctas, cause=cause), func.location))
        shares = register_shares(tiles, estimate, compute, others, service, ctas - 1)
    give_warps(switch, func, target, counts, shares)
    if engine is not None:
        pipes = sum(op.name == names.CREATE_PIPELINE for op in func.body.blocks[0].operations)
        reason = Reason("agents.warps", compute=compute, load=sum(counts[1:]), pipes=pipes)
        engine.emit(Remark(reason, switch.location))


def further_shares(
    switch: AgentSwitchOp, func: aa.FuncOp, compute: int = 0, others: int = 0, least_registers: int | None = None,
    beside: tuple[int, int] = (0, 0),
) -> RegisterShares:  # fmt: skip
    """The registers of a switch with further warps that `compute`, with `others`, and with those of an agent `beside`
    the first one, which needs so many registers.  Raises CannotSpecialize if the threads that compute get less than
    `least_registers`, by default the registers of the first agent's tiles."""
    before, *service = switch.warps(func.kernel_spec.num_warps)
    warps = before + compute, sum(service) + others
    if WARP_SIZE * (sum(warps) + beside[0]) > MAX_THREADS_PER_CTA:
        raise CannotSpecialize(switch, "agents.too-many-warps", warps=sum(warps) + beside[0])
    tiles, ctas = block_registers(switch.agents[0].block), least_ctas_of(func)
    shares = register_shares(tiles, expected_registers(func), *warps, service_registers(switch), ctas, beside)
    if least_registers is None:
        # Values beyond the registers that a thread can have would spill without further warps as well.
        least_registers = min(tiles + LEAST_RESERVE, registers_per_thread(WARP_SIZE * before, ctas))
    if least_registers > shares.most:
        raise CannotSpecialize(switch, "agents.too-few-registers", needed=least_registers, most=shares.most)
    return shares


class Room(NamedTuple):
    """The warps of a CTA, the registers of a thread at its start, and the bytes of shared memory."""

    warps: int
    registers: int
    bytes: int


def room_of(func: aa.FuncOp, target: Target) -> Room:
    """That of a function as it is: agents that set their registers start with equal shares of all."""
    warps, least = tileas.block_warps(func), least_ctas_of(func)
    switches = [op for op in func.body.blocks[0].operations if isinstance(op, AgentSwitchOp)]
    by_agent = any(each.max_regs is not None and any(each.max_regs.elements) for each in switches)
    registers = registers_per_thread(WARP_SIZE * warps, least if by_agent else 1)
    bytes = bytes_in_use(func.body.blocks[0], shared_budget(func, target)) + MBARRIER_BYTES
    return Room(warps, registers if by_agent else min(expected_registers(func), registers), bytes)


def ctas_of(func: aa.FuncOp, target: Target) -> int:
    """The CTAs that an SM is expected to hold of a function, at least those that it has to hold."""
    room = room_of(func, target)
    ctas = occupancy(target, WARP_SIZE * room.warps, room.registers, room.bytes).ctas
    return max(least_ctas_of(func), ctas)


def check_ctas(place: Operation, func: aa.FuncOp, target: Target, alone: Room, beside: Room) -> None:
    """Raise CannotSpecialize if an SM holds fewer CTAs `beside` a further agent than `alone`."""
    least = least_ctas_of(func)
    before, after = (
        max(least, occupancy(target, WARP_SIZE * each.warps, each.registers, each.bytes).ctas)
        for each in (alone, beside)
    )
    if after < before:
        raise CannotSpecialize(place, "agents.fewer-ctas", alone=before, beside=after)


def give_warps(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, counts: list[int], shares: RegisterShares, compute: int = 1
) -> None:
    """Write the warps and registers of the agents of a switch; the first `compute` of them compute, with
    `shares.beside` one more for them."""
    switch.attributes["num_warps"] = DenseArrayAttr(i32, counts)
    func.attributes[tileas.BLOCK_WARPS] = IntegerAttr(shares.warps, i32)
    switch.attributes.pop("max_regs", None)
    if shares.compute and target.has("setmaxnreg"):
        computing = [shares.compute] * compute + [shares.beside] * (shares.beside > 0)
        registers = computing + [shares.service] * (len(counts) - len(computing))
        switch.attributes["max_regs"] = DenseArrayAttr(i32, registers)


def resident_ctas(func: aa.FuncOp, plan: LoadPlan, target: Target) -> tuple[int, int]:
    """The CTAs that an SM may hold with the plain schedule, and the CTAs that it is expected to hold with another
    agent; at least one.  A thread gets no more registers than allow the SM the CTAs that it has to hold."""
    threads, registers, least = threads_of(func), expected_registers(func), least_ctas_of(func)
    # Rings are freed after their loops, pipes live as long as the kernel.
    rings, budget = plan.beside, shared_budget(func, target)
    for part in plan.loops:
        loop, staged = part.loop, part.staged
        stages = loop.attributes[tileas.LOOP_SCHEDULE].stages  # type: ignore[attr-defined]
        replaced_ops = {leaf.convert for each in staged for leaf in each.leaves} | {each.load for each in staged}
        ring = stages * sum(each.stage_bytes for each in staged)
        scratch = max(scratch_beside(loop, replaced_ops), scratch_before(loop, budget))
        rings = max(rings, ring + ring_bytes(loop) + scratch)
    pipe_bytes = plan.beside + sum(pipe.bytes for each in plan.loops for pipe in each.pipes)
    together = threads + WARP_SIZE * loading_warps(func.kernel_spec.num_warps, plan.in_boxes)
    with_agents = registers
    if plan.registers.compute:  # threads start with equal shares; the agent that computes changes its own later
        together, with_agents = WARP_SIZE * plan.registers.warps, plan.registers.entry
    few = round(registers * FEWER_REGISTERS)
    alone, beside = (
        occupancy(target, count, min(each, registers_per_thread(count, least)), shared)
        for count, each, shared in ((threads, few, rings), (together, with_agents, pipe_bytes))
    )
    return max(1, alone.ctas), max(1, beside.ctas)


def service_registers(switch: AgentSwitchOp) -> int:
    """Registers of a thread of the agents of a switch that do not compute."""
    pointers = any(_has(region, (tileas.AsyncLoadOp,)) for region in switch.agents[1:])
    return POINTER_COPIES if pointers else TILED_COPIES


def _operations(region: Region) -> Iterator[Operation]:
    for op in region.operations:
        yield from op.walk()


def _has(region: Region, kinds: tuple[type[Operation], ...]) -> bool:
    return any(isinstance(op, kinds) for op in _operations(region))


def narrow(region: Region, warps: int) -> None:
    """Distribute the tiles of the kernel's warps over `warps` warps."""
    for op in _operations(region):
        values: list[Value] = [*op.results]
        for inner in op.regions:
            for block in inner.blocks:
                values += block.arguments
        for value in values:
            if isinstance(value.type, TensorType) and isinstance(value.type.encoding, tileas.LinearLayoutAttr):
                value.type = with_layout(value.type, _narrow(layout_of(value.type), warps))
        if isinstance(op, tileas.AsyncTiledLoadOp):
            _narrow_copy(op, warps)


def _narrow_copy(op: Any, warps: int) -> None:
    layout = LinearLayout.from_coordinates(
        {dim: getattr(op.layout, dim) for dim in ("register", "lane", "warp")}, op.view.type.shape
    )
    op.attributes["layout"] = encode(_narrow(layout, warps))


def _narrow(layout: LinearLayout, warps: int) -> LinearLayout:
    """The layout with the bits of a warp's number beyond `warps` warps among those of registers; copies of elements
    that only other warps would have are left out."""
    bits = (warps - 1).bit_length()
    bases = layout.bases("warp")
    warp_bits = tuple(basis for basis in bases[bits:] if basis)
    registers = (*layout.bases("register"), *warp_bits)
    return layout.with_bases("register", registers).with_bases("warp", bases[:bits])
