"""Builds in which little changed: 1,000 small kernels of five stages, against SCons' own start in the same run.

    python -m bench.null_build [KERNELS]

The unit is `scons` on an SConstruct that only makes an Environment with the default tools.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

KERNELS = 1000
REPEAT = 5

EMPTY = 'Environment(tools=["default"])\n'

TREE = """\
import os
from tileiras.build import tool
env = Environment(tools=["default", tool], ENV=os.environ)
env.Alias("kernels", env.TileTree("kernels"))
Default("kernels")
"""

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


def scons(folder: str, *arguments: str) -> tuple[float, str]:
    """Seconds of one run and its output; ends the program when it fails."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment.update(PYTHONPATH=root, TILEIRAS_CACHE_DIR=os.path.join(folder, "store"))
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "SCons", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    taken = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr)
    return taken, done.stdout


def main(count: int = KERNELS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty, tree = os.path.join(folder, "empty"), os.path.join(folder, "tree")
        write(empty, "SConstruct", EMPTY)
        write(tree, "SConstruct", TREE)
        for number in range(count):
            write(tree, f"kernels/k{number}.mlir", kernel(number))
        cold, output = scons(tree)
        print(f"{count} kernels, {len(_STAGE.findall(output))} stages: first build {cold:.1f} s")
        # The first build after the stages ran looks again at files that are as young as the manifest.
        scons(tree)
        rows: dict[str, list[float]] = {"null": [], "one leaf": [], "null, whole graph": []}
        unit = []
        for turn in range(REPEAT):
            unit.append(scons(empty)[0])
            taken, output = scons(tree)
            assert not _STAGE.search(output), output
            rows["null"].append(taken)
            write(tree, "kernels/k7.mlir", kernel(7, f"// {turn}"))
            taken, output = scons(tree)
            assert len(_STAGE.findall(output)) == 1, output
            rows["one leaf"].append(taken)
            scons(tree)
            rows["null, whole graph"].append(scons(tree, "tile_full=1")[0])
        base = statistics.median(unit)
        print(f"  {'default tools only':<20}{base * 1000:8.0f} ms   1.00")
        for name, times in rows.items():
            median = statistics.median(times)
            print(f"  {name:<20}{median * 1000:8.0f} ms{median / base:7.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
