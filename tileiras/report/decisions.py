"""Decisions of the compiler: its remarks, obstacles with their remedies, and the changes of each pass."""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tileiras import pipeline
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.ir import Operation, parse_module, print_op
from tileiras.ir.pass_instrumentation import PassInstrumentation
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.options import CompileOptions
from tileiras.report.alignment import Places
from tileiras.report.model import Cause, Choice, Obstacle, PassChange
from tileiras.stages import tileas

DIFFERENCE_LINES = 200
"""Most lines of a pass's diff in a report."""

ACCESSES = ("access.load", "access.store", "access.atomic")
"""Codes of accesses to memory by threads."""

WIDEST = 16
"""Bytes of the widest access of a thread below sm_100 (PTX ISA, ld: .v4.b32, .v2.b64)."""


def choices(remarks: Iterable[Remark], places: Places) -> tuple[Choice, ...]:
    """Remarks as data, in the order of their emission, with repetitions."""
    result = []
    for remark in remarks:
        position = remark.position
        where = places.of([position]) if position is not None else ()
        causes = tuple(Cause(each.code, dict(each.arguments), each.remedy) for each in remark.cause or ())
        result.append(
            Choice(remark.kind, remark.category, where, remark.code, dict(remark.code_arguments), remark.text,
                   dict(remark.arguments), remark.reason, causes)
        )  # fmt: skip
    return tuple(result)


def obstacles(choices: Iterable[Choice]) -> tuple[Obstacle, ...]:
    """Suboptimal choices: those with a cause that counts as an obstacle, narrow accesses first."""
    rows: list[tuple[int, Obstacle]] = []
    for choice in choices:
        cause = next((each for each in choice.causes if each.remedy), None)
        code, fix = (choice.code, "") if cause is None else (cause.code, cause.remedy)
        width = choice.code_arguments["bytes"] if choice.code in ACCESSES else None
        if isinstance(width, int):
            if width >= WIDEST or not choice.causes:
                continue
            effect = f"{choice.arguments['Instruction']} moves {width} bytes at once, not {WIDEST}"
            rows.append((0, Obstacle("access", choice.places, effect, choice.reason, fix, code)))
        elif fix or choice.kind in ("missed", "failed") and choice.category != "loop":
            # A loop without loads that could run ahead is already optimal.
            rows.append((1, Obstacle(_kind(choice), choice.places, _subject(choice), choice.reason, fix, code)))
    return tuple(row for _, row in sorted(rows, key=lambda each: each[0]))


def _kind(choice: Choice) -> str:
    if choice.code == "kernel.occupancy":
        return "occupancy"
    return {"tensorcore": "product", "memory": "conversion"}.get(choice.category, choice.category)


def _subject(choice: Choice) -> str:
    if choice.code == "dots.tensor-cores":
        return f"the dot is executed by {choice.arguments.get('Instruction', 'another instruction')}"
    return choice.message


def differing(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with a value other than their default."""
    defaults = CompileOptions({})
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in sorted(options.items())
        if name not in ("gpu-name", "opt-level") and value != defaults[name]
    }


class _Changes(PassInstrumentation):
    """Records the changes of each pass."""

    def __init__(self, why: Mapping[str, list[str]]) -> None:
        self.found: list[PassChange] = []
        self._why = {name: list(reasons) for name, reasons in why.items()}
        self._text = ""
        self._operations: Counter[str] = Counter()
        self._started = 0.0

    def before_pass(self, name: str, op: Operation) -> None:
        self._text, self._operations = print_op(op), _operation_counts(op)
        self._started = time.perf_counter()

    def after_pass(self, name: str, op: Operation) -> None:
        seconds = time.perf_counter() - self._started
        text, operations = print_op(op), _operation_counts(op)
        names = sorted({*operations, *self._operations})
        more = {each: operations[each] - self._operations[each] for each in names}
        reasons = self._why.get(name, [])
        why = reasons.pop(0) if reasons else ""
        self.found.append(
            PassChange(name, why, round(seconds, 4), text != self._text,
                       {each: count for each, count in more.items() if count}, _difference(self._text, text))
        )  # fmt: skip


def _operation_counts(op: Operation) -> Counter[str]:
    return Counter(each.name for each in op.walk())


def _difference(before: str, after: str) -> str:
    if before == after:
        return ""
    rows = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
    lines = list(rows)[2:]
    if len(lines) > DIFFERENCE_LINES:
        lines = [*lines[:DIFFERENCE_LINES], f"... {len(lines) - DIFFERENCE_LINES} further lines"]
    return "\n".join(lines)


def pass_changes(tileaa: str, name: str, options: CompileOptions) -> tuple[PassChange, ...]:
    """Rerun the passes of the stage tileas on its input and record their changes. Raises CompileError if a pass
    fails."""
    result = pipeline.stage("tileas").select(options)
    module = parse_module(tileaa, name)
    watcher = _Changes(_reasons(result))
    manager = PassManager(tileas.passes(result), verify_each=False, instrumentation=[watcher])
    engine = DiagnosticEngine()
    try:
        manager.run(module, PassContext(engine))
    finally:
        if engine.has_errors:
            raise CompileError(engine.diagnostics)
    return tuple(watcher.found)


def _reasons(options: Any) -> dict[str, list[str]]:
    """Pass -> the reasons for the positions of its rows, in order."""
    reasons: dict[str, list[str]] = {}
    for row in tileas.decisions(options):
        reasons.setdefault(row.name, []).append(row.why)
    return reasons
