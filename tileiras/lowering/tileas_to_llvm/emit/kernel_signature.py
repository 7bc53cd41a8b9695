"""The signature of a lowered kernel: its parameters and the requirements of its launches."""

from __future__ import annotations

from typing import Any

from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import (
    DenseArrayAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    Type,
    UnitAttr,
    Value,
    i8,
    i32,
    i64,
)
from tileiras.targets.sm import WARP_SIZE

from .types import scalar_type

TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64
"""CUDA driver API, CUtensorMap; PTX ISA, "Tensor-map"."""

_PARAMETERS = (IntegerType, FloatType, aa.PtrType)
_NO_VALUE = (aa.MemTokenType, aa.MemRefType, aa.TiledViewType)


def num_ctas_of(func: aa.FuncOp) -> int:
    """The CTAs of a cluster that share a tile block."""
    return tileas.number_of(func, tileas.CLUSTER_CTAS) or 1


def is_in_cluster(func: aa.FuncOp) -> bool:
    """Whether each launch makes the CTA one of a cluster."""
    return num_ctas_of(func) > 1 or tileas.PAIRS_OF in func.attributes


def define_kernel(func: aa.FuncOp, engine: DiagnosticEngine, flush_to_zero: bool) -> llvm.LLVMFuncOp:
    """The kernel of the LLVM dialect, with its parameters, its launch requirements, and an empty block."""
    arguments = func.body.blocks[0].arguments
    inputs = [_parameter_type(func, argument, engine) for argument in arguments]
    attributes: dict[str, Any] = {
        "nvvm.kernel": UnitAttr(),
        "nvvm.reqntid": DenseArrayAttr(i32, (WARP_SIZE * tileas.block_warps(func),)),
    }
    if flush_to_zero:
        attributes["denormal_fp_math_f32"] = StringAttr("preserve-sign")
    if tileas.MIN_CTAS in func.attributes:
        attributes["nvvm.minctasm"] = func.attributes[tileas.MIN_CTAS]
    if num_ctas_of(func) > 1:
        # The launch counts clusters, which are the tile blocks (PTX ISA, ".blocksareclusters").
        attributes["nvvm.cluster_dim"] = DenseArrayAttr(i32, (num_ctas_of(func),))
        attributes["nvvm.blocksareclusters"] = UnitAttr()
    elif is_in_cluster(func):
        # The launch counts CTAs, which are the tile blocks.
        attributes["nvvm.cluster_dim"] = DenseArrayAttr(i32, (tileas.cluster_size(func),))
    attributes |= {name: value for name, value in func.attributes.items() if name in aa.LAUNCH_HINTS}
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
    return {
        "llvm.byval": llvm.LLVMArrayType(TENSOR_MAP_BYTES, i8),
        "llvm.align": IntegerAttr(TENSOR_MAP_ALIGNMENT, i64),
        llvm.GRID_CONSTANT: UnitAttr(),
        llvm.HIDDEN_PARAMETER: fill,
    }
