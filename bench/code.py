"""python -m bench code [--targets sm_90,...] [--samples CHECKOUT] [--kernels PART,...] [--jobs N] [--unchecked]

Estimates of our code and of the reference compiler's for the examples at real sizes and, with a checkout of cuTile
Python, for its samples' and benchmarks' kernels in their tuned configurations: a row a kernel and target, with what
bounds each, and the geometric mean of the ratios.  Ratios above 1 say that ours takes longer.

The first cluster of every launch is run in the emulator by both images, and has to compute the same, unless
`--unchecked`.  Needs ptxas and nvdisasm; without the reference compiler there is our column alone.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

import tileiras
from bench import estimates, real_sizes
from bench.estimates import GPUS, Job, Timed
from bench.published import published
from bench.whole_process import vendor_tool
from tileiras.diagnostics import CompileError
from tileiras.targets import rates

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "runtime" / "gpu"))
import measured  # noqa: E402
from measured_cases import MEASURED, Measured  # noqa: E402

F8_TARGET = 89
"""Lowest chip with products of f8."""
TUNED_FOR = {"sm_100": "B200", "sm_120": "RTX PRO 6000"}
"""Whose tuned configurations a target takes; others take those of the last, in one CTA."""


class Task(NamedTuple):
    """One row: a kernel on a target.  ``benchmark`` is a configuration of `real_sizes`, else it is an example."""

    target: str
    index: int
    benchmark: bool


class Compared(NamedTuple):
    name: str
    target: str
    ours: Timed
    theirs: Timed | None
    wrong: str
    """In what the first cluster's results differ."""

    @property
    def ratio(self) -> float | None:
        if self.theirs is None or self.ours.microseconds is None or self.theirs.microseconds is None:
            return None
        return self.ours.microseconds / self.theirs.microseconds


def configurations(target: str) -> list[tuple[str, dict]]:
    """The benchmarks of the front end in the configurations of a target."""
    gpu = TUNED_FOR.get(target, "RTX PRO 6000")
    found = []
    for row in published():
        if row.gpu != gpu or row.kernel == "swizzled_scaled_matmul" and target not in TUNED_FOR:
            continue
        if row.kernel == "batch_matmul" and rates.gpu(GPUS[target]).target.number < F8_TARGET:
            continue
        if row.kernel == "rms_norm" and (row.config["columns"], row.config["dtype"]) != (4096, "f16"):
            continue
        config = dict(row.config)
        if target not in TUNED_FOR and "num_ctas" in config:
            config["num_ctas"] = 1
        found.append((row.kernel, config))
    return found


def job_of(task: Task) -> Job:
    """Raises CompileError where the kernel does not export for the target."""
    gpu = rates.gpu(GPUS[task.target])
    if task.benchmark:
        kernel, config = configurations(task.target)[task.index]
        launch = real_sizes.BENCHMARKS[kernel](config, gpu)
        data = real_sizes.bytecode(launch, task.target)
        return Job(launch.name, data, real_sizes.ENTRY, launch.grid, launch.parameters(), launch.flops)
    return job_of_example(MEASURED[task.index], task.target)


_DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i8": np.int8,
    "u8": np.uint8, "i32": np.int32, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


def job_of_example(row: Measured, target: str) -> Job:
    """The launch that `scons gputest` measures, with the arrays that it makes.  Raises CompileError."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"kernel{os.path.splitext(row.source)[1]}")
        Path(path).write_text(row.text())
        data = tileiras.compile(path, gpu_name=target, emit="bytecode").data
    parameters: list = []
    for number, (element, shape) in enumerate(row.arrays):
        some = np.frombuffer(measured.pattern(element, number), _DTYPES[element.partition("<")[0]])
        array = np.resize(some, shape)
        parameters += real_sizes.slots([array]) if row.views else [array]
    return Job(name_of(row), data, row.entry, row.grid, [*parameters, *row.scalars], row.case()["work"]["operations"])


def name_of(row: Measured) -> str:
    return f"{row.entry} {'x'.join(map(str, row.arrays[0][1]))}"


def compare(task: Task) -> Compared:
    gpu = rates.gpu(GPUS[task.target])
    try:
        job = job_of(task)
    except (CompileError, OSError) as error:
        return Compared(_name(task), task.target, Timed(None, f"{error}".split("\n")[0], 0.0), None, "")
    images = []
    for compile_ in (estimates.ours, estimates.theirs)[: 1 + _with_reference]:
        try:
            images.append(compile_(job, gpu))
        except (CompileError, estimates.Refused) as error:
            images.append(Timed(None, f"{error}".split("\n")[0], 0.0))
    times = [image if isinstance(image, Timed) else estimates.timed(image, job, gpu) for image in images]
    wrong = ""
    if _checked and len(images) == 2 and not any(isinstance(image, Timed) for image in images):
        wrong = estimates.difference(*images, job, gpu)
    return Compared(job.name, task.target, times[0], times[1] if len(times) > 1 else None, wrong)


_with_reference = _checked = True


def tasks(targets: Sequence[str], benchmarks: bool) -> Iterator[Task]:
    for target in targets:
        yield from (Task(target, index, False) for index in range(len(MEASURED)))
        if benchmarks:
            yield from (Task(target, index, True) for index in range(len(configurations(target))))


def line(row: Compared) -> str:
    cells = [row.name, row.target]
    for found in (row.ours, row.theirs):
        if found is None or found.estimate is None:
            cells += ["-", (found.refusal if found is not None else "")[:60]]
        else:
            cells += [f"{found.microseconds:.1f}", found.estimate.bound]
    cells.append("-" if row.ratio is None else f"{row.ratio:.2f}")
    return f"| {' | '.join([*cells, row.wrong[:80]])} |"


def summary(rows: Sequence[Compared]) -> list[str]:
    lines = []
    for target in dict.fromkeys(row.target for row in rows):
        ratios = [row.ratio for row in rows if row.target == target and row.ratio is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"{target}: ours takes {mean:.2f} of the reference's time, geometric mean of {len(ratios)}")
    wrong = [row for row in rows if row.wrong]
    return [*lines, f"results that differ: {len(wrong)}"]


def main(arguments: Sequence[str] = ()) -> int:
    global _with_reference, _checked
    parser = argparse.ArgumentParser(prog="code", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--targets", default=",".join(GPUS))
    parser.add_argument("--samples", type=Path, help="a checkout of cuTile Python")
    parser.add_argument("--kernels", default="", help="only those whose names have one of these parts")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--unchecked", action="store_true", help="do not compare results")
    given = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"code: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    _with_reference, _checked = vendor_tool() is not None, not given.unchecked
    if given.samples is not None:
        real_sizes.prepare(given.samples)
    parts = [part for part in given.kernels.split(",") if part]
    rows = []
    print("| kernel | target | ours us | bound | reference us | bound | ratio | results |\n" + "|---" * 8 + "|")
    chosen = [task for task in tasks(given.targets.split(","), given.samples is not None)
              if not parts or any(part in _name(task) for part in parts)]  # fmt: skip
    # Each task in a process of its own: arrays of large launches go back with it.
    with multiprocessing.get_context("fork").Pool(given.jobs, maxtasksperchild=1) as pool:
        for row in pool.imap(compare, chosen, chunksize=1):
            rows.append(row)
            print(line(row), flush=True)
    print(*summary(rows), sep="\n")
    return int(any(row.wrong for row in rows))


def _name(task: Task) -> str:
    if task.benchmark:
        return configurations(task.target)[task.index][0]
    return name_of(MEASURED[task.index])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
