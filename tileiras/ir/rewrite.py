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

from tileiras.diagnostics import CompileError

from .attributes import Attribute
from .blocks import Block
from .effects import is_trivially_dead
from .location import UnknownLoc
from .operation import Operation
from .registry import lookup_operation
from .traits import ConstantLike, IsolatedFromAbove
from .values import Value

OperationT = TypeVar("OperationT", bound=Operation)


class RewritePattern:
    """Rewrites operations of exactly the class `op`; higher `benefit` is tried first, then order of registration."""

    op: ClassVar[type[Operation]]
    benefit: ClassVar[int] = 1

    def match_and_rewrite(self, op: Operation, rewriter: "PatternRewriter") -> bool:
        """Change the IR and return True, or leave it alone and return False."""
        raise TypeError(f"{type(self).__name__} does not say how it rewrites")


class PatternRewriter:
    """Interface by which a pattern changes the IR, so that the driver knows the operations to visit again."""

    __slots__ = ("op", "_touch", "_forget", "failures")

    def __init__(
        self, touch: Callable[[Operation], None], forget: Callable[[Operation], None] = lambda op: None
    ) -> None:
        self.op: Operation | None = None
        self._touch = touch
        self._forget = forget
        self.failures: list[tuple[Operation, str]] = []

    def insert(self, op: OperationT, before: Operation | None = None) -> OperationT:
        """Insert before `before`, by default the matched operation; an operation without a location inherits its
        one."""
        place = before if before is not None else self.op
        assert place is not None and place.parent is not None
        if isinstance(op.location, UnknownLoc):
            op.location = place.location
        place.parent.insert_before(op, place)
        self._touch(op)
        return op

    def inline_block_before(self, block: Block, place: Operation) -> None:
        """Move all operations of `block`, which takes no arguments, before `place`."""
        for op in block.operations:
            op.move_before(place)
            self._touch(op)

    def replace_op(self, op: Operation, new: Operation | Value | Sequence[Value]) -> None:
        """Replace all results of `op`; an operation that is not in a block yet is inserted before `op`."""
        if isinstance(new, Operation):
            if new.parent is None:
                self.insert(new, op)
            values: Sequence[Value] = new.results
        else:
            values = (new,) if isinstance(new, Value) else new
        for result, value in zip(op.results, values, strict=True):
            self.replace_all_uses(result, value)
        self.erase_op(op)

    def replace_all_uses(self, old: Value, new: Value) -> None:
        for user in old.users:
            self._touch(user)
        old.replace_all_uses_with(new)

    def erase_op(self, op: Operation) -> None:
        for inner in op.walk():
            self._forget(inner)
            for operand in inner.operands:
                if operand.defining_op is not None and not op.is_ancestor_of(operand.defining_op):
                    self._touch(operand.defining_op)
        op.erase()

    def erase_from(self, op: Operation) -> None:
        """Erase `op` and all after it in its block."""
        assert op.parent is not None
        last = op.parent.last
        while last is not op:
            assert last is not None
            before = last.prev
            self.erase_op(last)
            last = before
        self.erase_op(op)

    def set_operands(self, op: Operation, values: Sequence[Value]) -> None:
        """Replace the operands of `op`; the old ones may be dead now."""
        for operand in op.operands:
            if operand.defining_op is not None:
                self._touch(operand.defining_op)
        op.operands = values
        self._touch(op)

    def modified(self, op: Operation) -> None:
        """Notify the driver that `op` was changed in place."""
        self._touch(op)

    def notify_match_failure(self, op: Operation, reason: str) -> bool:
        """Record why a pattern declined; return False, as the pattern's result."""
        self.failures.append((op, reason))
        return False


def materialize_constant(dialect: str, value: Attribute, type: object, op: Operation) -> Operation | None:
    """A constant operation of the dialect of `op` for a folded value; None if the dialect has no such operation."""
    constant = lookup_operation(f"{dialect}.constant")
    build = getattr(constant, "materialize", None)
    return build(value, type, op.location) if build is not None else None


class _Constants:
    """Keeps one constant of each value per isolated region, in front of the region's first block."""

    __slots__ = ("known", "owned")

    def __init__(self) -> None:
        self.known: dict[tuple, Operation] = {}
        self.owned: dict[Operation, tuple] = {}

    def forget(self, op: Operation) -> None:
        key = self.owned.pop(op, None)
        if key is not None:
            del self.known[key]

    def place(self, op: Operation, rewriter: PatternRewriter) -> bool:
        """Merge a constant with an equal one, or move it to where all can use it; True if that changed anything."""
        if op in self.owned:
            return False
        region = op.parent.parent if op.parent is not None else None
        while region is not None and region.parent is not None and not region.parent.has_trait(IsolatedFromAbove):
            outer = region.parent.parent
            if outer is None:
                break
            region = outer.parent
        if region is None:
            return False
        key = (region, type(op), tuple(sorted(op.attributes.items(), key=lambda item: item[0])), op.results[0].type)
        first = self.known.get(key)
        if first is not None:
            rewriter.replace_op(op, first.results)
            return True
        self.known[key] = op
        self.owned[op] = key
        front = region.blocks[0].first
        assert front is not None
        if op.parent is region.blocks[0] and (op is front or op.prev in self.owned):
            return False
        op.move_before(front)
        return True


def apply_patterns_greedily(
    root: Operation,
    patterns: Iterable[RewritePattern],
    max_rewrites: int | None = None,
    *,
    unique_constants: bool = False,
) -> bool:
    """Fold, remove dead operations and apply patterns inside `root` until nothing changes; True if anything did.

    Operations are visited in textual order first; changed operations are visited again.  With `unique_constants`, equal
    constants become one at the start of the function, so that patterns see constants from inner regions outside.

    The number of rewrites is bounded (64 per operation and at least 10,000): raises CompileError (code 5), where one
    more was made, for patterns that undo one another.
    """
    by_class: dict[type[Operation], list[RewritePattern]] = {}
    for pattern in sorted(patterns, key=lambda p: -p.benefit):
        by_class.setdefault(pattern.op, []).append(pattern)

    # A dict is a worklist with a membership test; popitem takes the last, so fill in reverse order.
    worklist: dict[Operation, None] = dict.fromkeys(reversed([op for op in root.walk() if op is not root]))
    budget = max_rewrites if max_rewrites is not None else max(10_000, 64 * len(worklist))
    constants = _Constants()

    def forget(op: Operation) -> None:
        worklist.pop(op, None)
        constants.forget(op)

    rewriter = PatternRewriter(lambda op: worklist.__setitem__(op, None), forget)
    changed = False
    if unique_constants:
        for op in reversed(list(worklist)):
            if op.has_trait(ConstantLike) and op.parent is not None:
                changed |= constants.place(op, rewriter)
    while worklist:
        if budget < 0:
            raise CompileError.at(rewriter.op.location, "failed to apply patterns greedily")  # type: ignore[union-attr]
        op, _ = worklist.popitem()
        if op.parent is None:
            continue  # erased meanwhile
        if is_trivially_dead(op):
            rewriter.erase_op(op)
            changed = True
            continue
        rewriter.op = op
        if op.has_trait(ConstantLike):
            changed |= unique_constants and constants.place(op, rewriter)
            continue
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
