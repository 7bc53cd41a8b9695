"""How many groups of dots have been committed: a number that goes from commit to commit, around loops and branches."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Builder, Operation, Region, Value, i32


def thread_counts(block: Block, count: Value) -> Value:
    """Give commits and waits of a block their numbers of groups, `count` before the first; return the one after
    it."""
    for op in list(block.operations):
        if isinstance(op, tileas.TensorCommitOp):
            op.operands = (op.memory, count)
            count = op.result
        elif isinstance(op, tileas.TensorWaitOp):
            op.operands = (op.memory, count)
        elif not any(isinstance(inner, tileas.TensorCommitOp) for inner in op.walk()):
            for inner in op.walk():
                if isinstance(inner, tileas.TensorWaitOp):
                    inner.operands = (inner.memory, count)
        else:
            count = _AROUND[type(op)](op, count)
    return count


def _for(loop: scf.ForOp, count: Value) -> Value:
    block = loop.body.block
    carried = block.add_argument(i32, loop.location)
    behind = thread_counts(block, carried)
    block.last.operands = (*block.last.operands, behind)
    return loop.replace_with_additional_yields((count,)).results[-1]


def _while(loop: scf.WhileOp, count: Value) -> Value:
    before, after = loop.before.block, loop.after.block
    behind = thread_counts(before, before.add_argument(i32, loop.location))
    before.last.operands = (*before.last.operands, behind)
    again = thread_counts(after, after.add_argument(i32, loop.location))
    after.last.operands = (*after.last.operands, again)
    regions = [Region().take_blocks(region) for region in (loop.before, loop.after)]
    return _replace(loop, (*loop.inits, count), regions)


def _if(op: scf.IfOp, count: Value) -> Value:
    regions = []
    for region in (op.then_region, op.else_region):
        if not region.blocks:
            inner = Builder.at_end(block := Block())
            inner.location = op.location
            inner.insert(scf.YieldOp.create(()))
            region.append(block)
        behind = thread_counts(region.blocks[0], count)  # which may put other values in the places of those at the end
        last: Any = region.blocks[0].last
        last.operands = (*last.operands, behind)
        regions.append(Region().take_blocks(region))
    return _replace(op, (op.condition,), regions)


def _replace(op: Operation, operands: tuple[Value, ...], regions: list[Region]) -> Value:
    """An operation with a count as a further result, replacing another one."""
    types = [*(result.type for result in op.results), i32]
    new = type(op).create(operands, types, dict(op.attributes), regions, location=op.location)
    op.parent.insert_before(new, op)
    for old, result in zip(op.results, new.results):
        old.replace_all_uses_with(result)
    op.erase()
    return new.results[-1]


_AROUND = {scf.ForOp: _for, scf.WhileOp: _while, scf.IfOp: _if}
