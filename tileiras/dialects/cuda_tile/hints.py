"""Diagnostics for invalid optimization hints of a module, on request: by default they are ignored silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.diagnostics import DiagnosticEngine

if TYPE_CHECKING:
    from .ops_module import ModuleOp


def check_hints(module: ModuleOp, engine: DiagnosticEngine, *, as_errors: bool = False) -> None:
    """Warn of every senseless hint in a verified module; `as_errors` makes an operation that has one an error, too."""
    for op in module.walk():
        hints = op.attributes.get("optimization_hints")
        problems = hints.problems(op.name) if hints is not None else ()
        for text in problems:
            engine.warning(op.location, text)
        if problems and as_errors:
            engine.op_error(op, "Optimization hints verification failed")
