"""The pass manager as MLIR's Python bindings name it."""

from __future__ import annotations

from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.driver import tileir_pipeline
from tileiras.ir import Operation as CoreOperation
from tileiras.ir.pass_manager import Pass, PassContext, parse_pipeline
from tileiras.ir.pass_manager import PassManager as CoreManager
from tileiras.passes import lookup_pass

from .ir import Context, Operation, _context, unwrap


class PipelineError(CompileError, ValueError):
    """A pipeline that cannot be read, which is a ValueError of MLIR's bindings."""


class PassManager:
    """An ordered list of passes.  `anchor_op` is the operation that a pipeline added later runs on, or `any`."""

    def __init__(self, anchor_op: str = "any", context: Context | None = None) -> None:
        self.context = _context(context)
        self._anchor = anchor_op
        self._passes: list[Pass] = []
        self._verify = True

    @classmethod
    def parse(cls, pipeline: str, context: Context | None = None) -> PassManager:
        """The manager of a textual pipeline, `anchor(pass{key=value ...},...)`.  Raises PipelineError."""
        pipelines = cls("any", context)
        pipelines.add(pipeline)
        return pipelines

    def add(self, pipeline: str) -> None:
        """Append the passes of a textual pipeline.  Raises PipelineError."""
        nested = pipeline if self._anchor == "any" else f"{self._anchor}({pipeline})"
        try:
            self._passes += parse_pipeline(nested, lookup_pass, PIPELINES)
        except CompileError as error:
            raise PipelineError(error.diagnostics, error.code) from None

    def enable_verifier(self, enable: bool) -> None:
        """Whether the IR is verified after each pass, which is the default."""
        self._verify = enable

    def run(self, operation: Operation | CoreOperation) -> None:
        """Run the passes on an operation, in place; warnings go to standard error.  Raises MLIRError."""
        engine = DiagnosticEngine()
        CoreManager(self._passes, verify_each=self._verify).run(unwrap(operation), PassContext(engine))
        if engine.diagnostics:
            import sys

            from tileiras.diagnostics import render

            print(render(engine.diagnostics), file=sys.stderr)

    def __str__(self) -> str:
        return ",".join(item.pipeline() for item in self._passes)


def _tileir(braces: str) -> list[Pass]:
    return tileir_pipeline.build(tileir_pipeline.TileIRPipelineOptions.parse("{" + braces + "}"))


PIPELINES = {"tileir": _tileir, "tileas": tileir_pipeline.tileas_passes}
"""The pipelines of `tileiras-opt`."""
