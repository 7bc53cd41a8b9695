"""`verify-deterministic`: an error for each output that may differ from run to run, at the cause.

The certificate of order (`tileiras/order/`) states the causes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.diagnostics import CompileError, Diagnostic, Severity
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, Pass
from tileiras.ir.pass_manager import PassContext
from tileiras.order.certificate import NO, Cause
from tileiras.order.outputs import program_half


class VerifyDeterministic(Pass):
    name = "verify-deterministic"
    anchor = "builtin.module"
    needs = "`nv_tileaa`"
    establishes = "that two runs of one launch give the same bits"
    keeps = "the module"

    def run(self, op: Operation, context: PassContext) -> None:
        functions = [func for func in op.regions[0].operations if isinstance(func, aa.FuncOp)]
        errors = [error for func in functions for error in _refusals(func)]
        if errors:
            raise CompileError(errors)


def _refusals(func: aa.FuncOp) -> Iterator[Diagnostic]:
    """One error for each operation that is the first cause of outputs."""
    certificate, flow = program_half(func)
    ops = {number: op for op, number in flow.numbers.items()}
    first: dict[int, Cause] = {}
    for cause in sorted(certificate.causes, key=lambda cause: cause.says != NO):
        first.setdefault(cause.output, cause)
    outputs: dict[tuple[int, str, str], list[str]] = {}
    for cause in first.values():
        argument = certificate.outputs[cause.output].argument
        memory = f"argument {argument}" if argument >= 0 else "memory that no argument leads to"
        outputs.setdefault((cause.op, cause.says, cause.why), []).append(memory)
    for (number, says, why), memories in sorted(outputs.items()):
        may = "may differ" if says == NO else "is not known to be the same"
        message = f"deterministic=require: {' and '.join(memories)} {may} from run to run: {why}"
        yield Diagnostic(Severity.ERROR, ops[number].location, message)
