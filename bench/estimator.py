"""python -m bench estimator [--gpus H200,...] [--only PART,...] [--against CHECKOUT [--repeat N]]: the cost of an
estimate of each example.

A row a kernel of `examples/` at its real size and GPU, by our code: seconds of processor time of the estimate, without
compilation, in a process of its own, beside the bar.  With `--against`, each checkout estimates the code of its own
compiler, in turns: the first estimate, which runs ptxas and nvdisasm, and the median of N further ones, which find
their outputs in the artifact store if the checkout has them there; ratios of this checkout to the other.  Needs ptxas
and nvdisasm.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from bench import estimates
from bench.code import job_of_example, name_of
from bench.estimates import GPUS
from bench.paired import Checkout, Refused
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


WORKER = """\
import json, multiprocessing, os, sys
from bench import estimator
from bench.code import name_of

with multiprocessing.get_context("fork").Pool(1) as pool:  # as installed, modules are compiled
    pool.apply(exec, ("import tileiras.sim.emulator, tileiras.sim.estimate.model",))
numbers = {name_of(row): number for number, row in enumerate(estimator.MEASURED)}

for line in sys.stdin:
    request = json.loads(line)
    os.environ["TILEIRAS_CACHE_DIR"] = request["store"]
    number = numbers.get(request["name"])
    if number is None:
        answer = {"error": "no such example"}
    else:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            answer = pool.apply(estimator.cost, ((number, request["gpu"]),))
        if answer.microseconds is None:
            answer = {"error": answer.refusal}
    print(json.dumps(answer), flush=True)
"""


def compare(folder: str, tasks: Sequence[tuple[int, str]], repeat: int) -> None:
    """Print the costs of rows in another checkout and in this one."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    checkouts = (Checkout(os.path.abspath(folder), WORKER), Checkout(here, WORKER))
    print("| kernel | GPU | other: first s | later s | this: first s | later s | ratio: first | later |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for index, gpu in tasks:
        name = name_of(MEASURED[index])
        times: tuple[list[float], list[float]] = ([], [])
        try:
            with tempfile.TemporaryDirectory() as store:
                for number in range(repeat + 1):
                    for which in (0, 1) if number % 2 else (1, 0):
                        own = os.path.join(store, str(which))
                        answer = Cost(*checkouts[which].ask(name=name, gpu=gpu, store=own))  # type: ignore[misc]
                        times[which].append(answer.seconds)
        except Refused as refused:
            print(f"| {name} | {gpu} | {f'{refused}'[:80]} | | | | | |", flush=True)
            continue
        other, this = ((each[0], statistics.median(each[1:])) for each in times)
        print(f"| {name} | {gpu} | {other[0]:.2f} | {other[1]:.2f} | {this[0]:.2f} | {this[1]:.2f} | "
              f"{this[0] / other[0]:.2f} | {this[1] / other[1]:.2f} |", flush=True)  # fmt: skip
    for checkout in checkouts:
        checkout.close()


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="estimator", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--gpus", default=",".join(GPUS.values()))
    parser.add_argument("--only", default="", help="only those of whose names a part is given")
    parser.add_argument("--against", metavar="CHECKOUT", help="another checkout to compare with")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    if missing := estimates.missing_tools():
        print(f"estimator: needs {' and '.join(missing)}", file=sys.stderr)
        return 2
    tasks = selected(options.gpus, options.only)
    if options.against is not None:
        compare(options.against, tasks, max(1, options.repeat))
        return 0
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
