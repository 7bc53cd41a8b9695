"""Random kernels in the shapes that people write, under random options, executed and compared with NumPy.

    python tests/generator COUNT [--seed FIRST] [--targets sm_90,...] [--forms product,...] [--figures FILE] [--jobs N]
    python tests/generator --seconds SECONDS [--seed FIRST] ...
    python tests/generator --only NUMBER [--interpret] [--shrink]
    python tests/generator --seek SECONDS [--seed FIRST] [--add-coverage FILE]

Case N is the same on every machine: its weights come from `covered.json`, or from the counts that `--weights` names.
Every case that is not right is printed in one line and shrunk to the smallest options and module that fail in the same
way, which `--shrunk FOLDER` gets (build/generator); `--no-shrink` leaves that out. At the end a table says how many of
each form were right on each target, and another one which decisions of TileAS changed nothing on a target, with a kind
of tensor maps or a strategy, in these cases and those that the weights count. `--figures` appends every verdict to a
file, and cases that it holds are not run again. `--add-coverage FILE` adds the counts of the run to a file of counts,
`--ledger` a line to docs/reports/generator.md. `--only` prints the kernel of one case and judges it; `--interpret` adds
the interpreter's verdict.
`--seek` judges only cases that have a pair of a decision and a target, kind of maps or strategy without a case
(`seek.py`).
Ends with 1 when a case was neither right nor too large for its target.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TILEIRAS_CACHE_DIR", "off")

from tests.generator import covered, ledger, seek, workers  # noqa: E402
from tests.generator.forms import FORMS  # noqa: E402
from tests.generator.judge import FINE, Verdict, draw, interpreted, judge  # noqa: E402
from tests.generator.options import TARGETS, Weights, sm_number  # noqa: E402
from tests.generator.shrink import shrunk  # noqa: E402
from tileiras.support.progress import Progress  # noqa: E402

MOST_SHRUNK = 8
"""Failures of a run that are shrunk: the first of each way to fail."""


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Cases by form and target: right of all, and the other verdicts."""
    targets = sorted({each.target for each in verdicts}, key=sm_number)
    lines = [f"| form | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for form in [*sorted({each.family for each in verdicts}), "all"]:
        cells = []
        for target in targets:
            counts = collections.Counter(
                each.status for each in verdicts if form in (each.family, "all") and each.target == target
            )
            others = "".join(f", {count} {status}" for status, count in sorted(counts.items()) if status != "right")
            cells.append(f"{counts['right']} of {sum(counts.values())}{others}")
        lines.append(f"| {form} | {' | '.join(cells)} |")
    return lines


class Run:
    """The cases of one command."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.forms, self.targets = tuple(options.forms.split(",")), tuple(options.targets.split(","))
        self.weights: Weights = covered.weights(covered.read(options.weights))
        self.verdicts: list[Verdict] = []
        self.ended: set[int] = set()
        """Cases that ended their worker."""

    def only(self, number: int) -> int:
        case = draw(number, self.forms, self.targets, self.weights)
        print(case.kernel.text(case.build.decorator, case.build.entries))
        for each in case.kernel.arguments:
            print(f"{each.name}: {each.signature} {getattr(each.value, 'shape', each.value)}")
        print(f"grid {case.kernel.grid}, constants {case.kernel.constants}, {case.build}")
        if self.options.interpret:
            print("interpreter:", interpreted(case.kernel, case.build.decorator) or "right")
        verdict = judge(case)
        print(verdict.status, verdict.detail, f"{verdict.seconds} s")
        if self.options.shrink and verdict.status not in FINE:
            self._shrink([verdict])
        return int(verdict.status not in FINE)

    def all(self) -> int:
        known, at = self._known(), ledger.commit() if self.options.ledger else ""
        with Progress("generated kernels", self.options.count) as progress:
            judge_one = functools.partial(_case, self.forms, self.targets, self.weights)
            for outcome in workers.judged(judge_one, self._numbers(known), self.options.jobs):
                verdict = self._ended(outcome) if isinstance(outcome, workers.Ended) else outcome
                progress.step(verdict.family)
                self._keep(verdict)
        self.verdicts.sort()
        failed = [each for each in self.verdicts if each.status not in FINE]
        if self.options.shrink is not False:
            # A case that ended its worker would end this process.
            self._shrink([each for each in failed if each.seed not in self.ended])
        counts = covered.counted(self.verdicts)
        so_far = covered.added(covered.read(self.options.weights), counts)
        print(*table(self.verdicts), "", *covered.table(so_far), sep="\n")
        for pair in covered.contradicted(counts):
            print(f"{pair.decision} with {pair.value} occurs, but is said to be impossible: {covered.reason(pair)}")
        if self.options.add_coverage is not None:
            self._add(self.options.add_coverage)
        if self.options.ledger and self.verdicts:
            ledger.append(self.verdicts, at)
        return int(bool(failed or covered.contradicted(counts)))

    def seek(self) -> int:
        """Cases for missing pairs, one line each."""
        counts = covered.read(self.options.weights)
        for item in seek.seek(counts, self.options.seek, self.options.seed):
            counts = covered.added(counts, covered.counted([item.verdict]))
            print(item.command, *(f"{pair.decision} with {pair.value}" for pair in item.pairs), sep="; ", flush=True)
            self._keep(item.verdict)
        print(*covered.table(counts), sep="\n")
        if self.options.add_coverage is not None:
            self._add(self.options.add_coverage)
        return int(any(each.status not in FINE for each in self.verdicts))

    def _add(self, path: Path) -> None:
        before = covered.read(path) if path.exists() else covered.counted([])
        covered.write(covered.added(before, covered.counted(self.verdicts)), path)

    def _known(self) -> set[int]:
        """The numbers of cases that the figures hold; verdicts of those in the range count."""
        figures, first = self.options.figures, self.options.seed
        if figures is None or not figures.exists():
            return set()
        known = [Verdict(**json.loads(line)) for line in figures.read_text(encoding="utf-8").splitlines()]
        last = first + self.options.count if self.options.seconds is None else float("inf")
        self.verdicts = [each for each in known if first <= each.seed < last]
        return {each.seed for each in self.verdicts}

    def _ended(self, ended: workers.Ended) -> Verdict:
        """The verdict on a case whose worker ended."""
        self.ended.add(ended.number)
        case = draw(ended.number, self.forms, self.targets, self.weights)
        build = case.build
        return Verdict(ended.number, case.kernel.form, str(build), "internal", str(ended), 0.0, case.family,
                       build.maps, build.strategy)  # fmt: skip

    def _numbers(self, known: set[int]) -> Iterator[int]:
        """In order, while there is time."""
        options = self.options
        end = time.monotonic() + options.seconds if options.seconds is not None else float("inf")
        bounded = options.seconds is None
        for number in range(options.seed, options.seed + options.count) if bounded else itertools.count(options.seed):
            if number not in known:
                if time.monotonic() > end:
                    return
                yield number

    def _keep(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if verdict.status not in FINE:
            line = f"{verdict.seed} {verdict.form} [{verdict.build}] {verdict.status}: {verdict.detail}"
            print(line[:400], flush=True)
        if self.options.figures is not None:
            with self.options.figures.open("a", encoding="utf-8") as file:
                file.write(json.dumps(verdict._asdict()) + "\n")

    def _shrink(self, failed: Sequence[Verdict]) -> None:
        """Print the smallest module and command for the first failure of each way."""
        first = {each.way: each for each in reversed(failed)}
        for verdict in sorted(first.values())[:MOST_SHRUNK]:
            smallest = shrunk(verdict.seed, self.forms, self.targets, self.weights)
            print(f"\ncase {verdict.seed}, {verdict.status}: {verdict.detail}"[:400])
            if not smallest.fails:
                print(f"judged again it is {smallest.verdict.status}: the compiler changed, or differs from run to run")
                continue
            commands = smallest.write(self.options.shrunk)
            print(smallest.text(), *(f"    $ {command}" for command in commands), sep="\n", flush=True)


def _case(forms: tuple[str, ...], targets: tuple[str, ...], weights: Weights, number: int) -> Verdict:
    return judge(draw(number, forms, targets, weights))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=0)
    parser.add_argument("--seconds", type=float, help="in the place of COUNT: no case begins later")
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--figures", type=Path, metavar="FILE")
    parser.add_argument("--weights", type=Path, metavar="FILE", default=covered.COMMITTED)
    parser.add_argument("--add-coverage", type=Path, metavar="FILE")
    parser.add_argument("--shrink", action=argparse.BooleanOptionalAction)
    parser.add_argument("--shrunk", type=Path, metavar="FOLDER", default=Path("build", "generator"))
    parser.add_argument("--ledger", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seek", type=float, metavar="SECONDS", help="cases for pairs that no case has had")
    parser.add_argument("--only", type=int, metavar="NUMBER")
    parser.add_argument("--interpret", action="store_true")
    parser.add_argument("--impossible", action="store_true", help="print the pairs that cannot occur, with reasons")
    options = parser.parse_args(arguments)
    if options.impossible:
        print(*covered.impossible_table(), sep="\n")
        return 0
    run = Run(options)
    if options.seek is not None:
        return run.seek()
    return run.only(options.only) if options.only is not None else run.all()


if __name__ == "__main__":
    sys.exit(main())
