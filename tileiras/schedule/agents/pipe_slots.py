"""When a loop whose operations have stages and places waits for stages of pipes that another agent fills, and when it
gives them back.

A stage is waited for right before the first operation that reads it.  It is released after the last one; where dots
of warpgroups read it, where the first of their results is used, before which they are waited for, or at the begin of
the next round, where nothing of the iteration uses them.  The iterations that overlap are then parted
(`rotation.py`), pipes and all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tileiras.analysis.dots_in_flight import is_of_warpgroups
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, IntegerAttr, Operation, Value, i32
from tileiras.schedule.dependence_graph import readers_of
from tileiras.schedule.materialize.unspecialized import overlap_iterations

Slot = tuple[int, int]
"""Stage, and place in a round; of two, the later one comes later in the time of one iteration."""

FIRST = -1
"""The place before all that the schedule has placed."""


def overlap_around_pipes(loop: scf.ForOp) -> None:
    """Split the iterations of a loop of the agent that computes, in place, by the stages of its operations
    (`nv_tile.aws.stage`); operations on pipes have no slots yet."""
    block = loop.body.block
    copies: dict[Operation, list[Any]] = {}
    for op in block.operations:
        if isinstance(op, tileas.CopyOp) and (pipe := tileas.pipe_of_buffer(op.buffer)) is not None:
            copies.setdefault(pipe, []).append(op)
    for op in list(block.operations):
        if isinstance(op, tileas.ConsumerWaitOp):
            copies_of_token = copies[op.token.defining_op]  # type: ignore[index]
            waits = min(map(_slot, copies_of_token))
            for each in (op, *_of_iterator(op.iterator)):
                _give(each, waits)
        elif isinstance(op, tileas.ConsumerReleaseOp):
            _give(op, _read_until(copies[op.token.defining_op.token.defining_op], block))  # type: ignore[union-attr]
        elif isinstance(op, scf.IfOp) and (release := _release_in(op)) is not None:
            stage = max(_slot(reader)[0] for reader in _readers(copies[_pipe_of(release, block)], block))
            for each in (op.condition.defining_op, op):
                _give(each, (stage, FIRST))
    overlap_iterations(loop)


def _slot(op: Operation) -> Slot:
    stage, place = (op.attributes[name].value for name in tileas.AWS_SLOT)  # type: ignore[attr-defined]
    return stage, place


def _give(op: Any, slot: Slot) -> None:
    op.attributes.update((name, IntegerAttr(number, i32)) for name, number in zip(tileas.AWS_SLOT, slot))


def _of_iterator(iterator: Value) -> Iterator[Operation]:
    """The operations that derive the number of a stage, or the next iterator, from an iterator."""
    return (user for user in iterator.users if isinstance(user, (tileas.GetStageOp, tileas.IncIterOp)))


def _readers(copies: Iterable[Operation], block: Block) -> Iterator[Operation]:
    """The operations of a block that read the results of copies, themselves or in their regions."""
    for copy in copies:
        for reader in readers_of(copy):
            place = block.find_ancestor_op(reader)
            assert place is not None, "a tile of a block is read there"
            yield place


def _read_until(copies: Iterable[Operation], block: Block) -> Slot:
    """The slot after which a stage is no longer read; `copies` yield its tiles."""
    last = (0, FIRST)
    for reader in _readers(copies, block):
        slot = _slot(reader)
        if is_of_warpgroups(reader):
            users = (block.find_ancestor_op(user) for user in reader.results[0].users)
            uses = [_slot(user) for user in users if user is not None and user is not block.last]
            slot = max(slot, min(uses, default=slot))
        last = max(last, slot)
    return last


def _release_in(branch: scf.IfOp) -> tileas.ConsumerReleaseOp | None:
    """The release of a stage of the previous iteration, under the condition that there was one."""
    first = branch.then_region.block.first
    return first if isinstance(first, tileas.ConsumerReleaseOp) and not branch.results else None


def _pipe_of(release: tileas.ConsumerReleaseOp, block: Block) -> Operation:
    """The pipe of a stage whose token a loop carries to the next iteration."""
    carried: Any = release.token
    wait: Any = block.last.operands[carried.index - 1].defining_op  # type: ignore[union-attr]
    return wait.token.defining_op
