"""Functions of math, of each thread's elements: an operation for each element where it becomes a call of libdevice, one
for all where it is an instruction or LLVM's own.

libdevice has f32 and f64; narrower floats are computed in f32, whose error disappears in the rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import arith, llvm, math
from tileiras.ir import Attribute, Operation, UnitAttr, Value, VerifyError, element_type_of, i32
from tileiras.lowering.math_to_funcs import is_instruction

from ..emit.function import FunctionLowering
from ..emit.types import count_of, vector_of
from .conversions import from_f32, to_f32
from .floats import compute_wide


def _function(cls: type[Operation]) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        args = lowering.matched(args)
        kind = element_type_of(op.result.type)
        if kind.keyword == "f64":
            return _of_elements(cls, args, lowering)
        wide = [to_f32(kind, a, lowering) for a in args]
        attributes = {name: value for name, value in op.attributes.items() if name in ("approx", "flush_to_zero")}
        if not is_instruction(cls.name, attributes):
            return from_f32(kind, _of_elements(cls, wide, lowering), lowering)
        if lowering.flush_to_zero:
            attributes["flush_to_zero"] = UnitAttr()
        return from_f32(kind, _insert(cls, wide, lowering, attributes), lowering)

    return lower


def _of_elements(cls: type[Operation], args: Sequence[Value], lowering: FunctionLowering) -> Value:
    """One operation for each element."""
    return lowering.emit.map_scalars(lambda *scalars: _insert(cls, scalars, lowering), *args)


def _insert(
    cls: type[Operation], args: Sequence[Value], lowering: FunctionLowering, flags: dict[str, Attribute] | None = None
) -> Value:
    return lowering.emit.insert(cls.create(args, (args[0].type,), flags))


def _rounding(cls: type[Operation]) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        kind = element_type_of(op.result.type)
        return compute_wide(kind, args, lowering, lambda values: _insert(cls, values, lowering))

    return lower


def absi(op: math.AbsIOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    (value,) = args
    negative = emit.icmp("slt", value, emit.integer(0, value.type))
    return emit.select(negative, emit.insert(llvm.SubOp(emit.integer(0, value.type), value)), value)


def fpowi(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    """A float to an integer power; libdevice takes the exponent as i32."""
    emit = lowering.emit
    base, exponent = lowering.matched(args)
    kind = element_type_of(op.result.type)
    width = element_type_of(op.rhs.type).width
    if width > 32:
        raise VerifyError("exponents wider than 32 bits are not supported")
    if width < 32:
        exponent = emit.insert(llvm.SExtOp(exponent, res=vector_of(i32, count_of(exponent.type))))
    if kind.keyword == "f64":
        return _of_elements(math.FPowIOp, (base, exponent), lowering)
    return from_f32(kind, _of_elements(math.FPowIOp, (to_f32(kind, base, lowering), exponent), lowering), lowering)


absf = _rounding(math.AbsFOp)
ceil = _rounding(math.CeilOp)
floor = _rounding(math.FloorOp)
exp = _function(math.ExpOp)
exp2 = _function(math.Exp2Op)
log = _function(math.LogOp)
log2 = _function(math.Log2Op)
rsqrt = _function(math.RsqrtOp)
sin = _function(math.SinOp)
cos = _function(math.CosOp)
tan = _function(math.TanOp)
sinh = _function(math.SinhOp)
cosh = _function(math.CoshOp)
tanh = _function(math.TanhOp)
powf = _function(math.PowFOp)
atan2 = _function(math.Atan2Op)
remf = _function(arith.RemFOp)
