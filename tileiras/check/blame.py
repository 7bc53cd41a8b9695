"""Blame: the first pass after which a kernel no longer agrees with its source.

The kernel is compiled again with a copy of the module after each pass, and each copy is executed on the failing launch:
copies in cuda_tile by the interpreter, those in nv_tileaa and nv_tileas by its lower levels
(`tileiras.sim.interpreter.lowered`).  The pass at fault is the one before the first copy whose final memory the source
does not allow.  If all copies are right, optional decisions are left out from the last one backwards
(`opt-bisect-limit`) until the code is right: this finds errors that tiles do not show, as in layouts and barriers.
"""

from __future__ import annotations

import contextlib
import io
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.api import checked_options, compile_with
from tileiras.ir import Operation, Value
from tileiras.ir.pass_instrumentation import PassInstrumentation
from tileiras.ir.text.printer import print_op
from tileiras.pipeline import stage
from tileiras.sim import interpret
from tileiras.sim.interpreter.lowered import LoweredMachine, NoRule, execute
from tileiras.sim.interpreter.machine import InterpreterError
from tileiras.stages.tileas import bisected

from .coverage import Coverage, place
from .facts import Facts
from .fitting import Fitted
from .judging import Image, Reference, differences, interpreted, judge, sums_narrowly, varies
from .tracking import TrackedMemory
from .verdict import WRONG, Blame

LOWERING = "convert-tileas-to-llvm"
"""The first pass whose output is not executed."""


@dataclass
class Snapshot:
    """The module after a pass; `number` counts the passes from 1."""

    number: int
    name: str
    module: Operation


class Snapshots(PassInstrumentation):
    """Keeps a copy of the module after each pass that changes it."""

    def __init__(self) -> None:
        self.entries: list[Snapshot] = []
        self.passes = 0
        self._text = ""

    def after_pass(self, name: str, op: Operation) -> None:
        self.passes += 1
        text = print_op(op)
        if text != self._text:
            self._text = text
            self.entries.append(Snapshot(self.passes, name, op.clone({})))


@dataclass(frozen=True)
class Suspect:
    """A compilation whose code is wrong on a launch."""

    source: Any
    module: Operation
    entry: str
    facts: Facts
    gpu_name: str
    opt_level: int
    options: Mapping[str, Any]
    compiled: Callable[[Mapping[str, Any]], Image]
    """The code by other options."""


def blame(suspect: Suspect, launch: Fitted) -> Blame:
    """Which pass is at fault for a launch that is wrong."""
    snapshots = Snapshots()
    result = checked_options(suspect.gpu_name, suspect.opt_level, {"lineinfo": True, **suspect.options})
    with contextlib.redirect_stderr(io.StringIO()):
        compile_with(suspect.source, result, "tileas", entry=suspect.entry, instrumentation=[snapshots])
    return _Search(suspect, launch, snapshots.entries).run()


@dataclass
class _Outcome:
    """The result of executing one snapshot."""

    error: InterpreterError | None = None
    wrong: tuple[int, int, Any, Any, str] | None = None
    """Position of the argument, element, actual value, expected value, the bound."""
    writer: Operation | None = None

    @property
    def is_right(self) -> bool:
        return self.error is None and self.wrong is None

    @property
    def has_no_rule(self) -> bool:
        return isinstance(self.error, NoRule)


class _Search:
    def __init__(self, suspect: Suspect, launch: Fitted, snapshots: Sequence[Snapshot]) -> None:
        self.suspect, self.launch, self.snapshots = suspect, launch, snapshots
        entry = next(op for op in suspect.module.walk() if _is_entry(op, suspect.entry))
        self.reference = self._interpret(Coverage(entry))
        self.entry = entry

    def _interpret(self, coverage: Coverage, **keywords: Any) -> Reference:
        suspect = self.suspect
        narrow = sums_narrowly(suspect.gpu_name)
        return interpreted(
            suspect.module, suspect.entry, self.launch, coverage, suspect.options, narrow_f8=narrow, **keywords
        )  # fmt: skip

    def run(self) -> Blame:
        right: Snapshot | None = None
        skipped: list[Snapshot] = []
        reason = ""
        for snapshot in self.snapshots:
            outcome = self.outcome(snapshot)
            if outcome.has_no_rule:
                skipped.append(snapshot)
                reason = reason or f"behind pass '{snapshot.name}', {_message(outcome.error)}"
            elif outcome.is_right:
                right, skipped, reason = snapshot, [], ""
            else:
                return self._of_pass(right, skipped, snapshot, outcome)
        return self._of_decision(right, skipped, reason)

    # -- one snapshot ------------------------------------------------------------------------------------------------

    def outcome(self, snapshot: Snapshot, machine_type: Any = None) -> _Outcome:
        arguments, memory = self.launch.copies(), TrackedMemory()
        memory.watching = True
        with self.launch.reachable():
            try:
                if snapshot.module.name == "cuda_tile.module":
                    memory.watching = False
                    interpret(snapshot.module, self.suspect.entry, self.launch.grid, arguments, memory=memory,
                              output=io.StringIO())  # fmt: skip
                else:
                    execute(snapshot.module, self.launch.grid, arguments, memory=memory,
                            machine_type=machine_type or _Watched)  # fmt: skip
            except InterpreterError as error:
                return _Outcome(error)
            return self._compare(arguments, memory)

    def _compare(self, arguments: Sequence[Any], memory: TrackedMemory) -> _Outcome:
        results = [*arguments, *(each.array for each in self.launch.behind)]
        for position, element in self.launch.elements(self.suspect.facts):
            got, correct = results[position], self.reference.arguments[position]
            wrong, _, bound = differences(element, got, correct, self.reference, position)
            machine = self.reference.machine
            if wrong.any() and machine.is_ordered():
                wrong = wrong & ~varies(self.reference, self._again, position, got).explained
            if wrong.any():
                first = int(np.flatnonzero(wrong)[0])
                result = (position, first, got.reshape(-1)[first], correct.reshape(-1)[first], bound(first))
                return _Outcome(None, result, self._writer(memory, got, first))
        return _Outcome()

    def _again(self, **keywords: Any) -> Reference:
        return self._interpret(Coverage(self.entry), **keywords)

    def _writer(self, memory: TrackedMemory, array: np.ndarray, element: int) -> Operation | None:
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        allocation = memory._find_owner(root)
        return None if allocation is None else memory.writer_of(allocation, element * array.dtype.itemsize)

    # -- reports -----------------------------------------------------------------------------------------------------

    def _of_pass(
        self, right: Snapshot | None, skipped: Sequence[Snapshot], snapshot: Snapshot, outcome: _Outcome
    ) -> Blame:
        operation, how = self._operation(right, snapshot, outcome)
        subject = f"pass '{snapshot.name}' (number {snapshot.number})"
        if skipped:
            between = ", ".join(f"'{each.name}'" for each in (*skipped, snapshot))
            subject = f"one of the passes {between}, between which the module cannot be executed,"
        match = re.match(r"'([\w.]+)' op", _message(outcome.error))
        name = operation.name if operation is not None else match[1] if match is not None else ""
        where = place(operation) if operation is not None else ""
        if not where and outcome.error is not None and outcome.error.diagnostic.location is not None:
            position = outcome.error.diagnostic.location.resolve()
            where = "" if position is None else f"{position.filename}:{position.line}:{position.column}"
        before = "the source" if right is None else f"the output of '{right.name}'"
        message = f"{subject} is at fault: {before} is right, and behind it {how}"
        return Blame("pass", snapshot.name, snapshot.number, name, where, message)

    def _operation(self, right: Snapshot | None, snapshot: Snapshot, outcome: _Outcome) -> tuple[Operation | None, str]:
        if outcome.error is not None:
            return None, _message(outcome.error)
        assert outcome.wrong is not None
        position, element, got, correct, bound = outcome.wrong
        difference = f"element {element} of argument {position} is {got} instead of {correct}{bound}"
        differing = self._first_value(right, snapshot)
        if differing is not None:
            return differing, f"'{differing.name}' gives another value; {difference}"
        if outcome.writer is not None:
            return outcome.writer, f"'{outcome.writer.name}' stores another value; {difference}"
        writer = self._writer(self.reference.memory, self.reference.arguments[position], element)
        return writer, f"no operation stores the element; {difference}"

    def _first_value(self, right: Snapshot | None, snapshot: Snapshot) -> Operation | None:
        """The first operation whose value no operation of the same line, name and shape had before the pass."""
        if right is None or right.module.name == "cuda_tile.module" or snapshot.module.name == "cuda_tile.module":
            return None
        before, behind = (self._values(each) for each in (right, snapshot))
        digests: dict[Any, set[int]] = {}
        for _, key, digest in before:
            digests.setdefault(key, set()).add(digest)
        return next((op for op, key, digest in behind if digest not in digests.get(key, {digest})), None)

    def _values(self, snapshot: Snapshot) -> list[tuple[Operation, Any, int]]:
        machines: list[_Watched] = []

        def machine(*arguments: Any) -> _Watched:
            machines.append(_Watched(*arguments))
            machines[-1].events = []
            return machines[-1]

        self.outcome(snapshot, machine)
        return [event for each in machines for event in each.events or ()]

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _of_decision(self, right: Snapshot | None, skipped: Sequence[Snapshot], reason: str) -> Blame:
        """If no snapshot is wrong: the first optional decision with which the code is wrong."""
        stopped = ""
        if skipped:
            last = "the source" if right is None else f"the output of '{right.name}'"
            stopped = f"{last} is right, then execution stops: {reason}; "
        elif right is not None:
            stopped = f"the output of each pass up to '{right.name}' is right in tiles; "
        rows = _optional_rows(self.suspect)
        if not rows or self._is_wrong(0):
            if skipped:
                message = f"{stopped}without optional decisions the code is wrong as well"
                return Blame("unknown", skipped[0].name, skipped[0].number, "", "", message)
            message = f"{stopped}the fault is in the lowering to LLVM ('{LOWERING}') or in a later step, up to the PTX"
            return Blame("lowering", LOWERING, 0, "", "", message)
        low, high = 0, len(rows)
        if not self._is_wrong(high):
            message = f"{stopped}the code is right where it is compiled again"
            return Blame("unknown", "", 0, "", "", message)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_wrong(middle) else (middle, high)
        message = (
            f"{stopped}--opt-bisect-limit={low} gives right code, {high} does not: the fault shows with decision"
            f" {high}, '{rows[high - 1]}', in its output or in the lowering of it"
        )
        return Blame("decision", rows[high - 1], high, "", "", message)

    def _is_wrong(self, limit: int) -> bool:
        suspect = self.suspect
        with contextlib.redirect_stderr(io.StringIO()):
            image = suspect.compiled({**suspect.options, "opt_bisect_limit": limit})
        judged = judge(suspect.module, suspect.facts, image, self.launch, 0, (None, 0, 1), Coverage(self.entry),
                       suspect.options)  # fmt: skip
        return judged.status == WRONG


def _optional_rows(suspect: Suspect) -> list[str]:
    """The optional decisions in their order, as `opt-bisect-limit` counts them."""
    result = checked_options(suspect.gpu_name, suspect.opt_level, dict(suspect.options))
    return [row.name for row, _ in bisected(stage("tileas").select(result))]


def _is_entry(op: Operation, name: str) -> bool:
    return op.name == "cuda_tile.entry" and op.attributes["sym_name"].value == name


def _message(error: InterpreterError | None) -> str:
    return "" if error is None else error.diagnostic.message


class _Watched(LoweredMachine):
    """Records in memory which operation stores, and, if requested, keeps the results of each operation."""

    events: list[tuple[Operation, Any, int]] | None = None

    def before(self, op: Operation) -> None:
        self.memory.operation = op  # type: ignore[attr-defined]
        self.memory.block_id = self.block_id  # type: ignore[attr-defined]

    def observe(self, op: Operation, results: Sequence[Value]) -> None:
        if self.events is None:
            return
        for number, result in enumerate(results):
            value = self.values[result]
            if isinstance(value, np.ndarray):
                key = (place(op), op.name.rpartition(".")[2], number, value.shape)
                self.events.append((op, key, zlib.crc32(np.ascontiguousarray(value).view(np.uint8).reshape(-1))))


def smallest(launches: Sequence[Fitted]) -> Fitted:
    """The launch with the least memory."""

    def size(launch: Fitted) -> int:
        return sum(each.nbytes for each in launch.arguments if isinstance(each, np.ndarray))

    return min(launches, key=size)
