"""A failing case made smaller by itself: its options, then the draws of its kernel, then the module.

Every attempt is judged anew and kept where it fails in the same way (`Verdict.way`).  Cases are judged by NumPy;
modules as `tileiras.check` does, on the launch of the case.  A failure that the interpreter does not see keeps the
module of the last case.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tileiras
from tests.generator.judge import FINE, Case, Verdict, draw, held, judge, limited
from tests.generator.modules import Module
from tests.generator.options import TARGETS, Build, Weights, sm_number
from tests.generator.reduction import reduced
from tileiras.check.checker import SEEDS
from tileiras.check.verdict import WRONG
from tileiras.diagnostics import CompileError
from tileiras.ir import Operation

BUDGET = 300.0
"""Seconds for one case; each of the three parts may take the rest that the ones before leave."""
OWN_LAUNCHES = 20.0
"""Seconds in which the command may find a launch by itself."""


@dataclass(frozen=True)
class Shrunk:
    """The smallest module and build that fail as the case does."""

    case: Case
    verdict: Verdict
    module: Operation | None
    """None where the front end or the compiler refuses the kernel before there is one, or the case does not fail."""
    arguments: Sequence[Any] = ()
    needs_launch: bool = False
    """Whether `tileiras-check` does not find a launch of its own that shows the failure."""

    @property
    def fails(self) -> bool:
        """Whether the case failed when it was judged again."""
        return self.verdict.status not in FINE

    def command(self, stem: str = "kernel") -> str:
        words = ["tileiras-check", f"{stem}.mlir", *self.case.build.words()]
        return shlex.join(words + (["--launch", f"{stem}.npz"] if self.needs_launch else []))

    def text(self) -> str:
        if self.module is not None:
            return f"{self.module}\n"
        return self.case.kernel.text(self.case.build.decorator, self.case.build.entries)

    def write(self, folder: Path) -> list[str]:
        """Write the module, and the launch where it is needed; gives the lines that tell how to see the failure."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"case-{self.case.number}"
        if self.module is None:
            (folder / f"{stem}.py").write_text(self.text(), encoding="utf-8")
            return [f"tileiras {stem}.py {shlex.join(self.case.build.words())} --emit ptx"]
        (folder / f"{stem}.mlir").write_text(self.text(), encoding="utf-8")
        if self.needs_launch:
            np.savez(folder / f"{stem}.npz", *self.arguments, grid=np.array(self.case.kernel.grid))
        return [self.command(stem)]


def shrunk(
    number: int, forms: Sequence[str], targets: tuple[str, ...], weights: Weights = Weights(),
    seconds: float = BUDGET, judged: Callable[[Case], Verdict] = judge,
) -> Shrunk:  # fmt: skip
    """Make the failing case of a number smaller.

    A case that is right when it is judged again has no smallest module: every right attempt would be like it, down to
    an empty one.
    """
    case = draw(number, forms, targets, weights)
    verdict = judged(case)
    if verdict.status in FINE:
        return Shrunk(case, verdict, None)
    search = _Cases(forms, targets, weights, judged, case, verdict, time.monotonic() + seconds)
    search.smaller_build()
    if not isinstance(case.kernel, Module):
        # Fewer draws change all that follow them; the operations of a module go one by one.
        search.smaller_draws()
    return _smaller_module(search.case, search.verdict, search.deadline)


@dataclass
class _Cases:
    forms: Sequence[str]
    targets: tuple[str, ...]
    weights: Weights
    judged: Callable[[Case], Verdict]
    case: Case
    verdict: Verdict
    deadline: float
    replaced: dict[int, Any] = field(default_factory=dict)

    def attempt(self, case: Case) -> bool:
        if time.monotonic() > self.deadline:
            return False
        verdict = self.judged(case)
        if verdict.way != self.verdict.way:
            return False
        self.case, self.verdict = case, verdict
        return True

    def smaller_build(self) -> None:
        """Hints, options and second entries go, all or one by one; then an older target, and warps in lock step."""
        self.attempt(self.case._replace(build=Build(self.case.build.gpu_name, (), {})))
        for hint in self.case.build.hints:
            result = tuple(each for each in self.case.build.hints if each != hint)
            self.attempt(self.case._replace(build=self.case.build._replace(hints=result)))
        for name in list(self.case.build.options):
            kept_options = {key: value for key, value in self.case.build.options.items() if key != name}
            self.attempt(self.case._replace(build=self.case.build._replace(options=kept_options)))
        if self.case.build.entries > 1:
            self.attempt(self.case._replace(build=self.case.build._replace(entries=1)))
        oldest = self.case.kernel.needs
        for target in TARGETS:
            if oldest <= sm_number(target) < sm_number(self.case.build.gpu_name):
                if self.attempt(self.case._replace(build=self.case.build._replace(gpu_name=target))):
                    break
        self.attempt(self.case._replace(seed=None))

    def smaller_draws(self) -> None:
        """Each draw of the kernel takes the simplest value that it can, until none can be simpler."""
        is_changed = True
        while is_changed and time.monotonic() < self.deadline:
            is_changed = False
            position = 1
            while position < len(self.case.draws):
                is_changed |= self._simplify(position)
                position += 1

    def _simplify(self, position: int) -> bool:
        for value in self.case.draws[position].simpler:
            replaced = {**self.replaced, position: value}
            other = draw(self.case.number, self.forms, self.targets, self.weights, replaced)
            able = sm_number(self.case.build.gpu_name) >= other.kernel.needs
            if able and self.attempt(other._replace(build=self.case.build, seed=self.case.seed)):
                self.replaced = replaced
                return True
        return False


# -- the module ------------------------------------------------------------------------------------------------------


def _smaller_module(case: Case, verdict: Verdict, deadline: float) -> Shrunk:
    try:
        module = tileiras.parse(case.kernel.source(case.build.decorator))
    except (CompileError, Exception):  # noqa: BLE001  The front end's own exceptions have no common class.
        return Shrunk(case, verdict, None)
    arguments = case.kernel.memory_slots()
    oracle = _Oracle(case)
    for seed in dict.fromkeys((*SEEDS, case.seed)):
        oracle.seed = seed
        way = oracle.way(module, arguments)
        if way[0] == verdict.status:
            break
    else:
        return Shrunk(case, verdict, module, arguments, True)
    seconds = max(0.0, deadline - time.monotonic())
    module, arguments = reduced(module, arguments, lambda *given: oracle.way(*given) == way, seconds)
    return Shrunk(case, verdict, module, arguments, _needs_launch(case, module, verdict))


@dataclass
class _Oracle:
    """Judges modules on the launch of a case, by the interpreter's bounds."""

    case: Case
    seed: int | None = None

    def way(self, module: Operation, arguments: Sequence[Any]) -> tuple[str, str]:
        case = self.case
        status, detail = limited(lambda: held(module, case.kernel.grid, arguments, case.build, self.seed))
        return Verdict(0, "", str(self.case.build), status, detail, 0.0).way


def _needs_launch(case: Case, module: Operation, verdict: Verdict) -> bool:
    """Whether the command finds no launch of its own on which the module fails."""
    if verdict.status not in ("wrong", "fault"):
        return False
    status = []

    def search() -> tuple[str, str]:
        result = case.build
        status.append(tileiras.check(module, gpu_name=result.gpu_name, budget=OWN_LAUNCHES, **result.options).status)
        return "", ""

    limited(search)
    return status != [WRONG]
