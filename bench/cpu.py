"""Kernels compiled for the CPU beside NumPy, the interpreter and the compilation to PTX, as ratios of one run.

    python bench/cpu.py [--target cpu] [--runs 9] [--threads 1] [--json FILE]

matmul: throughput of a product of 1024 cubed over that of NumPy's f32 product.  rows: bytes read and written in a
second over those of a NumPy copy of the same arrays, taken in turns with launches.  compile: seconds to an object over
those to PTX.  interpreter: its seconds over those of a launch.  Each figure is of the median of several runs; both
sides have the same number of threads.  Launches of one thread are measured in its processor time, which other
processes do not lengthen.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SIDE = 1024
ROWS, COLUMNS = 4096, 1024


def median(function: Callable[[], Any], runs: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call, after one that is not counted."""
    function()
    times = []
    for _ in range(runs):
        start = clock()
        function()
        times.append(clock() - start)
    return statistics.median(times)


def product_text(element: str, tile: tuple[int, int, int]) -> str:
    """A product of square matrices, the accumulator in f32."""
    m, n, k = tile
    whole = {name: f"tensor_view<{SIDE}x{SIDE}x{e}, strides=[{SIDE},1]>" for name, e in _TYPES(element)}
    view = {
        name: f"partition_view<tile=({rows}x{columns}), {whole[name]}>"
        for name, rows, columns in (("a", m, k), ("b", k, n), ("c", m, n))
    }
    text = "".join(
        f"%{x}t = make_tensor_view %{x}p, shape = [{SIDE}, {SIDE}], strides = [{SIDE}, 1] : {whole[x]}\n"
        f"%{x}v = make_partition_view %{x}t : {view[x]}\n"
        for x in "abc"
    )
    parameters = ", ".join(f"%{name}p: tile<ptr<{e}>>" for name, e in _TYPES(element))
    left, right, total = f"tile<{m}x{k}x{element}>", f"tile<{k}x{n}x{element}>", f"tile<{m}x{n}xf32>"
    return f"""cuda_tile.module @m {{ entry @product({parameters}) {{
{text}%x, %y, %z = get_tile_block_id : tile<i32>
%first = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: {SIDE // k}> : tile<i32>
%zero = constant <f32: 0.0> : {total}
%sum = for %k in (%first to %steps, step %one) : tile<i32> iter_values(%s = %zero) -> ({total}) {{
  %a, %ta = load_view_tko weak %av[%x, %k] : {view["a"]}, tile<i32> -> {left}, token
  %b, %tb = load_view_tko weak %bv[%k, %y] : {view["b"]}, tile<i32> -> {right}, token
  %d = mmaf %a, %b, %s : {left}, {right}, {total}
  continue %d : {total}
}}
%t = store_view_tko weak %sum, %cv[%x, %y] : {total}, {view["c"]}, tile<i32> -> token
return
}} }}"""


def _TYPES(element: str) -> tuple[tuple[str, str], ...]:
    return (("a", element), ("b", element), ("c", "f32"))


class Bench:
    """One run: its options and figures."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.figures: dict[str, float] = {}
        self._clock = time.thread_time if options.threads == 1 else time.perf_counter

    def say(self, name: str, figure: float) -> None:
        self.figures[name] = round(figure, 3)
        print(f"{name:<40} {figure:8.2f}", flush=True)

    def took(self, function: Callable[[], Any]) -> float:
        return median(function, self.options.runs, self._clock)

    def beside(self, one: Callable[[], Any], other: Callable[[], Any]) -> float:
        """Seconds of one call over those of another, the median of pairs: other processes slow down both."""
        one(), other()
        ratios = []
        for _ in range(self.options.runs):
            times = [self._clock()]
            for function in (one, other):
                function()
                times.append(self._clock())
            ratios.append((times[1] - times[0]) / (times[2] - times[1]))
        return statistics.median(ratios)

    def launch(self, artifact: Any, entry: str, grid: Any, arguments: Sequence[Any]) -> Callable[[], None]:
        from tileiras import runtime

        return lambda: runtime.launch(artifact, entry, grid, arguments, threads=self.options.threads)

    def products(self) -> None:
        import ml_dtypes
        import numpy as np

        import tileiras

        draw = np.random.default_rng(0)
        a, b = (draw.standard_normal((SIDE, SIDE)).astype(np.float32) for _ in range(2))
        tile = (128, 128, 64)
        numpy = self.took(lambda: a @ b)
        for element, dtype in (("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
            artifact = tileiras.compile(product_text(element, tile), gpu_name=self.options.target)
            x, y, out = a.astype(dtype), b.astype(dtype), np.zeros((SIDE, SIDE), np.float32)
            took = self.took(self.launch(artifact, "product", (SIDE // tile[0], SIDE // tile[1]), [x, y, out]))
            wide = x.astype(np.float32) @ y.astype(np.float32)
            assert np.allclose(out, wide, atol=1e-2), element
            self.say(f"matmul {element} / NumPy f32", numpy / took)

    def rows(self) -> None:
        import numpy as np

        import tileiras
        from bench.real_sizes import slots

        x = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)
        out, weight, bias = np.empty_like(x), np.ones(COLUMNS, np.float32), np.zeros(COLUMNS, np.float32)

        def copy() -> None:
            np.copyto(out, x)

        softmax = tileiras.compile(ROOT / "examples" / "softmax.py", gpu_name=self.options.target)
        run = self.launch(softmax, "softmax", ROWS, slots([x, out]))
        self.say("softmax / NumPy copy", self.beside(copy, run))
        norm = tileiras.compile(ROOT / "examples" / "layer_norm.py", gpu_name=self.options.target)
        (kernel,) = norm.kernels
        result = slots([x, weight, bias, out])
        arguments = [*result, np.float32(1e-5)][: len(kernel.metadata["parameters"])]
        run = self.launch(norm, kernel.name, ROWS, arguments)
        self.say("layer norm / NumPy copy", self.beside(copy, run))

    def examples(self) -> None:
        """Compile times, and the interpreter's times on the launches of the examples' tests."""
        import copy

        sys.path.insert(0, str(ROOT / "tests" / "examples"))
        from example_cases import CASES, Case
        from kernel_cases import CASES as KERNEL_CASES

        import tileiras
        from tileiras import api
        from tileiras.sim import Memory, interpret

        compiled, gained = [], []
        seen: set[str] = set()
        for case in [*CASES, *KERNEL_CASES]:
            if case.entry in seen or case.source.startswith("bytecode") or case.entry == "matmul_grouped":
                continue
            seen.add(case.entry)
            bytecode = tileiras.compile(case.path, gpu_name="sm_100", emit="bytecode", entry=case.entry).data
            entry: dict[str, Any] = {}

            def compile_for(target: str) -> None:
                entry[target] = api.compile(bytecode, gpu_name=target, entry=case.entry, legalize_types=True)

            times = {t: median(lambda t=t: compile_for(t), 3) for t in (self.options.target, "sm_100")}
            compiled.append(times[self.options.target] / times["sm_100"])
            values = case.make_arguments() if isinstance(case, Case) else case.make_values()
            result = values if isinstance(case, Case) else case.slots(values)
            module = tileiras.parse(bytecode)
            start = time.perf_counter()
            interpret(module, case.entry, case.grid, copy.deepcopy(result), memory=Memory())
            slow = time.perf_counter() - start
            fast = median(self.launch(entry[self.options.target], case.entry, case.grid, copy.deepcopy(result)), 3)
            gained.append((case.entry, slow / fast))
        self.say("compile / PTX, geometric mean", _mean(compiled))
        self.say("compile / PTX, worst", max(compiled))
        plain = [ratio for name, ratio in gained if "matmul" not in name and "attention" not in name]
        self.say("interpreter / launch, without dots", _mean(plain))
        self.say("interpreter / launch, least", min(ratio for _, ratio in gained))


def _mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> int:
    parser = argparse.ArgumentParser(prog="cpu.py")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parts", default="products,rows,examples")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    # Before NumPy is loaded: its product has as many threads.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    bench = Bench(options)
    for part in options.parts.split(","):
        getattr(bench, part)()
    if options.json:
        Path(options.json).write_text(json.dumps(bench.figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
