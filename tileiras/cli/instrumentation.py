"""IR printers, timing and traces, as requested by the options of the commands."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import schedule
from tileiras.cli.outputs import Outputs
from tileiras.diagnostics import CompileError

if TYPE_CHECKING:
    from tileiras.ir import Operation
    from tileiras.ir.pass_instrumentation import CrashReproducer, PassTrace

FLAGS = {
    "mlir-print-ir-before-all": "Print the module to standard error before every pass",
    "mlir-print-ir-after-all": "Print the module to standard error after every pass",
    "mlir-print-ir-after-change": "Print it after the passes that change it",
    "mlir-print-ir-after-failure": "Print the module after a pass that fails",
    "mlir-timing": "Print the time of every pass to standard error",
    "verify-each": "Verify the module after every pass",
    "mlir-print-stacktrace-on-diagnostic": "Attach the compiler's stack trace to diagnostics as a note",
}

WORDS = {
    "mlir-print-ir-before": ("passes", "Comma-separated passes; print the module before them"),
    "mlir-print-ir-after": ("passes", "Comma-separated passes; print the module after them"),
    "mlir-pass-pipeline-crash-reproducer": ("file", "File for the input of a pass that fails"),
}
"""Option -> the placeholder of its value, and its text."""

SNAPSHOTS = {
    "frontend": {"after": frozenset({"convert-cudatile-to-tileaa"})},
    "tileas": {"before": frozenset({"convert-tileas-to-nvgpu"})},
}
"""Value of `emit-line-info` -> the snapshot, with locations, that it stands for."""


class Records:
    """The files in which a run records its passes: a trace for a timeline viewer, and the input of a pass that fails.

    `words` are the values of WORDS, `pipeline_options` those of `tileir{...}`.  Raises UsageError for a file that is an
    input or another output, CompileError (code 2) for a pass to watch that there is not.
    """

    def __init__(self, outputs: Outputs, words: Mapping[str, Any], pipeline_options: Mapping[str, Any]) -> None:
        _check_passes(words)
        self._outputs = outputs
        self.pipeline_options = pipeline_options
        self.trace: PassTrace | None = None
        self.reproducer: CrashReproducer | None = None
        path = pipeline_options.get("schedule-trace-file")
        if path:
            self._trace_file = outputs.writes(path, "schedule-trace-file")
            self.trace = tileiras.ir.pass_instrumentation.PassTrace({"tileas-generate-schedule": _placement})
        path = words.get("mlir-pass-pipeline-crash-reproducer")
        if path:
            self._reproducer_file = outputs.writes(path, "--mlir-pass-pipeline-crash-reproducer")
            self.reproducer = tileiras.ir.pass_instrumentation.CrashReproducer(path, self._write_reproducer)

    def _write_reproducer(self, text: str) -> None:
        self._outputs.publish([(self._reproducer_file, text.encode("utf-8", "surrogateescape"))])

    def close(self) -> None:
        """Write the trace.  As documented, a file that cannot be opened is not written and is not an error."""
        if self.trace is not None:
            with contextlib.suppress(CompileError, BrokenPipeError):
                self._outputs.publish([(self._trace_file, self.trace.text().encode("utf-8", "surrogateescape"))])


def _placement(module: Operation, before: int) -> list[dict[str, Any]]:
    """Events for the loops whose operations have stages, in processes behind the first `before`."""
    return schedule.schedule_trace.placement_events(module, before)


def _check_passes(words: Mapping[str, Any]) -> None:
    """Raise CompileError (code 2) for the first name in `mlir-print-ir-before` and `-after` that is not a pass."""
    for option in ("mlir-print-ir-before", "mlir-print-ir-after"):
        for name in words[option].split(",") if option in words else ():
            try:
                tileiras.passes.lookup_pass(name)
            except CompileError as error:
                message = f"for the --{option} option: {error.diagnostics[0].message}"
                raise CompileError.at(None, message, error.code) from None


@contextlib.contextmanager
def watching(
    flags: Collection[str],
    words: Mapping[str, str],
    records: Records,
    diagnostics: Callable[[], Sequence[Any]],
) -> Iterator[tuple[list[Any], list[tuple[str, float]] | None]]:
    """Yield the pass instrumentations for the block, and the list that receives times if timing is requested.

    `flags` are the given ones of FLAGS, `words` the values of WORDS; `diagnostics` returns the diagnostics so far.
    Times are written at the end, after a failure as well.
    """
    timer = tileiras.ir.pass_instrumentation.PassTimer() if "mlir-timing" in flags else None
    if records.trace is not None:
        records.trace.follow(diagnostics)
    checked = [tileiras.ir.pass_instrumentation.VerifyEach()] if "verify-each" in flags else []
    recorded = (timer, records.trace, records.reproducer)
    watchers = [*checked, *_printers(flags, words, records.pipeline_options), *(each for each in recorded if each)]
    try:
        yield watchers, timer.seconds if timer is not None else None
    finally:
        if timer is not None:
            print(timer.report(), file=sys.stderr, end="")


def _printers(flags: Collection[str], words: Mapping[str, str], pipeline_options: Mapping[str, Any]) -> list[Any]:
    """The instrumentations that print IR to standard error."""
    printers = []
    options: dict[str, Any] = {}
    for when in ("before", "after"):
        names = words.get(f"mlir-print-ir-{when}")
        if f"mlir-print-ir-{when}-all" in flags or names is not None:
            options[when] = frozenset(names.split(",")) if names else True
    if "mlir-print-ir-after-change" in flags:
        options |= {"changed_only": True, "after": options.get("after", True)}
    if "mlir-print-ir-after-failure" in flags:
        options["on_failure"] = True
    if options:
        printers.append(tileiras.ir.pass_instrumentation.IRPrinter(_dump, **options))
    snapshot: Any = SNAPSHOTS.get(pipeline_options.get("emit-line-info", "none"))
    if snapshot is not None:
        printers.append(tileiras.ir.pass_instrumentation.IRPrinter(_dump, locations=True, **snapshot))
    return printers


def _dump(text: str) -> None:
    print(text, file=sys.stderr, end="")
