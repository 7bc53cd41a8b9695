"""Float arithmetic with rounding modes and flushing.

f16, bf16, f32 and f64 are LLVM's own to nearest even; the other modes are instructions on f32 and f64.  Types without
arithmetic of their own are computed in f32 and converted back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import arith, math, nvvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import FloatType, Operation, UnitAttr, Value, element_type_of

from ..emit.function import FunctionLowering
from ..emit.types import NATIVE_FLOATS, ROUNDING, element_of
from . import shared_divisors
from .conversions import from_f32, round_to_tf32, to_f32

# PTX suffixes of rounding modes.


def compute_wide(
    type: FloatType, args: Sequence[Value], lowering: FunctionLowering, compute: Callable[[list[Value]], Value]
) -> Value:
    """`compute` on the arguments; for a type without arithmetic on f32 values, rounded once at the end."""
    if type.keyword in NATIVE_FLOATS:
        return compute(list(args))
    if type.keyword == "tf32":
        return round_to_tf32(compute(list(args)), lowering)
    return from_f32(type, compute([to_f32(type, a, lowering) for a in args]), lowering)


_OPERATIONS = {"add": arith.AddFOp, "sub": arith.SubFOp, "mul": arith.MulFOp, "div": arith.DivFOp}
_ROUNDED = {"add": "AddFOp", "sub": "AddFOp", "mul": "MulFOp", "div": "DivFOp"}
"""Names in nvvm, which is loaded by parts."""


def _insert(cls: type[Operation], values: Sequence[Value], lowering: FunctionLowering) -> Value:
    return lowering.emit.insert(cls.create(values, (values[0].type,)))


def _rounding(
    op: Operation, type: FloatType, lowering: FunctionLowering, approximable: bool = False
) -> dict[str, Any] | None:
    """The attributes of the instruction with a rounding mode, None when LLVM's own operation does the same."""
    is_f32 = type.keyword == "f32"
    mode = ROUNDING[op.rounding_mode.value]
    if mode == "rn" and is_f32 and approximable and lowering.approximate:
        mode = "approx"
    # LLVM's own operations flush by the function's attribute, the others have an attribute of their own.
    flushing = is_f32 and (op.flush_to_zero is not None or lowering.flush_to_zero and mode != "rn")
    if mode == "rn" and not flushing:
        return None
    return {"rounding": nvvm.FPRoundingModeAttr(mode), "ftz": UnitAttr() if flushing else None}


def _issue(
    cls: type, op: Operation, args: Sequence[Value], rounding: dict[str, Any], lowering: FunctionLowering
) -> Value:
    """The instruction; on f16 and bf16 the one of f32, whose result is then rounded further in the same direction."""
    emit = lowering.emit
    type = element_type_of(op.result.type)
    if type.keyword not in ("f16", "bf16"):
        return emit.insert(cls(*args, **rounding))
    wide = emit.insert(cls(*(to_f32(type, a, lowering) for a in args), **rounding))
    return from_f32(type, wide, lowering, op.rounding_mode.value)


def _arithmetic(name: str) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        type = element_type_of(op.result.type)
        lhs, rhs = lowering.matched(args)
        rounding = _rounding(op, type, lowering, approximable=name == "div")
        if rounding is None and name == "div" and tileas.SHARED_DIVISOR in op.attributes:
            return shared_divisors.divide(lhs, *lowering.emit.distinct(rhs), lowering)
        if rounding is None:
            return compute_wide(type, (lhs, rhs), lowering, lambda values: _insert(_OPERATIONS[name], values, lowering))
        if name == "sub":
            # PTX rounds x + (-y) as it does x - y, and LLVM has no intrinsic for the difference.
            rhs = _insert(arith.NegFOp, [rhs], lowering)
        return _issue(getattr(nvvm, _ROUNDED[name]), op, (lhs, rhs), rounding, lowering)

    return lower


def fma(op: tileas.FmaOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    type = element_type_of(op.result.type)
    args = lowering.matched(args)
    rounding = _rounding(op, type, lowering)
    if rounding is None:
        return compute_wide(type, args, lowering, lambda values: _insert(math.FmaOp, values, lowering))
    return _issue(nvvm.FmaOp, op, args, rounding, lowering)


def sqrt(op: tileas.SqrtOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    type = element_type_of(op.result.type)
    rounding = _rounding(op, type, lowering, approximable=True)
    if rounding is not None:
        return _issue(nvvm.SqrtOp, op, args[:1], rounding, lowering)
    if type.keyword in ("f32", "f64"):
        return _insert(math.SqrtOp, args[:1], lowering)
    # f32 has more than twice the bits of every narrower type plus two: rounding twice is rounding once.
    return from_f32(type, _insert(math.SqrtOp, [to_f32(type, args[0], lowering)], lowering), lowering)


def _high_product(cls: type[Operation]) -> Any:
    def lower(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        emit = lowering.emit

        def high(a: Value, b: Value) -> Value:
            product = cls.create((a, b), (a.type, a.type))
            emit.insert(product)
            return product.results[1]

        a, b = lowering.matched(args)
        # Vector constants have elements of at most 64 bits, and the back end splits vectors of i128 anyway.
        return emit.map_scalars(high, a, b) if element_of(a.type).width == 64 else high(a, b)

    return lower


addf = _arithmetic("add")
subf = _arithmetic("sub")
mulf = _arithmetic("mul")
divf = _arithmetic("div")
mulhiui = _high_product(arith.MulUIExtendedOp)
mulhisi = _high_product(arith.MulSIExtendedOp)
