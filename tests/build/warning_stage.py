"""A stage for tests: emits a diagnostic for every constant and passes the module on."""

from tileiras.diagnostics import Diagnostic
from tileiras.stages import StageResult

RUNS: list[str] = []


def run(source, options, context):
    RUNS.append(options.gpu_name)
    for op in source.walk():
        if op.name == "arith.constant":
            context.engine.warning(op.location, "a constant", [Diagnostic.note(context.location, "in this kernel")])
    return StageResult(source)
