"""Functions of math to calls of libdevice, or to instructions where these are accurate enough or were asked for.

    %y = math.exp %x : f32                    ->   %y = llvm.call @__nv_expf(%x) {no_memory}
    %y = math.exp2 %x {approx} : f32          ->   %y = nvvm.ex2.approx %x : f32

libdevice has f32 and f64; an operation that becomes a call is one of scalars.  Operations of absolute value, roundings,
square root and fused multiply-add are LLVM's own (`lowering.to_llvm`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.ir import (
    DenseElementsAttr,
    FloatAttr,
    Operation,
    SymbolRefAttr,
    Type,
    UnitAttr,
    VectorType,
    VerifyError,
    f32,
)
from tileiras.support.named_tuple import NamedTuple

LOG2_E = 1.4426950408889634


class Function(NamedTuple):
    """How a function is computed: libdevice's names for f32 and f64, and the instruction for `approx` (f32), if any.

    `is_accurate`: the library's function consists of the instruction, which therefore also serves flushing operations.
    `scale`: the factor that is applied to the argument of the instruction first.
    """

    f32: str
    f64: str
    instruction: str = ""
    """A class of `dialects.nvvm`, which is loaded by parts."""
    is_accurate: bool = False
    scale: float | None = None
    has_flushing_form: bool = True
    """tanh.approx keeps subnormals, which flushing permits."""


FUNCTIONS: Mapping[str, Function] = {
    "math.exp": Function("__nv_expf", "__nv_exp", "Ex2Op", scale=LOG2_E),
    "math.exp2": Function("__nv_exp2f", "__nv_exp2", "Ex2Op", True),
    "math.log": Function("__nv_logf", "__nv_log"),
    "math.log2": Function("__nv_log2f", "__nv_log2", "Lg2Op"),
    "math.rsqrt": Function("__nv_rsqrtf", "__nv_rsqrt", "RsqrtOp", True),
    "math.sin": Function("__nv_sinf", "__nv_sin", "SinOp"),
    "math.cos": Function("__nv_cosf", "__nv_cos", "CosOp"),
    "math.tan": Function("__nv_tanf", "__nv_tan"),
    "math.sinh": Function("__nv_sinhf", "__nv_sinh"),
    "math.cosh": Function("__nv_coshf", "__nv_cosh"),
    "math.tanh": Function("__nv_tanhf", "__nv_tanh", "TanhOp", has_flushing_form=False),
    "math.powf": Function("__nv_powf", "__nv_pow"),
    "math.fpowi": Function("__nv_powif", "__nv_powi"),
    "math.atan2": Function("__nv_atan2f", "__nv_atan2"),
    "arith.remf": Function("__nv_fmodf", "__nv_fmod"),
}
"""Accuracies: CUDA math API, "Mathematical Functions Appendix"; PTX ISA for the approximations."""


def is_instruction(name: str, attributes: Mapping[str, Any]) -> bool:
    """Whether a function of f32 with these attributes is an instruction rather than a call."""
    row = FUNCTIONS[name]
    return bool(row.instruction) and ("approx" in attributes or "flush_to_zero" in attributes and row.is_accurate)


def convert(op: Operation, row: Function) -> llvm.LLVMFuncOp | None:
    """Convert one operation in place; return the declaration of the function that it calls, if it calls one.

    Raises VerifyError for a type that has neither function nor instruction.
    """
    type = op.results[0].type
    element = type.element_type if isinstance(type, VectorType) else type
    if element is f32 and is_instruction(op.name, op.attributes):
        _to_instruction(op, row, type)
        return None
    called = {"f32": row.f32, "f64": row.f64}.get(str(type))
    if called is None:
        raise VerifyError(f"has no function for '{type}': libdevice has those of f32 and f64")
    op.attributes = {"callee": SymbolRefAttr(called), "no_memory": UnitAttr()}
    op.become(llvm.CallOp)
    return llvm.LLVMFuncOp.declare(called, [value.type for value in op.operands], type, location=op.location)


def _to_instruction(op: Operation, row: Function, type: Type) -> None:
    flushes = "flush_to_zero" in op.attributes and row.has_flushing_form
    attributes: dict[str, Any] = {"ftz": UnitAttr()} if flushes else {}
    if row.scale is not None:
        factor = llvm.ConstantOp(_splat(row.scale, type), type)
        rounding = nvvm.FPRoundingModeAttr("rn")
        scaled = nvvm.MulFOp.create((op.operands[0], factor.results[0]), (type,), {"rounding": rounding, **attributes})
        for new in (factor, scaled):
            new.location = op.location
            op.parent.insert_before(new, op)  # type: ignore[union-attr]
        op.operands = (scaled.results[0],)
    op.attributes = attributes
    op.become(getattr(nvvm, row.instruction))


def _splat(value: float, type: Any) -> FloatAttr | DenseElementsAttr:
    if not isinstance(type, VectorType):
        return FloatAttr.from_float(value, type)
    bits = FloatAttr.from_float(value, type.element_type).bits
    return DenseElementsAttr(type, bits.to_bytes(4, "little") * type.shape[0])
