"""python -m bench code [--gpus H200,...] [--samples CHECKOUT] [--only PART,...] [--skip PART,...]
[--plans plain,boxes,...] [--jobs N] [--rows FILE] [--json FILE] [--unchecked] [--against COMMIT]

Estimates of our code and of the reference compiler's for the examples at real sizes and, with a checkout of cuTile
Python, for its samples' and benchmarks' kernels: a row a kernel and GPU, with the bound of each; the geometric means of
the ratios over all kernels, those with products and those that stream; the worst rows with the waits of their code;
every row without an estimate with the reason.  Ratios above 1 say that ours takes longer.

`--plans` has our code under several plans for loops (`bench/plans.py`); the default is that of the compiler's options.
The first cluster of every launch is run in the emulator by both images, and has to compute the same, unless
`--unchecked`.  Estimates are kept in FILE (`cache/bench-code.jsonl`; `--rows ''` for none) by machine code, launch, GPU
and the model's own code, so that an interrupted run goes on, and a change of a pass estimates only changed code.  Needs
ptxas and nvdisasm; without the reference compiler there are our columns alone.

`--against COMMIT` compiles each kernel with the compiler of that commit as well, estimates that code with the present
model, and ends with 1 if a row takes longer now by more than a hundredth for all values of the parameters that are not
known, or has lost its estimate.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import tileiras
from bench import against, estimates, libraries, ranking, real_sizes
from bench.estimates import GPUS, Job, Timed
from bench.further_sizes import FURTHER
from bench.kept_rows import KeptRows, digest, model_version, reference_version, rows_file
from bench.plans import PLANS, Plan, plans
from bench.published import published
from bench.ranking import Ranked, Taken
from bench.whole_process import vendor_tool
from tileiras.diagnostics import CompileError
from tileiras.sim.errors import SimulationError
from tileiras.support.progress import Progress
from tileiras.targets import rates

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "runtime" / "gpu"))
import measured  # noqa: E402
from measured_cases import MEASURED, Measured  # noqa: E402

F8_TARGET, SCALED_TARGET, CLUSTER_TARGET = 89, 100, 90
"""Lowest chips with products of f8, with scaled products, with clusters."""
TUNED_FOR = ("B200", "RTX PRO 6000")
"""GPUs with tuned configurations of their own; others take those of the last."""
ROWS = Path(__file__).resolve().parents[1] / "cache" / "bench-code.jsonl"


class Task(NamedTuple):
    """One row: a kernel on a GPU."""

    name: str
    """To choose it by."""
    gpu: str
    job: Callable[[], Job]
    """Raises CompileError where the kernel does not export for the GPU's target."""


class Settings(NamedTuple):
    plans: dict[str, Plan]
    reference: bool
    checked: bool
    kept: KeptRows
    before: Path | None = None
    """The files of another commit's compiler."""


# ---- launches ----------------------------------------------------------------------------------------------------


def configurations(gpu: str) -> list[tuple[str, dict[str, Any]]]:
    """The benchmarks of the front end in the configurations of a GPU."""
    tuned, number = gpu if gpu in TUNED_FOR else TUNED_FOR[-1], rates.gpu(gpu).target.number
    result = []
    for row in published():
        if row.gpu != tuned or row.kernel == "swizzled_scaled_matmul" and number < SCALED_TARGET:
            continue
        if row.kernel == "batch_matmul" and number < F8_TARGET:
            continue
        if row.kernel == "rms_norm" and (row.config["columns"], row.config["dtype"]) != (4096, "f16"):
            continue
        config = dict(row.config)
        if number < CLUSTER_TARGET and "num_ctas" in config:
            config["num_ctas"] = 1
        result.append((row.kernel, config))
    return result


def job_of_launch(make: Callable[[rates.Gpu], real_sizes.Launch], gpu: str) -> Job:
    chosen = rates.gpu(gpu)
    launch = make(chosen)
    data = real_sizes.bytecode(launch, chosen.target.name)
    return Job(launch.name, data, real_sizes.ENTRY, launch.grid, launch.parameters(), launch.flops)


_DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i8": np.int8,
    "u8": np.uint8, "i32": np.int32, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}  # fmt: skip


def job_of_example(row: Measured, target: str) -> Job:
    """The launch that `scons gputest` measures, with the arrays that it makes.  Raises CompileError."""
    data = estimates.exported(row.text(), target, os.path.splitext(row.source)[1])
    parameters: list = []
    for number, (element, shape) in enumerate(row.arrays):
        some = np.frombuffer(measured.pattern(element, number), _DTYPES[element.partition("<")[0]])
        array = np.resize(some, shape)
        parameters += real_sizes.slots([array]) if row.views else [array]
    return Job(name_of(row), data, row.entry, row.grid, [*parameters, *row.scalars], row.case()["work"]["operations"])


def name_of(row: Measured) -> str:
    return f"{row.entry} {'x'.join(map(str, row.arrays[0][1]))}"


def front_end_launches(gpu: str) -> Iterator[tuple[str, Callable[[rates.Gpu], real_sizes.Launch]]]:
    """The launches of the front end's benchmarks on a GPU, each by a name to choose it by."""
    for kernel, config in configurations(gpu):
        name = " ".join([kernel, *filter(None, (config.get("algo"), config.get("is_causal") and "causal"))])
        yield name, functools.partial(real_sizes.BENCHMARKS[kernel], config)
    yield from FURTHER.items()


def tasks(gpus: Sequence[str], front_end: bool) -> Iterator[Task]:
    for gpu in gpus:
        target = rates.gpu(gpu).target.name
        for row in MEASURED:
            yield Task(name_of(row), gpu, functools.partial(job_of_example, row, target))
        for name, make in front_end_launches(gpu) if front_end else ():
            yield Task(name, gpu, functools.partial(job_of_launch, make, gpu))


# ---- one row -----------------------------------------------------------------------------------------------------


def compare(task: Task, settings: Settings) -> Ranked:
    """Our code by plan and the reference compiler's.  Code with a stored estimate is not estimated again."""
    gpu, plans_ = rates.gpu(task.gpu), settings.plans
    try:
        job = task.job()
    except (CompileError, OSError) as error:
        refused = Taken(None, refusal=f"{error}".strip().split("\n")[0])
        return Ranked(task.name, task.gpu, False, dict.fromkeys(plans_, refused), None)
    launched = digest(model_version(), gpu.name, job.entry, repr(tuple(job.grid)), _described(job.parameters))
    ours, images, keys = {}, [], []
    for plan, options in plans_.items():
        try:
            image = estimates.ours(job, gpu, **options)
        except CompileError as error:
            ours[plan] = Taken(None, refusal=f"{error}".strip().split("\n")[0])
            continue
        keys.append(digest(launched, image.text, json.dumps(image.kernels[0].metadata, sort_keys=True)))
        images.append(image)
        ours[plan] = _kept(settings.kept, keys[-1], functools.partial(estimates.timed, image, job, gpu))
    before = {}
    for plan, options in plans_.items() if settings.before is not None else ():
        before[plan] = _before(settings, launched, job, gpu, options)
    theirs, wrong = None, ""
    if settings.reference:
        reference = functools.cache(lambda: estimates.theirs(job, gpu))
        key = digest(launched, job.bytecode, reference_version())
        theirs = _kept(settings.kept, key, lambda: _timed_reference(reference, job, gpu))
        if settings.checked:
            for one, image in zip(keys, images):
                result = _checked(settings.kept, digest(one, key, "results"), image, reference, job, gpu)
                wrong = wrong or result
    library = libraries.divisor(job.name, task.gpu, job.flops)
    return Ranked(job.name, task.gpu, job.flops > 0, ours, theirs, wrong, before, library)


def _before(settings: Settings, launched: str, job: Job, gpu: rates.Gpu, options: Plan) -> Taken:
    """The estimate of another commit's code."""
    assert settings.before is not None
    try:
        image = against.compiled(settings.before, job, gpu, options)
    except CompileError as error:
        return Taken(None, refusal=f"{error}".strip().split("\n")[0])
    key = digest(launched, image.ptx, json.dumps(image.metadata, sort_keys=True))
    timed = functools.partial(estimates.timed, image.ptx, job, gpu, metadata=image.metadata)
    return _kept(settings.kept, key, timed)


def _described(parameters: Sequence[Any]) -> str:
    """The arguments as an estimate identifies them: arrays are made the same way every time."""
    return repr([(value.shape, f"{value.dtype}", value.strides) if isinstance(value, np.ndarray) else value
                 for value in parameters])  # fmt: skip


def _kept(kept: KeptRows, key: str, make: Callable[[], Timed]) -> Taken:
    if (entry := kept.get(key)) is not None:
        return Taken(**entry)
    result = estimates.taken(make())
    kept.put(key, result._asdict())
    return result


def _timed_reference(reference: Callable[[], bytes], job: Job, gpu: rates.Gpu) -> Timed:
    try:
        image = reference()
    except estimates.Refused as error:
        return Timed(None, f"{error}".split("\n")[0], 0.0)
    return estimates.timed(image, job, gpu)


def _checked(
    kept: KeptRows, key: str, image: tileiras.Artifact, reference: Callable[[], bytes], job: Job, gpu: rates.Gpu
) -> str:
    if (result := kept.get(key)) is None:
        try:
            result = estimates.difference(image, reference(), job, gpu)
        except (CompileError, SimulationError, estimates.Refused) as error:
            result = f"not compared: {error}".strip().split("\n")[0]
        kept.put(key, result)
    return result


# ---- a run -------------------------------------------------------------------------------------------------------

_chosen: list[Task]
_settings: Settings


def _numbered(number: int) -> Ranked:
    return compare(_chosen[number], _settings)


def run(chosen: list[Task], settings: Settings, jobs: int) -> list[Ranked]:
    """Every task in a process of its own: arrays of large launches go back with it.  Prints a row when it is known."""
    global _chosen, _settings
    _chosen, _settings = chosen, settings
    print(ranking.head(list(settings.plans), settings.reference), flush=True)
    rows = []
    with (
        multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool,
        Progress("estimates", len(chosen)) as progress,
    ):
        for row in pool.imap(_numbered, range(len(chosen)), chunksize=1):
            progress.step(row.name)
            rows.append(row)
            print(ranking.line(row, settings.reference), flush=True)
    return rows


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="code", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--gpus", default=",".join(GPUS.values()), help="any of tileiras.targets.rates.names()")
    parser.add_argument("--samples", type=Path, help="a checkout of cuTile Python")
    parser.add_argument("--only", default="", help="only kernels whose names have one of these parts")
    parser.add_argument("--skip", default="", help="no kernels whose names have one of these parts")
    parser.add_argument("--plans", type=plans, default={"default": PLANS["default"]}, help=", ".join(PLANS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rows", type=rows_file, default=ROWS, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as data")
    parser.add_argument("--against", default="", metavar="COMMIT", help="fail where a row is worse than at COMMIT")
    parser.add_argument("--unchecked", action="store_true", help="do not compare results")
    options = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"code: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    try:
        gpus = [rates.gpu(name).name for name in options.gpus.split(",")]
    except CompileError as error:
        print(error, file=sys.stderr)
        return 2
    if options.samples is not None:
        real_sizes.prepare(options.samples)
    only, skip = ([part for part in parts.split(",") if part] for parts in (options.only, options.skip))
    chosen = [
        task
        for task in tasks(gpus, options.samples is not None)
        if (not only or any(part in task.name for part in only)) and not any(part in task.name for part in skip)
    ]
    settings = Settings(options.plans, vendor_tool() is not None, not options.unchecked, KeptRows(options.rows))
    try:
        with against.checkout(options.against) if options.against else contextlib.nullcontext() as before:
            rows = run(chosen, settings._replace(before=before), options.jobs)
    except CompileError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json is not None:
        data = [{**row._asdict(), "ours": {plan: result._asdict() for plan, result in row.ours.items()},
                 "before": {plan: value._asdict() for plan, value in row.before.items()},
                 "theirs": row.theirs and row.theirs._asdict(), "library": row.library and row.library._asdict()}
                for row in rows]  # fmt: skip
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    print("", *ranking.means(rows), *ranking.library_means(rows), *ranking.best_plans(rows), sep="\n")
    print("", f"the {ranking.WORST} worst:", *ranking.worst(rows), "", *ranking.failures(rows), sep="\n")
    worse = ranking.worsened(rows)
    print(*ranking.changed(rows), *worse, sep="\n")
    return int(bool(worse) or any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
