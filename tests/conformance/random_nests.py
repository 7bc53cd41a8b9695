"""Random cuTile kernels with dots: nested loops, branches, early exits, memory that is written and read again.

Program N is a list of statements on two accumulators with any nesting; the operands of its dots have different sources,
which `tests/kernels/random_loops.py` lacks.  All values are integers that their types represent, so that any order of
sums gives the same bits; the interpreter's result is the reference.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tileiras
from tests.kernels.views import DTYPES, whole_numbers
from tileiras.sim import interpret

SLOTS = 4
"""Tiles of the result per tile block."""
TILES = 5
"""Extents of the operands along K."""
MOST_PRODUCTS = 48
"""Approximate number of dots per tile block."""
FRONT_END = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f8E4M3FN": "float8_e4m3fn", "i8": "int8"}
SIGNATURES = {"f8E4M3FN": "f8e4m3fn"}


class RandomNest:
    """The text of one kernel, its launch, and its expected results."""

    def __init__(self, seed: int) -> None:
        self.random = pick = random.Random(seed)
        self.seed = seed
        self.m, self.n = pick.choice((16, 64, 64, 128, 128)), pick.choice((32, 64, 128))
        self.k = pick.choice((16, 32, 64))
        self.element = pick.choice(("f16", "f16", "bf16", "f32", "f8E4M3FN", "i8"))
        self.sum = "int32" if self.element == "i8" else "float32"
        even = 16 // np.dtype(DTYPES[self.element]).itemsize
        self.ragged = pick.choice((0, 0, even % self.k, even % self.k, 5))
        """Elements by which the arrays are smaller than whole tiles; rows are multiples of 16 bytes unless it is 5, and
        there are `TILES` along K."""
        self.rounds, self.grid = pick.choice((0, 1, 2, 3, 3, 4)), pick.choice((1, 2, 2, 4))
        self.lines: list[str] = []
        self.counters: list[str] = []
        """Loop variables in scope."""
        self.names = self.products = 0
        self.hints = ", ".join(self._hints())
        self.options: dict[str, Any] = self._options()
        self._block(1, 1, pick.randint(2, 4))
        if "ct.mma" not in "\n".join(self.lines):
            self._loop(1, 1)

    def _hints(self) -> list[str]:
        pick, result = self.random, []
        if pick.random() < 0.25:
            result.append(f"num_ctas={pick.choice((1, 2, 4))}")
        if pick.random() < 0.2:
            result.append(f"occupancy={pick.choice((1, 2, 3))}")
        if pick.random() < 0.2:
            result.append(f"num_worker_warps={pick.choice((4, 8))}")
        return result

    def _options(self) -> dict[str, Any]:
        """Options of the compilation; mostly empty."""
        options: dict[str, Any] = {}
        kind = self.random.random()
        if kind < 0.06:
            options = {"opt_level": self.random.choice((0, 1, 2))}
        elif kind < 0.1:
            options = {"device_debug": True, "opt_level": 0}
        elif kind < 0.15:
            options = {"sanitize": "memcheck"}
        elif kind < 0.2:
            options = {"lineinfo": True}
        elif kind < 0.3:
            options = {"unspecialized_pipeline_num_stages": self.random.choice((2, 3, 4, 5))}
        return options

    # ---- statements --------------------------------------------------------------------------------------------------

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def _block(self, depth: int, times: int, count: int) -> None:
        """``times``: the largest number of executions."""
        start = len(self.lines)
        for _ in range(count):
            kind = self.random.random()
            if kind < (0.6 if depth == 1 else 0.3) and depth < 4 and times * 4 <= MOST_PRODUCTS // 2:
                self._loop(depth, times)
            elif kind < 0.45 and depth < 4:
                self._branch(depth, times)
            elif kind < 0.8 and self.products + times <= MOST_PRODUCTS:
                self.products += times
                self.random.choice((self._product, self._product, self._product, self._chain))(depth)
            else:
                self.random.choice((self._elementwise, self._elementwise, self._rows, self._store, self._update))(depth)
        if len(self.lines) == start:
            self._elementwise(depth)

    def _bound(self) -> str:
        bound = ["n", "n", "n", "ct.num_tiles(a, 1, (TM, TK))", "3", "2", "n + 1", "0", "m"]
        bound += [f"{counter} + 1" for counter in self.counters if counter.startswith("i")]
        return self.random.choice(bound)

    def _loop(self, depth: int, times: int) -> None:
        pick = self.random
        counter = self._name("i")
        kind = pick.random()
        if kind < 0.7:
            bound = self._bound()
            choice = pick.choice((bound, bound, bound, f"1, {bound}", f"0, {bound}, 2", f"ct.bid(0), {bound}"))
            self._line(depth, f"for {counter} in range({choice}):")
            self.counters.append(counter)
            if pick.random() < 0.15:
                self._line(depth + 1, f"if {counter} == 1:")
                self._line(depth + 2, "continue")
            self._body(depth + 1, times * 4)
        else:
            self._line(depth, f"{counter} = 0")
            self._line(depth, f"while {counter} < {pick.choice(('n', '3', 'n + 1'))}:")
            self.counters.append(counter)
            if pick.random() < 0.4:
                self._line(depth + 1, f"if {counter} >= {pick.choice(('m', '2', 'n - 1'))}:")
                self._line(depth + 2, "break")
            self._body(depth + 1, times * 4)
            self._line(depth + 1, f"{counter} += 1")
        self.counters.pop()

    def _body(self, depth: int, times: int) -> None:
        """Most loops of users begin with a dot, and many contain nothing else."""
        product = self.random.random() < 0.6 and self.products + times <= MOST_PRODUCTS
        if product:
            self.products += times
            self._product(depth)
        if not product or self.random.random() < 0.6:
            self._block(depth, times, self.random.randint(1, 3))

    def _condition(self) -> str:
        condition = ["n > 2", "m == 1", "ct.bid(0) == 0", "n == 0"]
        condition += [text for counter in self.counters for text in (f"{counter} % 2 == 0", f"{counter} == n - 1")]
        return self.random.choice(condition)

    def _branch(self, depth: int, times: int) -> None:
        self._line(depth, f"if {self._condition()}:")
        self._block(depth + 1, times, self.random.randint(1, 2))
        if self.random.random() < 0.4:
            self._line(depth, "else:")
            self._block(depth + 1, times, self.random.randint(1, 2))

    def _index(self) -> str:
        """The index of a tile along K."""
        if not self.counters or self.random.random() < 0.15:
            return self.random.choice(("0", "1", f"m % {TILES}"))
        counter = self.random.choice(self.counters[-2:])
        return self.random.choice((counter, counter, counter, f"(n + {counter}) % {TILES}", f"{TILES - 1} - {counter}"))

    def _given(self) -> str:
        """Further arguments of a load."""
        text = ", padding_mode=ct.PaddingMode.ZERO"
        if self.random.random() < 0.15:
            text += f", latency={self.random.randint(1, 6)}"
        if self.random.random() < 0.1:
            text += ", allow_tma=False"
        return text

    def _left(self, depth: int) -> str:
        index, name, kind = self._index(), self._name("x"), self.random.random()
        load = f"ct.load(a, (ct.bid(0), {index}), (TM, TK){self._given()})"
        if kind < 0.55:
            value = load
        elif kind < 0.65:
            value = f"ct.load(at, (ct.bid(0), {index}), (TM, TK), order=(1, 0){self._given()})"
        elif kind < 0.72:
            value = f"ct.transpose(ct.load(at_rows, ({index}, ct.bid(0)), (TK, TM){self._given()}))"
        elif kind < 0.8:
            rows, columns = "ct.bid(0) * TM + ct.arange(TM, dtype=ct.int32)", "ct.arange(TK, dtype=ct.int32)"
            value = f"ct.gather(a, (({rows})[:, None], ({index} * TK + {columns})[None, :]))"
        elif kind < 0.9:
            value = f"ct.astype(-ct.astype({load}, ct.{self.sum}), a.dtype)"
        else:
            value = f"ct.where(ct.arange(TM, dtype=ct.int32)[:, None] < n * 20, {load}, ct.zeros((TM, TK), a.dtype))"
        self._line(depth, f"{name} = {value}")
        return name

    def _right(self, depth: int) -> str:
        index, name, kind = self._index(), self._name("y"), self.random.random()
        load = f"ct.load(b, ({index}, 0), (TK, TN){self._given()})"
        if kind < 0.7:
            value = load
        elif kind < 0.85:
            value = f"ct.load(bt, ({index}, 0), (TK, TN), order=(1, 0){self._given()})"
        else:
            value = f"ct.astype(-ct.astype({load}, ct.{self.sum}), b.dtype)"
        self._line(depth, f"{name} = {value}")
        return name

    def _accumulator(self) -> str:
        return self.random.choice(("p", "p", "q"))

    def _product(self, depth: int) -> None:
        x, y, total = self._left(depth), self._right(depth), self._accumulator()
        if self.element == "f32" and self.random.random() < 0.7:
            x, y = f"ct.astype({x}, ct.tfloat32)", f"ct.astype({y}, ct.tfloat32)"
        if self.random.random() < 0.75:
            self._line(depth, f"{total} = ct.mma({x}, {y}, {total})")
            return
        fresh = self._name("fresh")
        self._line(depth, f"{fresh} = ct.mma({x}, {y}, ct.zeros((TM, TN), ct.{self.sum}))")
        self._line(depth, f"{total} = {total} + {fresh}")

    def _small(self, value: str) -> str:
        """Integers from -2 to 2, computed from any."""
        return f"ct.maximum(ct.minimum({value}, 2), -2)"

    def _chain(self, depth: int) -> None:
        """A dot whose operand is a rounded accumulator, as in attention."""
        name, weight, total = self._name("s"), self._name("w"), self._accumulator()
        index = self.random.choice(("0", f"({self.counters[-1]}) % 2" if self.counters else "1"))
        self._line(depth, f"{name} = ct.astype({self._small(self._accumulator())}, w.dtype)")
        self._line(depth, f"{weight} = ct.load(w, ({index}, 0), (TN, TN){self._given()})")
        self._line(depth, f"{total} = ct.mma({name}, {weight}, {total})")

    def _elementwise(self, depth: int) -> None:
        total = self._accumulator()
        other = "p" if total == "q" else "q"
        scalar = self.random.choice(["n", "m", *self.counters])
        self._line(depth, self.random.choice((
            f"{total} = -{total}", f"{total} = {total} + 1", f"{total} = {total} + ct.astype({scalar}, {total}.dtype)",
            f"{total} = {total} + {self._small(other)}", "p, q = q, p",
            f"{total} = ct.where({total} > 50, {total} - 50, {total})",
        )))  # fmt: skip

    def _rows(self, depth: int) -> None:
        total, name = self._accumulator(), self._name("r")
        axis = self.random.choice((0, 1))
        self._line(depth, f"{name} = ct.sum({self._small(total)}, axis={axis}, keepdims=True)")
        self._line(depth, f"{total} = {total} + {self._small(name)}")

    def _store(self, depth: int) -> None:
        counter = self.random.choice([*self.counters, "1"])
        at = f"(ct.bid(0) * {SLOTS} + ({counter}) % {SLOTS}, 0)"
        self._line(depth, f"ct.store(out, {at}, {self._accumulator()})")
        if self.random.random() < 0.4:
            back, total = self._name("back"), self._accumulator()
            self._line(depth, f"{back} = ct.load(out, {at}, (TM, TN), padding_mode=ct.PaddingMode.ZERO)")
            self._line(depth, f"{total} = {total} + {self._small(back)}")

    def _update(self, depth: int) -> None:
        """Sums of integers, added by the tile blocks in any order."""
        value = f"ct.sum({self._small(self._accumulator())}, axis=0)"
        self._line(depth, f"ct.atomic_add(sums, (ct.arange(TN, dtype=ct.int32),), {value})")

    # ---- the kernel --------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The file that exports the kernel."""
        names = ("a", "at", "at_rows", "b", "bt", "w", "out", "sums")
        element = SIGNATURES.get(self.element, self.element)
        even = 16 // np.dtype(DTYPES[self.element]).itemsize
        inner = f"{even}*?" if self.ragged != 5 else "?"
        total = "i32" if self.sum == "int32" else "f32"
        arrays = [f"{element}[?, {inner}]"] * 6 + [f"{total}[?, {'4*?' if self.ragged != 5 else '?'}]", f"{total}[?]"]
        body = "\n".join(self.lines)
        return "\n".join((
            "import cuda.tile as ct", "", "", f"@ct.kernel({self.hints})",
            f"def nest({', '.join(names)}, n, m, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):",
            f"    p = ct.zeros((TM, TN), ct.{self.sum})", f"    q = ct.full((TM, TN), 1, ct.{self.sum})",
            body,
            f"    ct.store(out, (ct.bid(0) * {SLOTS}, 0), p)",
            f"    ct.store(out, (ct.bid(0) * {SLOTS} + 1, 0), q)", "", "",
            f"TILEIRAS_EXPORT = {{'nest': (nest, {', '.join(map(repr, arrays))}, 'i32', 'i32', "
            f"{self.m}, {self.n}, {self.k})}}", "",
        ))  # fmt: skip

    def bytecode(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "nest.py")
            path.write_text(self.text(), encoding="utf-8")
            return tileiras.compile(path, gpu_name="sm_120", emit="bytecode").data

    def _arrays(self) -> list[np.ndarray]:
        depth, rows, columns = self.k * TILES - self.ragged, self.m * self.grid, self.n - self.ragged
        shapes = [(rows, depth), (depth, rows), (depth, rows), (depth, columns), (columns, depth), (2 * self.n, self.n)]
        arrays = [whole_numbers(shape, self.element, number, 2) for number, shape in enumerate(shapes)]
        arrays[1] = np.ascontiguousarray(arrays[2].T)
        return arrays

    def arguments(self) -> list[Any]:
        """New arguments of a launch, in the order of the kernel's parameters."""
        a, _, at_rows, b, bt, w = self._arrays()
        result = np.full((self.m * self.grid * SLOTS, self.n - self.ragged), -7, np.dtype(self.sum))
        arrays = [a, at_rows, at_rows, b, bt, w, result, np.zeros(self.n, np.dtype(self.sum))]
        items: list[Any] = []
        for array in arrays:
            raw = array.view(np.uint8) if array.dtype.itemsize == 1 and array.dtype.kind != "i" else array
            raw = raw.view(np.uint16) if array.dtype.kind == "V" and array.dtype.itemsize == 2 else raw
            items += [raw, *array.shape, *(stride // array.itemsize for stride in array.strides)]
        return [*items, self.rounds, 1]

    def run(self, source: bytes, launch: Callable[[list[Any]], None]) -> None:
        """Raise AssertionError unless the results of ``launch(arguments)`` are the interpreter's."""
        expected, result = self.arguments(), self.arguments()
        interpret(source, "nest", self.grid, expected)
        launch(result)
        for got, wanted in zip(_results(result), _results(expected), strict=True):
            np.testing.assert_array_equal(got, wanted)


def _results(arguments: Sequence[Any]) -> list[np.ndarray]:
    return [each for each in arguments if isinstance(each, np.ndarray)][-2:]
