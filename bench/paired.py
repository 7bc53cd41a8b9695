"""Two checkouts of the compiler, by the processor time that they take from bytecode to PTX in a warm process.

    python -m bench paired CHECKOUT [--target sm_80] [--repeat N] [--calls] [FILE-OR-FOLDER ...]

`CHECKOUT` is compared with this one.  Each has a process of its own that stays; they compile every entry in
turns, each round in the other order, one at a time.  A figure is the processor time of that process and of LLVM's, as
the kernel of the system accounts for it, so that other work on the machine counts for little; a ratio is of the
medians of all rounds.  `--calls` counts the calls of functions instead, Python's and built-in ones: no noise at all,
and a share of the time only.  A kernel that either checkout refuses is named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from bench.kernels import collect

TARGET = "sm_80"
REPEAT = 9
WARM = 2
"""Compilations of an entry that are not counted."""

WORKER = """\
import cProfile, json, os, pstats, sys, time
from tileiras import api
try:
    from tileiras.stages import units
except ImportError:  # an older checkout
    from tileiras import units
from tileiras.codegen import bitcode_library
from tileiras.options import CompileOptions

store = bitcode_library.MemoryStore()
sources = {}

def children():
    # Processor time of LLVM's process by its number, nanoseconds.
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        pids = file.read().split()
    found = {}
    for pid in pids:
        with open(f"/proc/{pid}/schedstat") as file:
            found[pid] = int(file.read().split()[0])
    return found

for line in sys.stdin:
    request = json.loads(line)
    path = request["path"]
    try:
        source = sources.get(path) or sources.setdefault(path, units.Source.read(path))
        if "entry" not in request:
            answer = [units.entry_name(operation) for operation in units.entries_of(api.parse(source.data))]
        else:
            values = CompileOptions({"gpu-name": request["target"]})
            profile = cProfile.Profile() if request["calls"] else None
            before = children()
            start = time.process_time_ns()
            if profile is not None:
                profile.enable()
            api.compile_with(source, values, "ptx", entry=request["entry"], store=store)
            if profile is not None:
                profile.disable()
            own = time.process_time_ns() - start
            after = children()
            if profile is not None:
                answer = pstats.Stats(profile).total_calls
            else:
                answer = [own, sum(after.values()) - sum(before.values())] if after.keys() == before.keys() else None
    except Exception as error:
        answer = {"error": str(error).split("\\n")[0]}
    print(json.dumps(answer), flush=True)
"""


class Refused(Exception):
    """A checkout does not compile an entry; the text is its first line."""


class Checkout:
    """A process that compiles with the compiler of a checkout."""

    def __init__(self, folder: str, worker: str = WORKER) -> None:
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-c", worker]
        self._process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def ask(self, **request: object) -> object:
        """The answer to one request.  Raises Refused."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise Refused(f"the process ended with {self._process.wait()}")
        answer = json.loads(line)
        if isinstance(answer, dict):
            raise Refused(answer["error"])
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Row(NamedTuple):
    name: str
    before: tuple[float, float]
    """Of the other checkout: of the compiler and of LLVM, milliseconds or calls and nothing."""
    now: tuple[float, float]

    @property
    def ratio(self) -> float:
        return sum(self.now) / sum(self.before)


def compared(name: str, checkouts: tuple[Checkout, Checkout], request: dict[str, object], repeat: int) -> Row:
    """Raise Refused."""
    result: tuple[list[list[int]], list[list[int]]] = ([], [])
    if request["calls"]:
        for _ in range(WARM):  # caches between compilations are filled from the second on
            counts = [checkout.ask(**request) for checkout in checkouts]
        return Row(name, *((float(count), 0.0) for count in counts))  # type: ignore[arg-type]
    for number in range(-WARM, repeat):
        for which in (0, 1) if number % 2 else (1, 0):
            answer = checkouts[which].ask(**request)
            while answer is None:  # LLVM's process was replaced meanwhile
                answer = checkouts[which].ask(**request)
            if number >= 0:
                result[which].append(answer)  # type: ignore[arg-type]
    medians = [tuple(statistics.median(time[part] for time in times) / 1e6 for part in (0, 1)) for times in result]
    return Row(name, *medians)  # type: ignore[arg-type]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="paired")
    parser.add_argument("checkout", help="what this checkout is compared with")
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    checkouts = (Checkout(os.path.abspath(options.checkout)), Checkout(here))
    rows: list[Row] = []
    unit = "calls" if options.calls else "ms"
    print(f"{'kernel':<48}{'compiler ' + unit:>22}{'' if options.calls else 'LLVM ms':>18}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for kernel in collect(folder, options.files):
            if int(options.target[3:]) < kernel.lowest:
                continue
            path = os.path.abspath(kernel.path)
            try:
                for entry in checkouts[1].ask(path=path):  # type: ignore[attr-defined]
                    request = {"path": path, "entry": entry, "target": options.target, "calls": options.calls}
                    row = compared(f"{kernel.name} {entry}", checkouts, request, options.repeat)
                    rows.append(row)
                    (old, old_llvm), (new, new_llvm) = row.before, row.now
                    digits = 0 if options.calls else 1
                    llvm = "" if options.calls else f"{old_llvm:9.1f}{new_llvm:9.1f}"
                    print(f"{row.name[:47]:<48}{old:11.{digits}f}{new:11.{digits}f}{llvm:>18}{row.ratio:8.3f}",
                          flush=True)  # fmt: skip
            except Refused as refused:
                print(f"{kernel.name}: {refused}")
    for checkout in checkouts:
        checkout.close()
    ratios = sorted(row.ratio for row in rows)
    if ratios:
        total = sum(sum(row.now) for row in rows) / sum(sum(row.before) for row in rows)
        print(f"{len(rows)} entries: ratio median {statistics.median(ratios):.3f}, least {ratios[0]:.3f}, most "
              f"{ratios[-1]:.3f}, of the sums {total:.3f}")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
