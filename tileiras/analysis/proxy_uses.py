"""Uses of shared memory, and the order that has been established after each (`proxy_order.py`)."""

from __future__ import annotations

from typing import Literal

from tileiras.analysis.stage_numbers import LOST, Number
from tileiras.ir import Block, Operation, Value
from tileiras.support.named_tuple import NamedTuple

Kind = Literal["write", "copy", "read", "wgmma", "tcgen05", "bulk"]
"""Kind of a use: writes of threads, their asynchronous copies, reads of threads; or reads of the asynchronous proxy, by
the kind of wait that completes them."""

FLIGHT, OWN, FENCED, SEEN = 0, 1, 2, 3
"""Order established after a use: none; it is complete for the threads that waited for it; these threads have executed a
fence; a barrier has been passed, but no fence.  A use with both is dropped."""

MOST_GROUPS = 16
"""Committed groups are counted up to this number."""

UNCOMMITTED = -1


class Place(NamedTuple):
    """Bytes of shared memory; if they are a buffer of several `stages`, only stage `stage` of it."""

    start: int
    end: int
    buffer: Value | None = None
    stages: int = 1
    stage: Number = Number(None, 0)

    def meets(self, other: Place) -> bool:
        if self.buffer is not None and self.buffer is other.buffer:
            return not self.stage.is_apart(other.stage, self.stages)
        return self.start < other.end and other.start < self.end


class Use(NamedTuple):
    """A use of shared memory by the threads of `program`: an agent's block, or the function's."""

    kind: Kind
    op: Operation
    place: Place
    program: Block


class Progress(NamedTuple):
    """Progress of a use: its state, and the number of groups committed after its own."""

    state: int
    groups: int = UNCOMMITTED


Uses = dict[Use, Progress]


def within(number: Number, stages: int) -> Number:
    """The number with its offset reduced modulo the stages."""
    if stages == 1:
        return Number(None, 0)
    if number is LOST or number.modulus % stages:
        return LOST
    return Number(number.root, number.offset % stages, stages)


def less(one: Progress, other: Progress) -> Progress:
    """The progress of a use that holds on both of two paths."""
    states = {one.state, other.state}
    state = OWN if states == {FENCED, SEEN} else min(states)
    groups = [each.groups for each in (one, other) if each.state == state or state != FLIGHT]
    return Progress(state, min(groups, default=UNCOMMITTED))


def join(uses: Uses, others: Uses) -> bool:
    """Merge the uses of another path in place; return whether anything has changed."""
    changed = False
    for use, progress in others.items():
        before = uses.get(use)
        after = progress if before is None else less(before, progress)
        if after != before:
            uses[use] = after
            changed = True
    return changed


def missing_order(use: Use, progress: Progress, threads: bool, overwrites: bool) -> str:
    """The error text for a wait, barrier or fence missing between a use and the next one of its bytes, if any."""
    subject = f"'{use.op.name}'"
    verb = "overwrites" if overwrites else "reads"
    if use.kind in ("wgmma", "tcgen05", "bulk"):
        if not overwrites:
            return ""
        if progress.state == FLIGHT:
            return f"overwrites shared memory that {subject} still reads: it is not waited for"
        return f"overwrites shared memory that {subject} has read for other threads: no barrier stands between"
    if threads or use.kind == "read" and not overwrites:
        return ""
    did = "read" if use.kind == "read" else "wrote"
    if progress.state == FLIGHT:
        return f"{verb} shared memory that {subject} still writes: it is not waited for"
    if progress.state == FENCED:
        return f"{verb} shared memory that {subject} {did} for other threads: no barrier stands between"
    return f"{verb} shared memory that {subject} {did} by the generic proxy: no fence stands between"
