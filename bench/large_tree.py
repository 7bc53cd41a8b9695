"""A tree of 10,000 kernels whose first build is served from the store: time and memory of each kind of build.

    python -m bench.large_tree [KERNELS]

The kernels have few distinct contents, so that the stages of each run once; every kernel has nodes and artifacts of its
own.  Then come the ratios of `bench.null_build` for this tree, and the processor time of declaring its kernels in an
SConstruct, against as many calls of a plain builder.  No build may take more than LIMIT_GIB of memory.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.null_build import EMPTY, TREE, compare, environment, kernel, numbers, scons, write

KERNELS = 10_000
DISTINCT = 20
FOLDER = 100
"""Kernels in one folder."""

LIMIT_GIB = 3.0

NAMED = """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
for path in PATHS:
    env.TileKernel(path)
"""
"""A build that records the kernels as kernels of `TileKernel`."""

DECLARATIONS = """\
import os, time
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
env["BUILDERS"]["Plain"] = Builder(action="true", suffix=".plain", src_suffix=".mlir")
paths = PATHS

def timed(name, declare):
    start = time.process_time()
    declare()
    print("declared:", name, time.process_time() - start)

timed("plain", lambda: [env.Plain(path) for path in paths])
timed("TileTree", lambda: env.TileTree("kernels"))
timed("TileKernel", lambda: [env.TileKernel(path) for path in paths])
"""
"""Declares all kernels in three ways; PATHS is replaced by their list."""

_DECLARED = re.compile(r"^declared: (\w+) ([\d.]+)$", re.MULTILINE)

_SUMMARY = re.compile(r"^tileiras: (\d+) stages? run in .*?(?:, (\d+) from the store|$)", re.MULTILINE)


def _path(number: int) -> str:
    return f"kernels/{number // FOLDER:03d}/k{number}.mlir"


class Row(NamedTuple):
    name: str
    seconds: float
    gib: float
    """The most memory that one process of the build had."""
    ran: int
    served: int


def build(folder: str, name: str, *arguments: str) -> Row:
    """One run of scons; raises RuntimeError with its output when it fails."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "SCons", *arguments],
            cwd=folder, env=environment(folder), stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode or "Error" in text:
        raise RuntimeError(text[-4000:])
    match = _SUMMARY.search(text)
    counts = (int(match[1]), int(match[2] or 0)) if match is not None else (0, 0)
    return Row(name, seconds, usage.ru_maxrss / (1 << 20), *counts)


def measure(count: int, folder: str) -> Iterator[Row]:
    """The rows of a tree of `count` kernels, made in `folder`, as the builds end."""
    write(folder, "SConstruct", TREE)
    for number in range(count):
        write(folder, _path(number), kernel(number % DISTINCT))
    yield build(folder, "first build")
    yield build(folder, "null")
    yield build(folder, "null again")
    write(folder, _path(0), kernel(0, "// edited"))
    yield build(folder, "one leaf")
    yield build(folder, "null, whole graph", "tile_full=1")


def declarations(count: int, folder: str) -> dict[str, float]:
    """Seconds of processor time, by the way in which an SConstruct declares all kernels; nothing has changed."""
    paths = [_path(number) for number in range(count)]
    write(folder, "named", NAMED.replace("PATHS", repr(paths)))
    scons(folder, "-f", "named")
    write(folder, "declarations", DECLARATIONS.replace("PATHS", repr(paths)))
    output = scons(folder, "-f", "declarations", "-q", _path(0)).output
    return {name: float(seconds) for name, seconds in _DECLARED.findall(output)}


def main(arguments: Sequence[str] = ()) -> None:
    (count,) = numbers("large_tree", arguments, kernels=KERNELS)
    most = 0.0
    print(f"{count} kernels", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in measure(count, folder):
            most = max(most, row.gib)
            text = f"{row.ran} stages run, {row.served} served" if row.ran or row.served else "nothing to do"
            print(f"  {row.name:<20}{row.seconds:8.1f} s {row.gib:7.2f} GiB   {text}", flush=True)
        result = declarations(count, folder)
        for name, seconds in result.items():
            print(f"  declared by {name:<12}{seconds:8.2f} s {seconds / result['plain']:7.2f}", flush=True)
        empty = os.path.join(folder, "empty")
        write(empty, "SConstruct", EMPTY)
        compare(empty, folder, (_path(count // 2), count // 2 % DISTINCT), whole=False)
    if most > LIMIT_GIB:
        sys.exit(f"more than {LIMIT_GIB:g} GiB")


if __name__ == "__main__":
    main(sys.argv[1:])
