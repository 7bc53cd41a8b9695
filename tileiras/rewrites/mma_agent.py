"""An agent that multiplies: whether a kernel gets one, its warp, and the registers of all agents beside it."""

from __future__ import annotations

from tileiras.analysis.agents import least_ctas_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nvvm.tensor_memory import MOST_WORDS
from tileiras.ir import DenseArrayAttr, IntegerAttr, i32
from tileiras.layout.encoding import layout_of
from tileiras.resources.agent_registers import BESIDE_ACCUMULATORS, RegisterShares, register_shares
from tileiras.resources.expected_registers import expected_registers
from tileiras.resources.limits import LEAST_RESERVE
from tileiras.resources.registers import block_registers
from tileiras.schedule.agent_plan import MMA_WARPS
from tileiras.schedule.materialize.mma_agent import separate_products
from tileiras.schedule.mma_agent_plan import plan_mma_agent
from tileiras.schedule.producer_slice import NotSeparable
from tileiras.targets import Target, registers_per_thread
from tileiras.targets.sm import MAX_THREADS_PER_CTA, WARP_SIZE

from .agent_boundary import narrow, service_registers


def specialize_products(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None
) -> bool:
    """Whether the products of a switch, whose first agent computes, leave it for an agent of their own, in place; a
    remark says so, or why those of a loop over tiles stay."""
    try:
        plan = plan_mma_agent(func, switch)
        if plan is None:
            return False
        shares = _shares(switch, func)
    except NotSeparable as found:
        if engine is not None:
            text = f"the products of this kernel stay with the warps that compute: {found.reason}"
            engine.remark(found.op.location, f"warp-specialize: {text}")
        return False
    counts = [*switch.warps(func.kernel_spec.num_warps), MMA_WARPS]
    switch = separate_products(switch, plan)
    narrow(switch.agents[-1], MMA_WARPS)
    switch.attributes["num_warps"] = DenseArrayAttr(i32, counts)
    func.attributes[tileas.BLOCK_WARPS] = IntegerAttr(shares.warps, i32)
    switch.attributes.pop("max_regs", None)
    if shares.compute and target.has("setmaxnreg"):
        switch.attributes["max_regs"] = DenseArrayAttr(i32, [shares.compute, *[shares.service] * len(counts[1:])])
    if engine is not None:
        into = "one accumulator" if plan.loops[0].stages == 1 else "two accumulators in turn"
        text = f"warp-specialize: a warp of its own multiplies, into {into}"
        engine.remark(plan.loops[0].loop.location, text)
    return True


def _shares(switch: AgentSwitchOp, func: aa.FuncOp) -> RegisterShares:
    """Registers with a further warp.  Raises NotSeparable where those that compute get too few."""
    compute, *others = switch.warps(func.kernel_spec.num_warps)
    if WARP_SIZE * (compute + sum(others) + MMA_WARPS) > MAX_THREADS_PER_CTA:
        raise NotSeparable(switch, f"{compute + sum(others) + MMA_WARPS} warps are more than a CTA has")
    tiles, ctas = block_registers(switch.agents[0].block), least_ctas_of(func)
    shares = register_shares(
        tiles, expected_registers(func), compute, sum(others) + MMA_WARPS, service_registers(switch), ctas
    )
    # What takes more than a thread can have spills as much without.
    needed = min(tiles + LEAST_RESERVE, registers_per_thread(WARP_SIZE * compute, ctas))
    if needed > shares.most:
        raise NotSeparable(switch, f"a thread needs {needed} registers and gets {shares.most} beside a further warp")
    loads = [op for outer in switch.agents[0].operations for op in outer.walk() if isinstance(op, tileas.TensorLoadOp)]
    least = BESIDE_ACCUMULATORS + max((_loaded_at_once(op) for op in loads), default=0)
    if least > shares.entry:
        entry = shares.entry
        raise NotSeparable(switch, f"a thread needs {least} registers and begins with {entry} beside a further warp")
    return shares


def _loaded_at_once(load: tileas.TensorLoadOp) -> int:
    """Registers that one instruction of a load writes."""
    tile = load.result.type
    return min(MOST_WORDS, layout_of(tile).registers * tile.element_type.width // 32)
