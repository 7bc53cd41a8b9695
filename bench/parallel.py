"""Worker processes: enough distinct kernels to keep one process busy for 20 s, built with `-j1` and with `-j2`.

    python -m bench.parallel [KERNELS [TURNS]]

The kernels are the examples in MLIR text, each with a number of its own in place of a constant.  Each turn builds the
same tree with each `-j`, from nothing; the figure is the median of the turns' ratios.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence

from bench.null_build import TREE, numbers, scons, write

KERNELS = 300
TURNS = 5

SOURCES = ("matmul_f32", "relu_add_2d", "transpose", "saxpy")


def kernels(count: int) -> dict[str, str]:
    """File name -> text of distinct kernels made of the examples."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
    texts = {}
    for name in SOURCES:
        with open(os.path.join(folder, name + ".mlir"), encoding="utf-8") as file:
            texts[name] = file.read()
    result = {}
    for number in range(count):
        name = SOURCES[number % len(SOURCES)]
        # An assertion that always holds, with a number of its own: it reaches the PTX of every kernel.
        text = texts[name].replace(
            "    return\n",
            f"    %unique = constant <i1: true> : tile<i1>\n"
            f'    assert %unique, "kernel {number}" : tile<i1>\n    return\n',
        )
        result[f"kernels/{name}_{number}.mlir"] = text
    return result


def main(arguments: Sequence[str] = ()) -> None:
    count, turns = numbers("parallel", arguments, kernels=KERNELS, turns=TURNS)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "SConstruct", TREE)
        for name, text in kernels(count).items():
            write(folder, name, text)
        ratios, times = [], {"-j1": [], "-j2": []}
        for _ in range(turns):
            for jobs, taken in times.items():
                for item in ("build", "store", ".sconsign.dblite"):
                    path = os.path.join(folder, item)
                    shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)
                taken.append(scons(folder, jobs).wall)
            ratios.append(times["-j1"][-1] / times["-j2"][-1])
        one, two = (statistics.median(taken) for taken in times.values())
        ratio = statistics.median(ratios)
        print(f"{count} kernels, medians of {turns}: -j1 {one:.1f} s, -j2 {two:.1f} s, {ratio:.2f} times as fast")


if __name__ == "__main__":
    main(sys.argv[1:])
