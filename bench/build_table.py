"""Builds against builds: this tool's, and ninja's and make's with the vendor's compiler as the command, in one run.

    python -m bench.build_table [KERNELS [TURNS]]      scons bench-build

Every tool builds the same kernels, one file each: here PTX through five stages a kernel, there a cubin through one
command.  Times are medians on the clock; what a tool cannot do has a dash.  ccache is asked for the cost of a hit on a
small C++ file.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from bench import watch
from bench.null_build import TREE, kernel, numbers, scons, write
from tileiras import api
from tileiras.codegen import toolkit
from tileiras.options import CompileOptions

KERNELS = 100
TURNS = 5

ROWS = ("cold", "null", "one leaf", "option change", "back-switch", "save to PTX", "hit cost")
"""`save to PTX` is watch mode's, stages and quiet time included; `hit cost` is that of one stage, or of one file."""

Times = dict[str, float]


def timed(command: list[str], folder: str) -> float:
    """Seconds of a command; ends the program when it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr)
    return taken


def median(function: Callable[[int], float], turns: int) -> float:
    return statistics.median(function(turn) for turn in range(turns))


def ours(folder: str, count: int, turns: int) -> Times:
    target = "ENV=os.environ, TILE_SM=ARGUMENTS.get('sm', 'sm_90'))"
    write(folder, "SConstruct", TREE.replace("ENV=os.environ)", target))
    for number in range(count):
        write(folder, f"kernels/k{number}.mlir", kernel(number))
    times = {"cold": scons(folder).wall}
    scons(folder)

    def leaf(turn: int) -> float:
        write(folder, "kernels/k0.mlir", kernel(0).replace("0.0>", f"{turn + 1}000.0>"))
        return scons(folder).wall

    def hit(turn: int) -> float:
        shutil.rmtree(os.path.join(folder, "build"))
        return max(0.0, scons(folder).wall - times["null"]) / (5 * count)

    times["null"] = median(lambda turn: scons(folder).wall, turns)
    times["one leaf"] = median(leaf, turns)
    scons(folder)
    times["option change"] = scons(folder, "sm=sm_80").wall
    scons(folder, "sm=sm_80")
    # Switching to and fro: what was built for the other target is there, and was made by nobody else since.
    times["back-switch"] = median(lambda turn: scons(folder, "sm=sm_90" if turn % 2 == 0 else "sm=sm_80").wall, turns)
    scons(folder)
    times["hit cost"] = median(hit, min(turns, 2))
    return times


def theirs(tool: str, folder: str, count: int, turns: int, vendor: str) -> Times:
    """ninja or make with one command a kernel; an option is a part of the command, as in the files people write."""
    options = CompileOptions({"gpu-name": "sm_90"})
    for number in range(count):
        text = kernel(number).encode()
        path = os.path.join(folder, f"k{number}.tileirbc")
        os.makedirs(folder, exist_ok=True)
        with open(path, "wb") as file:
            file.write(api.compile_with(text, options, "bytecode").data)

    def script(sm: str) -> None:
        if tool == "ninja":
            lines = [f"rule cubin\n  command = {vendor} --gpu-name {sm} -o $out $in"]
            lines += [f"build k{n}.cubin: cubin k{n}.tileirbc" for n in range(count)]
            write(folder, "build.ninja", "\n".join(lines) + "\n")
        else:
            write(folder, "Makefile", "all: " + " ".join(f"k{n}.cubin" for n in range(count)) + "\n"
                  f"%.cubin: %.tileirbc Makefile\n\t@{vendor} --gpu-name {sm} -o $@ $<\n")  # fmt: skip

    command = [tool, *(["-j1"] if tool == "ninja" else [])]
    script("sm_90")
    times = {"cold": timed(command, folder)}

    def leaf(turn: int) -> float:
        os.utime(os.path.join(folder, "k0.tileirbc"))
        return timed(command, folder)

    times["null"] = median(lambda turn: timed(command, folder), turns)
    times["one leaf"] = median(leaf, turns)
    script("sm_80")
    times["option change"] = timed(command, folder)
    script("sm_90")
    times["back-switch"] = timed(command, folder)
    return times


def ccache(folder: str, turns: int) -> Times:
    write(folder, "t.cpp", "#include <vector>\nint main() { return int(std::vector<int>(3).size()); }\n")
    os.environ["CCACHE_DIR"] = os.path.join(folder, "ccache")
    command = ["ccache", "c++", "-c", "t.cpp", "-o", "t.o"]
    return {"cold": timed(command, folder), "hit cost": median(lambda turn: timed(command, folder), turns)}


def main(arguments: Sequence[str] = ()) -> None:
    count, turns = numbers("build_table", arguments, kernels=KERNELS, turns=TURNS)
    vendor = next((path for root in toolkit.wheel_roots()
                   if os.access(path := os.path.join(root, "bin", "tileiras"), os.X_OK)), None)  # fmt: skip
    columns: dict[str, Times] = {}
    with tempfile.TemporaryDirectory() as folder:
        columns["tileiras"] = ours(os.path.join(folder, "scons"), count, turns)
        overheads, stages = watch.measure(count, turns)
        columns["tileiras"]["save to PTX"] = statistics.median(overheads) + watch.QUIET + statistics.median(stages)
        for tool in ("ninja", "make"):
            if vendor is not None and shutil.which(tool):
                columns[tool] = theirs(tool, os.path.join(folder, tool), count, turns, vendor)
        if shutil.which("ccache"):
            columns["ccache"] = ccache(os.path.join(folder, "cpp"), turns)
    print(f"{count} kernels, medians of {turns}, in milliseconds")
    print("  " + " " * 14 + "".join(f"{name:>12}" for name in columns))
    for row in ROWS:
        cells = (f"{times[row] * 1000:>12.1f}" if row in times else f"{'-':>12}" for times in columns.values())
        print(f"  {row:<14}" + "".join(cells))


if __name__ == "__main__":
    main(sys.argv[1:])
