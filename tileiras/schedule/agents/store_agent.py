"""An agent that stores: whether a kernel gets one, its warp, and the registers and shared memory of all beside it."""

from __future__ import annotations

from typing import Any

from tileiras.analysis.agents import least_ctas_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.layout.arena import ARENA_ALIGNMENT, aligned_to
from tileiras.reasons import Reason
from tileiras.remarks import Remark
from tileiras.resources.agent_registers import RegisterShares
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.shared_memory import MBARRIER_BYTES, buffer_bytes, scratch_bytes, shared_budget
from tileiras.schedule.agents.budget import give_further, shares_with_further
from tileiras.schedule.agents.rules.store import STORE_WARPS, StorePlan, plan_stores
from tileiras.schedule.agents.slice import CannotSpecialize
from tileiras.schedule.agents.store_split import STAGES, separate_stores
from tileiras.schedule.stored_tiles import LEAST_BYTES, as_it_comes, stored_in_boxes, tile_bytes
from tileiras.targets import Target, occupancy
from tileiras.targets.sm import WARP_SIZE


def specialize_stores(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None
) -> bool:
    """Whether the stores of a switch, whose first agent computes, leave it for an agent of their own, in place; a
    remark says so, or why those of a loop over tiles stay."""
    try:
        plan = plan_stores(switch, set(func.body.blocks[0].operations))
        if plan is None:
            return False
        for store in plan.stores:
            _check_tile(store)
        shares = shares_with_further(switch, func, STORE_WARPS)
        _check_room(func, plan, shares, target)
    except CannotSpecialize as found:
        if engine is not None:
            engine.emit(Remark(Reason("agents.stores-stay", cause=found.reason), found.op.location))
        return False
    counts = [*switch.warps(func.kernel_spec.num_warps), STORE_WARPS]
    give_further(separate_stores(switch, plan), func, target, counts, shares)
    if engine is not None:
        said = Reason("agents.stores-specialized", stores=len(plan.stores))
        engine.emit(Remark(said, plan.stores[0].location))
    return True


def _check_tile(store: tileas.TiledStoreOp) -> None:
    if stored_in_boxes(store) is None:
        raise CannotSpecialize(store, "maps.no-boxes")
    if tile_bytes(store) < LEAST_BYTES:
        raise CannotSpecialize(store, "maps.small-tile", bytes=tile_bytes(store), least=LEAST_BYTES)


def _check_room(func: aa.FuncOp, plan: StorePlan, shares: RegisterShares, target: Target) -> None:
    """Raises CannotSpecialize where shared memory does not hold the tiles beside all else, or where with them, and with
    a further warp, an SM would hold fewer CTAs than without."""
    converts = {convert for store in plan.stores if (convert := as_it_comes(store.data)[1]) is not None}
    gone = {convert for convert in converts if all(user in plan.stores for user in convert.results[0].users)}
    budget = shared_budget(func, target)
    stages = sum(STAGES * aligned_to(tile_bytes(store), ARENA_ALIGNMENT) for store in plan.stores)
    before, after = _bytes_taken(func, budget, set()), stages + _bytes_taken(func, budget, gone)
    if after > budget:
        raise CannotSpecialize(plan.stores[0], "agents.store-shared-memory", bytes=after, budget=budget)
    expected, least = expected_registers(func), least_ctas_of(func)
    held = []
    for warps, taken in ((tileas.block_warps(func), before), (shares.warps, after)):
        registers = shares.entry if shares.compute else min(expected, shares.entry)
        held.append(max(least, occupancy(target, WARP_SIZE * warps, registers, taken).ctas))
    if held[1] < held[0]:
        raise CannotSpecialize(plan.stores[0], "agents.fewer-ctas", alone=held[0], beside=held[1])


def _bytes_taken(func: aa.FuncOp, budget: int, gone: set[Any]) -> int:
    """Most bytes that buffers and exchanges of a function take at a time, without those of operations that are
    `gone`."""
    most = living = 0
    for op in func.walk():
        living += buffer_bytes(op)
        most = max(most, living + (0 if op in gone else scratch_bytes(op, budget)))
    return most + MBARRIER_BYTES
