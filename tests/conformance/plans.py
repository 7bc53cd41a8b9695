"""Our code under every plan for loops: kernels with common tile sizes and random loops, emulated with race detection
and compared with NumPy.

    python tests/conformance/plans.py [--plans plain,boxes,...] [--targets sm_90,...] [--match TEXT] [--random COUNT]
                                      [--nests COUNT] [--first SEED] [--seed N] [--steps N] [--figures FILE] [--jobs N]

The kernels are those of `tiled_kernels.py` and COUNT programs of `tests/kernels/random_loops.py` and of
`random_nests.py`, whose results are the interpreter's.  If several plans give the same code for a kernel and target, it
is run once.  Every failure is printed in one line; at the end a table lists by plan and target the number of right
kernels, and of kernels whose code has agents, boxes and each kind of MMA.  `--figures` keeps every outcome in a file;
outcomes of the same code are reused.  Exits with 1 if a kernel failed.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import numpy as np  # noqa: E402
from random_nests import RandomNest  # noqa: E402
from tiled_kernels import Tiled, tiled  # noqa: E402

import tileiras  # noqa: E402
from bench.plans import PLANS, plans  # noqa: E402
from tests.kernels.random_loops import RandomChains, RandomLoops  # noqa: E402
from tileiras.codegen import ptxas, toolkit  # noqa: E402
from tileiras.diagnostics import CompileError  # noqa: E402
from tileiras.options import CompileOptions  # noqa: E402
from tileiras.schedule.strategy import Strategy  # noqa: E402
from tileiras.sim import emulate  # noqa: E402
from tileiras.sim.errors import SimulationError  # noqa: E402
from tileiras.support.progress import Progress  # noqa: E402

TARGETS = ("sm_90", "sm_100", "sm_120")


class Program(NamedTuple):
    """``run(launch)`` raises AssertionError unless the results of ``launch(arguments)`` are NumPy's."""

    name: str
    source: bytes | str
    entry: str
    grid: Sequence[int]
    targets: tuple[str, ...]
    options: dict[str, Any]
    run: Callable[[Callable[[list[Any]], None]], None]


class Outcome(NamedTuple):
    program: str
    target: str
    plan: str
    status: str
    """`equal`, `failed`, or `refused`: a type that the target lacks."""
    said: str
    features: tuple[str, ...] = ()
    digest: str = ""
    """Features of the code that was run."""


def of_tiles(kernel: Tiled) -> Program:
    return Program(kernel.name, kernel.bytecode(), kernel.entry, kernel.grid, kernel.targets, {}, kernel.run)


OF_SEED = ("unspecialized_pipeline_num_stages", "num_warps")


def of_nest(seed: int) -> Program:
    result = RandomNest(seed)
    source = result.bytecode()
    return Program(f"nest {seed}", source, "nest", (result.grid,), (), result.options,
                   lambda launch: result.run(source, launch))  # fmt: skip


def of_seed(seed: int, kind: type[RandomLoops] | type[RandomChains]) -> Program:
    """A random program; the seed gives stages and warps, but not the plan."""
    result = kind(seed)
    kernel = result.kernel()

    def run(launch: Callable[[list[Any]], None]) -> None:
        result = [array.copy() for array in kernel.outputs]
        launch([*(array.copy() for array in kernel.inputs), *result])
        for got, wanted in zip(result, kernel.expected, strict=True):
            np.testing.assert_array_equal(got, wanted)

    options = {key: value for key, value in result.strategy.items() if key in OF_SEED}
    name = "loops" if kind is RandomLoops else "chains"
    return Program(f"random {name} {seed}", kernel.text, "k", (kernel.grid,), (), options, run)


FEATURES = {
    "tcgen05": r"\btcgen05\.mma", "wgmma": r"\bwgmma\.mma_async", "mma.sync": r"\bmma\.sync",
    "boxes": r"\bcp\.async\.bulk\.tensor", "multicast": r"\bmulticast::cluster", "cp.async": r"\bcp\.async\.c[ag]",
}  # fmt: skip


def features(ptx: str, program: Program, target: str, options: dict[str, Any]) -> tuple[str, ...]:
    names = [name for name, pattern in FEATURES.items() if re.search(pattern, ptx)]
    if Strategy.of(CompileOptions(options)).may_have_agents:
        # PTX does not show whether diverging warps are agents.
        decided = tileiras.compile(program.source, gpu_name=target, emit="tileas", **options).text
        names += ["agents"] * (".agent_switch " in decided)
    return tuple(names)


def outcomes(program: Program, target: str, wanted: Sequence[str], seed: int, kept: dict[str, str]) -> list[Outcome]:
    """The outcomes of one program under each plan.  ``kept``: digest of code -> earlier outcome, "" if right."""
    result = []
    for plan in wanted:
        options = {**PLANS[plan], **program.options}
        try:
            artifact = tileiras.compile(program.source, gpu_name=target, **options)
        except CompileError as error:
            message = error.diagnostics[0].message
            lacks = "unsupported type" in message
            result.append(Outcome(program.name, target, plan, "refused" if lacks else "failed", message))
            continue
        except Exception as error:  # unexpected exceptions are the purpose of the run
            result.append(Outcome(program.name, target, plan, "failed", f"compiling: {type(error).__name__}: {error}"))
            continue
        kernel = next(each for each in artifact.kernels if each.name == program.entry)
        described = json.dumps(kernel.metadata, sort_keys=True)
        digest = hashlib.sha256(f"{program.name} {seed} {described}\n{artifact.text}".encode()).hexdigest()[:24]
        if digest not in kept:
            kept[digest] = _judge(program, target, artifact.text, kernel.metadata, seed)
        status = "failed" if kept[digest] else "equal"
        result.append(Outcome(program.name, target, plan, status, kept[digest],
                             features(artifact.text, program, target, options), digest))  # fmt: skip
    return result


def _judge(program: Program, target: str, ptx: str, metadata: dict[str, Any], seed: int) -> str:
    """The mistake in the code's result, or ""."""
    try:
        if toolkit.find_program("ptxas") is not None:
            # With debug information ptxas does not optimize.
            ptxas.assemble(ptx, target, opt_level=0 if program.options.get("device_debug") else 3)
        program.run(lambda given: emulate(ptx, program.entry, program.grid, given, metadata=metadata, seed=seed,
                                          leader=seed % 32))  # fmt: skip
    except (AssertionError, CompileError, SimulationError) as error:
        return f"{type(error).__name__}: {error}".strip()
    return ""


def table(rows: Sequence[Outcome]) -> list[str]:
    """By plan and target: the share of right kernels among the accepted ones, and the features of the code."""
    targets = list(dict.fromkeys(row.target for row in rows))
    lines = [f"| plan | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for plan in dict.fromkeys(row.plan for row in rows):
        cells = []
        for target in targets:
            taken = [row for row in rows if (row.plan, row.target) == (plan, target) and row.status != "refused"]
            counts = collections.Counter(name for row in taken for name in row.features)
            what = ", ".join(f"{name} {counts[name]}" for name in (*FEATURES, "agents") if counts[name])
            cells.append(f"{sum(row.status == 'equal' for row in taken)} of {len(taken)} ({what})")
        lines.append(f"| {plan} | {' | '.join(cells)} |")
    return lines


# ---- a run -------------------------------------------------------------------------------------------------------

_jobs: list[tuple[Callable[[], Program], str]]
_options: argparse.Namespace
_kept: dict[str, str]


def _numbered(number: int) -> list[Outcome]:
    make, target = _jobs[number]
    program = make()
    if program.targets and target not in program.targets:
        return []
    return outcomes(program, target, list(_options.plans), _options.seed, dict(_kept))


def _read(path: Path | None) -> dict[str, str]:
    """Outcomes by digest of the code; a partly written line is skipped."""
    result: dict[str, str] = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row["digest"]:
            result[row["digest"]] = row["said"]
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    global _jobs, _options, _kept
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=plans, default=PLANS, metavar="PLAN,...", help=", ".join(PLANS))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--match", help="kernels whose name has this in it; empty: all")
    parser.add_argument("--random", type=int, default=0, metavar="COUNT", help="random programs of each kind")
    parser.add_argument("--nests", type=int, default=0, metavar="COUNT", help="programs of `random_nests.py`")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of the random programs")
    parser.add_argument("--seed", type=int, default=1, help="of the order of warps, and which lane is elected")
    parser.add_argument("--steps", type=int, default=2, help="iterations of the kernels' loops over K or keys")
    parser.add_argument("--figures", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=1)
    _options = parser.parse_args(arguments)
    kernels = [each for each in tiled(_options.steps) if _options.match is None or _options.match in each.name]
    makers: list[Callable[[], Program]] = [lambda each=each: of_tiles(each) for each in kernels]
    # Every other program has chained dots.
    makers += [lambda seed=seed: of_seed(seed, RandomChains if seed % 2 else RandomLoops)
               for seed in range(_options.first, _options.first + _options.random)]  # fmt: skip
    makers += [lambda seed=seed: of_nest(seed) for seed in range(_options.first, _options.first + _options.nests)]
    _jobs = [(make, target) for make in makers for target in _options.targets.split(",")]
    _kept = _read(_options.figures)
    rows: list[Outcome] = []
    begin = time.monotonic()
    with multiprocessing.get_context("fork").Pool(_options.jobs) as pool, Progress("plans", len(_jobs)) as progress:
        for item in pool.imap(_numbered, range(len(_jobs))):
            progress.step(item[0].program if item else "")
            rows += item
            for row in item:
                if row.status == "failed":
                    print(f"FAILED {row.program} [{row.target} {row.plan}] {row.said}".replace("\n", " | ")[:600],
                          flush=True)  # fmt: skip
            if _options.figures is not None:
                with _options.figures.open("a") as file:
                    file.writelines(json.dumps(row._asdict()) + "\n" for row in item)
                    file.flush()
                    os.fsync(file.fileno())
    print(*table(rows), sep="\n")
    failed = sum(row.status == "failed" for row in rows)
    codes = len({row.digest for row in rows if row.digest})
    print(f"{len(rows)} compiled, {codes} different codes run, {failed} failed, {time.monotonic() - begin:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
