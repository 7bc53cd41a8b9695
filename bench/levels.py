"""python -m bench levels [--gpus H200,...] [--levels 1,2,3] [--only PART,...]: what each optimization level costs and
gives.

A row a kernel of `examples/` at its real size: processor time from bytecode to a cubin without the store, best of
`REPEATS` in one process, and the estimate of the code, at each level.  Ends with the median of the compile times, the
geometric mean of the estimates by level, and the kernels that a higher level makes slower by more than `SLOWER`.  Needs
ptxas and nvdisasm.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import sys
from collections.abc import Sequence
from typing import NamedTuple

from bench import estimates
from bench.code import job_of_example, name_of
from bench.estimates import GPUS
from bench.estimator import MEASURED, selected, spent
from tileiras import api
from tileiras.diagnostics import CompileError
from tileiras.targets import rates

REPEATS = 3
SLOWER = 1.03
"""The factor that the estimate of a kernel at a higher level may have over that at a lower one."""


class Cost(NamedTuple):
    """One kernel on one GPU: by level, milliseconds of a compilation and the estimated microseconds."""

    name: str
    gpu: str
    milliseconds: list[float]
    microseconds: list[float | None]
    refusal: str

    def slower(self) -> bool:
        known = [each for each in self.microseconds if each is not None]
        return any(later > SLOWER * min(known[:n]) for n, later in enumerate(known) if n)


def cost(task: tuple[int, str, tuple[int, ...]]) -> Cost:
    row, gpu = MEASURED[task[0]], rates.gpu(task[1])
    times: list[float] = []
    result: list[float | None] = []
    refusal = ""
    try:
        job = job_of_example(row, gpu.target.name)
        for level in task[2]:
            seconds = []
            for _ in range(REPEATS + 1):
                before = spent()
                image = api.compile(job.bytecode, gpu_name=gpu.target.name, emit="cubin", entry=job.entry,
                                    opt_level=level)  # fmt: skip
                seconds.append(spent() - before)
            times.append(1000 * min(seconds[1:]))
            timed = estimates.timed(image, job, gpu)
            result.append(timed.microseconds)
            refusal = refusal or timed.refusal
    except CompileError as error:
        refusal = f"{error}".split("\n")[0]
    return Cost(name_of(row), gpu.name, times, result, refusal)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def summary(found: Sequence[Cost], levels: Sequence[int]) -> str:
    """The last lines: medians and means over the kernels that have all figures, and those that get slower."""
    whole = [row for row in found if len(row.microseconds) == len(levels) and None not in row.microseconds]
    if not whole:
        return "no kernel with all figures"
    lines = []
    for n, level in enumerate(levels):
        median = statistics.median(row.milliseconds[n] for row in whole)
        mean = math.exp(statistics.fmean(math.log(row.microseconds[n] / row.microseconds[-1]) for row in whole))
        lines.append(f"-O{level}: compile {median:.1f} ms in the median, time {mean:.3f} of -O{levels[-1]}'s")
    slow = [f"{row.name} on {row.gpu}" for row in whole if row.slower()]
    lines.append(f"slower at a higher level: {', '.join(slow) or 'none'} ({len(whole)} kernels)")
    return "\n".join(lines)


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="levels", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--gpus", default=",".join(GPUS.values()))
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--only", default="", help="only those of whose names a part is given")
    options = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"levels: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    levels = tuple(map(int, options.levels.split(",")))
    tasks = [(*task, levels) for task in selected(options.gpus, options.only)]
    heads = [f"O{level} {unit}" for unit in ("ms", "us") for level in levels]
    print(f"| kernel | GPU | {' | '.join(heads)} | |\n|---|---|{'---|' * len(heads)}---|", flush=True)
    rows: list[Cost] = []
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for item in pool.imap(cost, tasks, chunksize=1):
            rows.append(item)
            figures = " | ".join(map(_number, [*item.milliseconds, *item.microseconds]))
            print(f"| {item.name} | {item.gpu} | {figures} | {item.refusal[:80]} |", flush=True)
    print(summary(rows, levels))
    return int(any(row.slower() for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
