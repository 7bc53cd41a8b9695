"""python -m bench validation [--samples CHECKOUT] [--bytecode-version 13.4] [--sources DIR] [--gpus B200,...]
[--kernels PART,...] [--jobs N] [--rows FILE]

Published times of the reference compiler's own images beside their estimates, as a Markdown table, with the mean and
the worst error, and the pairs of variants of one kernel whose order is wrong; behind them kernels that stand for
published ones, for their order.  CHECKOUT is one of cuTile Python, in which the kernels are; needs the reference
compiler, ptxas and nvdisasm.  The published times are of a release before 13.5, and other releases have other code
(`pip install nvidia-cuda-tileiras==13.4.59`, and `--bytecode-version 13.4`, since it reads no newer one).

DIR has checkouts of the repositories of `bench/ladders.py`, each in a folder of its name: ladders of CUDA kernels are
compiled by nvcc and estimated, constants are fitted to the half of them that `bench/halves.py` names, and the other
half judges.  Needs nvcc with the headers of libcu++ (packages nvidia-cuda-nvcc, nvidia-cuda-runtime, nvidia-cuda-cccl).
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import estimates, figures, hand_written_gemm, ladder_launches, ladder_validation, real_sizes, stand_ins
from bench.figures import Compared
from bench.kept_rows import KeptRows, digest, model_version, reference_version, rows_file
from bench.published import SOURCE, Published, published
from tileiras.sim.estimate.uncertainty import Needs
from tileiras.targets import rates

MEAN_BAR, WORST_BAR = 0.15, 0.30
"""The required accuracy of the model on the reference compiler's images."""
ORDER = 0.10
"""Variants whose published times differ by more have to come out in their order."""


class Row(NamedTuple):
    published: Published
    name: str
    microseconds: float | None
    bound: str
    """The bound, or the reason for a missing estimate."""
    seconds: float
    low: float = 0.0
    high: float = 0.0
    doubt: str = ""
    needs: Needs | None = None

    @property
    def error(self) -> float | None:
        return self.compared.error

    @property
    def compared(self) -> Compared:
        task = " ".join(map(str, _task(self.published)))
        return Compared(task, self.published.gpu, self.published.microseconds, self.microseconds, self.low, self.high,
                        self.doubt, self.needs)  # fmt: skip


def judge(row: Published, kept: Path | None = None, version: str | None = None) -> Row:
    """The estimate of a row, from a file of rows if it has that of this model."""
    rows, key = KeptRows(kept), digest(f"{row}", model_version(), reference_version())
    value = rows.get(key)
    if value is not None:
        *others, needs = value
        return Row(row, *others, Needs(*needs))
    result = _judge(row, version)
    if result.microseconds is not None:
        rows.put(key, result[1:])
    return result


def _judge(row: Published, version: str | None) -> Row:
    gpu = rates.gpu(row.gpu)
    launch = real_sizes.BENCHMARKS[row.kernel](row.config, gpu)
    data = real_sizes.bytecode(launch, gpu.target.name, version)
    job = estimates.Job(launch.name, data, real_sizes.ENTRY, launch.grid, launch.parameters(), launch.flops)
    # The tuner fills memory as large as L2 before each launch that it measures.
    result = estimates.compiled_and_timed(estimates.theirs, job, gpu, dirty_l2=True)
    value = result.estimate
    if value is None:
        return Row(row, launch.name, None, result.refusal, result.seconds)
    return Row(row, launch.name, value.microseconds, value.bound, result.seconds, value.low, value.high, value.doubt,
               value.needs)  # fmt: skip


def variants(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Pairs of rows that compute the same on one GPU by different kernels or configurations, whose published times
    differ by more than ORDER: the faster first."""
    result = []
    for one, other in itertools.combinations(rows, 2):
        if _task(one.published) != _task(other.published):
            continue
        fast, slow = sorted((one, other), key=lambda row: row.published.microseconds)
        if slow.published.microseconds > fast.published.microseconds * (1 + ORDER):
            result.append((fast, slow))
    return result


def _task(row: Published) -> tuple:
    """The computed function, without its implementation."""
    if row.kernel == "rms_norm":
        return row.gpu, row.kernel, row.config["dtype"], row.config["columns"]
    return row.gpu, row.kernel.removeprefix("persistent_"), row.config.get("is_causal")


def summary(rows: Sequence[Row]) -> list[str]:
    """The errors against the bars, and the order of variants."""
    errors = [(abs(row.error), row) for row in rows if row.compared.counts and not row.published.fitted]
    lines = [f"estimated: {sum(row.error is not None for row in rows)} of {len(rows)}"]
    if errors:
        mean = sum(error for error, _ in errors) / len(errors)
        worst, at = max(errors, key=lambda pair: pair[0])
        over = sum(error > WORST_BAR for error, _ in errors)
        lines.append(
            f"error: mean {mean:.1%} (bar {MEAN_BAR:.0%}), worst {worst:.1%} (bar {WORST_BAR:.0%}) at {at.name} on "
            f"{at.published.gpu}, {over} above the bar"
        )
    pairs = [pair for pair in variants(rows) if all(row.microseconds is not None for row in pair)]
    wrong = [(fast, slow) for fast, slow in pairs if fast.microseconds >= slow.microseconds]
    lines.append(f"order of variants: {len(pairs) - len(wrong)} of {len(pairs)} pairs right")
    lines += [f"  {fast.name} should be faster than {slow.name} on {fast.published.gpu}" for fast, slow in wrong]
    return lines


HEAD = (
    "| GPU | kernel | published us | estimated us | interval | error | bound | seconds |\n"
    "|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    time = "-" if row.microseconds is None else f"{row.microseconds:.1f}"
    error = "-" if row.error is None else f"{row.error:+.0%}{' (fitted)' * row.published.fitted}"
    interval = "-" if row.microseconds is None else f"{row.low:.1f} to {row.high:.1f}"
    bound = row.bound + (f", in doubt: {row.doubt}" if row.doubt else "")
    cells = (row.published.gpu, row.name, row.published.microseconds, time, interval, error, bound,
             f"{row.seconds:.1f}")  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _words(row: Published) -> str:
    return f"{row.kernel} {' '.join(map(str, row.config.values()))}"


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="validation", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--samples", type=Path, help="a checkout of cuTile Python")
    parser.add_argument("--bytecode-version", help="of the kernels of --samples, by default the newest")
    parser.add_argument("--sources", type=Path, help="a folder of checkouts of the ladders' repositories")
    parser.add_argument("--gpus", default="")
    parser.add_argument("--kernels", default="", help="only those of whose names and configurations a part is given")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--rows", type=rows_file, metavar="FILE",
        help="of rows: those of this model in it are not estimated again; '' for none, which is the default",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.samples is None and options.sources is None:
        parser.error("nothing to judge by: give --samples or --sources")
    missing = estimates.missing_tools() + (ladder_launches.missing_tools() if options.sources else [])
    if missing:
        print(f"validation: needs {' and '.join(dict.fromkeys(missing))}", file=sys.stderr)
        return 2
    gpus = [rates.gpu(name).name for name in options.gpus.split(",") if name]
    parts = [part for part in options.kernels.split(",") if part]
    rungs: list[ladder_validation.Rung] = []
    if options.sources is not None:
        chosen = ladder_validation.chosen(gpus, parts)
        rungs = ladder_validation.estimates(chosen, options.sources, options.jobs, options.rows)
        print("", *ladder_validation.summary(rungs), sep="\n")
    if options.samples is not None:
        rows = _by_samples(options, gpus, parts)
        judging = ladder_validation.halves(rungs)["judging half"]
        if judging:
            every = judging + [row.compared for row in rows if not row.published.fitted]
            print(*(f"judging half and these rows: {text}" for text in figures.lines(every)), sep="\n")
        if not parts:
            print(*stand_ins.report(), *hand_written_gemm.report(), sep="\n")
    return 0


def _by_samples(given: argparse.Namespace, gpus: Sequence[str], parts: Sequence[str]) -> list[Row]:
    real_sizes.prepare(given.samples)
    chosen = [
        row for row in published()
        if (not gpus or row.gpu in gpus) and (not parts or any(part in _words(row) for part in parts))
    ]  # fmt: skip
    print(HEAD, flush=True)
    rows = []
    model_version()  # of all processes
    # Each in a process of its own: arrays of large launches go back with it.
    with multiprocessing.get_context("fork").Pool(given.jobs, maxtasksperchild=1) as pool:
        task = functools.partial(judge, kept=given.rows, version=given.bytecode_version)
        for row in pool.imap(task, chosen, chunksize=1):
            rows.append(row)
            print(line(row), flush=True)
    print("", f"Published: {SOURCE}.", *summary(rows), *figures.lines([row.compared for row in rows]), sep="\n")
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
