"""Agents: groups of warps of a kernel that execute programs of their own concurrently (warp specialization).

    nv_tileas.async.pipeline.agent_switch num_agents_per_group = [1, 1] num_warps = [1, 4] {
      producer_acquire, fill the stage, producer_commit
      nv_tileas.async.pipeline.yield
    }, {
      consumer_wait, read the stage, consumer_release
      nv_tileas.async.pipeline.yield
    }

Inside an agent's region, the agent takes the role of the CTA: layouts cover its warps, threads are numbered from its
first warp, barriers count its threads.  `pipes.py` has the rings through which agents pass tiles to each other.
"""

from __future__ import annotations

from typing import Any

from tileiras.ir import (
    DenseArrayAttr,
    HasParent,
    MemoryRead,
    MemoryWrite,
    Operation,
    Region,
    ReturnLike,
    Terminator,
    TypedAttribute,
    VerifyError,
    attribute,
    i32,
    variadic_operand,
    variadic_region,
)

from .names import PIPELINE

INHERITED = 0
"""In `num_warps` and `max_regs`: the number that the kernel has."""

_WITH_REGIONS = tuple(PIPELINE + name for name in ("agent_switch", "produce_one", "consume_one"))


class YieldOp(Operation, name=f"{PIPELINE}yield", traits=(ReturnLike, Terminator, HasParent(*_WITH_REGIONS))):
    """Terminates the region of an agent, of `produce_one` or of `consume_one`."""

    values = variadic_operand()
    assembly_format = "attr-dict ($values^ `:` type($values))?"


_COUNTS = TypedAttribute(DenseArrayAttr, i32, "i32 dense array attribute")


class AgentSwitchOp(Operation, name=f"{PIPELINE}agent_switch", traits=(MemoryRead, MemoryWrite)):
    """One region for each agent, group after group.  All agents start together, and the operation completes when all
    have ended.

    `num_warps` and `max_regs` give the warps of each agent and the registers of each of its threads, 0 for the kernel's
    own numbers; `warp_id` gives each agent's first warp.  Without `warp_id` agents occupy consecutive warps.
    """

    num_agents_per_group = attribute(_COUNTS)
    num_warps = attribute(_COUNTS, optional=True)
    warp_id = attribute(_COUNTS, optional=True)
    max_regs = attribute(_COUNTS, optional=True)
    agents = variadic_region("each agent's program")
    assembly_format = (
        "`num_agents_per_group` `=` $num_agents_per_group (`num_warps` `=` $num_warps^)? (`warp_id` `=` $warp_id^)?"
        " (`max_regs` `=` $max_regs^)? attr-dict-with-keyword $agents"
    )

    def verify_op(self) -> None:
        count = sum(self.num_agents_per_group.elements)
        if len(self.agents) != count or any(group < 1 for group in self.num_agents_per_group.elements):
            raise VerifyError(f"expects a region for each of {count} agents, but got {len(self.agents)}")
        for name in ("num_warps", "warp_id", "max_regs"):
            result = getattr(self, name)
            if result is not None and (len(result.elements) != count or any(value < 0 for value in result.elements)):
                raise VerifyError(f"expects '{name}' to have a number for each of {count} agents")
        for agent in self.agents:
            if len(agent.blocks) != 1 or not isinstance(agent.block.last, YieldOp) or agent.block.last.operands:
                raise VerifyError(f"expects regions to end with '{YieldOp.name}' of nothing")
        warps = self.warps(0)
        first = 0
        for group in self.num_agents_per_group.elements:
            sizes = {n for n in warps[first : first + group] if n != INHERITED}
            if len(sizes) > 1:
                raise VerifyError(f"expects the agents of a group to have one number of warps, but got {sorted(sizes)}")
            first += group

    def warps(self, inherited: int) -> list[int]:
        """The number of warps of each agent, in a kernel of `inherited` warps."""
        elements = self.num_warps.elements if self.num_warps is not None else [INHERITED] * len(self.agents)
        return [n or inherited for n in elements]

    def warps_in(self, agent: Region) -> int:
        """The number of warps of the agent with this region, by the kernel spec of the enclosing function."""
        func: Any = self.parent_op
        return self.warps(func.kernel_spec.num_warps)[list(self.agents).index(agent)]

    def first_warps(self, inherited: int) -> list[int]:
        """The number of each agent's first warp."""
        if self.warp_id is not None:
            return list(self.warp_id.elements)
        counts = self.warps(inherited)
        return [sum(counts[:number]) for number in range(len(counts))]
