"""Certificates of order in the stage `tileas`: the analysis before its decisions, the certificate behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import order, targets
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.discardable_attributes import ORDER
from tileiras.ir import ArrayAttr, Operation, StringAttr

from .outputs import program_half

if TYPE_CHECKING:
    from .lowered import Traced


def trace(module: Operation) -> Traced | None:
    """Analyze the kernel of a module of nv_tileaa and mark its sums; None for a module without exactly one kernel."""
    functions = _functions(module)
    if len(functions) != 1:
        return None
    certificate, flow = program_half(functions[0])
    return order.lowered.Traced(flow, certificate)


def attach(module: Operation, traced: Traced | None) -> None:
    """Set the certificate of the kernel as an attribute of its function of nv_tileas."""
    functions = _functions(module)
    if traced is None or not functions:
        return
    gpu = targets.target(functions[0].target_spec.value)
    lines = order.lowered.complete(traced, functions, gpu).words()
    functions[0].attributes[ORDER] = ArrayAttr([StringAttr(line) for line in lines])


def _functions(module: Operation) -> list[aa.FuncOp]:
    return [op for op in module.regions[0].blocks[0].operations if isinstance(op, aa.FuncOp)]
