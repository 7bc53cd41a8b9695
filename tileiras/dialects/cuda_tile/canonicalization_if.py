"""Canonical forms of `if`.

A branch ends in `yield`, which continues after the `if`, or leaves with `break`, `continue` or `return`.  The
operations after an `if` both of whose branches leave are unreachable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from tileiras.ir import (
    Block,
    DenseElementsAttr,
    FusedLoc,
    Operation,
    PatternRewriter,
    Region,
    RewritePattern,
    Value,
    f4E2M1FN,
    i1,
)

from .ops_bitwise import AndIOp, XOrIOp
from .ops_control_flow import IfOp, YieldOp
from .ops_core import BroadcastOp, ConstantOp, ReshapeOp, SelectOp, constant_bool
from .types import TileType

if TYPE_CHECKING:
    from .types import TokenType

# ---- pieces --------------------------------------------------------------------------------------------------------


def invert(cond: Value, rewriter: PatternRewriter) -> Value:
    """A tile of i1 with every element the other way round, before the matched operation."""
    true = rewriter.insert(ConstantOp(value=DenseElementsAttr(cond.type, b"\1", True)))
    return rewriter.insert(XOrIOp(cond, true.result)).result


def _inverse_of(value: Value) -> Value | None:
    """`p` when the value is `not p`."""
    inverse = value.defining_op
    return inverse.lhs if isinstance(inverse, XOrIOp) and constant_bool(inverse.rhs) is True else None


def _select(cond: Value, first: Value, second: Value, rewriter: PatternRewriter) -> Value:
    """One of two tiles by a scalar condition."""
    type = first.type
    if type.rank:
        cond = rewriter.insert(ReshapeOp(cond, result=TileType((1,) * type.rank, i1))).result
        cond = rewriter.insert(BroadcastOp(cond, result=type.with_element_type(i1))).result
    return rewriter.insert(SelectOp(cond, first, second)).result


def _selectable(type: TileType | TokenType) -> bool:
    """Whether `select` takes values of the type: tiles, but not of 4-bit floats."""
    return isinstance(type, TileType) and type.element_type is not f4E2M1FN


def _then(op: Operation) -> Block:
    return op.regions[0].blocks[0]


def _else(op: Operation) -> Block | None:
    blocks = op.regions[1].blocks
    return blocks[0] if blocks else None


def _leaves(block: Block | None) -> bool:
    return block is not None and not isinstance(block.last, YieldOp)


def _only_yields(block: Block | None) -> bool:
    """Whether a branch does nothing but hand on values; a missing one does not even that."""
    return block is None or block.first is block.last and isinstance(block.last, YieldOp)


def _build(cond: Value, types: Sequence[Any], regions: Sequence[Region], like: Operation) -> IfOp:
    return IfOp.create((cond,), types, dict(like.attributes), regions, location=like.location)


def _take(region: Region) -> Region:
    return Region().take_blocks(region)


def _keep_results(op: Operation, numbers: Sequence[int], rewriter: PatternRewriter) -> IfOp:
    """An `if` before `op` with its condition and regions and only the results of these numbers."""
    regions = [_take(region) for region in op.regions]
    for region in regions:
        for block in region.blocks:
            if not _leaves(block):
                assert block.last is not None
                rewriter.set_operands(block.last, [block.last.operands[number] for number in numbers])
    return rewriter.insert(_build(op.operands[0], [op.results[n].type for n in numbers], regions, op), op)


def _replace_with_body(op: Operation, block: Block, rewriter: PatternRewriter) -> None:
    """The operations of one branch instead of the `if`."""
    last = block.last
    assert last is not None
    rewriter.inline_block_before(block, op)
    if isinstance(last, YieldOp):
        rewriter.replace_op(op, last.operands)
        rewriter.erase_op(last)
    else:
        rewriter.erase_from(op)


# ---- patterns ------------------------------------------------------------------------------------------------------


class IfNot(RewritePattern):
    """`if not p {A} else {B}` is `if p {B} else {A}`."""

    op = IfOp
    benefit = 2

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        straight = _inverse_of(op.condition)
        if straight is None or _else(op) is None:
            return False
        first, second = op.regions
        first.blocks, second.blocks = second.blocks, first.blocks
        for region in op.regions:
            for block in region.blocks:
                block.parent = region
        rewriter.set_operands(op, (straight,))
        return True


class RemoveUnusedResults(RewritePattern):
    """Unused results are not yielded."""

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        live = [number for number, result in enumerate(op.results) if result.has_uses]
        if len(live) == len(op.results) or _leaves(_then(op)) and _leaves(_else(op)):
            return False
        new = _keep_results(op, live, rewriter)
        for number, result in zip(live, new.results):
            rewriter.replace_all_uses(op.results[number], result)
        rewriter.erase_op(op)
        return True


class ResultIsKnown(RewritePattern):
    """A result that both branches yield alike is that value; one that is true and false is the condition."""

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        first, second = _then(op), _else(op)
        if second is None or _leaves(first) or _leaves(second):
            return False
        changed = False
        for result, one, other in zip(op.results, first.last.operands, second.last.operands):
            value = self._equivalent(op.condition, one, other, rewriter) if result.has_uses else None
            if value is not None:
                rewriter.replace_all_uses(result, value)
                changed = True
        if changed:
            rewriter.modified(op)
        return changed

    @staticmethod
    def _equivalent(cond: Value, one: Value, other: Value, rewriter: PatternRewriter) -> Value | None:
        if one is other:
            return one
        if one.type is not cond.type:
            return None
        values = constant_bool(one), constant_bool(other)
        if values == (True, False):
            return cond
        return invert(cond, rewriter) if values == (False, True) else None


class KnownCondition(RewritePattern):
    """`if true {A} else {B}` is `A`."""

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        condition = constant_bool(op.condition)
        if condition is None:
            return False
        block = _then(op) if condition else _else(op)
        if block is None:
            rewriter.erase_op(op)
        else:
            _replace_with_body(op, block, rewriter)
        return True


class ConvertToSelect(RewritePattern):
    """A tile that is there before the `if` is selected, not yielded.

    When one branch leaves, the value is simply the one that the other yields.
    """

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        yielding = [block for block in (_then(op), _else(op)) if block is not None and not _leaves(block)]
        if not op.results or not yielding or not all(_selectable(r.type) for r in op.results):
            return False
        # With one branch that leaves, the other determines the results.
        first, second = yielding[0], yielding[-1]
        pairs = list(zip(first.last.operands, second.last.operands))  # type: ignore[union-attr]
        inner = [n for n, (one, other) in enumerate(pairs) if one.parent_block is first or other.parent_block is second]
        if len(inner) == len(pairs):
            return False
        values: list[Value | None] = [None] * len(pairs)
        for number, (one, other) in enumerate(pairs):
            if number not in inner:
                values[number] = one if one is other else _select(op.condition, one, other, rewriter)
        new = _keep_results(op, inner, rewriter)
        for number, result in zip(inner, new.results):
            values[number] = result
        rewriter.replace_op(op, values)  # type: ignore[arg-type]
        return True


class RemoveEmptyElse(RewritePattern):
    """An else branch that does nothing is left out."""

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        second = _else(op)
        if op.results or second is None or not _only_yields(second):
            return False
        new = _build(op.condition, (), [_take(op.thenRegion), Region()], op)
        rewriter.replace_op(op, new)
        return True


class CombineIfs(RewritePattern):
    """Two `if` in a row on one condition, or on one and its inverse, are one."""

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        before = op.prev
        if not isinstance(before, IfOp):
            return False
        then, other = self._continuations(before, op)
        # Operations after a branch that leaves are unreachable.
        then = None if _leaves(_then(before)) else then
        other = None if _leaves(_else(before)) else other
        if then is None and other is None:
            return False
        for block, branch in ((then, _then(before)), (other, _else(before))):
            if block is None or branch is None:
                continue
            for result, value in zip(before.results, branch.last.operands):  # type: ignore[union-attr]
                for user in [user for user in result.users if block.find_ancestor_op(user) is not None]:
                    rewriter.set_operands(user, [value if use is result else use for use in user.operands])
        regions = [
            self._append(before.thenRegion, then, rewriter),
            self._append(before.elseRegion, other, rewriter),
        ]
        types = [result.type for result in (*before.results, *op.results)]
        new = _build(before.condition, types, regions, before)
        new.attributes |= {name: value for name, value in op.attributes.items() if name not in new.attributes}
        new.location = FusedLoc.of(before.location, op.location)
        rewriter.insert(new, op)
        count = len(before.results)
        rewriter.replace_op(before, new.results[:count])
        rewriter.replace_op(op, new.results[count:])
        return True

    @staticmethod
    def _continuations(before: IfOp, op: IfOp) -> tuple[Block | None, Block | None]:
        """The branches of `op` that run after the then and the else branch of `before`."""
        if op.condition is before.condition:
            return _then(op), _else(op)
        if _inverse_of(op.condition) is before.condition or _inverse_of(before.condition) is op.condition:
            return _else(op), _then(op)
        return None, None

    @staticmethod
    def _append(region: Region, block: Block | None, rewriter: PatternRewriter) -> Region:
        """The block of `region` with that of `block` after it; together they yield the values of both."""
        new = _take(region)
        if block is None:
            return new
        if not new.blocks:
            assert block.parent is not None
            return _take(block.parent)
        first = new.blocks[0].last
        assert first is not None and block.last is not None
        if isinstance(block.last, YieldOp):
            rewriter.set_operands(block.last, (*first.operands, *block.last.operands))
        rewriter.inline_block_before(block, first)
        rewriter.erase_op(first)
        return new


class CombineNestedIfs(RewritePattern):
    """`if p {if q {A}}` is `if p and q {A}`, when nothing else happens in either branch."""

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        outer, outer_else = _then(op), _else(op)
        nested = outer.first
        if not isinstance(nested, IfOp) or nested.next is not outer.last or _leaves(outer):
            return False
        inner, inner_else = _then(nested), _else(nested)
        if not _only_yields(outer_else) or not _only_yields(inner_else):
            return False
        if _leaves(inner) and (outer_else is not None or inner_else is not None):
            return False
        yielded = list(outer.last.operands)  # type: ignore[union-attr]
        otherwise = list(outer_else.last.operands) if outer_else is not None else []  # type: ignore[union-attr]
        selected = []
        for number, value in enumerate(yielded):
            if value.defining_op is nested:
                if inner_else.last.operands[value.index] is not otherwise[number]:  # type: ignore[union-attr,attr-defined]
                    return False
                yielded[number] = inner.last.operands[value.index]  # type: ignore[union-attr,attr-defined]
            elif not _selectable(value.type):
                return False  # would be selected by `p` alone
            else:
                selected.append(number)
        values = {number: _select(op.condition, yielded[number], otherwise[number], rewriter) for number in selected}
        cond = rewriter.insert(AndIOp(op.condition, nested.condition)).result
        last = inner.last
        assert last is not None
        if isinstance(last, YieldOp):
            rewriter.set_operands(last, yielded)
        regions = [_take(nested.thenRegion), _take(op.elseRegion) if otherwise else Region()]
        new = _build(cond, [result.type for result in op.results], regions, op)
        new.location = FusedLoc.of(op.location, nested.location)
        rewriter.insert(new, op)
        rewriter.replace_op(op, [values.get(number, result) for number, result in enumerate(new.results)])
        return True


class BothLeave(RewritePattern):
    """If both branches leave, the else branch moves after the `if`, and replaces the unreachable operations there."""

    op = IfOp

    def match_and_rewrite(self, op: IfOp, rewriter: PatternRewriter) -> bool:
        second = _else(op)
        if second is None or not _leaves(_then(op)) or not _leaves(second):
            return False
        rewriter.insert(_build(op.condition, (), [_take(op.thenRegion), Region()], op), op)
        _replace_with_body(op, second, rewriter)
        return True


IF_PATTERNS = (
    IfNot,
    RemoveUnusedResults,
    ResultIsKnown,
    KnownCondition,
    ConvertToSelect,
    RemoveEmptyElse,
    CombineIfs,
    CombineNestedIfs,
    BothLeave,
)
