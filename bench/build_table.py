"""Builds against builds: this tool's, and ninja's and make's with the vendor's compiler as the command, in one run.

    python -m bench.build_table [KERNELS [SMALL [TURNS]]]      scons bench-build

Every tool builds the same kernels in graphs of the same shape: five nodes a kernel, one behind the other.  Here they
are the stages from text to PTX; there four commands hand the bytecode on (`cp`) and the fifth is the vendor's compiler,
which makes a cubin.  `scons alone` is an SConstruct that only makes an Environment with the default tools.  ccache,
which knows no graph, is asked for the cost of a hit on a small C++ file.

Everything is a median of TURNS on the clock.  Rows in which everything is compiled again are those of SMALL kernels.  A
dash marks a measurement that a tool does not support.
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
from bench.null_build import EMPTY, TREE, kernel, numbers, scons, write
from tileiras import api
from tileiras.codegen import toolkit
from tileiras.options import CompileOptions

KERNELS = 1000
SMALL = 30
TURNS = 5

NODES = 5
"""Of a kernel."""

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


def remove(folder: str, *names: str) -> None:
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)


class Ours:
    """A tree of kernels that scons builds."""

    name = "tileiras"

    def __init__(self, folder: str, count: int) -> None:
        self.folder = os.path.join(folder, self.name)
        self.count = count
        target = "ENV=os.environ, TILE_SM=ARGUMENTS.get('sm', 'sm_90'))"
        write(self.folder, "SConstruct", TREE.replace("ENV=os.environ)", target))
        for number in range(count):
            write(self.folder, f"kernels/k{number}.mlir", kernel(number))

    def build(self, sm: str = "sm_90") -> float:
        return scons(self.folder, f"sm={sm}").wall

    def forget(self) -> None:
        remove(self.folder, "build", "store", ".sconsign.dblite")

    def settle(self) -> None:
        """The first build after the stages ran looks again at files that are as young as the manifest."""
        time.sleep(2.1)
        self.build()

    def edit(self, turn: int) -> None:
        write(self.folder, "kernels/k0.mlir", kernel(0).replace("0.0>", f"{turn + 1}000.0>"))

    def hit(self, null: float) -> float:
        """Seconds of a stage that the store answers for."""
        remove(self.folder, "build")
        return max(0.0, self.build() - null) / (NODES * self.count)


class Theirs:
    """The same kernels in a file for ninja or make; an option is a part of the command, as people write them."""

    def __init__(self, folder: str, count: int, name: str, vendor: str) -> None:
        self.folder = os.path.join(folder, name)
        self.name = name
        self.count = count
        self.vendor = vendor
        os.makedirs(self.folder)
        for number in range(count):
            self.source(number, kernel(number))

    def source(self, number: int, text: str) -> None:
        data = api.compile_with(text.encode(), CompileOptions({"gpu-name": "sm_90"}), "bytecode").data
        with open(os.path.join(self.folder, f"k{number}.tileirbc"), "wb") as file:
            file.write(data)

    def build(self, sm: str = "sm_90") -> float:
        getattr(self, f"_{self.name}_file")(sm)
        return timed([self.name, "-j1"], self.folder)

    def _ninja_file(self, sm: str) -> None:
        lines = ["rule hand_on", "  command = cp $in $out", "rule cubin"]
        lines.append(f"  command = {self.vendor} --gpu-name {sm} -o $out $in")
        for number in range(self.count):
            names = [f"k{number}.tileirbc", *(f"k{number}.{step}" for step in range(1, NODES))]
            lines += [f"build {after}: hand_on {before}" for before, after in zip(names, names[1:], strict=False)]
            lines.append(f"build k{number}.cubin: cubin {names[-1]}")
        self._write("build.ninja", "\n".join(lines) + "\n")

    def _make_file(self, sm: str) -> None:
        wanted = " ".join(f"k{number}.cubin" for number in range(self.count))
        rules = [f"all: {wanted}", ".SECONDARY:", f"%.cubin: %.{NODES - 1} Makefile"]
        rules.append(f"\t@{self.vendor} --gpu-name {sm} -o $@ $<")
        suffixes = ["tileirbc", *map(str, range(1, NODES))]
        for before, after in zip(suffixes, suffixes[1:], strict=False):
            rules += [f"%.{after}: %.{before}", "\t@cp $< $@"]
        self._write("Makefile", "\n".join(rules) + "\n")

    def _write(self, name: str, text: str) -> None:
        """Write only if the contents differ: these tools go by times."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            write(self.folder, name, text)

    def forget(self) -> None:
        for name in os.listdir(self.folder):
            if not name.endswith((".tileirbc", ".ninja", "Makefile")) or name.startswith(".ninja"):
                remove(self.folder, name)

    def settle(self) -> None:
        self.build()

    def edit(self, turn: int) -> None:
        self.source(0, kernel(0).replace("0.0>", f"{turn + 1}000.0>"))


def whole_rows(tool: Ours | Theirs, turns: int) -> Times:
    """Rows in which everything is compiled."""

    def cold(_: int) -> float:
        tool.forget()
        return tool.build()

    def switch(turn: int) -> float:
        """To an option that nothing was built with before; earlier results are deleted in between."""
        if turn:
            tool.forget()
            tool.build()
        taken = tool.build("sm_80")
        back.append(tool.build("sm_90"))
        return taken

    back: list[float] = []
    times = {"cold": median(cold, turns), "option change": median(switch, turns)}
    times["back-switch"] = statistics.median(back)
    if isinstance(tool, Ours):
        tool.settle()
        null = median(lambda _: tool.build(), turns)
        times["hit cost"] = median(lambda _: tool.hit(null), turns)
    return times


def small_rows(tool: Ours | Theirs, turns: int) -> Times:
    """Rows in which little is."""
    tool.build()
    tool.settle()

    def leaf(turn: int) -> float:
        tool.edit(turn)
        return tool.build()

    return {"null": median(lambda _: tool.build(), turns), "one leaf": median(leaf, turns)}


def ccache(folder: str, turns: int) -> Times:
    write(folder, "t.cpp", "#include <vector>\nint main() { return int(std::vector<int>(3).size()); }\n")
    os.environ["CCACHE_DIR"] = os.path.join(folder, "ccache")
    command = ["ccache", "c++", "-c", "t.cpp", "-o", "t.o"]

    def cold(_: int) -> float:
        remove(folder, "ccache")
        return timed(command, folder)

    return {"cold": median(cold, turns), "hit cost": median(lambda _: timed(command, folder), turns)}


def vendor_compiler() -> str | None:
    paths = (os.path.join(root, "bin", "tileiras") for root in toolkit.wheel_roots())
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def main(arguments: Sequence[str] = ()) -> None:
    count, small, turns = numbers("build_table", arguments, kernels=KERNELS, small=SMALL, turns=TURNS)
    vendor = vendor_compiler()
    others = [name for name in ("ninja", "make") if vendor is not None and shutil.which(name)]
    columns: dict[str, Times] = {}
    for size, rows in ((small, whole_rows), (count, small_rows)):
        with tempfile.TemporaryDirectory() as folder:
            tools: list[Ours | Theirs] = [Ours(folder, size)]
            tools += [Theirs(folder, size, name, vendor) for name in others if vendor is not None]
            for tool in tools:
                columns.setdefault(tool.name, {}).update(rows(tool, turns))
    overheads, stages = watch.measure(watch.KERNELS, 4 * turns)
    columns["tileiras"]["save to PTX"] = statistics.median(overheads) + statistics.median(stages)
    columns["tileiras"]["of it overhead"] = statistics.median(overheads)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "SConstruct", EMPTY)
        columns["scons alone"] = {"null": median(lambda _: scons(folder).wall, turns)}
    if shutil.which("ccache"):
        with tempfile.TemporaryDirectory() as folder:
            columns["ccache"] = ccache(folder, turns)
    print(f"medians of {turns}, in milliseconds; {NODES} nodes a kernel")
    print("  " + f"{'':<16}{'kernels':>8}" + "".join(f"{name:>12}" for name in columns))
    sizes = {"cold": small, "null": count, "one leaf": count, "option change": small, "back-switch": small,
             "save to PTX": watch.KERNELS, "of it overhead": watch.KERNELS, "hit cost": small}  # fmt: skip
    for row, size in sizes.items():
        cells = (f"{times[row] * 1000:>12.1f}" if row in times else f"{'-':>12}" for times in columns.values())
        print(f"  {row:<16}{size:>8}" + "".join(cells))
    print("  save to PTX: with the stages.  hit cost: of one stage, or of one file through ccache.")


if __name__ == "__main__":
    main(sys.argv[1:])
