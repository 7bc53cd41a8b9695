"""python -m bench estimator [--gpus H200,...] [--only PART,...]: the cost of an estimate of each example.

A row a kernel of `examples/` at its real size and GPU, by our code: seconds of processor time of the estimate, without
compilation, in a process of its own, beside the bar.  Needs ptxas and nvdisasm.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from typing import NamedTuple

from bench import estimates
from bench.code import job_of_example, name_of
from bench.estimates import GPUS
from bench.processor_time import spent
from tileiras.diagnostics import CompileError
from tileiras.targets import rates

from measured_cases import MEASURED  # isort: skip  (bench.code makes it importable)

BAR = 3.0
"""Seconds that an example may take."""


class Cost(NamedTuple):
    name: str
    gpu: str
    seconds: float
    """Of processor time, with that of ptxas and nvdisasm."""
    microseconds: float | None
    refusal: str


def cost(task: tuple[int, str]) -> Cost:
    row, gpu = MEASURED[task[0]], rates.gpu(task[1])
    try:
        job = job_of_example(row, gpu.target.name)
        image = estimates.ours(job, gpu)
    except CompileError as error:
        return Cost(name_of(row), gpu.name, 0.0, None, f"{error}".split("\n")[0])
    before = spent()
    result = estimates.timed(image, job, gpu)
    return Cost(name_of(row), gpu.name, spent() - before, result.microseconds, result.refusal)


def selected(gpus: str, only: str) -> list[tuple[int, str]]:
    """Numbers of rows of `MEASURED` whose names contain one of the parts, or all, for each of the GPUs."""
    parts = [part for part in only.split(",") if part]
    rows = [index for index, row in enumerate(MEASURED) if not parts or any(part in name_of(row) for part in parts)]
    return [(index, gpu) for gpu in gpus.split(",") for index in rows]


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="estimator", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--gpus", default=",".join(GPUS.values()))
    parser.add_argument("--only", default="", help="only those of whose names a part is given")
    options = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"estimator: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    tasks = selected(options.gpus, options.only)
    print("| kernel | GPU | processor s | estimated us | |\n|---|---|---|---|---|", flush=True)
    slow: list[Cost] = []
    # Each in a process of its own: arrays of large launches go back with it.
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for item in pool.imap(cost, tasks, chunksize=1):
            slow += [item] * (item.seconds > BAR)
            time_ = "-" if item.microseconds is None else f"{item.microseconds:.1f}"
            print(f"| {item.name} | {item.gpu} | {item.seconds:.1f} | {time_} | {item.refusal[:80]} |", flush=True)
    print(f"{len(slow)} of {len(tasks)} above {BAR:.0f} s")
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
