"""cuda_tile to nv_tileaa.

    %v = make_partition_view %t : partition_view<tile=(64), tensor_view<?xf32, strides=[1]>>
    %x, %k = load_view_tko weak %v[%i] : ... -> tile<64xf32>, token

becomes

    %v = nv_tileaa.block_tile %t : !nv_tileaa.tiled_view<64, !nv_tileaa.memref<?xf32, strides = [1]>>
    %x, %k = nv_tileaa.tiled_load %v[%i] : ... -> tensor<64xf32>, !nv_tileaa.mem_token

No operation of cuda_tile is left, and none chooses a layout.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import builtin
from tileiras.dialects import cuda_tile as ct
from tileiras.ir import ConversionTarget, Operation, Region, apply_conversion

from . import arith, control_flow, memory, tensor
from .types import convert_type

FAILURE = "failed to convert cuda_tile to nv_tileaa"


class KernelOptions(NamedTuple):
    """What the conversion is told about the launch: the target, and warps and CTAs where they are forced."""

    gpu_name: str
    num_warps: int | None = None
    num_ctas: int | None = None


def patterns() -> dict[type[Operation], Any]:
    table: dict[type[Operation], Any] = {}
    for family in (arith, memory, tensor, control_flow):
        table.update(family.PATTERNS)
    return table


def convert_cuda_tile_to_tileaa(
    module: ct.ModuleOp, options: KernelOptions, engine: DiagnosticEngine | None = None
) -> builtin.ModuleOp:
    """A builtin.module with a function for each entry; takes over the body of `module`.

    Raises CompileError (code 5), located.
    """
    converted = builtin.ModuleOp(body=Region().take_blocks(module.body), location=module.location)
    target = ConversionTarget(["arith", "math", "scf", "nv_tileaa"])
    apply_conversion(converted, patterns(), target, convert_type, data=options, failure=FAILURE, engine=engine)
    return converted
