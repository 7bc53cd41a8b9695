"""Watch mode: the time from a save to the new PTX besides the stages, in a tree of 200 kernels.

A save is a file that is renamed over the kernel, as editors do it.

    python -m bench.watch [KERNELS [SAVES]]
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.null_build import environment, kernel, numbers, write

KERNELS = 200
SAVES = 20

_LINE = re.compile(r"ptx  \d+ ms, (\d+) ms in stages")


def measure(count: int, saves: int) -> tuple[list[float], list[float]]:
    """Seconds from each save to the new PTX besides stages, and those in stages."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            write(folder, f"kernels/k{number}.mlir", kernel(number))
        process = subprocess.Popen(
            [sys.executable, "-m", "tileiras.cli.tileiras_watch", "kernels"],
            cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("watching"):
                    break
            overheads, stages = [], []
            for turn in range(saves + 1):
                number = turn * 7 % count
                ptx = os.path.join(folder, f"build/sm_90/O3/kernels/k{number}/k{number}.ptx")
                before = os.stat(ptx).st_ino
                write(folder, "saved", kernel(number).replace(f"{number}.0>", f"{1000 + turn}.0>"))
                start = time.perf_counter()
                os.replace(os.path.join(folder, "saved"), os.path.join(folder, f"kernels/k{number}.mlir"))
                while os.stat(ptx).st_ino == before:
                    time.sleep(0.0005)
                taken = time.perf_counter() - start
                line = process.stdout.readline()
                match = _LINE.search(line)
                assert match is not None, line
                if turn:  # The first save loads modules that later ones reuse.
                    stages.append(int(match[1]) / 1000)
                    overheads.append(taken - stages[-1])
                time.sleep(0.1)
        finally:
            process.terminate()
            process.wait()
    return overheads, stages


def main(arguments: Sequence[str] = ()) -> None:
    count, saves = numbers("watch", arguments, kernels=KERNELS, saves=SAVES)
    overheads, stages = measure(count, saves)
    median, worst = statistics.median(overheads), max(overheads)
    print(f"{count} kernels, {saves} saves: {median * 1000:.1f} ms (at most {worst * 1000:.1f}) besides the stages' "
          f"{statistics.median(stages) * 1000:.1f}")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
