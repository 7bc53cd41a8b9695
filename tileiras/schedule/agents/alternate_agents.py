"""Agents that take alternate tiles: whether a kernel gets a second agent that computes, with which registers and shared
memory."""

from __future__ import annotations

from tileiras.analysis.agents import least_ctas_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.reasons import Reason
from tileiras.remarks import Remark
from tileiras.resources.agent_registers import RegisterShares, register_shares
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import LEAST_RESERVE
from tileiras.resources.registers import LiveRegisters, block_registers
from tileiras.resources.shared_memory import MBARRIER_BYTES, bytes_in_use, shared_budget
from tileiras.schedule.agents.alternate_split import GROUPS, alternate
from tileiras.schedule.agents.budget import give_warps, service_registers
from tileiras.schedule.agents.rules.alternate_tiles import AlternatePlan, plan_alternate_tiles, tile_loops
from tileiras.schedule.agents.slice import CannotSpecialize
from tileiras.targets import Target, occupancy, registers_per_thread
from tileiras.targets.sm import MAX_THREADS_PER_CTA, WARP_SIZE, WARPGROUP


def alternate_tiles(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, by_rule: bool = False,
    engine: DiagnosticEngine | None = None,
) -> AgentSwitchOp | None:  # fmt: skip
    """Has two agents that compute alternate in taking the tiles of a loop, in place, if `nv_tile.aws.ping_pong` on the
    loop requests it, or, with `by_rule`, if there is a gain.  Returns the new switch, None if absent; a remark gives
    the decision and the reason."""
    loops = tile_loops(switch.agents[0].block)
    asked = any(tileas.PING_PONG in loop.attributes for loop in loops)
    if not asked and not (by_rule and loops and _is_by_warpgroups(switch)):
        return None
    outside = set(func.body.blocks[0].operations)
    try:
        plan = plan_alternate_tiles(switch, switch.agents[0], outside)
        shares = _shares(switch, func, plan)
        taken = _bytes_taken(switch, func, target)
        if not asked:
            _check_gain(switch, func, target, plan, shares, taken)
    except CannotSpecialize as found:
        for loop in loops:
            loop.attributes.pop(tileas.PING_PONG, None)
        if engine is not None:
            engine.emit(Remark(Reason("turns.tiles-together", cause=found.reason), found.op.location))
        return None
    location = plan.loop.location
    new = alternate(switch, plan, outside)
    assert new.num_warps is not None, "agents have their warps before"
    compute, *others = new.num_warps.elements
    give_warps(new, func, target, [compute] * GROUPS + others, shares, GROUPS)
    if engine is not None:
        said = Reason("turns.tiles-alternate", agents=GROUPS, warps=func.kernel_spec.num_warps)
        engine.emit(Remark(said, location))
    return new


def _is_by_warpgroups(switch: AgentSwitchOp) -> bool:
    """Whether dots of the first agent are those of warpgroups, which are in flight while threads continue."""
    return any(isinstance(op, tileas.AsyncDotOp) for outer in switch.agents[0].operations for op in outer.walk())


def _check_gain(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, plan: AlternatePlan, shares: RegisterShares,
    taken: tuple[int, int],
) -> None:  # fmt: skip
    """Raises CannotSpecialize where the rule of `auto` leaves all tiles to one agent: if there is one tile, or an SM
    would hold fewer CTAs, and one already computes under the dots of another.  `taken`: bytes of shared memory now, and
    with a second agent."""
    tiles = plan.loop.trip_count
    if tiles is not None and tiles < GROUPS:
        raise CannotSpecialize(plan.loop, "turns.one-tile")
    if func.kernel_spec.num_warps != WARPGROUP:
        raise CannotSpecialize(plan.loop, "turns.many-warps", warps=func.kernel_spec.num_warps)
    expected, least = expected_registers(func), least_ctas_of(func)
    by_agent = switch.max_regs is not None and any(switch.max_regs.elements)
    threads = WARP_SIZE * tileas.block_warps(func)
    entry = registers_per_thread(threads, least) if by_agent else min(expected, registers_per_thread(threads))
    held = max(least, occupancy(target, threads, entry, taken[0]).ctas)
    left = max(least, occupancy(target, WARP_SIZE * shares.warps, shares.entry, taken[1]).ctas)
    if left < held:
        raise CannotSpecialize(switch, "agents.fewer-ctas", alone=held, beside=left)


def _shares(switch: AgentSwitchOp, func: aa.FuncOp, plan: AlternatePlan) -> RegisterShares:
    """The registers of all agents with a second one that computes.  Raises CannotSpecialize where threads get too
    few."""
    compute, *others = switch.warps(func.kernel_spec.num_warps)
    total = GROUPS * compute + sum(others)
    if compute % WARPGROUP:
        raise CannotSpecialize(switch, "turns.part-of-warpgroup", warps=compute)
    if total * WARP_SIZE > MAX_THREADS_PER_CTA:
        raise CannotSpecialize(switch, "agents.too-many-warps", warps=total)
    tiles, expected, ctas = block_registers(switch.agents[0].block), expected_registers(func), least_ctas_of(func)
    shares = register_shares(tiles, expected, GROUPS * compute, sum(others), service_registers(switch), ctas)
    # ptxas computes an epilogue of a few registers at a time, whose tiles as a whole do not fit.
    live = LiveRegisters()
    needed = LEAST_RESERVE + max(live.of_loop(run) for run in plan.runs)
    if needed > shares.most:
        raise CannotSpecialize(switch, "agents.too-few-registers", needed=needed, most=shares.most)
    return shares


def _bytes_taken(switch: AgentSwitchOp, func: aa.FuncOp, target: Target) -> tuple[int, int]:
    """The shared memory that a function takes at most, and with a second agent.  Raises CannotSpecialize where that is
    more than there is."""
    budget = shared_budget(func, target)
    most = bytes_in_use(func.body.blocks[0], budget) + MBARRIER_BYTES
    # The memory of the agents is in use at the same time.
    both = most + bytes_in_use(switch.agents[0].block, budget)
    if both > budget:
        raise CannotSpecialize(switch, "turns.shared-memory", bytes=both, budget=budget)
    return most, both
