"""Structured control flow; `early_exits` has seen to it that regions end by handing over values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import nv_tileaa, scf
from tileiras.ir import Block, Region

from .rules import Table, flag

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter


def _for(op: cuda_tile.ForOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    lower, upper, step, *inits = args
    body = rewriter.convert_region(op.regions[0])
    attributes = {} if flag(op, "unsignedCmp") is None else {"unsignedCmp": True}
    types = [value.type for value in inits]
    return rewriter.insert(scf.ForOp(lower, upper, step, inits, results_=types, body=body, **attributes))


def _if(op: cuda_tile.IfOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    types = [rewriter.convert_type(result.type) for result in op.results]
    then_region = rewriter.convert_region(op.regions[0])
    else_region = Region() if _does_nothing(op.regions[1]) else rewriter.convert_region(op.regions[1])
    return rewriter.insert(scf.IfOp(args[0], results_=types, then_region=then_region, else_region=else_region))


def _does_nothing(region: Region) -> bool:
    if not region.blocks:
        return True
    last = region.blocks[0].last
    return last is region.blocks[0].first and last is not None and last.name == "cuda_tile.yield" and not last.operands


def _loop(op: cuda_tile.LoopOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """The body is the "before" region, which always runs; "after" hands the carried values on."""
    before = rewriter.convert_region(op.regions[0])
    # The old operations stay in their blocks, after the new ones, until the conversion is over.
    types = [rewriter.value(value).type for value in before.block.last.operands[1:]]
    after = Block(types, [op.location] * len(types))
    # One list serves for both when there are not as many values as results and carried values together.  Types do not
    # tell any more: arguments of blocks around the loop have been converted.
    shared = len(types) == len(op.results) == len(args)
    carried = after.arguments if shared else after.arguments[len(op.results) :]
    after.append(scf.YieldOp(list(carried), location=op.location))
    new = rewriter.insert(scf.WhileOp(list(args), results_=types, before=before, after=Region([after])))
    return new.results[: len(op.results)]


def _yield(op: cuda_tile.YieldOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    """End a branch of `if`, the function of a reduction, or a loop's body."""
    parent = op.parent_op.name
    if parent in ("cuda_tile.reduce", "cuda_tile.scan"):
        rewriter.insert(nv_tileaa.YieldOp(list(args)))
    elif parent == "cuda_tile.loop":
        rewriter.insert(scf.ConditionOp(args[0], list(args[1:])))
    else:
        rewriter.insert(scf.YieldOp(list(args)))


def _continue(op: cuda_tile.ContinueOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    rewriter.insert(scf.YieldOp(list(args)))


def patterns() -> Table:
    return {
        "continue": _continue,
        "for": _for,
        "if": _if,
        "loop": _loop,
        "yield": _yield,
    }
