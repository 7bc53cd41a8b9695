"""Dominance: which definitions reach which uses.

Blocks of a region form a graph by their terminators' successors; within a block order decides.  A value defined in an
enclosing region is visible inside nested regions when its definition comes before the operation that holds them.
"""

from __future__ import annotations

from .blocks import Block, Region
from .operation import Operation
from .values import BlockArgument, Value


class DominanceInfo:
    """Dominator sets per region, computed on first use and kept; build a new one after changing blocks."""

    __slots__ = ("_immediate",)

    def __init__(self) -> None:
        self._immediate: dict[Region, dict[Block, Block | None]] = {}

    def immediate_dominators(self, region: Region) -> dict[Block, Block | None]:
        """Reachable block -> its immediate dominator (None for the entry).

        Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
        """
        result = self._immediate.get(region)
        if result is None:
            result = self._immediate[region] = _compute(region)
        return result

    def block_dominates(self, a: Block, b: Block) -> bool:
        """Whether every path to `b` goes through `a`; everything dominates an unreachable block."""
        if a is b:
            return True
        assert a.parent is not None and a.parent is b.parent
        immediate = self.immediate_dominators(a.parent)
        if b not in immediate:
            return True
        at: Block | None = b
        while at is not None and at is not a:
            at = immediate.get(at)
        return at is a

    def value_dominates(self, value: Value, user: Operation) -> bool:
        """Whether `value` is defined wherever `user` executes."""
        if isinstance(value, BlockArgument):
            home, definition = value.block, None
        else:
            definition = value.defining_op
            assert definition is not None
            home = definition.parent
        if home is None:
            return False
        at: Operation | None = user
        while at is not None and at.parent is not None and at.parent.parent is not home.parent:
            at = at.parent_op
        if at is None or at.parent is None:
            return False
        if at.parent is not home:
            return self.block_dominates(home, at.parent)
        return definition is None or definition is not at and definition.is_before_in_block(at)


def _compute(region: Region) -> dict[Block, Block | None]:
    entry = region.entry
    if entry is None:
        return {}
    order = reverse_postorder(entry)
    number = {block: n for n, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for following in block.last.successors if block.last is not None else ():
            predecessors[following].append(block)
    immediate: dict[Block, Block | None] = {entry: entry}

    def meet(a: Block, b: Block) -> Block:
        while a is not b:
            while number[a] > number[b]:
                a = immediate[a]  # type: ignore[assignment]
            while number[b] > number[a]:
                b = immediate[b]  # type: ignore[assignment]
        return a

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            new: Block | None = None
            for before in predecessors[block]:
                if before in immediate:
                    new = before if new is None else meet(before, new)
            if immediate.get(block) is not new:
                immediate[block] = new
                changed = True
    immediate[entry] = None
    return immediate


def reverse_postorder(entry: Block) -> list[Block]:
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(entry.last.successors if entry.last is not None else ()))]
    while stack:
        block, following = stack[-1]
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                last = successor.last
                stack.append((successor, iter(last.successors if last is not None else ())))
                break
        else:
            stack.pop()
            order.append(block)
    order.reverse()
    return order
