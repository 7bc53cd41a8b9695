"""python -m bench suite CHECKOUT [--suite tests] [--path src ...] [--gpu H200] [--minutes M] [--rows FILE] [TEST ...]

Estimates of our code and of the reference compiler's for the launches of another repository's tests of cuTile kernels,
at the sizes of these tests: one test for each function, each kernel once.  Prints the launches whose estimates differ
most, the geometric mean of the ratios, and the launches without an estimate with the reason.  Nothing is executed, so
that results are not judged (`tests/conformance/front_end_samples.py` does).  Needs torch, cuda-tile, pytest, ptxas,
nvdisasm and the reference compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.estimates import GPUS, missing_tools
from bench.ranking import Taken, compared

ROOT = Path(__file__).resolve().parents[1]
FRONT_END = ROOT / "tests" / "conformance" / "front_end"


def run_tests(options: argparse.Namespace, target: str, times: Path) -> int:
    """Run the tests of the suite with the device that estimates; returns the exit code of pytest."""
    paths = [FRONT_END, FRONT_END.parent, ROOT, *(options.checkout.resolve() / each for each in options.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    tests = options.tests or [options.suite]
    command = [
        sys.executable, "-m", "pytest", "-p", "plugin", "-p", "no:cacheprovider", "-o", "addopts=", "-q", "--tb=no",
        "--continue-on-collection-errors", "--device-backend=compile", f"--device-target={target}",
        "--device-cover=functions", f"--device-times={times}", f"--device-minutes={options.minutes}",
        "--device-limit=60", *tests,
    ]  # fmt: skip
    return subprocess.run(command, cwd=options.checkout, env=environment, stdout=subprocess.DEVNULL).returncode


def report(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The launches by the ratio of their times, which is a claim only where it holds for all values of the parameters
    that are not known, and those without one."""
    both: list[tuple[tuple[float, float, float], str]] = []
    without = []
    for row in rows:
        one, other = (Taken(**row.get(side, {"microseconds": None})) for side in ("ours", "theirs"))
        ratio = compared(one, other, row["gpu"])
        if ratio is None:
            reasons = "; ".join(filter(None, (row.get("refusal"), one.refusal, other.refusal)))
            without.append(f"no estimate: {row['test']}, {row['kernel'][:40]}: {reasons[:200]}")
            continue
        place = f"{row['test'].rsplit('/', 1)[-1]} | {row['kernel'][:40]} | {'x'.join(map(str, row['grid']))}"
        text = f"{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f})"
        both.append((ratio, f"| {place} | {one.microseconds:.1f} | {other.microseconds:.1f} | {text} |"))
    both.sort(key=lambda each: -each[0][0])
    lines = ["| test | kernel | grid | ours us | reference us | ratio |", "|---|---|---|---|---|---|"]
    lines += [line for _, line in both]
    if both:
        mean = statistics.geometric_mean(ratio for (ratio, _, _), _ in both)
        slower = sum(low > 1 for (_, low, _), _ in both)
        lines.append(f"{len(both)} launches: {mean:.2f} of the reference's time, {slower} slower for all parameters")
    return [*lines, *without]


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="bench suite", description=__doc__.split("\n\n")[1])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--suite", default="tests")
    parser.add_argument("--path", nargs="*", default=["."], help="folders of the checkout that its tests import from")
    parser.add_argument("--gpu", default="H200", choices=tuple(GPUS.values()))
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no test later than that")
    parser.add_argument("--rows", type=Path, help="a file that keeps the estimates")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_intermixed_args(list(arguments) or None)
    if missing := missing_tools():
        print(f"bench suite: not installed: {', '.join(missing)}", file=sys.stderr)
        return 2
    target = next(target for target, gpu in GPUS.items() if gpu == options.gpu)
    with tempfile.TemporaryDirectory() as folder:
        times = (options.rows or Path(folder, "times")).resolve()
        code = run_tests(options, target, times)
        rows = [json.loads(line) for line in times.read_text(encoding="utf-8").splitlines()] if times.exists() else []
    print(*report(rows), sep="\n")
    return 0 if rows else code or 1
