"""Further agents, of one warp each, beside an agent that computes: those of dots and of stores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.attributes import CORRECTION, DOT, STORE
from tileiras.ir import Block, Operation, remove_dead_operations
from tileiras.reasons import Reason
from tileiras.resources.agent_registers import RegisterShares
from tileiras.schedule import agents
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target

from .budget import FURTHER_WARPS, give_warps, narrow
from .partition import mark, marked, unmark
from .slice import CannotSpecialize

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class SpecializeMma(FunctionPass):
    name = "tileas-specialize-mma"
    optional = True
    schedules = True
    requires = "ASYNCHRONOUS"
    needs = "agents with their warps; dots into tensor memory with buffers, groups and waits"
    establishes = (
        "an agent that multiplies for the next tile while the last accumulator is stored, or for the next iteration"
        " while threads compute"
    )
    keeps = "values, other functions"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        def stay(cause: Reason) -> Reason:
            return Reason("agents.dots-stay", cause=cause)

        if not any(op.name == names.TENSOR_DOT for op in func.walk()):
            return
        rules = agents.chained_agent.chained_dot_agent, agents.rules.dot.dot_agent
        add_agent(func, gpu, DOT, agents.rules.dot.dots_to_issue, rules, stay, context.engine)


class SpecializeStores(FunctionPass):
    name = "tileas-specialize-stores"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "agents with their warps; stores marked with the atom of a tensor map"
    establishes = "an agent that copies a tile to memory while the next one is computed, in loops over tiles"
    keeps = "values, other functions"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        def stay(cause: Reason) -> Reason:
            return Reason("agents.stores-stay", cause=cause)

        # Of maps that the kernel builds itself the computing warps release the memory.
        if self.tensor_maps == "host":
            rule = agents.rules.store
            add_agent(func, gpu, STORE, rule.stores_of_tiles, (rule.store_agent,), stay, context.engine)


class SpecializeCorrection(FunctionPass):
    name = "tileas-specialize-correction"
    optional = True
    schedules = True
    requires = "SCHEDULED"
    needs = "agents with their warps; an agent that issues dots whose accumulators threads rescale"
    establishes = "an agent that rescales accumulators while threads compute the next operand"
    keeps = "values, other functions"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        def stay(cause: Reason) -> Reason:
            return Reason("agents.corrections-stay", cause=cause)

        rule = agents.rules.correction
        choose = functools.partial(rule.scales_to_move, func=func, target=gpu)
        add_agent(func, gpu, CORRECTION, choose, (rule.correction_agent,), stay, context.engine)


class Further(NamedTuple):
    """An agent that a rule proposes: the function that splits it off, the registers of all agents beside it, a remark
    at an operation, its warps, and its number among the agents, None for the last one."""

    split: Callable[[], AgentSwitchOp]
    shares: RegisterShares
    reason: Reason
    place: Operation
    warps: int = FURTHER_WARPS
    number: int | None = None


Rule = Callable[[AgentSwitchOp, "aa.FuncOp", Target, "list[Any]"], "Further | None"]
"""The agent of marked operations; raises CannotSpecialize; None where they are of another kind."""


def add_agent(
    func: aa.FuncOp, target: Target, kind: str, choose: Callable[[Block], Iterable[Operation]],
    rules: tuple[Rule, ...], refusal: Callable[[Reason], Reason], engine: DiagnosticEngine | None = None,
) -> None:  # fmt: skip
    """Add an agent to the only switch of a function, whose first agent computes, in place; a remark says so, or why
    not: the `refusal` with a cause.  The agent executes the operations in the partition `kind`; unless there are some,
    `choose` gives them, or raises CannotSpecialize.  The first of the rules that has a proposal for them is applied."""
    switches: list[Any] = [op for op in func.body.blocks[0].operations if op.name == names.AGENT_SWITCH]
    if len(switches) != 1:
        return
    (switch,) = switches
    program = switch.agents[0].block
    operations: list[Operation] = []
    try:
        if not marked(program, kind):
            mark(choose(program), kind)
        operations = marked(program, kind)
        if not operations:
            return
        proposals = (rule(switch, func, target, operations) for rule in rules)
        further = next((each for each in proposals if each is not None), None)
    except CannotSpecialize as refused:
        if engine is not None:
            engine.emit(Remark(refusal(refused.reason), refused.op.location))
        return
    finally:
        unmark(operations)
    if further is None:
        return
    location = further.place.location
    counts = switch.warps(func.kernel_spec.num_warps)
    compute, number = counts[0], len(counts) if further.number is None else further.number
    counts.insert(number, further.warps)
    new = further.split()
    if further.warps < compute:
        narrow(new.agents[number], further.warps)
    give_warps(new, func, target, counts, further.shares)
    if engine is not None:
        engine.emit(Remark(further.reason, location))
    remove_dead_operations(func)
