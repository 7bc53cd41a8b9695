"""Functions of math: the instruction where it is accurate enough or was requested, libdevice otherwise.

libdevice has f32 and f64; narrower floats are computed in f32, whose error disappears in the rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import llvm, nvvm
from tileiras.ir import Operation, UnitAttr, Value, VerifyError, element_type_of, f32, i32
from tileiras.support.named_tuple import NamedTuple

from ..emit.function import FunctionLowering
from ..emit.types import count_of, vector_of
from .conversions import from_f32, to_f32
from .floats import widened

if TYPE_CHECKING:
    from tileiras.dialects import math

LOG2_E = 1.4426950408889634


class Function(NamedTuple):
    """How a function is computed: libdevice's names for f32 and f64, and the instruction for `approx` (f32), if any.

    `is_accurate`: the library's function consists of the instruction, which therefore also serves flushing operations.
    `scale`: the factor that is applied to the argument of the instruction first.
    """

    f32: str
    f64: str
    instruction: type | None = None
    is_accurate: bool = False
    scale: float | None = None

    def __call__(self, op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        emit = lowering.emit
        args = lowering.matched(args)
        kind = element_type_of(op.result.type)
        if kind.keyword == "f64":
            return emit.map_scalars(lambda *xs: lowering.library_call(self.f64, xs, kind), *args)
        wide = [to_f32(kind, a, lowering) for a in args]
        approx = getattr(op, "approx", None) is not None
        flush = getattr(op, "flush_to_zero", None) is not None
        if self.instruction is not None and (approx or flush and self.is_accurate):
            flush = flush or lowering.flush_to_zero
            # tanh.approx has no flushing form: it keeps subnormals, which flushing permits.
            named = {"ftz": UnitAttr()} if flush and self.instruction is not nvvm.TanhOp else {}
            if self.scale is not None:
                scaled_by = emit.floating(self.scale, wide[0].type)
                wide = [emit.insert(nvvm.MulFOp(wide[0], scaled_by, rounding=nvvm.FPRoundingModeAttr("rn"), **named))]
            result = emit.insert(self.instruction(*wide, **named))
        else:
            result = emit.map_scalars(lambda *xs: lowering.library_call(self.f32, xs, f32), *wide)
        return from_f32(kind, result, lowering)


def _rounding(name: str) -> Any:
    def lower(op: Operation, args: Sequence[Value], lowering: FunctionLowering) -> Value:
        kind = element_type_of(op.result.type)
        return widened(kind, args, lowering, lambda values: lowering.emit.intrinsic(name, *values))

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
        return emit.map_scalars(lambda x, n: lowering.library_call("__nv_powi", (x, n), kind), base, exponent)
    wide = to_f32(kind, base, lowering)
    result = emit.map_scalars(lambda x, n: lowering.library_call("__nv_powif", (x, n), f32), wide, exponent)
    return from_f32(kind, result, lowering)


absf = _rounding("fabs")
ceil = _rounding("ceil")
floor = _rounding("floor")

# Accuracies: CUDA math API, "Mathematical Functions Appendix"; PTX ISA for the approximations.
exp = Function("__nv_expf", "__nv_exp", nvvm.Ex2Op, scale=LOG2_E)
exp2 = Function("__nv_exp2f", "__nv_exp2", nvvm.Ex2Op, True)
log = Function("__nv_logf", "__nv_log")
log2 = Function("__nv_log2f", "__nv_log2", nvvm.Lg2Op)
rsqrt = Function("__nv_rsqrtf", "__nv_rsqrt", nvvm.RsqrtOp, True)
sin = Function("__nv_sinf", "__nv_sin", nvvm.SinOp)
cos = Function("__nv_cosf", "__nv_cos", nvvm.CosOp)
tan = Function("__nv_tanf", "__nv_tan")
sinh = Function("__nv_sinhf", "__nv_sinh")
cosh = Function("__nv_coshf", "__nv_cosh")
tanh = Function("__nv_tanhf", "__nv_tanh", nvvm.TanhOp)
powf = Function("__nv_powf", "__nv_pow")
atan2 = Function("__nv_atan2f", "__nv_atan2")
remf = Function("__nv_fmodf", "__nv_fmod")
