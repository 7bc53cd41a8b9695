"""`verify-deterministic`: an error at each operation by which results may differ from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.run_order import order_dependences
from tileiras.diagnostics import CompileError, Diagnostic, Severity
from tileiras.ir import Operation, Pass

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class VerifyDeterministic(Pass):
    name = "verify-deterministic"
    anchor = "cuda_tile.module"
    needs = "`cuda_tile`"
    establishes = "that two runs of one launch give the same bits"
    keeps = "the module"

    def run(self, op: Operation, context: PassContext) -> None:
        errors = [
            Diagnostic(
                Severity.ERROR, each.operation.location,
                f"'{each.operation.name}' op {each.reason}: results may differ from run to run",
            )
            for each in order_dependences(op)
        ]  # fmt: skip
        if errors:
            raise CompileError(errors)
