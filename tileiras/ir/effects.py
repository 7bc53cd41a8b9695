"""Effects of an operation, from its effect traits and those of the operations in its regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .traits import Leaves, MayNotTerminate, NoMemoryEffect, RecursiveMemoryEffects, Terminator

if TYPE_CHECKING:
    from .operation import Operation


def is_trivially_dead(op: "Operation") -> bool:
    """Whether `op` can be removed without a change of behavior: it has no uses and no effect.

    Terminators stay.  Loads stay as well, weak ones included: their tokens order later operations.
    """
    for result in op.results:
        if result.has_uses:
            return False
    return not op.has_trait(Terminator) and has_no_effect(op)


def remove_dead_operations(op: "Operation") -> None:
    """Erase the operations below `op` without effects and users, whole chains of them."""
    # Last to first: a user is removed before its operands, so one walk removes whole dead chains.
    for inner in reversed([inner for inner in op.walk() if inner is not op]):
        if is_trivially_dead(inner):
            inner.erase()


def has_no_effect(op: "Operation") -> bool:
    """Whether `op` only computes its results, and terminates.

    A loop or branch with RecursiveMemoryEffects has no effect if no operation in its regions has one, and if no
    terminator in them continues outside of `op`.
    """
    return _ends_without_effect(op, op)


def _ends_without_effect(op: "Operation", root: "Operation") -> bool:
    if op.has_trait(Terminator) and op is not root:
        leaves = op.get_trait(Leaves)
        target = leaves.target(op) if leaves is not None else op.parent_op
        return target is not None and root.is_ancestor_of(target)
    if op.has_trait(MayNotTerminate) or not (op.has_trait(NoMemoryEffect) or op.has_trait(RecursiveMemoryEffects)):
        return False
    return all(
        _ends_without_effect(inner, root)
        for region in op.regions
        for block in region.blocks
        for inner in block.operations
    )
