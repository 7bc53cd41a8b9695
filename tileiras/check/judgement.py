"""`judgement`: the verdict on an image of an entry, from launches that are found and the user's own."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import hashlib
import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Operation
from tileiras.sim import blas
from tileiras.sim.errors import ArgumentMismatch
from tileiras.sim.interpreter import check_arguments
from tileiras.stages.units import entries_of, entry_name
from tileiras.support.progress import Progress

from . import launches, order
from .boundaries import Boundaries
from .coverage import Coverage, place
from .facts import Facts, facts
from .fitting import Fitted, Plan, Unfit, fit, may_index
from .judging import Image, Judged, judge, orders, rounded_otherwise
from .values import DISTINCT
from .verdict import FAULT, INCONCLUSIVE, NO_LAUNCH, RIGHT, TIME_IS_UP, WRONG, Blame, Finding, LaunchReport, Verdict

SEEDS: tuple[int | None, ...] = (None, 0, 1)
"""Lock step, and two random orders of warps."""
BUDGET = 120.0
"""Seconds after which no further launch is begun."""
GIVEN = "given"
"""Kind of values of a launch that is the user's."""
LaunchData = tuple[Sequence[int], Sequence[Any]]
"""A grid, and the arguments of a launch."""


def judgement(
    module: Operation, operation: Operation, image: Image, gpu_name: str, options: Mapping[str, Any], *,
    user_launches: Sequence[LaunchData] = (), budget: float = BUDGET, seeds: Sequence[int | None] = SEEDS,
    is_silent: bool = False, blame: Callable[[Facts, Sequence[Fitted]], Blame] | None = None,
) -> Verdict:  # fmt: skip
    """The verdict on an image of an entry.

    `options` say how exact it must be (`ftz`, `approx`), `is_silent` that no terminal shows the launches; `blame` names
    the pass at fault for the launches that are wrong.
    """
    run = _Check(module, operation, image, options, seeds, time.monotonic() + budget)
    run.user_launches(user_launches)
    stream = io.StringIO() if is_silent else None
    with Progress(f"checking {image.entry}", stream=stream) as progress, blas.one_thread(), _rare_collections():
        run.own_launches(progress)
    verdict = run.verdict(gpu_name)
    if blame is None or not run.wrong:
        return verdict
    cause = blame(run.facts, run.wrong)
    finding = Finding("blame", cause.message, cause.location)
    return dataclasses.replace(verdict, blame=cause, findings=(*verdict.findings, finding))


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Launches make arrays rather than cycles: the cyclic GC, which traverses the host program's objects, runs less
    often."""
    thresholds = gc.get_threshold()
    gc.set_threshold(50_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def choose(module: Operation, entry: str | None) -> Operation:
    """The entry of that name, or the only one.  Raises CompileError."""
    entries = {entry_name(op): op for op in entries_of(module)}
    if entry is None and len(entries) == 1:
        return next(iter(entries.values()))
    if entry not in entries:
        names = ", ".join(entries) or "none"
        raise CompileError.at(None, f"no entry is chosen; the module has {names}", ExitCode.USAGE)
    return entries[entry]


class _Check:
    """One check while it runs."""

    def __init__(
        self, module: Operation, entry: Operation, image: Image, options: Mapping[str, Any],
        seeds: Sequence[int | None], deadline: float,
    ) -> None:  # fmt: skip
        self.module, self.entry, self.image, self.options = module, entry, image, options
        self.seeds, self.deadline = tuple(seeds), deadline
        self.facts: Facts = facts(entry)
        self.coverage = Coverage(entry)
        self.boundaries = Boundaries(self.facts)
        self.reports: list[LaunchReport] = []
        self.findings: list[Finding] = []
        self.excluded: dict[tuple[str, str], int] = {}
        self.wrong: list[Fitted] = []

    def user_launches(self, user_launches: Sequence[LaunchData]) -> None:
        for grid, arguments in user_launches:
            check_arguments(self.module, self.image.entry, arguments)
            sizes = (*grid, 1, 1, 1)[:3]
            self._judge(Fitted(sizes, list(arguments), Plan({}, GIVEN)))  # type: ignore[arg-type]

    def own_launches(self, progress: Progress) -> None:
        """Run the launches of the plans, within the budget."""
        seen: set[Any] = set()
        for number, plan in enumerate(launches.every(self.facts, self.boundaries, self.image.ptx), 1):
            progress.say(f"launch {number} of at most {launches.MOST}, {plan.kind} values")
            if self.is_wrong:
                return
            if time.monotonic() > self.deadline:
                message = f"{TIME_IS_UP}: further launches were not run"
                self.findings.append(Finding("unjudged", message))
                break
            try:
                launch = fit(self.entry, self.module, self.facts, plan)
            except Unfit as error:
                where = place(error.operation) if error.operation is not None else ""
                key = (where, str(error))
                self.excluded[key] = self.excluded.get(key, 0) + 1
                continue
            shape = (launch.grid, plan.kind, launch.describe(), plan.is_aliased)
            if shape not in seen:
                seen.add(shape)
                self._judge(launch)
        # Last, since a differing value is the more specific finding.
        if not self.is_wrong:
            finding = rounded_otherwise(self.module, self.image, bool(self.options.get("approx")))
            self.findings += [] if finding is None else [finding]

    @property
    def is_wrong(self) -> bool:
        return any(each.status == WRONG for each in self.reports)

    def _judge(self, launch: Fitted) -> None:
        judged = self._judged(launch)
        if judged.status == FAULT:
            # The program may have preconditions beyond its types and assumptions, such as distinct row numbers.
            other = self._with_distinct_integers(launch)
            if other is not None:
                self._keep(judged.findings)
                launch, judged = other
        self._keep(judged.findings)
        if judged.status == WRONG:
            self.wrong.append(launch)
        self.reports.append(LaunchReport(
            len(self.reports), tuple(launch.grid), launch.describe(), launch.plan.kind, judged.status,
            judged.seeds, judged.worst_ulps, judged.undefined, judged.unbounded,
        ))  # fmt: skip

    def _judged(self, launch: Fitted) -> Judged:
        number = len(self.reports)
        try:
            return judge(
                self.module, self.facts, self.image, launch, number, self._seeds(launch), self.coverage, self.options,
                self.deadline, self.boundaries,
            )  # fmt: skip
        except ArgumentMismatch as error:
            return Judged(INCONCLUSIVE, [Finding("unjudged", str(error), "", number)])

    def _seeds(self, launch: Fitted) -> tuple[int | None, ...]:
        return tuple(orders(self.image.ptx, len(self.reports), launch.plan.is_edge, self.seeds))

    def _with_distinct_integers(self, launch: Fitted) -> tuple[Fitted, Judged] | None:
        """The launch whose integers in memory are all different, if the program is not at fault then."""
        if launch.plan.kind == GIVEN or not may_index(self.facts) or launch.plan.limit == DISTINCT:
            return None
        try:
            other = fit(self.entry, self.module, self.facts, dataclasses.replace(launch.plan, limit=DISTINCT))
        except Unfit:
            return None
        judged = self._judged(other)
        return None if judged.status == FAULT else (other, judged)

    def _keep(self, findings: Sequence[Finding]) -> None:
        """Keep findings that say something new."""
        keys = {(each.kind, each.message, each.location) for each in self.findings}
        self.findings += [each for each in findings if (each.kind, each.message, each.location) not in keys]

    def verdict(self, gpu_name: str) -> Verdict:
        for (where, message), count in self.excluded.items():
            kind = "excluded" if self.reports else NO_LAUNCH
            subject = "1 launch is" if count == 1 else f"{count} launches are"
            text = f"{subject} not allowed by the program: {message}"
            self.findings.append(Finding(kind, text, where))
        return Verdict(
            self._status(), self.image.entry, gpu_name, tuple(self.reports), tuple(self.findings),
            self.coverage.counts(), tuple(self.coverage.uncovered()),
            float(np.max([each.worst_ulps for each in self.reports], initial=0.0)), sum(self.excluded.values()),
            place(self.entry), hashlib.sha256(self.image.ptx.encode()).hexdigest(),
            self._order(gpu_name),
        )  # fmt: skip

    def _order(self, gpu_name: str) -> dict[str, Any] | None:
        certificate = order.of_kernel(self.image.metadata, self.image.entry)
        return order.locate(certificate, self.module, self.image.entry, gpu_name)

    def _status(self) -> str:
        """The fault of a launch that was drawn counts only where no launch is right: the program may not allow it."""
        statuses = {each.status for each in self.reports}
        if WRONG in statuses or any(each.is_wrong for each in self.findings):
            return WRONG
        if any(each.status == FAULT and (each.values == GIVEN or RIGHT not in statuses) for each in self.reports):
            return FAULT
        return RIGHT if RIGHT in statuses else INCONCLUSIVE
