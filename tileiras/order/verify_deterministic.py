"""`verify-deterministic`: an error at the cause if the result of a kernel may differ from run to run.

The certificate of order (`tileiras/order/`) states the causes; those of further outputs are notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.diagnostics import CompileError, Diagnostic
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Location, Operation, Pass
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
        reasons = [reason for func in functions for reason in _reasons(func)]
        if reasons:
            (location, message), *others = reasons
            notes = [Diagnostic.note(location, message) for location, message in others]
            raise CompileError.at(location, f"deterministic=require: {message}", notes=notes)


def _reasons(func: aa.FuncOp) -> Iterator[tuple[Location, str]]:
    """The first cause of each output that may differ, certain ones first; outputs with the same cause are one."""
    certificate, flow = program_half(func)
    ops = {number: op for op, number in flow.numbers.items()}
    first: dict[int, Cause] = {}
    for cause in sorted(certificate.causes, key=lambda cause: cause.says != NO):
        first.setdefault(cause.output, cause)
    outputs: dict[tuple[bool, int, str], list[str]] = {}
    for cause in first.values():
        argument = certificate.outputs[cause.output].argument
        memory = f"argument {argument}" if argument >= 0 else "memory that no argument leads to"
        outputs.setdefault((cause.says != NO, cause.op, cause.why), []).append(memory)
    for (is_unknown, number, why), memories in sorted(outputs.items()):
        one = len(memories) == 1
        may = f"{'is' if one else 'are'} not known to be the same" if is_unknown else "may differ"
        yield ops[number].location, f"{' and '.join(memories)} {may} from run to run: {why}"
