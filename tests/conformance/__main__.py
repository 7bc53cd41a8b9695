"""python tests/conformance [--families F,...] [--targets T,...] [--pairwise] [--every N] [--part K/N | --parts N]
[--round N] [--figures FILE]... [--instructions FILE] [--jobs N].

Prints one line per failing kernel and exits with 1 if there is one.  `--figures` accumulates counts in a file, so that
a run can be split into parts, and prints the sums of all its parts.
`--parts N --figures FILE` runs the parts of N that FILE lacks and records each at its end: an interrupted run resumes.
With as many rounds as targets, each module is compiled for one target per round, in rotation: the first round covers
every kernel once, all rounds cover every kernel on every target.
`--instructions tests/sim/emulator/ptx/selected_instructions.txt` adds the forms that LLVM selects to the list that the
emulator's tests decode.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from case_kernels import all_kernels, modules, pairwise_kernels  # noqa: E402
from case_modules import TARGETS, Kernel, Result, run_module  # noqa: E402

from tileiras.codegen import toolkit  # noqa: E402
from tileiras.support.progress import Progress  # noqa: E402

Rows = dict[str, dict[str, Any]]
"""Counts, the largest distance and the failures of each family."""
COUNTS = ("kernels", "runs", "assembled", "emulated", "failed")


class Figures:
    """Counts of the kernels of each family by result."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.worst: dict[str, float] = {}
        self.failures: dict[str, list[str]] = {}

    def plan(self, kernels: list[Kernel], first: bool) -> None:
        """The kernels about to run, and whether this is their first run."""
        for kernel in kernels:
            self.counts.setdefault(kernel.family, Counter())["kernels"] += first

    def add(self, family: str, result: Result) -> None:
        counts = self.counts[family]
        counts["runs"] += 1
        if result.failure is None:
            counts["assembled"] += result.assembled
            counts["emulated"] += result.emulated
            self.worst[family] = max(self.worst.get(family, 0.0), result.ulps)
            return
        counts["failed"] += 1
        words = result.failure.message.replace("\n", " | ")
        where = " ".join(filter(None, (result.failure.target, result.failure.stage)))
        line = f"{result.failure.name} [{where}] {words}"[:600]
        self.failures.setdefault(family, []).append(line)
        print(f"FAILED {line}", flush=True)

    def rows(self) -> Rows:
        """The part of the run that a file of figures keeps."""
        return {
            family: {
                **{name: counts[name] for name in COUNTS},
                "worst": self.worst.get(family, 0.0),
                "failures": self.failures.get(family, []),
            }
            for family, counts in self.counts.items()
        }


def table(runs: list[Rows]) -> str:
    """The sums of several runs' rows, a line per family."""
    lines = [f"{'family':12}" + "".join(f"{name:>11}" for name in COUNTS) + f"{'worst ulps':>12}"]
    families = list(dict.fromkeys(family for run in runs for family in run))
    total: Counter[str] = Counter()
    for family in families:
        rows = [run[family] for run in runs if family in run]
        sums = {name: sum(row[name] for row in rows) for name in COUNTS}
        total.update(sums)
        worst = max(row["worst"] for row in rows)
        lines.append(f"{family:12}" + "".join(f"{sums[name]:11}" for name in COUNTS) + f"{worst:12g}")
    lines.append(f"{'all':12}" + "".join(f"{total[name]:11}" for name in COUNTS))
    return "\n".join(lines)


Plan = list[tuple[list[Kernel], list[str]]]
Outcome = tuple[list[tuple[str, Result]], set[str]]


def run_one(plan: Plan, number: int, assembler: str | None, listed: bool) -> Outcome:
    """The results of one module with their families; kernels are left out because they cannot be pickled."""
    group, targets = plan[number]
    listing: set[str] | None = set() if listed else None
    results = [(r.kernel.family, r._replace(kernel=None)) for r in run_module(group, targets, assembler, listing)]
    return results, listing or set()


def run_all(plan: Plan, assembler: str | None, listed: bool, jobs: int) -> Iterator[tuple[list[Kernel], Any, set[str]]]:
    """Modules in order, each with `run_one`'s outcome; forked processes have the plan already."""
    if jobs == 1:
        outcomes: Any = (run_one(plan, number, assembler, listed) for number in range(len(plan)))
        yield from ((group, *outcome) for (group, _), outcome in zip(plan, outcomes))
        return
    global _run
    _run = functools.partial(run_one, plan, assembler=assembler, listed=listed)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from ((group, *outcome) for (group, _), outcome in zip(plan, pool.imap(_outcome, range(len(plan)))))


_run: Callable[[int], Outcome]


def _outcome(number: int) -> Outcome:
    return _run(number)


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 2/5")
    return int(number), int(count)


def _key(options: argparse.Namespace, part: tuple[int, int]) -> str:
    """The key of a part in a file of figures."""
    key = f"{options.families or 'all'} {part[0]}/{part[1]} {options.targets}"
    key += f" every {options.every}" * (options.every > 1) + " pairwise" * options.pairwise
    return key if options.round is None else f"{key} round {options.round}"


def run_part(groups: list[list[Kernel]], part: tuple[int, int], options: argparse.Namespace) -> Rows:
    """Run every nth module and print the failures."""
    number, count = part
    targets = options.targets.split(",")
    plan = []
    for place, group in enumerate(groups[number - 1 :: count]):
        chosen = targets
        if options.round is not None:
            # Numbered across all parts, so that the split into parts does not change a kernel's targets.
            chosen = [targets[((number - 1) + place * count + options.round) % len(targets)]]
        plan.append((group, chosen))
    figures = Figures()
    listing: set[str] | None = set() if options.instructions is not None else None
    outcomes = run_all(plan, toolkit.find_program("ptxas"), listing is not None, options.jobs)
    with Progress("conformance", total=len(plan)) as progress:
        for group, results, selected in outcomes:
            progress.step(group[0].family)
            figures.plan(group, not options.round)
            for family, result in results:
                figures.add(family, result)
            if listing is not None:
                listing.update(selected)
    if listing is not None:
        if options.instructions.exists():
            listing.update(options.instructions.read_text().splitlines())
        options.instructions.write_text("".join(f"{each}\n" for each in sorted(listing)))
    return figures.rows()


def main() -> int:
    parser = argparse.ArgumentParser(prog="conformance")
    parser.add_argument("--families", help="only these, separated by commas")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--pairwise", action="store_true", help="the kernels that the tests run")
    parser.add_argument("--every", type=int, default=1, help="one kernel in so many")
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="K/N", help="the Kth of N parts of the modules")
    parser.add_argument("--round", type=int, metavar="N", help="one target per module; 0 to the number of targets - 1")
    parser.add_argument("--parts", type=int, metavar="N", help="all of N parts that the figures do not have yet")
    parser.add_argument("--figures", type=Path, metavar="FILE", action="append", default=[],
                        help="where counts are kept from one run to the next; more files are only read")  # fmt: skip
    parser.add_argument("--instructions", type=Path, metavar="FILE", help="where forms of instructions are added")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="run modules in so many processes")
    options = parser.parse_args()
    kernels = list(pairwise_kernels() if options.pairwise else all_kernels())
    if options.families:
        kernels = [kernel for kernel in kernels if kernel.family in options.families.split(",")]
    groups = modules(kernels[:: options.every])
    # Half a million objects live until the end: every collection would traverse them, in every process.
    gc.freeze()
    runs: dict[str, Rows] = {}
    for file in options.figures[::-1]:
        runs.update(json.loads(file.read_text()) if file.exists() else {})
    begin = time.monotonic()
    parts = [options.part] if options.parts is None else [(n, options.parts) for n in range(1, options.parts + 1)]
    for part in parts:
        key = _key(options, part)
        if options.parts is not None and key in runs:
            continue
        runs[key] = run_part(groups, part, options)
        if options.figures:
            file = options.figures[0]
            data = json.loads(file.read_text()) if file.exists() else {}
            # An interrupted write would otherwise lose all parts.
            half = file.with_name(file.name + ".new")
            half.write_text(json.dumps({**data, key: runs[key]}, indent=1) + "\n")
            half.replace(file)
        if options.parts is not None:
            print(f"part {part[0]} of {part[1]}: {time.monotonic() - begin:.0f} s", flush=True)
    print(f"\n{table(list(runs.values()))}")
    failures = [line for rows in runs.values() for row in rows.values() for line in row.get("failures", ())]
    for line in failures:
        print(f"FAILED {line}")
    print(f"{time.monotonic() - begin:.0f} s; assembler: {'ptxas' if toolkit.find_program('ptxas') else 'none'}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
