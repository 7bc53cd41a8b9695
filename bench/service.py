"""Commands through the compile service, without it, and the vendor's, turn about: time, processor time, throughput.

    python -m bench service [--target sm_90] [--repeat N] [--assembler ptxas] [--throughput N] [FILE-OR-FOLDER ...]

The installed command of this environment compiles bytecode to a cubin; nothing comes out of the store, except where a
hit of it is what is measured.  A ratio is the median of those of the turns.  Processor time of a command with the
service is the client's, and what the service and all of its children have taken meanwhile (`tileiras-server status`).
The bars are those of the closing lines.  The service is one of its own, started and ended here.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from bench import calibration
from bench.kernels import collect
from bench.whole_process import vendor_tool

REPEAT = 5
SMALL = 0.2
"""Vendor's seconds below which a kernel is small."""

THREADS = 8
"""What a front end's autotuner compiles with at once."""

BARS = {
    "wall, service on, geometric mean": 0.60,
    "wall, service on, small kernels, median": 0.75,
    "processor time, service on, geometric mean": 0.75,
    "wall, service off, median": 1.25,
    "a hit of the store, by python -c 'import socket'": 1.3,
}
"""At most these ratios to the vendor's time; a hit's is to what it says."""

LEAST_THROUGHPUT = 2.0


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
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.environment = {**kept, "XDG_RUNTIME_DIR": runtime, "TILEIRAS_CACHE_DIR": os.path.join(folder, "store")}

    def control(self, word: str) -> dict:
        done = subprocess.run(
            [self._server, word, *(["--json"] if word == "status" else [])], env=self.environment,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout) if word == "status" else {}

    def run(self, words: Sequence[str], **changes: str) -> Usage:
        """One process; raises CalledProcessError where it fails."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(words, env={**self.environment, **changes}, capture_output=True, check=True)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Usage(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def served(self, words: Sequence[str], **changes: str) -> Usage:
        """One process, with what the service has taken for it."""
        before = self.control("status")["processor_seconds"]
        found = self.run(words, TILEIRAS_SERVER="auto", **changes)
        # The child that has answered ends after its client.
        time.sleep(0.05)
        return Usage(found.wall, found.processor + self.control("status")["processor_seconds"] - before)


REFRESH: Mapping[str, str] = {"TILEIRAS_CACHE_MODE": "refresh"}


def client_cost(bench: Bench, source: str, target: str, repeat: int) -> float:
    """Prints what a client costs above a start of Python; the ratio of a hit to `import socket`."""
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
    """Ratios to the vendor's time of one kernel, and that time."""

    vendor: float
    on: float
    off: float
    processor: float


def measured(bench: Bench, vendor: str, path: str, target: str, assembler: str, repeat: int) -> Row | None:
    """One kernel; None where one of the compilers refuses it."""
    common = [path, "--gpu-name", target, "-o", os.path.join(bench.environment["XDG_RUNTIME_DIR"], "out")]
    own = [bench.command, *common, f"--assembler={assembler}"]
    turns = []
    try:
        for _ in range(repeat):
            turns.append((bench.run([vendor, *common]), bench.served(own, **REFRESH),
                          bench.run(own, TILEIRAS_SERVER="off", **REFRESH)))  # fmt: skip
    except subprocess.CalledProcessError:
        return None

    def middle(values) -> float:
        return statistics.median(values)

    return Row(
        middle(v.wall for v, _, _ in turns), middle(on.wall / v.wall for v, on, _ in turns),
        middle(off.wall / v.wall for v, _, off in turns), middle(on.processor / v.processor for v, on, _ in turns),
    )  # fmt: skip


def throughput(bench: Bench, vendor: str, path: str, target: str, assembler: str, count: int) -> float:
    """Compilations a second of ours over the vendor's, from threads that start commands."""

    def seconds(words: Sequence[str], **changes: str) -> float:
        start = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as pool:
            environment = {**bench.environment, **changes}
            for done in [pool.submit(subprocess.run, words, env=environment, check=True) for _ in range(count)]:
                done.result()
        return time.perf_counter() - start

    common = [path, "--gpu-name", target, "-o", os.devnull]
    other = seconds([vendor, *common[:-1], os.path.join(bench.environment["XDG_RUNTIME_DIR"], "out")])
    ours = seconds([bench.command, *common, f"--assembler={assembler}"], TILEIRAS_SERVER="auto", **REFRESH)
    print(f"  {count} compilations, {THREADS} threads: {ours:.1f} s, the vendor's {other:.1f} s")
    return other / ours


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="service")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("--assembler", default="ptxas")
    parser.add_argument("--throughput", type=int, default=200, metavar="COUNT")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    vendor = vendor_tool()
    if vendor is None:
        print("the vendor's compiler is not installed")
        return
    calibration.main()
    with tempfile.TemporaryDirectory() as folder:
        kernels = collect(folder, options.files)
        bench = Bench(folder)
        bench.control("start")
        try:
            _measure(bench, vendor, kernels, options)
        finally:
            bench.control("stop")


def _measure(bench: Bench, vendor: str, kernels: list, options: argparse.Namespace) -> None:
    target, assembler = options.target, options.assembler
    found = {"a hit of the store, by python -c 'import socket'":
             client_cost(bench, kernels[0].path, target, options.repeat)}  # fmt: skip
    print(f"from bytecode to cubin for {target} with {assembler}, median of {options.repeat}, ratios to the vendor's")
    print(f"  {'bytecode':<36}{'vendor ms':>10}{'on':>8}{'off':>8}{'cpu on':>8}")
    rows = []
    for kernel in kernels:
        if kernel.lowest <= int(target[3:]):
            row = measured(bench, vendor, kernel.path, target, assembler, options.repeat)
            if row is None:
                print(f"  {kernel.name[:36]:<36}   refused")
                continue
            rows.append(row)
            print(f"  {kernel.name[:36]:<36}{row.vendor * 1000:10.0f}{row.on:8.2f}{row.off:8.2f}{row.processor:8.2f}",
                  flush=True)  # fmt: skip
    if rows:
        found["wall, service on, geometric mean"] = statistics.geometric_mean(row.on for row in rows)
        found["processor time, service on, geometric mean"] = statistics.geometric_mean(row.processor for row in rows)
        found["wall, service off, median"] = statistics.median(row.off for row in rows)
        small = [row.on for row in rows if row.vendor < SMALL]
        if small:
            found["wall, service on, small kernels, median"] = statistics.median(small)
    for name, bar in BARS.items():
        if name in found:
            print(f"  {name:<52}{found[name]:6.2f}   at most {bar}{'' if found[name] <= bar else '   missed'}")
    rate = throughput(bench, vendor, kernels[0].path, target, assembler, options.throughput)
    print(f"  {'throughput over the vendor’s':<52}{rate:6.2f}   at least {LEAST_THROUGHPUT}"
          f"{'' if rate >= LEAST_THROUGHPUT else '   missed'}")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
