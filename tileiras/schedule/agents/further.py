"""A further agent, of one warp, beside an agent that computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import Block, Operation
from tileiras.named_tuple import NamedTuple
from tileiras.reasons import Reason
from tileiras.remarks import Remark
from tileiras.resources.agent_registers import RegisterShares
from tileiras.targets import Target

from .budget import FURTHER_WARPS, give_warps, narrow
from .partition import mark, marked, unmark
from .slice import CannotSpecialize


class Further(NamedTuple):
    """An agent that a rule proposes: the function that splits it off, the registers of all agents beside it, and a
    remark at an operation."""

    split: Callable[[], AgentSwitchOp]
    shares: RegisterShares
    said: Reason
    place: Operation


Rule = Callable[[AgentSwitchOp, "aa.FuncOp", Target, "list[Any]"], "Further | None"]
"""The agent of marked operations; raises CannotSpecialize; None where they are of another kind."""


def add_agent(
    switch: AgentSwitchOp, func: aa.FuncOp, target: Target, kind: str, choose: Callable[[Block], Iterable[Operation]],
    rules: tuple[Rule, ...], refusal: Callable[[Reason], Reason], engine: DiagnosticEngine | None = None,
) -> bool:  # fmt: skip
    """Whether an agent is added to a switch, whose first agent computes, in place; a remark says so, or why not: the
    `refusal` with a cause.  The agent executes the operations in the partition `kind`; unless there are some, `choose`
    gives them.  The first of the rules that has a proposal for them is applied."""
    program = switch.agents[0].block
    if not marked(program, kind):
        mark(choose(program), kind)
    operations = marked(program, kind)
    if not operations:
        return False
    try:
        proposals = (rule(switch, func, target, operations) for rule in rules)
        further = next((each for each in proposals if each is not None), None)
    except CannotSpecialize as refused:
        if engine is not None:
            engine.emit(Remark(refusal(refused.reason), refused.op.location))
        return False
    finally:
        unmark(operations)
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
