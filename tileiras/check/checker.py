"""`check`: a verdict about the code that the compiler generates for a source, or about an image from elsewhere."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tileiras
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Operation
from tileiras.options import missing_gpu
from tileiras.progress import Progress
from tileiras.sim.errors import ArgumentMismatch
from tileiras.sim.interpreter import check_arguments
from tileiras.units import entries_of, entry_name

from . import launches
from .coverage import Coverage, place
from .facts import Facts, facts
from .fitting import Fitted, Plan, Unfit, fit, may_index
from .judging import Image, Judged, judge, rounded_otherwise
from .values import DISTINCT
from .verdict import FAULT, INCONCLUSIVE, NO_LAUNCH, RIGHT, WRONG, Finding, LaunchReport, Verdict

VERSION = 1
"""Of what a check does: verdicts of another version are not reused."""
SEEDS: tuple[int | None, ...] = (None, 0, 1)
"""Lock step, and two random orders of warps."""
BUDGET = 120.0
"""Seconds after which no further launch is begun."""
GIVEN = "given"
"""Kind of values of a launch that is the user's."""
LaunchData = tuple[Sequence[int], Sequence[Any]]
"""A grid, and the arguments of a launch."""


def check(
    source: Any, *, gpu_name: str | None = None, entry: str | None = None, image: str | os.PathLike[str] | None = None,
    metadata: Mapping[str, Any] | None = None, given: Sequence[LaunchData] = (), budget: float = BUDGET,
    seeds: Sequence[int | None] = SEEDS, opt_level: int = 3, **options: Any,
) -> Verdict:  # fmt: skip
    """Judges one entry of a source, compiled for `gpu_name` with the options of `tileiras.compile`.

    gpu_name: may be left out with an image, which is for the GPU that it names.
    entry: which one; may be left out where there is one.
    image: PTX text, or the path of PTX or of a cubin with its PTX beside it, that is judged instead of what tileiras
        makes; `metadata` is its NAME.json's content, looked for beside the path.
    given: launches that are judged besides those that are found.
    budget: seconds after which no further launch is begun; what was not reached is in the coverage.

    Raises CompileError for a source that does not compile, an unknown entry, or an image without PTX.
    """
    module = source if isinstance(source, Operation) else tileiras.parse(source)
    operation = choose(module, entry)
    name = entry_name(operation)
    if image is not None:
        judged = load(image, name, metadata)
    elif gpu_name is None:
        raise missing_gpu()
    else:
        judged = _compiled(source, name, gpu_name, opt_level, options)
    run = _Check(module, operation, judged, options, seeds, time.monotonic() + budget)
    run.user_launches(given)
    run.own_launches()
    return run.verdict(gpu_name or _target(judged.ptx))


def _target(ptx: str) -> str:
    """The GPU that PTX names."""
    match = re.search(r"^\s*\.target\s+(sm_\d+)", ptx, re.MULTILINE)
    return match[1] if match is not None else "an unknown GPU"


def choose(module: Operation, entry: str | None) -> Operation:
    """The entry of that name, or the only one.  Raises CompileError."""
    entries = {entry_name(op): op for op in entries_of(module)}
    if entry is None and len(entries) == 1:
        return next(iter(entries.values()))
    if entry not in entries:
        known = ", ".join(entries) or "none"
        raise CompileError.at(None, f"no entry is chosen; the module has {known}", ExitCode.USAGE)
    return entries[entry]


def _compiled(source: Any, name: str, gpu_name: str, opt_level: int, options: Mapping[str, Any]) -> Image:
    # Lines change no instruction, and tell where one that fails is from.
    given = {"lineinfo": True, **options}
    artifact = tileiras.compile(source, gpu_name=gpu_name, opt_level=opt_level, entry=name, **given)
    text = artifact.kernels[0].artifacts.get(".json")
    return Image(artifact.text, name, None if text is None else json.loads(text))


def load(image: str | os.PathLike[str], name: str, metadata: Mapping[str, Any] | None) -> Image:
    """An image that is not ours.  Raises CompileError where there is no PTX, OSError where it cannot be read."""
    if isinstance(image, str) and "\n" in image:
        return Image(image, name, metadata)
    stem, suffix = os.path.splitext(os.fspath(image))
    path = f"{stem}.ptx" if suffix == ".cubin" else os.fspath(image)
    if suffix == ".cubin" and not os.path.isfile(path):
        message = f"{os.fspath(image)} has no PTX beside it: a check follows PTX, in {path}"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if f".entry {name}" not in text:
        raise CompileError.at(None, f"{path} has no entry '{name}'", ExitCode.CONFIGURATION)
    if metadata is None and os.path.isfile(f"{stem}.json"):
        with open(f"{stem}.json", encoding="utf-8") as file:
            metadata = json.load(file)
        if not isinstance(metadata, dict) or "kernels" not in metadata:
            metadata = None
    return Image(text, name, metadata)


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
        self.reports: list[LaunchReport] = []
        self.findings: list[Finding] = []
        self.excluded: dict[tuple[str, str], int] = {}

    def user_launches(self, given: Sequence[LaunchData]) -> None:
        for grid, arguments in given:
            check_arguments(self.module, self.image.entry, arguments)
            sizes = (*grid, 1, 1, 1)[:3]
            self._judge(Fitted(sizes, list(arguments), Plan({}, GIVEN)))  # type: ignore[arg-type]

    def own_launches(self) -> None:
        """Runs the launches of the plans, within the budget."""
        drawn = [*launches.plans(self.facts), *launches.edge_plans(self.facts)]
        seen: set[Any] = set()
        with Progress("launches", len(drawn)) as progress:
            for plan in drawn:
                progress.step(plan.kind)
                if self.is_wrong:
                    return
                if time.monotonic() > self.deadline:
                    message = "the time is up: further launches were not run"
                    self.findings.append(Finding("unjudged", message))
                    break
                try:
                    launch = fit(self.entry, self.module, self.facts, plan)
                except Unfit as error:
                    where = place(error.operation) if error.operation is not None else ""
                    key = (where, str(error))
                    self.excluded[key] = self.excluded.get(key, 0) + 1
                    continue
                what = (launch.grid, plan.kind, launch.describe(), plan.is_aliased)
                if what not in seen:
                    seen.add(what)
                    self._judge(launch)
        # Last: a value that differs says more.
        if not self.is_wrong and (finding := rounded_otherwise(self.module, self.image)) is not None:
            self.findings.append(finding)

    @property
    def is_wrong(self) -> bool:
        return any(each.status == WRONG for each in self.reports)

    def _judge(self, launch: Fitted) -> None:
        judged = self._judged(launch)
        if judged.status == FAULT:
            # The program may ask for more than its types and assumptions say: rows that differ, for one.
            other = self._with_distinct_integers(launch)
            if other is not None:
                self._keep(judged.findings)
                launch, judged = other
        self._keep(judged.findings)
        self.reports.append(LaunchReport(
            len(self.reports), tuple(launch.grid), launch.describe(), launch.plan.kind, judged.status,
            self._seeds(launch), judged.worst_ulps, judged.undefined, judged.unbounded,
        ))  # fmt: skip

    def _judged(self, launch: Fitted) -> Judged:
        number = len(self.reports)
        try:
            return judge(
                self.module, self.facts, self.image, launch, number, self._seeds(launch), self.coverage, self.options
            )
        except ArgumentMismatch as error:
            return Judged(INCONCLUSIVE, [Finding("unjudged", str(error), "", number)])

    def _seeds(self, launch: Fitted) -> tuple[int | None, ...]:
        return self.seeds[:1] if launch.plan.is_edge else self.seeds

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
        """Keeps findings that say something new."""
        known = {(each.kind, each.message, each.location) for each in self.findings}
        self.findings += [each for each in findings if (each.kind, each.message, each.location) not in known]

    def verdict(self, gpu_name: str) -> Verdict:
        for (where, message), count in self.excluded.items():
            kind = "excluded" if self.reports else NO_LAUNCH
            text = f"{count} launches are not what the program allows: {message}"
            self.findings.append(Finding(kind, text, where))
        return Verdict(
            self._status(), self.image.entry, gpu_name, tuple(self.reports), tuple(self.findings),
            self.coverage.counts(), tuple(self.coverage.uncovered()),
            float(np.max([each.worst_ulps for each in self.reports], initial=0.0)), sum(self.excluded.values()),
        )  # fmt: skip

    def _status(self) -> str:
        """The fault of a launch that was drawn counts only where no launch is right: the program may not allow it."""
        statuses = {each.status for each in self.reports}
        if WRONG in statuses or any(each.is_wrong for each in self.findings):
            return WRONG
        if any(each.status == FAULT and (each.values == GIVEN or RIGHT not in statuses) for each in self.reports):
            return FAULT
        return RIGHT if RIGHT in statuses else INCONCLUSIVE
