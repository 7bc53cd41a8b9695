"""Decisions of the compiler: its remarks, obstacles with their remedies, and the changes of each pass."""

from __future__ import annotations

import difflib
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tileiras import pipeline
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.ir import Operation, parse_module, print_op
from tileiras.ir.pass_instrumentation import PassInstrumentation
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.named_tuple import NamedTuple
from tileiras.options import CompileOptions
from tileiras.remarks import Remark
from tileiras.report.alignment import Places
from tileiras.report.model import Choice, Obstacle, PassChange
from tileiras.stages import tileas

DIFFERENCE_LINES = 200
"""Most lines of a pass's diff in a report."""

WIDEST = 16
"""Bytes of the widest access of a thread below sm_100 (PTX ISA, ld: .v4.b32, .v2.b64)."""


class Remedy(NamedTuple):
    """Remedy of an obstacle: `pattern` is searched in the reason of a remark; its groups fill `text`."""

    pattern: str
    text: str


REMEDIES = (
    Remedy(r"base address is known to be a multiple of (\d+) bytes only|nothing is known of the alignment",
           "say how the array is aligned: assume div_by<16> on the pointer (cuTile Python: arrays whose signature "
           "says so, as those of torch and CuPy are)"),
    Remedy(r"stride of dimension (\d+) is known to be a multiple of",
           "say what divides the stride: assume div_by<N> on the stride of dimension {0}, with N elements in 16 "
           "bytes; pad the rows of the array where that is not so"),
    Remedy(r"the tile's extent is known to be a multiple of",
           "take a tile whose extent along the fastest dimension has at least 16 bytes"),
    Remedy(r"no dimension is known to have a stride of 1",
           "give the view a static stride of 1 in the dimension that is contiguous in memory"),
    Remedy(r"elements are gathered",
           "load a tile of the array through a view, where the indices follow each other"),
    Remedy(r"addresses are (?:known to follow each other in runs of \d+ only|not known to follow each other)",
           "load through a view of the array instead of through computed pointers, or make the offsets an iota "
           "that is only shifted by what assume div_by is known of"),
    Remedy(r"runs of addresses are known to start at multiples of (\d+) bytes only",
           "say what divides the pointer and what is added to it: assume div_by<16> on the pointer, assume div_by<N> "
           "on the offset, with N elements in 16 bytes"),
    Remedy(r"the mask",
           "make the extent divide the tile, or say that it does (assume div_by<N> on the extent), so that the mask "
           "is the same for the elements of a vector"),
    Remedy(r"a thread holds (\d+) of the tile's elements in a row",
           "use fewer warps (num-warps) or a larger tile, so that a thread has 16 bytes in a row"),
    Remedy(r"other elements of the tile lie between",
           "store in the order in which the tile is computed, or transpose the tile before the store"),
    Remedy(r"limited by \d+ bytes of shared memory",
           "fewer stages (unspecialized-pipeline-num-stages, or a smaller latency hint on the loads) or smaller "
           "tiles take less shared memory"),
    Remedy(r"limited by (\d+) registers|limited by .*registers",
           "smaller tiles or more warps (num-warps) take fewer registers of a thread; an occupancy hint makes the "
           "compiler cut for it"),
    Remedy(r"its accesses are \d+ bytes? wide, asynchronous copies",
           "widen the access: what keeps it narrow stands in its own row"),
    Remedy(r"wgmma takes (\d+) warps, the kernel has",
           "compile with num-warps of {0} or a multiple of it"),
    Remedy(r"wgmma has .* at least, the dot",
           "take tiles with 64 rows or more: products of warpgroups have 64"),
    Remedy(r"K is not contiguous in",
           "store the operand with K contiguous: transpose the array, or load it through a view whose last dimension "
           "is K"),
    Remedy(r"no tensor-core instruction multiplies (\S+) x",
           "convert the operands to a type that tensor cores multiply: f16, bf16, tf32, or an 8-bit float"),
    Remedy(r"bytes of operands do not fit into",
           "smaller tiles along M or N, or fewer stages"),
    Remedy(r"threads a CTA leave (\d+) registers to each|a thread has at most",
           "smaller tiles, or more warps to share them"),
)  # fmt: skip
"""Reasons of remarks, as the passes word them, with advice for the kernel's author."""


def remedy(reason: str) -> str:
    """Remedy of the obstacle that a reason describes; empty if unknown."""
    for each in REMEDIES:
        match = re.search(each.pattern, reason)
        if match is not None:
            return each.text.format(*(group or "" for group in match.groups()))
    return ""


def choices(remarks: Iterable[Remark], places: Places) -> tuple[Choice, ...]:
    """Remarks as data, in the order of their emission, with repetitions."""
    found = []
    for remark in remarks:
        position = remark.position
        where = places.of([position]) if position is not None else ()
        found.append(
            Choice(remark.kind, remark.category, where, remark.text, dict(remark.arguments), remark.reason)
        )
    return tuple(found)


def obstacles(found: Iterable[Choice]) -> tuple[Obstacle, ...]:
    """Suboptimal choices: those with a reason that counts as an obstacle, narrow accesses first."""
    rows: list[tuple[int, Obstacle]] = []
    for choice in found:
        fix = remedy(choice.reason)
        width = _width(choice)
        if width is not None:
            if width >= WIDEST or not choice.reason:
                continue
            what = f"{choice.arguments['Instruction']} moves {choice.arguments['Width']} at once, not {WIDEST}"
            rows.append((0, Obstacle("access", choice.places, what, choice.reason, fix)))
        elif fix or choice.kind in ("missed", "failed") and choice.category != "loop":
            # A loop without loads that could run ahead is already optimal.
            rows.append((1, Obstacle(_kind(choice), choice.places, _subject(choice), choice.reason, fix)))
    return tuple(row for _, row in sorted(rows, key=lambda each: each[0]))


def _kind(choice: Choice) -> str:
    if choice.message.startswith("Occupancy"):
        return "occupancy"
    return {"tensorcore": "product", "memory": "conversion"}.get(choice.category, choice.category)


def _subject(choice: Choice) -> str:
    if choice.kind == "passed" and choice.category == "tensorcore":
        return f"the product is made by {choice.arguments.get('Instruction', 'another instruction')}"
    return choice.message


def _width(choice: Choice) -> int | None:
    """Bytes of an access to memory; None for other choices."""
    match = re.fullmatch(r"(\d+) bytes", choice.arguments.get("Width", ""))
    return int(match.group(1)) if match is not None and choice.category == "memory" else None


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
        self._text, self._operations = print_op(op), _counted(op)
        self._started = time.perf_counter()

    def after_pass(self, name: str, op: Operation) -> None:
        seconds = time.perf_counter() - self._started
        text, operations = print_op(op), _counted(op)
        names = sorted({*operations, *self._operations})
        more = {each: operations[each] - self._operations[each] for each in names}
        reasons = self._why.get(name, [])
        why = reasons.pop(0) if reasons else ""
        self.found.append(
            PassChange(name, why, round(seconds, 4), text != self._text,
                       {each: count for each, count in more.items() if count}, _difference(self._text, text))
        )  # fmt: skip


def _counted(op: Operation) -> Counter[str]:
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
    given = pipeline.stage("tileas").select(options)
    module = parse_module(tileaa, name)
    watcher = _Changes(_reasons(given))
    manager = PassManager(tileas.passes(given), verify_each=False, instrumentation=[watcher])
    engine = DiagnosticEngine()
    try:
        manager.run(module, PassContext(engine))
    finally:
        if engine.has_errors:
            raise CompileError(engine.diagnostics)
    return tuple(watcher.found)


def _reasons(options: Any) -> dict[str, list[str]]:
    """Pass -> the reasons for the positions of its rows, in order."""
    found: dict[str, list[str]] = {}
    for row in tileas.decisions(options):
        found.setdefault(row.made.name, []).append(row.why)
    return found
