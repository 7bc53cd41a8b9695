"""Groups of dots into tensor memory, each ended by a commit: ensures that threads wait for every one of them.

The mbarrier of a group is used again some groups later, where a wait distinguishes its phases by their parity.  That is
right only if the phase before has been waited for: a wait for a later group, which has another mbarrier, shows that the
dots before are complete, and not that their own arrival has been performed.  Where the first wait after a group
is for a later one, the group becomes one with the next of its block, whose commit arrives once the dots of both are
complete:

    dot ... into %o; commit               dot ... into %o
    dot ... into %s; commit       ->      dot ... into %s; commit
    wait {pending = 0}                    wait {pending = 0}

Where loops or branches with groups come first, a wait for the group itself precedes the one for the later group:

    dot ... into %o; commit               dot ... into %o; commit
    for ... {                             for ... {
      dot ... into %s; commit     ->        dot ... into %s; commit
      wait {pending = 0}                    wait {pending = 1}; wait {pending = 0}
    }                                     }
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, IntegerAttr, Operation, i32

MOST_PENDING = tileas.MOST_COMMITS // 2
"""The most groups that a wait leaves in flight."""


def await_groups(program: Block) -> None:
    """Join groups of a program, and add waits, in place, until every group is waited for on each path with further
    groups after it."""
    commits = [op for outer in program.operations for op in outer.walk() if isinstance(op, tileas.TensorCommitOp)]
    for commit in commits:
        if _is_followed(commit) and not _is_awaited(commit, program):
            _join(commit, program)
    for commit in commits:
        if commit.parent is not None and not _is_awaited(commit, program):
            _add_waits(commit)


def most_pending(program: Block) -> int:
    """The most groups that a wait of a program leaves in flight."""
    waits = (op for outer in program.operations for op in outer.walk() if isinstance(op, tileas.TensorWaitOp))
    return max(map(_pending, waits), default=0)


def _is_awaited(commit: tileas.TensorCommitOp, program: Block) -> bool:
    """Whether no path after a commit has more groups, without a wait for its own, than any wait leaves."""
    most = most_pending(program)
    places = _behind(commit, most + 1, lambda wait, groups: _pending(wait) == groups)
    return all(groups <= most for _, groups, _ in places)


def _is_followed(commit: tileas.TensorCommitOp) -> bool:
    """Whether the next group ends in the same block, and none before in a loop or a branch."""
    op = commit.next
    while op is not None and not isinstance(op, tileas.TensorCommitOp):
        if any(isinstance(inner, tileas.TensorCommitOp) for inner in op.walk()):
            return False
        op = op.next
    return op is not None


def _join(commit: tileas.TensorCommitOp, program: Block) -> None:
    """Join a group with the next one.  A wait leaves one group less for each time that the commit is among those
    which it leaves, or ends its own group; where paths differ in that number, the largest one counts, and on the others
    the wait is for a later group."""
    less: dict[tileas.TensorWaitOp, int] = {}
    for op, groups, own in _behind(commit, most_pending(program), lambda wait, groups: False):
        if isinstance(op, tileas.TensorWaitOp) and groups <= _pending(op):
            less[op] = max(less.get(op, 0), own + 1)
    for wait, number in less.items():
        wait.attributes["pending"] = IntegerAttr(_pending(wait) - number, i32)
    commit.result.replace_all_uses_with(commit.count)
    commit.erase()


def _add_waits(commit: tileas.TensorCommitOp) -> None:
    """Insert waits for a group before the first waits for later ones."""
    places = _behind(commit, MOST_PENDING, lambda wait, groups: _pending(wait) <= groups)
    later = {(groups, op): None for op, groups, _ in places
             if isinstance(op, tileas.TensorWaitOp) and _pending(op) < groups}  # fmt: skip
    for groups, wait in sorted(later, key=lambda each: -each[0]):
        own = tileas.TensorWaitOp(wait.memory, wait.count, pending=IntegerAttr(groups, i32), location=wait.location)
        assert wait.parent is not None
        wait.parent.insert_before(own, wait)


def _pending(wait: tileas.TensorWaitOp) -> int:
    return wait.pending.value  # type: ignore[no-any-return]


# ---- paths -----------------------------------------------------------------------------------------------------------


def _behind(
    commit: tileas.TensorCommitOp, most: int, ends: Callable[[tileas.TensorWaitOp, int], bool]
) -> Iterator[tuple[Operation, int, int]]:
    """The operations on all paths after a commit, each with the number of groups that end between the two, and how
    many of these the commit itself ends.  A path continues to the end of the program, to a wait that `ends` it, given
    that number, or until this is more than `most`."""
    seen: set[tuple[Operation, int, int]] = set()
    pending = [(op, 0, 0) for op in _following(commit)]
    while pending:
        place = op, groups, own = pending.pop()
        if place in seen or groups > most:
            continue
        seen.add(place)
        yield place
        if isinstance(op, tileas.TensorWaitOp) and ends(op, groups):
            continue
        groups, own = groups + isinstance(op, tileas.TensorCommitOp), own + (op is commit)
        pending += [(following, groups, own) for following in _entered(op)]


def _entered(op: Operation) -> list[Operation]:
    """The operations that may come first in an operation, or after it if it may execute nothing."""
    if isinstance(op, scf.ForOp):
        return [op.body.block.first, *_following(op)]
    if isinstance(op, scf.WhileOp):
        return [op.before.block.first]
    if isinstance(op, scf.IfOp):
        ways = [region.block.first for region in op.regions if region.blocks]
        return ways if len(ways) == len(op.regions) else [*ways, *_following(op)]
    return _following(op)


def _following(op: Operation) -> list[Operation]:
    """The operations that may follow an operation; none at the end of the program."""
    if op.next is not None:
        return [op.next]
    around = op.parent_op
    if isinstance(around, scf.ForOp):
        return [around.body.block.first, *_following(around)]
    if isinstance(around, scf.WhileOp):
        if op.parent is around.after.block:
            return [around.before.block.first]
        return [around.after.block.first, *_following(around)]
    return _following(around) if isinstance(around, scf.IfOp) else []
