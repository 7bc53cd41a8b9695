"""What an operation does beyond computing its results, from its effect traits and those of what it contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .traits import Leaves, MayNotTerminate, NoMemoryEffect, RecursiveMemoryEffects, Terminator

if TYPE_CHECKING:
    from .operation import Operation


def is_trivially_dead(op: "Operation") -> bool:
    """Whether nothing would change if `op` were removed: nobody uses it and it has no effect.

    Terminators stay.  Loads stay as well, weak ones included: their tokens order what follows.
    """
    for result in op.results:
        if result.has_uses:
            return False
    return not op.has_trait(Terminator) and has_no_effect(op)


def has_no_effect(op: "Operation") -> bool:
    """Whether all that `op` does is compute its results, and comes to an end.

    A loop or branch with RecursiveMemoryEffects has none when nothing in its regions has one, and when no terminator in
    them goes on elsewhere than inside `op`.
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
