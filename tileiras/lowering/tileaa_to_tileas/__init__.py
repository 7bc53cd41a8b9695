"""nv_tileaa to nv_tileas: one operation for another.

    %x = nv_tileaa.tiled_load ... -> tensor<1024xf32>          %x = nv_tileas.tiled_load ... -> tensor<1024xf32>
    %y = nv_tileaa.addf %x, %x : tensor<1024xf32>        ->    %y = nv_tileas.addf %x, %x : tensor<1024xf32>

Layouts and atoms are for the passes behind it to choose.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.function_state import KEPT, is_nv_tileas
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import ConversionRewriter, ConversionTarget, Operation, TypeConverter, apply_conversion

FAILURE = "failed to convert nv_tileaa to nv_tileas"

SHARED = ("arith", "math", "scf", "debuginfo")
"""Dialects whose operations both levels have."""


def _counterpart(op: Operation, args: tuple, rewriter: ConversionRewriter) -> Operation:
    regions = [rewriter.convert_region(region) for region in op.regions]
    types = [result.type for result in op.results]
    return rewriter.insert(tileas.COUNTERPARTS[type(op)].create(args, types, dict(op.attributes), regions))


PATTERNS: dict[type[Operation], Any] = dict.fromkeys(tileas.COUNTERPARTS, _counterpart)


def convert_function(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Converts a function in place; one that is of nv_tileas already stays as it is.

    Raises CompileError (code 5), located, for an operation that nv_tileas does not have, and for a function that is of
    nv_tileas in part.
    """
    if _is_converted(func):
        return
    kept = ConversionTarget(SHARED, {cls: lambda op: True for cls in (aa.ReturnOp, aa.GlobalOp)})
    apply_conversion(func, PATTERNS, kept, TypeConverter({}), failure=FAILURE, engine=engine)


def _is_converted(func: aa.FuncOp) -> bool:
    if not is_nv_tileas(func):
        return False
    if any(op.dialect == "nv_tileaa" and not isinstance(op, KEPT) for op in func.walk()):
        done = next(op for op in func.walk() if op.dialect == "nv_tileas")
        engine = DiagnosticEngine()
        engine.error(done.location, f"failed to legalize operation '{done.name}'")
        engine.error(done.location, FAILURE)
        engine.raise_if_errors()
    return True
