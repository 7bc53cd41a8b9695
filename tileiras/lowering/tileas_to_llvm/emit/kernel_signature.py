"""The signature of a lowered kernel."""

from __future__ import annotations

from typing import Any

from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import FloatType, IntegerType, StringAttr, Type, Value

from .types import scalar_type

_PARAMETERS = (IntegerType, FloatType, aa.PtrType)
_NO_VALUE = (aa.MemTokenType, aa.MemRefType, aa.TiledViewType)


def num_ctas_of(func: aa.FuncOp) -> int:
    """The CTAs of a cluster that share a tile block."""
    return tileas.number_of(func, tileas.CLUSTER_CTAS) or 1


def is_in_cluster(func: aa.FuncOp) -> bool:
    """Whether each launch makes the CTA one of a cluster."""
    return num_ctas_of(func) > 1 or tileas.PAIRS_OF in func.attributes


def define_kernel(func: aa.FuncOp, engine: DiagnosticEngine, flush_to_zero: bool) -> llvm.LLVMFuncOp:
    """The function of the LLVM dialect, with the kernel's parameters and an empty block.

    It keeps the properties of its launches as attributes of nv_tileas: `tileir-legalize-llvm-kernel` and
    `tileir-finalize-llvm-kernel` make a kernel of it.
    """
    arguments = func.body.blocks[0].arguments
    inputs = [_parameter_type(func, argument, engine) for argument in arguments]
    result = (*tileas.LAUNCH_FACTS, *aa.LAUNCH_HINTS)
    attributes: dict[str, Any] = {tileas.KERNEL_SPEC: func.kernel_spec}
    attributes |= {name: value for name, value in func.attributes.items() if name in result}
    if flush_to_zero:
        attributes["denormal_fp_math_f32"] = StringAttr("preserve-sign")
    return llvm.LLVMFuncOp.define(
        func.sym_name.value,
        inputs,
        arg_attrs=[_parameter_attributes(func, argument) for argument in arguments],
        attributes=attributes,
        location=func.location,
    )


def has_no_value(type: Type) -> bool:
    """Whether values of the type exist at compile time only."""
    return isinstance(type, _NO_VALUE)


def source_type(type: Type) -> str:
    """A parameter's type as a kernel's description names it: `ptr<f32>`, `i32`."""
    return f"ptr<{source_type(type.pointee)}>" if isinstance(type, aa.PtrType) else str(type)


def _parameter_type(func: aa.FuncOp, argument: Value, engine: DiagnosticEngine) -> Any:
    """The type of a kernel's parameter: a number, an address, or a tensor map passed by value."""
    if isinstance(argument.type, _PARAMETERS):
        return scalar_type(argument.type)
    if _map_of(func, argument) is not None:
        return llvm.LLVMPointerType(0)
    engine.error(func.location, f"failed to convert function signature type for: {argument.type}")
    raise CompileError(engine.diagnostics, ExitCode.COMPILE_FAILURE)


def _map_of(func: aa.FuncOp, argument: Value) -> StringAttr | None:
    """How the host fills an argument that is a tensor map; None for an ordinary argument."""
    if argument.type.name != names.TMA_DESC:
        return None
    maps = list(func.attributes.get(tileas.TENSOR_MAPS, ()))
    number = argument.index - len(func.function_type.inputs) + len(maps)
    return maps[number] if number >= 0 else None


def _parameter_attributes(func: aa.FuncOp, argument: Value) -> dict[str, Any]:
    fill = _map_of(func, argument)
    if fill is None:
        return {llvm.PARAMETER_TYPE: StringAttr(source_type(argument.type))}
    return {llvm.HIDDEN_PARAMETER: fill}
