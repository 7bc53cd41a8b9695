"""nv_tileaa to nv_tileas: one operation for another.

    %x = nv_tileaa.tiled_load ... -> tensor<1024xf32>          %x = nv_tileas.tiled_load ... -> tensor<1024xf32>
    %y = nv_tileaa.addf %x, %x : tensor<1024xf32>        ->    %y = nv_tileas.addf %x, %x : tensor<1024xf32>

Layouts and atoms are for the passes after it to choose.
"""

from __future__ import annotations

from tileiras.analysis.function_state import KEPT, is_nv_tileas
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation

FAILURE = "failed to convert nv_tileaa to nv_tileas"

SHARED = ("arith", "math", "scf", "debuginfo")
"""Dialects whose operations both levels have."""


def convert_function(func: aa.FuncOp, engine: DiagnosticEngine | None = None) -> None:
    """Convert a function in place; one that is of nv_tileas already stays as it is.

    Raises CompileError (code 5), located, for an operation that nv_tileas does not have, and for a function that is of
    nv_tileas in part.
    """
    if _is_converted(func):
        return
    for op in func.walk():
        counterpart = tileas.COUNTERPARTS.get(type(op))
        if counterpart is not None:
            op.become(counterpart)
        elif not isinstance(op, KEPT) and op.dialect not in SHARED:
            raise _not_legalized(op, engine if engine is not None else DiagnosticEngine())


def _not_legalized(op: Operation, engine: DiagnosticEngine) -> CompileError:
    engine.error(op.location, f"failed to legalize operation '{op.name}'")
    engine.error(op.location, FAILURE)
    return CompileError(engine.diagnostics)


def _is_converted(func: aa.FuncOp) -> bool:
    if not is_nv_tileas(func):
        return False
    if any(op.dialect == "nv_tileaa" and not isinstance(op, KEPT) for op in func.walk()):
        legal_op = next(op for op in func.walk() if op.dialect == "nv_tileas")
        raise _not_legalized(legal_op, DiagnosticEngine())
    return True
