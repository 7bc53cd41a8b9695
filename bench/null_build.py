"""Builds in which little changed: 1,000 small kernels of five stages, against SCons' own start in the same run, without
the service and with it.

    python -m bench.null_build [KERNELS]

The unit is `scons` on an SConstruct that only makes an Environment with the default tools.  Every turn runs it right
before the build compared with it; a row is the median of these ratios, of the time on the clock and of the processors'
time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.processor_time import of_children

KERNELS = 1000
REPEAT = 5

EMPTY = 'Environment(tools=["default"])\n'

TREE = """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
env.Alias("kernels", env.TileTree("kernels"))
env.Default("kernels")
"""

LESS_STAGE = "less its stage"

_STAGE_TIME = re.compile(r"stages? run in ([\d.]+) (ms|s)")

_STAGE = re.compile(r"^  (?:READ|TILEAA|TILEAS|LLVM|PTX) +", re.MULTILINE)


def kernel(number: int, comment: str = "") -> str:
    """A kernel of a few operations, different from every other one."""
    return f"""\
cuda_tile.module @kernels {{
  {comment}
  entry @k{number}(%x: tile<ptr<f32>>) {{
    %value = constant <f32: {number}.0> : tile<f32>
    %token = store_ptr_tko weak %x, %value : tile<ptr<f32>>, tile<f32> -> token
    return
  }}
}}
"""


def write(folder: str, name: str, text: str) -> None:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def environment(folder: str) -> dict[str, str]:
    """The environment of builds of a folder: this checkout, a store of their own, and no service."""
    result = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    own = {"PYTHONPATH": root, "TILEIRAS_CACHE_DIR": os.path.join(folder, "store"), "TILEIRAS_SERVER": "off"}
    return {**result, **own}


def served(folder: str) -> dict[str, str]:
    """The same with a service of their own."""
    runtime = os.path.join(folder, "run")
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    return {**environment(folder), "XDG_RUNTIME_DIR": runtime, "TILEIRAS_SERVER": "auto"}


def stop(folder: str) -> None:
    """End the service that builds of a folder have started."""
    subprocess.run([sys.executable, "-m", "tileiras.processes.service.command", "stop"], env=served(folder), check=True)


class Run(NamedTuple):
    wall: float
    processors: float
    """Seconds, both."""
    output: str


def scons(folder: str, *arguments: str, service: bool = False) -> Run:
    """One run; ends the program when it fails."""
    before = of_children()
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "SCons", *arguments],
        cwd=folder,
        env=served(folder) if service else environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - start
    processors = of_children() - before
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr)
    return Run(wall, processors, done.stdout)


def numbers(name: str, arguments: Sequence[str], **defaults: int) -> list[int]:
    """Positional numbers of a command line, each with its default."""
    parser = argparse.ArgumentParser(prog=name)
    for word, default in defaults.items():
        parser.add_argument(word, type=int, nargs="?", default=default)
    return list(vars(parser.parse_args(list(arguments))).values())


def measure(
    rows: dict[str, list[tuple[Run, Run]]], empty: str, tree: str, leaf: tuple[str, int], turn: int, service: bool
) -> float:  # fmt: skip
    """Append to each row a run of `empty` and the run that is compared with it; return the seconds of the leaf's stage.

    `leaf`: path and number of one kernel.
    """

    def add(name: str, unit: Run, run: Run) -> None:
        rows.setdefault(name + (", service" if service else ""), []).append((unit, run))

    for _ in range(3 if service else 1):  # until the service has seen the files of the builds before
        scons(tree, service=service)
    unit, run = scons(empty), scons(tree, service=service)
    assert not _STAGE.search(run.output), run.output
    add("null", unit, run)
    path, number = leaf
    write(tree, path, kernel(number, f"// {turn} {service}"))
    unit, run = scons(empty), scons(tree, service=service)
    assert len(_STAGE.findall(run.output)) == 1, run.output
    add("one leaf", unit, run)
    match = _STAGE_TIME.search(run.output)
    assert match is not None, run.output
    stage = float(match[1]) * (0.001 if match[2] == "ms" else 1)
    add(LESS_STAGE, unit, run._replace(wall=run.wall - stage))
    return stage


def compare(empty: str, tree: str, leaf: tuple[str, int], whole: bool = True) -> None:
    """Measure builds of a tree that is up to date, with and without the service in turns, and print a row for each
    kind; `whole` with those of the whole graph."""
    # The first build after the stages ran looks again at files that are as young as the manifest.
    scons(tree)
    rows: dict[str, list[tuple[Run, Run]]] = {}
    stages = []
    try:
        for turn in range(REPEAT):
            for service in (False, True):
                stages.append(measure(rows, empty, tree, leaf, turn, service))
            if whole:
                scons(tree)
                rows.setdefault("null, whole graph", []).append((scons(empty), scons(tree, "tile_full=1")))
    finally:
        stop(tree)
    # A build prints the stage's time on the clock: the least is closest to the processors' time.
    for name in rows:
        if name.startswith(LESS_STAGE):
            rows[name] = [(u, run._replace(processors=run.processors - min(stages))) for u, run in rows[name]]
    units = [unit.wall for pairs in rows.values() for unit, _ in pairs]
    print(f"  {'default tools only':<26}{statistics.median(units) * 1000:8.0f} ms   1.00   processors 1.00")
    for name, pairs in rows.items():
        median = statistics.median(run.wall for _, run in pairs)
        ratio = statistics.median(run.wall / unit.wall for unit, run in pairs)
        processors = statistics.median(run.processors / unit.processors for unit, run in pairs)
        print(f"  {name:<26}{median * 1000:8.0f} ms{ratio:7.2f}   processors{processors:5.2f}", flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    (count,) = numbers("null_build", arguments, kernels=KERNELS)
    leaf = count // 2
    with tempfile.TemporaryDirectory() as folder:
        empty, tree = os.path.join(folder, "empty"), os.path.join(folder, "tree")
        write(empty, "SConstruct", EMPTY)
        write(tree, "SConstruct", TREE)
        for number in range(count):
            write(tree, f"kernels/k{number}.mlir", kernel(number))
        cold = scons(tree)
        print(f"{count} kernels, {len(_STAGE.findall(cold.output))} stages: first build {cold.wall:.1f} s")
        compare(empty, tree, (f"kernels/k{leaf}.mlir", leaf))


if __name__ == "__main__":
    main(sys.argv[1:])
