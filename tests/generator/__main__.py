"""Random kernels in the shapes that people write, under random options, executed and compared with NumPy.

    python tests/generator COUNT [--seed FIRST] [--targets sm_90,...] [--forms product,...] [--figures FILE] [--jobs N]
    python tests/generator --only SEED [--interpret]

Case N is the same on every machine.  Every case that is not right is printed in one line; at the end a table says how
many of each form were right on each target.  `--figures` appends every verdict to a file, and cases that it holds are
not run again.  `--only` prints the kernel of one case and judges it; `--interpret` adds the interpreter's verdict.
Ends with 1 when a case was neither right nor too large for its target.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TILEIRAS_CACHE_DIR", "off")

from tests.generator.judge import FORMS, Verdict, draw, interpreted, judge  # noqa: E402
from tests.generator.options import TARGETS  # noqa: E402
from tileiras.progress import Progress  # noqa: E402

FINE = ("right", "too large")


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Cases by form and target: right of all, and the other verdicts."""
    targets = sorted({each.build.split()[0] for each in verdicts}, key=lambda name: int(name.removeprefix("sm_")))
    lines = [f"| form | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for form in [*sorted({each.form for each in verdicts}), "all"]:
        cells = []
        for target in targets:
            counts = collections.Counter(
                each.status for each in verdicts if form in (each.form, "all") and each.build.split()[0] == target
            )
            others = "".join(f", {count} {status}" for status, count in sorted(counts.items()) if status != "right")
            cells.append(f"{counts['right']} of {sum(counts.values())}{others}")
        lines.append(f"| {form} | {' | '.join(cells)} |")
    return lines


def _case(forms: tuple[str, ...], targets: tuple[str, ...], seed: int) -> Verdict:
    return judge(seed, *draw(seed, forms, targets))


def _only(seed: int, forms: tuple[str, ...], targets: tuple[str, ...], with_interpreter: bool) -> int:
    kernel, given = draw(seed, forms, targets)
    print(kernel.text(given.hints))
    for name, value, signature, _ in kernel.arguments:
        print(f"{name}: {signature} {getattr(value, 'shape', value)}")
    print(f"grid {kernel.grid}, constants {kernel.constants}, {given}")
    if with_interpreter:
        print("interpreter:", interpreted(kernel, given.hints) or "right")
    verdict = judge(seed, kernel, given)
    print(verdict.status, verdict.detail, f"{verdict.seconds} s")
    return int(verdict.status != "right")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=0)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--figures", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="SEED")
    parser.add_argument("--interpret", action="store_true")
    options = parser.parse_args(arguments)
    forms, targets = tuple(options.forms.split(",")), tuple(options.targets.split(","))
    if options.only is not None:
        return _only(options.only, forms, targets, options.interpret)
    known: list[Verdict] = []
    if options.figures is not None and options.figures.exists():
        known = [Verdict(**json.loads(line)) for line in options.figures.read_text().splitlines()]
    seeds = range(options.seed, options.seed + options.count)
    verdicts = [each for each in known if each.seed in seeds]
    remaining = sorted(set(seeds) - {each.seed for each in verdicts})
    with (
        multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=200) as pool,
        Progress("generated kernels", len(remaining)) as progress,
    ):
        for verdict in pool.imap_unordered(functools.partial(_case, forms, targets), remaining):
            progress.step(verdict.form)
            verdicts.append(verdict)
            if verdict.status not in FINE:
                line = f"{verdict.seed} {verdict.form} [{verdict.build}] {verdict.status}: {verdict.detail}"
                print(line[:400], flush=True)
            if options.figures is not None:
                with options.figures.open("a") as file:
                    file.write(json.dumps(verdict._asdict()) + "\n")
    print(*table(verdicts), sep="\n")
    return int(any(verdict.status not in FINE for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
