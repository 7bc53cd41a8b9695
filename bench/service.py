"""Commands through the compile service, without it, and the vendor's, turn about: time, processor time, throughput.

    python -m bench service [--target sm_90] [--repeat N] [--assembler ptxas] [--store refresh|off] [--sample N]
                            [--record FILE] [--throughput N] [FILE-OR-FOLDER ...]

The installed command of this environment compiles bytecode to a cubin; nothing comes out of the store, except where a
hit of it is measured.  With `--store=refresh` everything is written into it, as in the first compilation of a kernel;
with `--store=off` there is no store, as for the vendor's tool, which keeps nothing. A ratio is the median of those of
the turns.  Processor time is that of all processes: with the service the client's, and the time that the service
reports for that request (`tileiras-server status --json`): its child's, with ptxas, and the zygote's since the request
before; without it the helper's too, which ends after its command.  On a machine that does other work the ratios of wall
times say little, those of processor times more.

The bars are those of the closing lines.  Throughput is that of an autotuner: threads that compile one kernel, which
stands for its variants; `LOADS` says which, the first of them for the bar.  The service is one of its own, started and
ended here.

`--sample` takes so many of the kernels, always the same ones.  `--record` keeps the figures of a kernel in a file
at once; kernels in the file are not measured again, so that a run which was ended goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from bench import calibration
from bench.kernels import Kernel, collect
from bench.processor_time import of_children
from bench.whole_process import vendor_tool

REPEAT = 5
SMALL = 0.2
"""Vendor's seconds below which a kernel is small."""

ANSWER_SECONDS = 10.0
"""Limit for the service's report of the usage of a request, after the answer."""

THREADS = 8
"""Parallel compilations of a front end's autotuner."""

BARS = {
    "wall, service on, geometric mean": 0.60,
    "wall, service on, small kernels, median": 0.75,
    "processor time, service on, geometric mean": 0.75,
    "wall, service off, median": 1.25,
    "a hit of the store, by python -c 'import socket'": 1.3,
}
"""At most these ratios to the vendor's time; a hit's is to what it says."""

LEAST_THROUGHPUT = 2.0

LOADS = ("examples/bytecode/matmul_f16.tileirbc", "examples/bytecode/vector_add.tileirbc")
"""Kernels of the examples: one that people tune, and one that is as small as can be."""

_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of linux/prctl.h."""


class Usage(NamedTuple):
    wall: float
    processor: float


class Bench:
    """The commands in one environment, with a service of its own."""

    def __init__(self, folder: str) -> None:
        programs = os.path.dirname(sys.executable)
        self.command = os.path.join(programs, "tileiras")
        self._server = os.path.join(programs, "tileiras-server")
        runtime = os.path.join(folder, "runtime")
        os.mkdir(runtime)
        result = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.environment = {**result, "XDG_RUNTIME_DIR": runtime, "TILEIRAS_CACHE_DIR": os.path.join(folder, "store")}

    def control(self, word: str) -> dict:
        done = subprocess.run(
            [self._server, word, *(["--json"] if word == "status" else [])], env=self.environment,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout) if word == "status" else {}

    def start(self) -> None:
        """Start the service; processes that are orphaned from here on are this one's, which so has their times."""
        self.control("start")
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self, words: Sequence[str], **changes: str) -> Usage:
        """One process and its usage; raises CalledProcessError where it fails."""
        return self._timed(words, changes)[0]

    def _timed(self, words: Sequence[str], changes: Mapping[str, str]) -> tuple[Usage, int]:
        """The result of `run`, and the number that the process had."""
        before = of_children()
        start = time.perf_counter()
        process = subprocess.Popen(
            words, env={**self.environment, **changes}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        result, _ = process.communicate()
        wall = time.perf_counter() - start
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words, result)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        return Usage(wall, of_children() - before), process.pid

    def served(self, words: Sequence[str], **changes: str) -> Usage:
        """One process, with the service's usage for it; raises RuntimeError where it was not asked."""
        result, number = self._timed(words, {**changes, "TILEIRAS_SERVER": "auto"})
        limit = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < limit:
            # The child that has answered ends after its client.
            time.sleep(0.05)
            for row in reversed(self.control("status")["last_requests"]):
                if row["client"] == number:
                    return Usage(result.wall, result.processor + row["processor_seconds"] + row["service_seconds"])
        raise RuntimeError(f"the service has not answered {' '.join(words)}")


STORES: Mapping[str, Mapping[str, str]] = {
    "refresh": {"TILEIRAS_CACHE_MODE": "refresh"},
    "off": {"TILEIRAS_CACHE_DIR": "off"},
}
"""The environment of a command that takes nothing out of the store."""


def client_cost(bench: Bench, source: str, target: str, repeat: int) -> float:
    """Print the cost of a client above a start of Python; the ratio of a hit to `import socket`."""
    hit = [bench.command, source, "--gpu-name", target, "-o", os.devnull]
    bench.served(hit)
    rows: dict[str, list[float]] = {"python -c pass": [], "python -c 'import socket'": [], "hit": [], "hit, off": []}
    for _ in range(repeat * 3):
        rows["python -c pass"].append(bench.run([sys.executable, "-c", "pass"]).wall)
        rows["python -c 'import socket'"].append(bench.run([sys.executable, "-c", "import socket"]).wall)
        rows["hit"].append(bench.run(hit, TILEIRAS_SERVER="auto").wall)
        rows["hit, off"].append(bench.run(hit, TILEIRAS_SERVER="off").wall)
    for name, times in rows.items():
        print(f"  {name:<28}{statistics.median(times) * 1000:8.1f} ms")
    above = [a - b for a, b in zip(rows["hit"], rows["python -c pass"])]
    print(f"  a hit above a bare start    {statistics.median(above) * 1000:8.1f} ms")
    return statistics.median(a / b for a, b in zip(rows["hit"], rows["python -c 'import socket'"]))


class Row(NamedTuple):
    """Of one kernel: the vendor's seconds, and ratios to its wall and processor time with the service and without."""

    vendor: float
    on: float
    off: float
    processor_on: float
    processor_off: float


def measured(bench: Bench, vendor: str, path: str, options: argparse.Namespace) -> Row | None:
    """One kernel; None where one of the compilers refuses it."""
    common = [path, "--gpu-name", options.target, "-o", os.path.join(bench.environment["XDG_RUNTIME_DIR"], "out")]
    own = [bench.command, *common, f"--assembler={options.assembler}"]
    store = STORES[options.store]
    turns = []
    try:
        for _ in range(options.repeat):
            turns.append((bench.run([vendor, *common]), bench.served(own, **store),
                          bench.run(own, TILEIRAS_SERVER="off", **store)))  # fmt: skip
    except subprocess.CalledProcessError:
        return None

    def middle(ratio: Callable[[Usage, Usage, Usage], float]) -> float:
        return statistics.median(ratio(*turn) for turn in turns)

    return Row(
        middle(lambda v, on, off: v.wall), middle(lambda v, on, off: on.wall / v.wall),
        middle(lambda v, on, off: off.wall / v.wall), middle(lambda v, on, off: on.processor / v.processor),
        middle(lambda v, on, off: off.processor / v.processor),
    )  # fmt: skip


class Record:
    """Rows that are kept in a file as they are measured, None for a kernel that is refused."""

    def __init__(self, path: str | None, options: argparse.Namespace) -> None:
        self._path = path
        self._how = [options.target, options.assembler, options.store, options.repeat]
        self._rows: dict[str, Row | None] = {}
        if path is not None and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for how, name, row in map(json.loads, file):
                    if how == self._how:
                        self._rows[name] = row and Row(*row)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> Row | None:
        return self._rows[name]

    def __setitem__(self, name: str, row: Row | None) -> None:
        self._rows[name] = row
        if self._path is not None:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps([self._how, name, row]) + "\n")


def throughput(bench: Bench, vendor: str, path: str, options: argparse.Namespace) -> float:
    """Compilations a second of ours over the vendor's, from threads that start commands."""
    common = [path, "--gpu-name", options.target, "-o"]

    def taken(words: Sequence[str], **changes: str) -> Usage:
        start, before = time.perf_counter(), of_children()
        environment = {**bench.environment, **changes}
        with ThreadPoolExecutor(THREADS) as pool:
            runs = [pool.submit(subprocess.run, words, env=environment, check=True) for _ in range(options.throughput)]
            for done in runs:
                done.result()
        return Usage(time.perf_counter() - start, of_children() - before)

    other = taken([vendor, *common, os.path.join(bench.environment["XDG_RUNTIME_DIR"], "out")])
    before = bench.control("status")["processor_seconds"]
    words = [bench.command, *common, os.devnull, f"--assembler={options.assembler}"]
    ours = taken(words, TILEIRAS_SERVER="auto", **STORES[options.store])
    time.sleep(0.5)
    processor = ours.processor + bench.control("status")["processor_seconds"] - before
    print(f"  {options.throughput} compilations of {os.path.basename(path)}, {THREADS} threads: {ours.wall:.1f} s, the "
          f"vendor's {other.wall:.1f} s: {other.wall / ours.wall:.2f} of its rate; processor time "
          f"{processor:.1f} and {other.processor:.1f} s: {other.processor / processor:.2f}", flush=True)  # fmt: skip
    return other.wall / ours.wall


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="service")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("--assembler", default="ptxas")
    parser.add_argument("--store", default="refresh", choices=tuple(STORES))
    parser.add_argument("--sample", type=int, metavar="COUNT")
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--throughput", type=int, default=200, metavar="COUNT")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    vendor = vendor_tool()
    if vendor is None:
        print("the vendor's compiler is not installed")
        return
    calibration.main()
    with tempfile.TemporaryDirectory() as folder:
        loads = collect(folder, LOADS)
        kernels = collect(folder, options.files)
        kernels = [kernel for kernel in kernels if kernel.lowest <= int(options.target[3:])]
        if options.sample is not None and options.sample < len(kernels):
            kernels = sorted(random.Random(1).sample(kernels, options.sample))
        bench = Bench(folder)
        bench.start()
        try:
            _measure(bench, vendor, kernels, loads, options)
        finally:
            bench.control("stop")


def _measure(
    bench: Bench, vendor: str, kernels: list[Kernel], loads: list[Kernel], options: argparse.Namespace
) -> None:
    target = options.target
    result = {"a hit of the store, by python -c 'import socket'":
             client_cost(bench, loads[-1].path, target, options.repeat)}  # fmt: skip
    print(f"from bytecode to cubin for {target} with {options.assembler}, store {options.store}, median of "
          f"{options.repeat}, ratios to the vendor's wall and processor time")  # fmt: skip
    print(f"  {'bytecode':<36}{'vendor ms':>10}{'on':>8}{'off':>8}{'cpu on':>8}{'cpu off':>9}")
    record = Record(options.record, options)
    rows = []
    for kernel in kernels:
        if kernel.name not in record:
            record[kernel.name] = measured(bench, vendor, kernel.path, options)
        row = record[kernel.name]
        if row is None:
            print(f"  {kernel.name[:36]:<36}   refused")
            continue
        rows.append(row)
        print(f"  {kernel.name[:36]:<36}{row.vendor * 1000:10.0f}{row.on:8.2f}{row.off:8.2f}{row.processor_on:8.2f}"
              f"{row.processor_off:9.2f}", flush=True)  # fmt: skip
    if rows:
        result["wall, service on, geometric mean"] = statistics.geometric_mean(row.on for row in rows)
        result["processor time, service on, geometric mean"] = statistics.geometric_mean(
            row.processor_on for row in rows
        )
        result["wall, service off, median"] = statistics.median(row.off for row in rows)
        small = [row.on for row in rows if row.vendor < SMALL]
        if small:
            result["wall, service on, small kernels, median"] = statistics.median(small)
    for name, bar in BARS.items():
        if name in result:
            print(f"  {name:<52}{result[name]:6.2f}   at most {bar}{'' if result[name] <= bar else '   missed'}")
    if rows:
        middle = statistics.median(row.processor_off for row in rows)
        print(f"  {'processor time, service off, median':<52}{middle:6.2f}")
    rates = [throughput(bench, vendor, load.path, options) for load in loads if options.throughput]
    if rates:
        print(f"  {'throughput over the vendor’s':<52}{rates[0]:6.2f}   at least {LEAST_THROUGHPUT}"
              f"{'' if rates[0] >= LEAST_THROUGHPUT else '   missed'}")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
