"""Generated kernels on the CPU, against the interpreter within the bounds that the checker derives.

    python tests/generator/on_cpu.py COUNT [--seed FIRST] [--forms product,...] [--target cpu] [--jobs N]

Case N is the kernel of case N of the plain sequence (`judge.draw`).  Every case that is not right is printed; a table
at the end counts them by form.  Ends with 1 when a case was not right.
"""

from __future__ import annotations

import argparse
import collections
import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("TILEIRAS_CACHE_DIR", "off")

from tests.generator import workers  # noqa: E402
from tests.generator.forms import FORMS  # noqa: E402
from tests.generator.judge import Case, draw, limited  # noqa: E402
from tests.kernels.held_on_cpu import held  # noqa: E402
from tileiras.check.verdict import RIGHT  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402


class Outcome(NamedTuple):
    """The verdict on a case: its number and form, `right` or another word, and a sentence."""

    number: int
    form: str
    status: str
    detail: str


def judge_on_cpu(case: Case, target: str = "cpu") -> tuple[str, str]:
    """Compile and launch a case, and hold its memory against the interpreter's."""
    try:
        judged = held(case.kernel.source(case.build.decorator), case.kernel.grid, case.kernel.memory_slots(), target)
    except CompileError as error:
        return "refused", error.diagnostics[0].message
    except Exception as error:  # noqa: BLE001  An unexpected exception is a finding.
        return "internal", f"{type(error).__name__}: {error}"
    return judged.status, "" if judged.status == RIGHT else judged.findings[-1].message


def outcome(forms: tuple[str, ...], target: str, number: int) -> Outcome:
    case = draw(number, forms)
    status, detail = limited(lambda: judge_on_cpu(case, target))
    return Outcome(number, case.family, status, detail)


def main() -> int:
    parser = argparse.ArgumentParser(prog="on_cpu.py")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first number")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    judge = functools.partial(outcome, tuple(options.forms.split(",")), options.target)
    failed = 0
    for each in workers.judged(judge, iter(range(options.seed, options.seed + options.count)), options.jobs):
        if isinstance(each, workers.Ended):
            each = Outcome(each.number, "?", "internal", str(each))
        counts[each.form][each.status] += 1
        if each.status != RIGHT:
            failed += 1
            print(f"{each.number} {each.form}: {each.status} {each.detail}"[:500], flush=True)
    for form, row in sorted(counts.items()):
        print(f"{form}: " + ", ".join(f"{count} {status}" for status, count in row.most_common()))
    print(f"{options.count} cases from {options.seed} on: {failed} not right")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
