"""Certificates of order in the stage `tileas`: what is found before its decisions, and what is added behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.diagnostics import CompileError, Diagnostic, Severity
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.discardable_attributes import ORDER
from tileiras.ir import ArrayAttr, Operation, StringAttr

from .certificate import NO, Cause, Certificate
from .outputs import program_half

if TYPE_CHECKING:
    from .lowered import Traced

REQUIRE = "require"
"""Of the option `deterministic`: kernels whose results may differ from run to run are errors."""


def trace(module: Operation, deterministic: str) -> Traced | None:
    """What is known of the kernel of a module of nv_tileaa, which can be followed through the decisions.

    Raises CompileError, at what makes it so, where its results may differ from run to run and must not.
    """
    functions = [op for op in module.regions[0].blocks[0].operations if isinstance(op, aa.FuncOp)]
    if len(functions) != 1:
        return None
    certificate, flow = program_half(functions[0])
    if deterministic == REQUIRE:
        ops = {number: op for op, number in flow.numbers.items()}
        first: dict[int, Cause] = {}
        for cause in sorted(certificate.causes, key=lambda cause: cause.says != NO):
            first.setdefault(cause.output, cause)
        if first:
            raise CompileError([_refused(ops, certificate, first[number]) for number in sorted(first)])
    from .lowered import Traced

    return Traced(flow, certificate)


def attach(module: Operation, traced: Traced | None) -> None:
    """Leaves the certificate of a kernel in the nv_tileas that was made of it."""
    functions = [op for op in module.regions[0].blocks[0].operations if isinstance(op, aa.FuncOp)]
    if traced is None or not functions:
        return
    from tileiras.targets import target

    from .lowered import complete

    gpu = target(functions[0].target_spec.value)
    lines = complete(traced, functions, gpu).words()
    functions[0].attributes[ORDER] = ArrayAttr([StringAttr(line) for line in lines])


def _refused(ops: dict[int, Operation], certificate: Certificate, cause: Cause) -> Diagnostic:
    out = certificate.outputs[cause.output]
    memory = f"argument {out.argument}" if out.argument >= 0 else "memory that no argument leads to"
    may = "may differ" if cause.says == NO else "is not known to be the same"
    message = f"deterministic=require: {memory} {may} from run to run: {cause.why}"
    return Diagnostic(Severity.ERROR, ops[cause.op].location, message)
