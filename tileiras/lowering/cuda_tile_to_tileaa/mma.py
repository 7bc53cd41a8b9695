"""Matrix multiply-accumulate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import nv_tileaa

from .rules import Table, flag

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter


def _mmaf(op: cuda_tile.MmaFOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    new = rewriter.insert(nv_tileaa.DotOp(*args, result=args[2].type))
    fast = flag(op, "fast_acc")
    if fast is not None:
        new.attributes[nv_tileaa.FAST_ACCUMULATION] = fast
    return new


def _mmai(op: cuda_tile.MmaIOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    return rewriter.insert(
        nv_tileaa.DotOp(
            *args,
            signedness_a=op.signedness_lhs.value,
            signedness_b=op.signedness_rhs.value,
            result=args[2].type,
        )
    )


def _mmaf_scaled(op: cuda_tile.MmaFScaledOp, args: tuple, rewriter: ConversionRewriter) -> Any:
    lhs, rhs, acc, lhs_scale, rhs_scale = args
    return rewriter.insert(nv_tileaa.BlockScaledMmaOp(lhs, rhs, acc, lhs_scale, rhs_scale, result=acc.type))


def patterns() -> Table:
    return {"mmaf": _mmaf, "mmaf_scaled": _mmaf_scaled, "mmai": _mmai}
