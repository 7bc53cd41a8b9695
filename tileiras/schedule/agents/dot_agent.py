"""An agent that multiplies: whether a kernel gets one, its warp, and the registers of all agents beside it."""

from __future__ import annotations

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nvvm.tensor_memory import MOST_WORDS
from tileiras.layout.encoding import layout_of
from tileiras.reasons import Reason
from tileiras.remarks import Remark
from tileiras.resources.agent_registers import BESIDE_ACCUMULATORS, RegisterShares
from tileiras.schedule.agents.budget import give_further, shares_with_further
from tileiras.schedule.agents.chained_split import separate_chained_dots
from tileiras.schedule.agents.dot_split import separate_dots
from tileiras.schedule.agents.load_plan import DOT_WARPS
from tileiras.schedule.agents.rules.chained_dots import plan_chained_dots
from tileiras.schedule.agents.rules.dot import plan_dots
from tileiras.schedule.agents.slice import CannotSpecialize
from tileiras.targets import Target


def specialize_dots(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None
) -> bool:
    """Whether the dots of a switch, whose first agent computes, leave it for an agent of their own, in place; a
    remark says so, or why those of a loop over tiles, or with something to compute between them, stay."""
    try:
        chained = plan_chained_dots(func, switch)
        plan = None if chained is not None else plan_dots(func, switch)
        if chained is None and plan is None:
            return False
        shares = _shares(switch, func)
    except CannotSpecialize as found:
        if engine is not None:
            engine.emit(Remark(Reason("agents.dots-stay", cause=found.reason), found.op.location))
        return False
    counts = [*switch.warps(func.kernel_spec.num_warps), DOT_WARPS]
    if chained is not None:
        give_further(separate_chained_dots(switch, chained), func, target, counts, shares)
        if engine is not None:
            engine.emit(Remark(Reason("agents.dots-ahead"), chained.loops[0].loop.location))
        return True
    assert plan is not None, "one of the two"
    switch = separate_dots(switch, plan)
    give_further(switch, func, target, counts, shares)
    if engine is not None:
        said = Reason("agents.dots-specialized", accumulators=plan.loops[0].stages)
        engine.emit(Remark(said, plan.loops[0].loop.location))
    return True


def _shares(switch: AgentSwitchOp, func: aa.FuncOp) -> RegisterShares:
    """Registers with a further warp.  Raises CannotSpecialize where those that compute get too few."""
    shares = shares_with_further(switch, func, DOT_WARPS)
    loads = [op for outer in switch.agents[0].operations for op in outer.walk() if isinstance(op, tileas.TensorLoadOp)]
    least = BESIDE_ACCUMULATORS + max((_loaded_at_once(op) for op in loads), default=0)
    if least > shares.entry:
        raise CannotSpecialize(switch, "agents.too-few-at-entry", needed=least, most=shares.entry)
    return shares


def _loaded_at_once(load: tileas.TensorLoadOp) -> int:
    """Registers that one instruction of a load writes."""
    tile = load.result.type
    return min(MOST_WORDS, layout_of(tile).registers * tile.element_type.width // 32)
