"""A further agent, of one warp, beside an agent that computes."""

from __future__ import annotations

from collections.abc import Callable

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import Operation
from tileiras.named_tuple import NamedTuple
from tileiras.reasons import Reason
from tileiras.remarks import Remark
from tileiras.resources.agent_registers import RegisterShares
from tileiras.targets import Target

from .budget import FURTHER_WARPS, give_warps, narrow
from .slice import CannotSpecialize


class Further(NamedTuple):
    """An agent that a rule proposes: the function that splits it off, the registers of all agents beside it, and a
    remark at an operation."""

    split: Callable[[], AgentSwitchOp]
    shares: RegisterShares
    said: Reason
    place: Operation


Rule = Callable[[AgentSwitchOp, "aa.FuncOp", Target], "Further | None"]
"""Raises CannotSpecialize; None where a kernel has no operations for such an agent."""


def add_agent(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, rules: tuple[Rule, ...],
    refusal: Callable[[Reason], Reason], engine: DiagnosticEngine | None = None,
) -> bool:  # fmt: skip
    """Whether the first of some rules with a proposal adds an agent to a switch, whose first agent computes, in place;
    a remark says so, or why not: the `refusal` with a cause."""
    try:
        further = next((found for rule in rules if (found := rule(switch, func, target)) is not None), None)
    except CannotSpecialize as refused:
        if engine is not None:
            engine.emit(Remark(refusal(refused.reason), refused.op.location))
        return False
    if further is None:
        return False
    location = further.place.location
    counts = [*switch.warps(func.kernel_spec.num_warps), FURTHER_WARPS]
    new = further.split()
    narrow(new.agents[-1], FURTHER_WARPS)
    give_warps(new, func, target, counts, further.shares)
    if engine is not None:
        engine.emit(Remark(further.said, location))
    return True
