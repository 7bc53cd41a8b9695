"""Pattern rewriting to a fixed point.

A pattern is a class with the operation class that it matches:

    class FuseMultiplyAdd(RewritePattern):
        op = AddFOp

        def match_and_rewrite(self, op, rewriter):
            ...
            rewriter.replace_op(op, FmaOp(...))
            return True
"""

from __future__ import annotations

from typing import Callable, ClassVar, Iterable, Sequence, TypeVar

from .attributes import Attribute
from .core import Operation, Value
from .location import UnknownLoc
from .registry import lookup_operation
from .traits import ConstantLike, Pure, Terminator

OperationT = TypeVar("OperationT", bound=Operation)


class RewritePattern:
    """Rewrites operations of exactly the class `op`; higher `benefit` is tried first, then order of registration."""

    op: ClassVar[type[Operation]]
    benefit: ClassVar[int] = 1

    def match_and_rewrite(self, op: Operation, rewriter: "PatternRewriter") -> bool:
        """Changes the IR and returns True, or leaves it alone and returns False."""
        raise TypeError(f"{type(self).__name__} does not say how it rewrites")


class PatternRewriter:
    """Through which a pattern changes the IR, so that the driver sees what to visit again."""

    __slots__ = ("op", "before", "_touch", "failures")

    def __init__(self, touch: Callable[[Operation], None]) -> None:
        self.op: Operation | None = None
        self.before: Operation | None = None
        self._touch = touch
        self.failures: list[tuple[Operation, str]] = []

    def insert(self, op: OperationT, before: Operation | None = None) -> OperationT:
        """Inserts before `before`, by default before the matched operation; inherits its location if it has none."""
        place = before if before is not None else self.op
        assert place is not None and place.parent is not None
        if isinstance(op.location, UnknownLoc):
            op.location = place.location
        place.parent.insert_before(op, place)
        self._touch(op)
        return op

    def replace_op(self, op: Operation, new: Operation | Value | Sequence[Value]) -> None:
        """Replaces all results of `op`; an operation that is not in a block yet is inserted before `op`."""
        if isinstance(new, Operation):
            if new.parent is None:
                self.insert(new, op)
            values: Sequence[Value] = new.results
        else:
            values = (new,) if isinstance(new, Value) else new
        for result in op.results:
            for user in result.users:
                self._touch(user)
        op.replace_all_uses_with(values)
        self.erase_op(op)

    def erase_op(self, op: Operation) -> None:
        for operand in op.operands:
            if operand.defining_op is not None:
                self._touch(operand.defining_op)
        op.erase()

    def modified(self, op: Operation) -> None:
        """Says that `op` was changed in place."""
        self._touch(op)

    def notify_match_failure(self, op: Operation, reason: str) -> bool:
        """Keeps why a pattern declined; returns False, to be returned."""
        self.failures.append((op, reason))
        return False


def is_trivially_dead(op: Operation) -> bool:
    """Whether nothing would change if `op` were removed."""
    if op.has_trait(Terminator) or any(result.has_uses for result in op.results):
        return False
    return op.has_trait(Pure) and all(
        inner.has_trait(Pure) or inner.has_trait(Terminator) for inner in op.walk() if inner is not op
    )


def materialize_constant(dialect: str, value: Attribute, type: object, op: Operation) -> Operation | None:
    """A constant operation of the dialect of `op` for a folded value; None when the dialect has none for it."""
    constant = lookup_operation(f"{dialect}.constant")
    build = getattr(constant, "materialize", None)
    return build(value, type, op.location) if build is not None else None


def apply_patterns_greedily(
    root: Operation, patterns: Iterable[RewritePattern], max_rewrites: int | None = None
) -> bool:
    """Folds, removes dead operations and applies patterns inside `root` until nothing changes; True if anything did.

    Operations are visited in textual order first; whoever is touched is visited again.  The number of rewrites is
    bounded (64 per operation and at least 10,000) against patterns that undo one another.
    """
    by_class: dict[type[Operation], list[RewritePattern]] = {}
    for pattern in sorted(patterns, key=lambda p: -p.benefit):
        by_class.setdefault(pattern.op, []).append(pattern)

    # A dict is a worklist with a membership test; popitem takes the last, so fill in reverse order.
    worklist: dict[Operation, None] = dict.fromkeys(reversed([op for op in root.walk() if op is not root]))
    budget = max_rewrites if max_rewrites is not None else max(10_000, 64 * len(worklist))
    rewriter = PatternRewriter(lambda op: worklist.__setitem__(op, None))
    changed = False
    while worklist and budget > 0:
        op, _ = worklist.popitem()
        if op.parent is None:
            continue  # erased meanwhile
        if is_trivially_dead(op):
            rewriter.erase_op(op)
            changed = True
            continue
        rewriter.op = op
        if _fold(op, rewriter):
            changed = True
            budget -= 1
            continue
        for pattern in by_class.get(type(op), ()):
            if pattern.match_and_rewrite(op, rewriter):
                changed = True
                budget -= 1
                break
    return changed


def _fold(op: Operation, rewriter: PatternRewriter) -> bool:
    if op.has_trait(ConstantLike):
        return False
    folded = op.fold()
    if folded is None:
        return False
    values: list[Value] = []
    for result, item in zip(op.results, folded):
        if isinstance(item, Value):
            values.append(item)
            continue
        constant = materialize_constant(op.dialect, item, result.type, op)
        if constant is None:
            return False
        values.append(rewriter.insert(constant).results[0])
    rewriter.replace_op(op, values)
    return True
