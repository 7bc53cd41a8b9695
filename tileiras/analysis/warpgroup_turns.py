"""Turns of the warpgroups of an agent: the arrivals and waits of each at the named barriers that order them.

Warpgroup g of n waits at barrier `id + g`, at which the previous warpgroup arrives when it ends its turn: each of these
barriers counts the threads of two warpgroups.  No warpgroup is more than a turn ahead of another, so one set of
barriers is sufficient for all loops of an agent, with any trip counts.
"""

from __future__ import annotations

from typing import Any, Literal

from tileiras import analysis
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import Block
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.sm import WARP_SIZE, WARPGROUP

TURNS = ("nv_tileas.async.wait_turn", "nv_tileas.async.end_turn")
"""Names of the operations: functions without turns do not load their module."""

THREADS = 2 * WARPGROUP * WARP_SIZE
"""Threads of a barrier of turns: those of the warpgroup that waits, and of the one that ends its turn."""


class Meeting(NamedTuple):
    """An event of a warpgroup at a barrier: its threads arrive, or wait for those of the other warpgroup."""

    kind: Literal["wait", "arrive"]
    barrier: int


def warps_of(program: Block) -> int:
    """The warps of an agent; 1 for the kernel itself, at whose barriers no other agent arrives."""
    switch: Any = program.parent_op
    return switch.warps_in(program.parent) if isinstance(switch, AgentSwitchOp) else 1


def parts_of(program: Block) -> int:
    """The number of warpgroups of an agent that take turns, or hand on stages of a pipe individually; 1 for other
    agents, whose warps are treated as one."""
    apart = any(inner.name in TURNS or _is_by_groups(inner) for op in program.operations for inner in op.walk())
    return max(1, warps_of(program) // WARPGROUP) if apart else 1


def _is_by_groups(op: Any) -> bool:
    """Whether each warpgroup of the agent waits for a stage, and commits or releases it, by itself."""
    if op.name not in (names.CONSUMER_WAIT, names.PRODUCER_ACQUIRE) or op.group is not None:
        return False
    pipe = analysis.pipes.pipe_of(op.token)
    return pipe is not None and pipe.groups is not None


def barriers_of(op: Any, parts: int) -> range:
    """The barriers for the turns of `parts` warpgroups."""
    return range(op.id.value, op.id.value + parts)


def meetings(op: Any, part: int, parts: int) -> list[Meeting]:
    """The events of warpgroup `part` of an agent of `parts` for an operation of `TURNS`."""
    if isinstance(op, tileas.WaitTurnOp):
        own = op.id.value + part
        return [] if op.last is not None and part else [Meeting("arrive", own), Meeting("wait", own)]
    if op.first is not None and part < parts - 1:
        return []
    return [Meeting("arrive", op.id.value + (part + 1) % parts)]
