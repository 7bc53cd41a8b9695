"""The stage `check`: the verdict on one entry of a build, as an artifact.

In: the module of NAME.cuda_tile.mlir, and beside it NAME.ptx and NAME.json.  Out: the bytes of NAME.check.json, whose
places are lines of NAME.cuda_tile.mlir, and NAME.checked.json: NAME.json, which the check follows from, with the
verdict in short.

The artifact does not contain lines of the user's source, so that a changed comment does not repeat the check; findings
are printed with the current lines.
"""

from __future__ import annotations

import json

from tileiras.check.judgement import choose, judgement
from tileiras.check.judging import Image
from tileiras.check.places import places_in
from tileiras.check.verdict import INCONCLUSIVE, Finding, Verdict
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.inputs import UNSEEN, Input
from tileiras.ir import Operation, parse_module
from tileiras.stages import StageContext, StageOptions, StageResult, units


def run(source: Operation, options: StageOptions, context: StageContext) -> StageResult:
    missing = [suffix for suffix in (".ptx", ".json") if suffix not in context.beside]
    if missing:
        message = f"a check reads the PTX of a kernel and its description; there is no NAME{missing[0]}"
        raise CompileError.at(context.location, message, ExitCode.CONFIGURATION)
    metadata = json.loads(context.beside[".json"])
    name = units.entry_name(choose(source, None))
    file = f"{units.file_stem(name)}.cuda_tile.mlir"
    module = parse_module(units.module_text(source).decode(), file)
    image = Image(context.beside[".ptx"].decode(), name, metadata)
    exactness = {"ftz": options.ftz, "approx": options.approx}
    verdict = judgement(module, choose(module, None), image, options.gpu_name, exactness, is_silent=True)
    if verdict.is_cut_short:
        # Another machine comes further: no store has it for both.
        context.inputs.append(Input(UNSEEN, "the clock", ""))
    _report(verdict, module, source, context)
    data = json.dumps([verdict.to_json()], indent=1) + "\n"
    return StageResult(data.encode(), {".checked.json": with_verdict(metadata, verdict)})


def with_verdict(metadata: dict, verdict: Verdict) -> bytes:
    """NAME.json with the verdict on its kernel in short."""
    kernels = [
        {**row, "verdict": verdict.short()} if row["name"] == verdict.entry else row for row in metadata["kernels"]
    ]
    return (json.dumps({**metadata, "kernels": kernels}, indent=2, ensure_ascii=False) + "\n").encode()


def _report(verdict: Verdict, module: Operation, source: Operation, context: StageContext) -> None:
    """Report findings that fail a build, and a check that could judge no launch."""
    places = places_in(module, source)

    def diagnostic(severity: Severity, finding: Finding) -> Diagnostic:
        notes = [Diagnostic.note(None, str(each)) for each in verdict.launches if each.number == finding.launch]
        if finding.ptx_line is not None:
            notes.append(Diagnostic.note(None, f"in line {finding.ptx_line} of the PTX"))
        return Diagnostic(severity, places(finding.location) or context.location, finding.message, notes)

    for finding in verdict.failures:
        context.engine.emit(diagnostic(Severity.ERROR, finding))
    if verdict.status == INCONCLUSIVE:
        why = "; ".join(dict.fromkeys(each.message for each in verdict.findings)) or "there is no launch"
        context.engine.warning(context.location, f"'{verdict.entry}' could not be judged: {why}")
