"""Printers of the IR, times and traces, as the options of the commands ask for them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

FLAGS = {
    "mlir-print-ir-before-all": "Print the module to standard error before every pass",
    "mlir-print-ir-after-all": "Print the module to standard error after every pass",
    "mlir-print-ir-after-change": "Print it after the passes that change it",
    "mlir-print-ir-after-failure": "Print what a pass that fails leaves behind",
    "mlir-timing": "Print the time of every pass to standard error",
    "verify-each": "Verify the module after every pass",
    "mlir-print-stacktrace-on-diagnostic": "Say in a note where in the compiler a diagnostic was made",
}

WORDS = {
    "mlir-print-ir-before": "Passes, with commas, before which the module is printed",
    "mlir-print-ir-after": "Passes, with commas, after which the module is printed",
    "mlir-pass-pipeline-crash-reproducer": "File for what a pass that fails was given",
}

SNAPSHOTS = {
    "frontend": {"after": frozenset({"convert-cudatile-to-tileaa"})},
    "tileas": {"before": frozenset({"convert-tileas-to-llvm"})},
}
"""Value of `emit-line-info` -> the snapshot, with locations, that it stands for."""


@contextlib.contextmanager
def watching(
    flags: Collection[str],
    words: Mapping[str, str],
    pipeline_options: Mapping[str, Any],
    diagnostics: Callable[[], Sequence[Any]],
) -> Iterator[tuple[list[Any], list[tuple[str, float]] | None]]:
    """Gives what watches passes in its block, and where their times go if anybody wants them.

    `flags` are those of FLAGS that are given, `words` the values of WORDS; `pipeline_options` those of `tileir{...}`;
    `diagnostics` gives what has been said so far.  Times and traces are written at the end, after a failure as well.
    """
    from tileiras.ir.pass_instrumentation import CrashReproducer, PassTimer, PassTrace, VerifyEach

    timer = PassTimer() if "mlir-timing" in flags else None
    trace = None
    path = pipeline_options.get("schedule-trace-file")
    if path:
        with contextlib.suppress(OSError):  # documented: a file that cannot be opened is no trace, and no error
            file = open(path, "w", encoding="utf-8")  # noqa: SIM115
            trace = PassTrace(file.write, diagnostics)
    checked = [VerifyEach()] if "verify-each" in flags else []
    watchers = [*checked, *_printers(flags, words, pipeline_options), *(each for each in (timer, trace) if each)]
    reproducer = words.get("mlir-pass-pipeline-crash-reproducer")
    if reproducer:
        watchers.append(CrashReproducer(reproducer, lambda text: _write(reproducer, text)))
    try:
        yield watchers, timer.seconds if timer is not None else None
    finally:
        if timer is not None:
            print(timer.report(), file=sys.stderr, end="")
        if trace is not None:
            trace.close()
            file.close()


def _printers(flags: Collection[str], words: Mapping[str, str], pipeline_options: Mapping[str, Any]) -> list[Any]:
    """What prints IR to standard error."""
    from tileiras.ir.pass_instrumentation import IRPrinter

    found = []
    chosen: dict[str, Any] = {}
    for when in ("before", "after"):
        names = words.get(f"mlir-print-ir-{when}")
        if f"mlir-print-ir-{when}-all" in flags or names is not None:
            chosen[when] = frozenset(names.split(",")) if names else True
    if "mlir-print-ir-after-change" in flags:
        chosen |= {"changed_only": True, "after": chosen.get("after", True)}
    if "mlir-print-ir-after-failure" in flags:
        chosen["on_failure"] = True
    if chosen:
        found.append(IRPrinter(_dump, **chosen))
    snapshot: Any = SNAPSHOTS.get(pipeline_options.get("emit-line-info", "none"))
    if snapshot is not None:
        found.append(IRPrinter(_dump, locations=True, **snapshot))
    return found


def _write(path: str, text: str) -> None:
    from tileiras.files import write_product

    write_product(path, text.encode("utf-8", "surrogateescape"))


def _dump(text: str) -> None:
    print(text, file=sys.stderr, end="")
