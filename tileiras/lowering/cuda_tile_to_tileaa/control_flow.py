"""Structured control flow: `for` and `if` whose regions end by handing over values."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa, scf
from tileiras.ir import Region, VerifyError

from .rules import Table, flag


def _for(op: Any, args: tuple, rewriter: Any) -> Any:
    lower, upper, step, *inits = args
    body = rewriter.convert_region(op.regions[0])
    named = {} if flag(op, "unsignedCmp") is None else {"unsignedCmp": True}
    types = [value.type for value in inits]
    return rewriter.insert(scf.ForOp(lower, upper, step, inits, results_=types, body=body, **named))


def _if(op: Any, args: tuple, rewriter: Any) -> Any:
    types = [rewriter.convert_type(result.type) for result in op.results]
    then_region = rewriter.convert_region(op.regions[0])
    else_region = Region() if _does_nothing(op.regions[1]) else rewriter.convert_region(op.regions[1])
    return rewriter.insert(scf.IfOp(args[0], results_=types, then_region=then_region, else_region=else_region))


def _does_nothing(region: Region) -> bool:
    if not region.blocks:
        return True
    last = region.blocks[0].last
    return last is region.blocks[0].first and last is not None and last.name == "cuda_tile.yield" and not last.operands


def _yield(op: Any, args: tuple, rewriter: Any) -> Any:
    """Ends a branch of `if`, or the function of a reduction."""
    parent = op.parent_op
    combines = parent is not None and parent.name in ("cuda_tile.reduce", "cuda_tile.scan")
    rewriter.insert((nv_tileaa.YieldOp if combines else scf.YieldOp)(list(args)))


def _continue(op: Any, args: tuple, rewriter: Any) -> Any:
    if op.parent_op is None or op.parent_op.name != "cuda_tile.for":
        raise early_exit()
    rewriter.insert(scf.YieldOp(list(args)))


def early_exit() -> VerifyError:
    """For an exit from inside a branch: scf regions end where they end."""
    return VerifyError("leaving an enclosing region from inside a branch is not supported")


def patterns() -> Table:
    return {
        "continue": _continue,
        "for": _for,
        "if": _if,
        "yield": _yield,
    }
