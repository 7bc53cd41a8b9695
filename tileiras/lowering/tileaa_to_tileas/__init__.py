"""nv_tileaa to nv_tileas: a layout for every tensor, an atom for every movement and dot, a number of warps.

    %x = nv_tileaa.tiled_load ... -> tensor<1024xf32>
    %y = nv_tileaa.addf %x, %x : tensor<1024xf32>

becomes, with 4 warps and 16-byte accesses,

    %x = nv_tileas.tiled_load ... {atom = #nv_tileas.copy_atom<ld_global, 4>} -> tensor<1024xf32, #layout>
    %y = nv_tileas.addf %x, %x : tensor<1024xf32, #layout>
"""

from __future__ import annotations

import sys
from typing import Any

from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.diagnostics import DiagnosticEngine, counted
from tileiras.dialects import arith, math
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ConversionTarget, Operation, TensorType, TypeConverter, apply_conversion
from tileiras.remarks import Remark
from tileiras.targets import Target

from . import control_flow, dot, memory, tensor
from .anchors import MemoryLayouts, has_large_factors, has_large_tiles
from .assignment import LayoutAssignment
from .dot import DotPlans
from .layouts import Layouts, constant, plain
from .num_warps import choose_num_warps
from .scaled import expand_scaled_products

UNCHANGED = (aa.FuncOp, aa.ReturnOp, aa.GlobalOp)
"""Operations of nv_tileaa that nv_tileas has as well."""

FAILURE = "failed to convert nv_tileaa to nv_tileas"


def _patterns() -> dict[type[Operation], Any]:
    table: dict[type[Operation], Any] = {op: plain for op in tileas.COUNTERPARTS}
    for dialect in (arith, math):
        table.update({op: plain for op in vars(dialect).values() if isinstance(op, type) and issubclass(op, Operation)})
    table[arith.ConstantOp] = constant
    for family in (tensor, memory, dot, control_flow):
        table.update(family.PATTERNS)
    debuginfo = sys.modules.get("tileiras.dialects.debuginfo")
    if debuginfo is not None:
        # No module can hold operations of a dialect that nobody has loaded.
        table.update(dict.fromkeys((debuginfo.ValueOp, debuginfo.AddrOp, debuginfo.DeclareOp), plain))
    return table


def _has_layouts(func: Operation) -> bool:
    """Whether this function went through here before.  Raises CompileError for one that did so in part."""
    done = [op for op in func.walk() if op.dialect == "nv_tileas"]
    if not done:
        return False
    for op in func.walk():
        plain = any(isinstance(value.type, TensorType) and value.type.encoding is None for value in op.results)
        if plain or op.dialect == "nv_tileaa" and not isinstance(op, UNCHANGED):
            engine = DiagnosticEngine()
            engine.error(done[0].location, f"failed to legalize operation '{done[0].name}'")
            engine.error(done[0].location, FAILURE)
            engine.raise_if_errors()
    return True


def convert_tileaa_to_tileas(
    module: Operation, target: Target, num_warps: int | None = None, engine: DiagnosticEngine | None = None
) -> None:
    """Converts every function of `module` in place.

    `num_warps` (a power of two) overrides the number chosen from the tiles.  Raises CompileError (code 5), located.
    """
    patterns = _patterns()
    legal = ConversionTarget(["nv_tileas"], {cls: lambda op: True for cls in (aa.ReturnOp, aa.GlobalOp)})
    for func in [op for op in module.walk() if isinstance(op, aa.FuncOp)]:
        if _has_layouts(func):
            continue
        if (func.kernel_spec.num_ctas or 1) > 1 and target.has("cluster"):
            # Loaded for such kernels only.
            from .plan_cta import plan_cta

            plan_cta(func, engine)
        warps = num_warps or func.kernel_spec.num_warps or choose_num_warps(func)
        if engine is not None and engine.remarks:
            asked = "as an option says" if num_warps else "as the kernel says" if func.kernel_spec.num_warps else ""
            engine.emit(
                Remark("analysis", "RemarkKernelLaunch", func.location,
                       counted(warps, "warp"), counted(func.kernel_spec.num_ctas or 1, "CTA"),
                       reason=asked or "chosen from its tiles", function=func.sym_name.value)
            )  # fmt: skip
        func.attributes["kernel_spec"] = func.kernel_spec.with_num_warps(warps)
        dots = DotPlans(target, warps)
        expand_scaled_products(func, dots)
        # Loaded for such kernels only.
        if has_large_factors(func, 32 * warps):
            from .product_slices import slice_products

            slice_products(func, warps, dots, engine)
        if has_large_tiles(func, 32 * warps):
            from .slicing import slice_tiles

            slice_tiles(func, warps, dots, engine)
        facts = DivisibilityAnalysis(func)
        remarks = engine is not None and engine.remarks
        assignment = LayoutAssignment(MemoryLayouts(func, facts, warps, remarks), dots)
        apply_conversion(
            func,
            patterns,
            legal,
            TypeConverter({}),
            make_data=lambda rewriter, assignment=assignment, name=func.sym_name.value: Layouts(
                assignment, rewriter, engine, name
            ),
            failure=FAILURE,
            engine=engine,
        )
