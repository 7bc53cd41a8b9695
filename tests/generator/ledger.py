"""The ledger of runs in docs/reports/generator.md: the numbers, the commit and the outcomes of each run."""

from __future__ import annotations

import collections
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.generator.judge import Verdict
from tests.generator.options import sm_number

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reports" / "generator.md"
COLUMNS = ("right", "too large", "wrong", "fault", "refused", "internal", "slow", "interpreter")
_END = "\n\n<!-- end of ledger -->"


def commit() -> str:
    """The commit of the checkout, with a plus sign behind it where the compiler differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short=8", "HEAD") + ("+" if git("status", "--porcelain", "tileiras") else "")


def row(verdicts: Sequence[Verdict], at: str) -> str:
    """The line of one run at a commit."""
    numbers = sorted(each.seed for each in verdicts)
    targets = sorted({each.target for each in verdicts}, key=sm_number)
    counts = collections.Counter(each.status for each in verdicts)
    cells = [at, f"{numbers[0]} to {numbers[-1]}", str(len(numbers)), ", ".join(targets)]
    return f"| {' | '.join([*cells, *(str(counts[status]) for status in COLUMNS)])} |"


def append(verdicts: Sequence[Verdict], at: str, page: Path = PAGE) -> None:
    """Add the line of a run, which began at a commit, to the page's table."""
    before, end, after = page.read_text(encoding="utf-8").partition(_END)
    assert end, f"{page} has no ledger"
    page.write_text(f"{before}\n{row(verdicts, at)}{end}{after}", encoding="utf-8")
