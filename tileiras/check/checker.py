"""`check`: a verdict about the code that the compiler generates for a source, or about an image from elsewhere."""

from __future__ import annotations

import dataclasses
import hashlib
import io
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
from tileiras.units import ARTIFACTS, entries_of, entry_name

from . import launches, order
from .coverage import Coverage, place
from .facts import Facts, facts
from .fitting import Fitted, Plan, Unfit, fit, may_index
from .judging import FillHidden, Image, Judged, judge
from .values import DISTINCT
from .verdict import FAULT, INCONCLUSIVE, NO_LAUNCH, RIGHT, TIME_IS_UP, WRONG, Finding, LaunchReport, Verdict

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
    seeds: Sequence[int | None] = SEEDS, waive: Sequence[str] = (), opt_level: int = 3, **options: Any,
) -> Verdict:  # fmt: skip
    """Judges one entry of a source, compiled for `gpu_name` with the options of `tileiras.compile`.

    gpu_name: may be left out with an image, which is for the GPU that it names.
    entry: which one; may be left out where there is one.
    image: PTX text, or the path of PTX, of a cubin with its PTX in it or beside it, or of an artifact that is compiled
        further, that is judged instead of what tileiras makes; `metadata` is its NAME.json's content, looked for beside
        the path.
    given: launches that are judged besides those that are found.
    budget: seconds after which no further launch is begun; what was not reached is in the coverage.
    waive: rules of the PTX ISA (`tileiras.sim.emulator.rules`) that an image need not keep.

    Raises CompileError for a source that does not compile, an unknown entry, or an image without PTX.
    """
    module = source if isinstance(source, Operation) else tileiras.parse(source)
    operation = choose(module, entry)
    name = entry_name(operation)
    judged = image_of(source, name, gpu_name, image, opt_level, options, metadata)
    judged = dataclasses.replace(judged, waived=tuple(waive))
    return judgement(
        module, operation, judged, gpu_name or target_of(judged.ptx), options, given=given, budget=budget, seeds=seeds
    )


def judgement(
    module: Operation, operation: Operation, image: Image, gpu_name: str, options: Mapping[str, Any], *,
    given: Sequence[LaunchData] = (), budget: float = BUDGET, seeds: Sequence[int | None] = SEEDS, shown: bool = True,
) -> Verdict:  # fmt: skip
    """The verdict on an image of an entry; `options` say how exact it must be (`ftz`, `approx`), `shown` whether a
    terminal tells of the launches."""
    run = _Check(module, operation, image, options, seeds, time.monotonic() + budget)
    run.user_launches(given)
    with Progress(f"checking {image.entry}", stream=None if shown else io.StringIO()) as progress:
        run.own_launches(progress)
    return run.verdict(gpu_name)


def image_of(
    source: Any, name: str, gpu_name: str | None, image: str | os.PathLike[str] | None, opt_level: int,
    options: Mapping[str, Any], metadata: Mapping[str, Any] | None = None,
) -> Image:  # fmt: skip
    """The code of an entry: an image from elsewhere, or what the compiler makes of the source, or of an artifact of it
    (as an override is).  Raises CompileError."""
    path = "" if image is None or "\n" in os.fspath(image) else os.fspath(image)
    is_artifact = path.endswith(tuple(suffix for suffix in ARTIFACTS if suffix not in (".ptx", ".cubin")))
    if image is not None and not is_artifact:
        return load(image, name, metadata)
    if gpu_name is None:
        raise missing_gpu()
    if is_artifact:
        return _named(_compiled(path, None, gpu_name, opt_level, options), name, path)
    return _compiled(source, name, gpu_name, opt_level, options)


def target_of(ptx: str) -> str:
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


def _named(image: Image, name: str, path: str) -> Image:
    """An image that is of the entry.  Raises CompileError."""
    if re.search(rf"\.entry\s+{re.escape(name)}\s*\(", image.ptx) is None:
        raise CompileError.at(None, f"{path} has no entry '{name}'", ExitCode.CONFIGURATION)
    return dataclasses.replace(image, entry=name)


def _compiled(source: Any, name: str | None, gpu_name: str, opt_level: int, options: Mapping[str, Any]) -> Image:
    # Lines change no instruction, and tell where one that fails is from.
    given = {"lineinfo": True, **options}
    artifact = tileiras.compile(source, gpu_name=gpu_name, opt_level=opt_level, entry=name, **given)
    text = artifact.kernels[0].artifacts.get(".json")
    return Image(artifact.text, artifact.kernels[0].name, None if text is None else json.loads(text))


def load(image: str | os.PathLike[str], name: str, metadata: Mapping[str, Any] | None) -> Image:
    """An image that is not ours.  Raises CompileError where there is no PTX, OSError where it cannot be read."""
    if isinstance(image, str) and "\n" in image:
        return Image(image, name, _of_edited(metadata))
    path = os.fspath(image)
    stem = os.path.splitext(path)[0]
    with open(path, "rb") as file:
        data = file.read()
    hidden = None
    if data.startswith(b"\x7fELF"):
        hidden = _host_code(data, name)
        path, data = _ptx_of(path, data)
    text = data.decode(errors="replace")
    if metadata is None and os.path.isfile(f"{stem}.json"):
        with open(f"{stem}.json", encoding="utf-8") as file:
            metadata = json.load(file)
        if not isinstance(metadata, dict) or "kernels" not in metadata:
            metadata = None
    return _named(Image(text, name, _of_edited(metadata), hidden if metadata is None else None), name, path)


def _of_edited(metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A launch description without certificates of order: an image may have been edited."""
    if metadata is None:
        return None
    kernels = [{name: value for name, value in row.items() if name != "order"} for row in metadata["kernels"]]
    return {**metadata, "kernels": kernels}


def _host_code(cubin: bytes, name: str) -> FillHidden | None:
    """The function that fills hidden parameters by the host's code in a cubin; None without one that runs here."""
    from tileiras.codegen import cubin_host

    try:
        return cubin_host.hidden_parameters(cubin, name)
    except (cubin_host.HostCodeUnusable, KeyError, ValueError):
        return None


def _ptx_of(path: str, data: bytes) -> tuple[str, bytes]:
    """The PTX of a cubin, and where it is: in the cubin, as line information has it, or in a file beside it."""
    from tileiras.codegen.object_file import Cubin

    try:
        embedded = Cubin(data).embedded_ptx()
    except ValueError:
        embedded = None
    if embedded is not None:
        return path, embedded.encode()
    beside = f"{os.path.splitext(path)[0]}.ptx"
    if not os.path.isfile(beside):
        message = (
            f"{path} has no PTX in it, nor beside it in {beside}: a check follows PTX, which assemblers keep in cubins"
            " with line information (--lineinfo)"
        )
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    with open(beside, "rb") as file:
        return beside, file.read()


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

    def own_launches(self, progress: Progress) -> None:
        """Runs the launches of the plans, within the budget."""
        drawn = [*launches.plans(self.facts), *launches.edge_plans(self.facts)]
        seen: set[Any] = set()
        for number, plan in enumerate(drawn, 1):
            progress.say(f"launch {number} of {len(drawn)}, {plan.kind} values")
            if self.is_wrong:
                return
            if time.monotonic() > self.deadline:
                message = f"{TIME_IS_UP}: further launches were not run"
                self.findings.append(Finding("unjudged", message))
                return
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
            judged.seeds, judged.worst_ulps, judged.undefined, judged.unbounded,
        ))  # fmt: skip

    def _judged(self, launch: Fitted) -> Judged:
        number = len(self.reports)
        try:
            return judge(
                self.module, self.facts, self.image, launch, number, self._seeds(launch), self.coverage, self.options,
                self.deadline,
            )  # fmt: skip
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
            place(self.entry), hashlib.sha256(self.image.ptx.encode()).hexdigest(),
            self._order(gpu_name),
        )  # fmt: skip

    def _order(self, gpu_name: str) -> dict[str, Any] | None:
        found = order.of_kernel(self.image.metadata, self.image.entry)
        return order.located(found, self.module, self.image.entry, gpu_name)

    def _status(self) -> str:
        """The fault of a launch that was drawn counts only where no launch is right: the program may not allow it."""
        statuses = {each.status for each in self.reports}
        if WRONG in statuses:
            return WRONG
        if any(each.status == FAULT and (each.values == GIVEN or RIGHT not in statuses) for each in self.reports):
            return FAULT
        return RIGHT if RIGHT in statuses else INCONCLUSIVE
