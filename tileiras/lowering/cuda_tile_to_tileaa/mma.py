"""Matrix multiply-accumulate."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa
from tileiras.ir import TensorType, f32

from .rules import Table, flag

FAST_ACCUMULATION = "nv_tileaa.fast_acc"
"""Discardable attribute: an f8 product may be accumulated with fewer bits."""


def _mmaf(op: Any, args: tuple, rewriter: Any) -> Any:
    new = rewriter.insert(nv_tileaa.DotOp(*args, result=args[2].type))
    fast = flag(op, "fast_acc")
    if fast is not None:
        new.attributes[FAST_ACCUMULATION] = fast
    return new


def _mmai(op: Any, args: tuple, rewriter: Any) -> Any:
    return rewriter.insert(
        nv_tileaa.DotOp(
            *args,
            signedness_a=op.signedness_lhs.value,
            signedness_b=op.signedness_rhs.value,
            result=args[2].type,
        )
    )


def _mmaf_scaled(op: Any, args: tuple, rewriter: Any) -> Any:
    """Scales both factors in f32 and multiplies those: exact for 4- and 8-bit factors unless a scaled one overflows."""
    lhs, rhs, acc, lhs_scale, rhs_scale = args
    a = _scaled(lhs, lhs_scale, lhs.type.rank - 1, rewriter)
    b = _scaled(rhs, rhs_scale, rhs.type.rank - 2, rewriter)
    return rewriter.insert(nv_tileaa.DotOp(a, b, acc, result=acc.type))


def _scaled(value: Any, scale: Any, dim: int, rewriter: Any) -> Any:
    """`value` in f32 times `scale`, of which one element serves a run of elements along `dim`."""
    insert = rewriter.insert
    shape, parts = value.type.shape, scale.type.shape
    run = shape[dim] // parts[dim]
    factors = _to_f32(scale, rewriter)
    if run != 1:
        thin = TensorType((*parts[: dim + 1], 1, *parts[dim + 1 :]), f32)
        wide = TensorType((*parts[: dim + 1], run, *parts[dim + 1 :]), f32)
        factors = insert(nv_tileaa.ViewOp(factors, result=thin)).results[0]
        factors = insert(nv_tileaa.BroadcastOp(factors, result=wide)).results[0]
        factors = insert(nv_tileaa.ViewOp(factors, result=TensorType(shape, f32))).results[0]
    return insert(nv_tileaa.MulFOp(_to_f32(value, rewriter), factors)).results[0]


def _to_f32(value: Any, rewriter: Any) -> Any:
    return rewriter.insert(nv_tileaa.FpToFpOp(value, result=value.type.with_element_type(f32))).results[0]


def patterns() -> Table:
    return {"mmaf": _mmaf, "mmaf_scaled": _mmaf_scaled, "mmai": _mmai}
