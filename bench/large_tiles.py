"""python -m bench large_tiles [--gpu sm_90] [--sizes 65536,1048576,16777216]

Milliseconds from text to PTX of kernels whose one tile no thread could hold, by the tile's elements, in one warm
process: a store of a range, an update by one, and a reduction.  Slices of tiles are loops, so that neither the code nor
the time grows with a tile; lines of PTX beside the times say so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

from tileiras import api
from tileiras.codegen import bitcode_library
from tileiras.options import CompileOptions

REPEAT = 3

STORE = bitcode_library.MemoryStore()
"""Keeps the data that stages derive from their tools, and no artifacts."""


def _entry(body: str, count: int) -> str:
    kind = f"tile<{count}xi32>"
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<i32>>) {{
    %i = iota : {kind}
    %shaped = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %all = broadcast %shaped : tile<1xptr<i32>> -> tile<{count}xptr<i32>>
    %to = offset %all, %i : tile<{count}xptr<i32>>, {kind} -> tile<{count}xptr<i32>>
    {body}
    return
  }}
}}
"""


def store(count: int) -> str:
    """p[i] = i."""
    return _entry(f"%t = store_ptr_tko weak %to, %i : tile<{count}xptr<i32>>, tile<{count}xi32> -> token", count)


def update(count: int) -> str:
    """p[i] += i."""
    kinds = f"tile<{count}xptr<i32>>, tile<{count}xi32> -> tile<{count}xi32>"
    return _entry(f"%old, %t = atomic_rmw_tko relaxed device %to, add, %i : {kinds}, token", count)


def reduction(count: int) -> str:
    """p[0] = the sum of all p[i]."""
    return _entry(
        f"""%x, %r = load_ptr_tko weak %to : tile<{count}xptr<i32>> -> tile<{count}xi32>, token
    %sum = reduce %x dim=0 identities=[0 : i32] : tile<{count}xi32> -> tile<i32> (%a: tile<i32>, %b: tile<i32>) {{
      %c = addi %a, %b : tile<i32>
      yield %c : tile<i32>
    }}
    %t = store_ptr_tko weak %p, %sum token = %r : tile<ptr<i32>>, tile<i32> -> token""",
        count,
    )


KERNELS: dict[str, Callable[[int], str]] = {"store": store, "update": update, "reduction": reduction}


def measured(text: str, gpu: str) -> tuple[float, int]:
    """Seconds to PTX, the best of a few, and the lines of it."""
    best, lines = float("inf"), 0
    for _ in range(REPEAT):
        begin = time.perf_counter()
        artifact = api.compile_with(text, CompileOptions({"gpu-name": gpu}), "ptx", store=STORE)
        best = min(best, time.perf_counter() - begin)
        lines = len(artifact.text.splitlines())
    return best, lines


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench large_tiles", description=__doc__.split("\n\n")[1])
    parser.add_argument("--gpu", default="sm_90")
    parser.add_argument("--sizes", default=f"{1 << 16},{1 << 20},{1 << 24}")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")]
    measured(store(sizes[0]), options.gpu)  # modules that are loaded once
    print("| kernel | elements | ms | lines of PTX |\n|---|---|---|---|")
    for name, make in KERNELS.items():
        for size in sizes:
            seconds, lines = measured(make(size), options.gpu)
            print(f"| {name} | {size} | {seconds * 1000:.0f} | {lines} |")
    return 0
