"""Block-scaled products where the target has no instruction for them: both factors are scaled first.

In f32 that is exact for 4- and 8-bit factors unless a scaled one overflows.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Builder, Operation, TensorType, Value, f32

from .dot import DotPlans


def expand_scaled_products(func: Operation, dots: DotPlans) -> None:
    """Replaces the block-scaled products of a function of nv_tileaa that no atom executes, in place."""
    for op in [op for op in func.walk() if isinstance(op, aa.BlockScaledMmaOp)]:
        if dots.scaled_atom(op) is not None:
            continue
        builder = Builder.before(op)
        rank = op.a.type.rank
        a = _scaled(op.a, op.scale_a, rank - 1, builder)
        b = _scaled(op.b, op.scale_b, rank - 2, builder)
        new = builder.insert(aa.DotOp(a, b, op.c, result=op.result.type))
        op.replace_all_uses_with(new.results)
        op.erase()


def _scaled(value: Value, scale: Value, dim: int, builder: Builder) -> Value:
    """`value` in f32 times `scale`, of which one element serves a run of elements along `dim`."""
    insert = builder.insert
    shape, parts = value.type.shape, scale.type.shape
    run = shape[dim] // parts[dim]
    factors: Any = _to_f32(scale, builder)
    if run != 1:
        thin = TensorType((*parts[: dim + 1], 1, *parts[dim + 1 :]), f32)
        wide = TensorType((*parts[: dim + 1], run, *parts[dim + 1 :]), f32)
        factors = insert(aa.ViewOp(factors, result=thin)).results[0]
        factors = insert(aa.BroadcastOp(factors, result=wide)).results[0]
        factors = insert(aa.ViewOp(factors, result=TensorType(shape, f32))).results[0]
    return insert(aa.MulFOp(_to_f32(value, builder), factors)).results[0]


def _to_f32(value: Value, builder: Builder) -> Value:
    return builder.insert(aa.FpToFpOp(value, result=value.type.with_element_type(f32))).results[0]
