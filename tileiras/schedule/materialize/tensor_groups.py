"""Groups of products into tensor memory that no iteration of a loop waits for by themselves become one with the next.

    dot ... into %o; commit               dot ... into %o
    dot ... into %s; commit       ->      dot ... into %s; commit
    wait {pending = 0}                    wait {pending = 0}

A commit arrives once all products before it are complete, so the second one says it of both.  The mbarrier of a group
is used again some groups later, where a wait tells its phases apart by their parity: that is right only if the phase
before has been waited for, since nothing else orders an arrival that nobody has seen with a later wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, IntegerAttr, Operation, i32

_GROUPS = (tileas.TensorCommitOp, tileas.TensorWaitOp)


def join_groups(program: Block) -> None:
    """Joins groups in the loops of a program, in place."""
    loops = [op for outer in program.operations for op in outer.walk() if isinstance(op, scf.ForOp)]
    for loop in loops:
        block = loop.body.block
        commits = _of(block, tileas.TensorCommitOp)
        targets = {number % len(commits) for number in _targets(block)} if commits else set()
        last = len(commits) - 1
        joined = [number for number in range(last) if number not in targets]
        if joined and last in targets and _is_all(block) and _reaches_no_further(program, loop):
            _join(loop, commits, joined)


def _targets(block: Block) -> Iterator[int]:
    """The numbers of the groups of an iteration, those before it below zero, that waits are for which say something
    that those before do not."""
    known = None
    for wait, before in _waits(block):
        number = before - 1 - _pending(wait)
        if known is None or number > known:
            yield number
            known = number


def _join(loop: scf.ForOp, commits: list[Operation], joined: list[int]) -> None:
    """Has groups with some numbers end with the next ones, and says so to the waits in a loop and behind it."""
    count = len(commits)
    waits = [(wait, before) for wait, before in _waits(loop.body.block)]
    assert loop.parent is not None
    behind = [(wait, count + before) for wait, before in _waits(loop.parent, loop)]
    for wait, before in (*waits, *((wait, before) for wait, before in behind if _pending(wait) >= before - count)):
        target = before - 1 - _pending(wait)
        while target < count and target % count in joined:
            target += 1
        left = sum(1 for number in range(target + 1, before) if number >= count or number % count not in joined)
        wait.attributes["pending"] = IntegerAttr(left, i32)
    for number in joined:
        commit: Any = commits[number]
        commit.result.replace_all_uses_with(commit.count)
        commit.erase()


def _reaches_no_further(program: Block, loop: scf.ForOp) -> bool:
    """Whether no wait outside of a loop is for a group in it, but for waits behind it in its block that no other groups
    of loops or branches come before."""
    assert loop.parent is not None
    known = {wait for wait, _ in _waits(loop.parent, loop)} | {wait for wait, _ in _waits(loop.body.block)}
    waits = [op for outer in program.operations for op in outer.walk() if isinstance(op, tileas.TensorWaitOp)]
    return all(wait in known or _pending(wait) < _groups_since(wait, loop) for wait in waits)


def _groups_since(wait: Operation, loop: scf.ForOp) -> int:
    """The fewest groups that end between a loop and a wait outside of it; more than any wait leaves where the loop does
    not come before."""
    found = 0
    place: Operation = wait
    while True:
        op = place.prev
        while op is not None:
            if op is loop or op.is_ancestor_of(loop):
                return found + _groups_behind(loop, op)
            found += isinstance(op, tileas.TensorCommitOp)
            op = op.prev
        around = place.parent_op
        if around is None or not isinstance(around, (scf.ForOp, scf.IfOp, scf.WhileOp)):
            return tileas.MOST_COMMITS
        if around.is_ancestor_of(loop) and not isinstance(around, scf.IfOp):
            return found  # in the iteration before
        place = around


def _groups_behind(loop: scf.ForOp, outer: Operation) -> int:
    """The groups that end between a loop and the end of an operation around it."""
    found = 0
    place: Operation = loop
    while place is not outer:
        op = place.next
        while op is not None:
            found += isinstance(op, tileas.TensorCommitOp)
            op = op.next
        place = place.parent_op  # type: ignore[assignment]
    return found


def _waits(block: Block, behind: Operation | None = None) -> Iterator[tuple[tileas.TensorWaitOp, int]]:
    """The waits of a block, behind one of its operations, each with the number of groups that end in the block before
    it; up to the first operation that has groups inside."""
    before = 0
    op = block.first if behind is None else behind.next
    while op is not None:
        if isinstance(op, tileas.TensorWaitOp):
            yield op, before
        elif isinstance(op, tileas.TensorCommitOp):
            before += 1
        elif op.regions and any(isinstance(inner, _GROUPS) for inner in op.walk()):
            return
        op = op.next


def _is_all(block: Block) -> bool:
    """Whether a block has no groups in operations inside."""
    return not any(isinstance(inner, _GROUPS) for op in block.operations if op.regions for inner in op.walk())


def _of(block: Block, kind: type[Operation]) -> list[Operation]:
    return [op for op in block.operations if isinstance(op, kind)]


def _pending(wait: Operation) -> int:
    return wait.pending.value  # type: ignore[attr-defined]
