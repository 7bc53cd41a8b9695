"""Waits for events other than a barrier of the block or cluster (a phase of an mbarrier, registers, room in tensor
memory), and the report of a deadlock.

An instruction that may have to wait ends its block and calls `suspend` in the terminator. Between the turns of groups
the scheduler polls every wait for threads that can continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import DEADLOCK
from ..launch.warps import CLUSTER_BARRIER, DEAD, PARKED, WAITING, WarpGroup, instruction_at, last_before
from ..ptx.module import Instruction

if TYPE_CHECKING:
    from ..launch.scheduler import Batch

#: (group, bool per thread: those that wait) -> bool per thread: those that can continue, for which the instruction has
#: now taken effect.
Poll = Callable[[WarpGroup, np.ndarray], np.ndarray]
#: (group, thread) -> the unmet condition, for the report of a deadlock; further lines name the warps that could meet
#: it.
Reason = Callable[[WarpGroup, int], "list[str]"]

#: The state of a warp all of whose threads have exited.
ENDED = "ended"
_MOST_AGENTS = 16
_MOST_LINES = 4


class Wait:
    """``lanes``: bool per thread of ``group``."""

    __slots__ = ("group", "item", "lanes", "poll", "reason")

    def __init__(self, group: WarpGroup, item: Instruction, poll: Poll, reason: Reason) -> None:
        self.group = group
        self.item = item
        self.poll = poll
        self.reason = reason
        self.lanes = np.zeros(group.n, bool)
        self.lanes[group.active()] = True

    def wake(self) -> bool:
        """Resume the threads that can continue; True if there were some."""
        ready = self.poll(self.group, self.lanes) & self.lanes
        if not ready.any():
            return False
        self.lanes = self.lanes & ~ready
        self.group.unpark(ready)
        return True


def suspend(group: WarpGroup, resume: int, item: Instruction, poll: Poll, reason: Reason) -> None:
    """Stop the active threads until ``poll`` lets them continue at block ``resume``."""
    wait = Wait(group, item, poll, reason)
    group.park(resume, np.array([WAITING]))
    if not wait.wake() or wait.lanes.any():
        group.batch.waits.append(wait)


# -- reports ---------------------------------------------------------------------------------------------------------


class Agent(NamedTuple):
    """Warps of one block at one place: their activity, and the conditions that it waits for."""

    block: tuple[int, ...]
    warps: list[int]
    doing: str
    missing: list[str]


def block_id(batch: Batch, cta: int) -> tuple[int, ...]:
    return tuple(int(v) for v in batch.ctaid[:, cta])


def names(warps: Iterable[int]) -> str:
    """`warp 3`, `warps 0-3, 5`."""
    ordered = sorted(set(warps))
    runs: list[list[int]] = []
    for warp in ordered:
        if runs and runs[-1][1] == warp - 1:
            runs[-1][1] = warp
        else:
            runs.append([warp, warp])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"warp{'s' * (len(ordered) > 1)} {text}"


def state_of(batch: Batch, cta: int, warp: int) -> str:
    """Activity of a warp of a block, for the report."""
    for group in batch.groups:
        rows = np.flatnonzero((group.warp_cta == cta) & (group.thread[::32] // 32 == warp))
        if rows.size:
            doing = [doing for doing, _ in _places(group, int(rows[0]))]
            return "; ".join(doing) if doing else ENDED
    return ENDED


def _places(group: WarpGroup, row: int) -> list[tuple[str, int]]:
    """(activity, first of its threads) for the threads of a warp, by place."""
    blocks = group.program.blocks
    result: dict[str, int] = {}
    for thread in range(row * 32, row * 32 + 32):
        pc = group.pc if group.pcs is None else int(group.pcs[thread])
        if pc == DEAD or group.live is not None and not group.live[thread]:
            continue
        if pc == PARKED:
            item = last_before(blocks, int(group.resume[thread]))
            number = int(group.barrier[thread])
            label = {CLUSTER_BARRIER: " (the cluster's barrier)", WAITING: ""}.get(number, f" (barrier {number})")
            result.setdefault(f"waiting at line {item.line}: {item.text}{label}", thread)
        else:
            item = instruction_at(blocks[pc], blocks)
            if blocks[pc].collective is not None:
                result.setdefault(f"waiting at line {item.line}: {item.text} (lanes of the warp are missing)", thread)
            else:
                result.setdefault(f"at line {item.line}: {item.text}", thread)
    return list(result.items())


def agents(batch: Batch, groups: Iterable[WarpGroup]) -> list[Agent]:
    """All warps that have not ended; those of a block with one activity form one agent."""
    result: dict[tuple, Agent] = {}
    for group in groups:
        for row in range(group.n // 32):
            cta, warp = int(group.warp_cta[row]), int(group.thread[row * 32]) // 32
            for doing, thread in _places(group, row):
                missing = _missing(batch, group, thread)
                key = (cta, doing, tuple(missing))
                agent = result.setdefault(key, Agent(block_id(batch, cta), [], doing, missing))
                agent.warps.append(warp)
    return sorted(result.values(), key=lambda agent: (agent.block, min(agent.warps)))


def _missing(batch: Batch, group: WarpGroup, thread: int) -> list[str]:
    if group.pcs is None or group.pcs[thread] != PARKED:
        return []
    number = int(group.barrier[thread])
    if number == WAITING:
        wait = next(wait for wait in batch.waits if wait.group is group and wait.lanes[thread])
        return wait.reason(group, thread)
    cta = int(group.cta[thread])
    if number == CLUSTER_BARRIER:
        return batch.cluster_barriers.missing(cta)
    return batch.barriers.missing(cta, number)


def deadlock(batch: Batch, groups: Iterable[WarpGroup], reason: str = "no warp can go on") -> str:
    """Report of a deadlock: the waiting warps, their places and conditions, and the activity of the warps that could
    meet these."""
    lines = [f"{DEADLOCK}{reason}"]
    every = agents(batch, groups)
    for agent in every[:_MOST_AGENTS]:
        lines.append(f"  block {agent.block} {names(agent.warps)} {agent.doing}")
        lines += [f"    {line}" for line in agent.missing]
    if len(every) > _MOST_AGENTS:
        lines.append(f"  and warps at {len(every) - _MOST_AGENTS} more places")
    return "\n".join(lines)


class Arrivals:
    """History of arrivals: for each barrier the instructions that arrived, and their warps as (block, warp)."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[object, dict[int, tuple[Instruction, set[tuple[int, int]]]]] = {}

    def note(self, key: object, item: Instruction, warps: Iterable[tuple[int, int]]) -> None:
        entry = self.places.setdefault(key, {})
        if id(item) not in entry:
            entry[id(item)] = (item, set())
        entry[id(item)][1].update(warps)

    def describe(self, batch: Batch, key: object, but: Iterable[tuple[int, int]] = ()) -> list[str]:
        """Describe earlier arrivals at a barrier and the present activity of their warps; ``but``: warps that have
        arrived already."""
        lines = []
        present = set(but)
        for item, warps in self.places.get(key, {}).values():
            by_state: dict[tuple[int, str], list[int]] = {}
            for cta, warp in warps - present:
                by_state.setdefault((cta, state_of(batch, cta, warp)), []).append(warp)
            for (cta, state), numbers in sorted(by_state.items()):
                lines.append(
                    f"arrivals came from line {item.line} ({item.text}) by block {block_id(batch, cta)} "
                    f"{names(numbers)}, now {state}"
                )
        if len(lines) > _MOST_LINES:
            lines = [*lines[:_MOST_LINES], f"and from {len(lines) - _MOST_LINES} more places"]
        return lines
