"""Certificates of order in the stage `tileas`: the analysis before its decisions, the certificate behind them."""

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
"""Value of the option `deterministic` for which a kernel whose result may differ from run to run is an error."""


def trace(module: Operation, deterministic: str) -> Traced | None:
    """Analyze the kernel of a module of nv_tileaa and mark its sums; None for a module without exactly one kernel.

    Raises CompileError, at the cause, if the result may differ from run to run and `deterministic` is `require`.
    """
    functions = _functions(module)
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
    """Set the certificate of the kernel as an attribute of its function of nv_tileas."""
    functions = _functions(module)
    if traced is None or not functions:
        return
    from tileiras.targets import target

    from .lowered import complete

    gpu = target(functions[0].target_spec.value)
    lines = complete(traced, functions, gpu).words()
    functions[0].attributes[ORDER] = ArrayAttr([StringAttr(line) for line in lines])


def _functions(module: Operation) -> list[aa.FuncOp]:
    return [op for op in module.regions[0].blocks[0].operations if isinstance(op, aa.FuncOp)]


def _refused(ops: dict[int, Operation], certificate: Certificate, cause: Cause) -> Diagnostic:
    out = certificate.outputs[cause.output]
    memory = f"argument {out.argument}" if out.argument >= 0 else "memory that no argument leads to"
    may = "may differ" if cause.says == NO else "is not known to be the same"
    message = f"deterministic=require: {memory} {may} from run to run: {cause.why}"
    return Diagnostic(Severity.ERROR, ops[cause.op].location, message)
