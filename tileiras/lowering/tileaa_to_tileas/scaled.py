"""Block-scaled products where the target has no instruction for them.

Each run of K has one scale for a row and one for a column, so the product of the factors over the run is multiplied by
these two before it is added.  Factors of types that no instruction takes become f16, exactly.  Where runs are shorter
than any instruction is deep both factors are scaled first, in f32, exactly unless a scaled one overflows.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Builder, Operation, TensorType, Value, f16, f32

from .dot import DotPlans


def expand_scaled_products(func: Operation, dots: DotPlans) -> None:
    """Rewrites the block-scaled products of a function of nv_tileaa that no atom executes, in place."""
    for op in [op for op in func.walk() if isinstance(op, aa.BlockScaledMmaOp)]:
        if dots.scaled_atom(op) is not None:
            continue
        builder = Builder.before(op)
        new = _run_by_run(op, dots, builder) or _scaled_first(op, builder)
        op.replace_all_uses_with(new.results)
        op.erase()


def _run_by_run(op: Any, dots: DotPlans, builder: Builder) -> Any:
    """The product with scales of f32, and factors that a plain atom takes; None when there is none."""
    a, b = op.a, op.b
    if dots.run_atom(op) is None:
        a, b = (builder.insert(aa.FpToFpOp(v, result=v.type.with_element_type(f16))).results[0] for v in (a, b))
    scales = [_to_f32(v, builder) for v in (op.scale_a, op.scale_b)]
    new = builder.insert(aa.BlockScaledMmaOp(a, b, op.c, *scales, result=op.result.type))
    if dots.run_atom(new) is not None:
        return new
    new.erase()
    return None


def _scaled_first(op: Any, builder: Builder) -> Any:
    rank = op.a.type.rank
    a = _scaled(op.a, op.scale_a, rank - 1, builder)
    b = _scaled(op.b, op.scale_b, rank - 2, builder)
    return builder.insert(aa.DotOp(a, b, op.c, result=op.result.type))


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
