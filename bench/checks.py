"""Cost and coverage of checks: every example on five targets, in one process.

    python -m bench checks [--targets sm_80,...] [--budget SECONDS] [--seconds LIMIT] [FILE-OR-FOLDER ...]

`ratio` is the time of the check, its compile included, over that of the compile and one emulation, in lock step, of
the launch that takes the emulator least; all are processor time, with that of child processes. Kernels and targets
come in an order drawn by a seed, so that after `--seconds` a part of all has been measured; the number left out is
printed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import tileiras
from bench.kernels import Kernel, collect
from bench.processor_time import spent
from tileiras.check import checker, judging
from tileiras.diagnostics import CompileError
from tileiras.stages import units
from tileiras.targets.cpu import is_cpu

TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
RATIO, LONGEST, COVERAGE = 25.0, checker.BUDGET, 0.98
"""The bars: the median ratio, seconds of the longest check, and the mean share of operations that launches reach."""


HEAD = f"  {'kernel':<44}{'target':<8}{'verdict':<18}{'s':>7}{'compile':>9}{'smallest':>9}{'ratio':>7}  reached"


class Row(NamedTuple):
    name: str
    target: str
    status: str
    seconds: float
    compile: float
    smallest: float
    operations: tuple[int, int]
    launches: int
    stopped: bool
    """Whether the budget ended it."""

    @property
    def ratio(self) -> float:
        return self.seconds / (self.compile + self.smallest)


class _Clock:
    """The emulator with the time of each launch in lock step."""

    def __init__(self) -> None:
        self.emulate = judging.emulate
        self.times: list[float] = []

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        started = time.process_time()
        try:
            return self.emulate(*arguments, **options)
        finally:
            if options["seed"] is None:
                self.times.append(time.process_time() - started)


def measure(kernel: Kernel, entry: str, target: str, budget: float, clock: _Clock) -> Row:
    """Raise CompileError for a kernel that is not for the target."""
    tileiras.compile(kernel.path, gpu_name=target, entry=entry)  # loads the modules that its compilation uses
    started = spent()
    tileiras.compile(kernel.path, gpu_name=target, entry=entry)
    compiled = spent() - started
    clock.times.clear()
    started = spent()
    verdict = checker.check(kernel.path, gpu_name=target, entry=entry, budget=budget)
    seconds = spent() - started
    return Row(f"{kernel.name}:{entry}", target, verdict.status, seconds, compiled, min(clock.times, default=0.0),
               verdict.coverage.get("operations", (0, 0)), len(verdict.launches), verdict.is_cut_short)  # fmt: skip


def _work(kernels: Sequence[Kernel], targets: Sequence[str]) -> list[tuple[Kernel, str, str]]:
    work = []
    for kernel in kernels:
        names = [units.entry_name(op) for op in units.entries_of(tileiras.parse(kernel.path))]
        fitting = [target for target in targets if is_cpu(target) or int(target[3:]) >= kernel.lowest]
        work += [(kernel, name, target) for name in names for target in fitting]
    random.Random(0).shuffle(work)
    return work


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="bench checks")
    parser.add_argument("kernels", metavar="FILE-OR-FOLDER", nargs="*")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--budget", type=float, default=checker.BUDGET)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args(arguments)
    clock = judging.emulate = _Clock()  # type: ignore[assignment]
    rows: list[Row] = []
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = _work(collect(folder, options.kernels), options.targets.split(","))
            print(HEAD)
            for number, (kernel, entry, target) in enumerate(work):
                if time.perf_counter() - started > options.seconds:
                    print(f"{len(work) - number} of {len(work)} were left out")
                    break
                try:
                    row = measure(kernel, entry, target, options.budget, clock)
                except CompileError as error:
                    print(f"  {kernel.name}:{entry} {target}: {error.diagnostics[0]}")
                    continue
                rows.append(row)
                print(_line(row), flush=True)
    finally:
        judging.emulate = clock.emulate
    print(_summary(rows))
    return 0


def _line(row: Row) -> str:
    reached, total = row.operations
    mark = " (stopped by the budget)" if row.stopped else ""
    return (
        f"  {row.name:<44}{row.target:<8}{row.status:<18}{row.seconds:7.1f}{row.compile:9.3f}{row.smallest:9.3f}"
        f"{row.ratio:7.1f}  {reached} of {total}, {row.launches} launches{mark}"
    )


def _summary(rows: Sequence[Row]) -> str:
    if not rows:
        return "nothing was measured"
    ratio = statistics.median(row.ratio for row in rows)
    longest = max(row.seconds for row in rows)
    coverage = statistics.mean(row.operations[0] / max(row.operations[1], 1) for row in rows)
    wrong = [f"{row.name} {row.target}" for row in rows if row.status != "right"]
    return (
        f"{len(rows)} checks: ratio {ratio:.1f} in the median (at most {RATIO:g}),"
        f" {max(row.ratio for row in rows):.1f} at most; longest {longest:.1f} s (at most {LONGEST:g});"
        f" operations reached {coverage:.2%} in the mean (at least {COVERAGE:.0%});"
        f" stopped by the budget: {sum(row.stopped for row in rows)}; not right: {', '.join(wrong) or 'none'}"
    )
