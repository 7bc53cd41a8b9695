"""Random programs with dots in loops, whose results are the same in any order of sums."""

from __future__ import annotations

import random

import numpy as np

from .dots import dot
from .views import ONE, Kernel, View, entry, reduced, tile_type, whole_numbers, zeros


class RandomLoops:
    """A tile of C in each round of an outer loop, in the forms of front ends: partial tiles, computed operands, trip
    counts computed in the round, branches, a second dot of the same accumulators."""

    strategy: dict[str, str | int]
    """Options chosen by the seed."""

    def __init__(self, seed: int) -> None:
        pick = random.Random(seed)
        self.m, self.n, self.k = pick.choice((16, 32, 64, 128)), pick.choice((16, 32, 64)), pick.choice((16, 32, 64))
        self.element = pick.choice(("f16", "bf16", "f16", "f32"))
        self.rounds, self.steps = pick.randint(1, 3), pick.randint(2, 5)
        self.varying, self.guarded = pick.random() < 0.5, pick.random() < 0.3
        self.doubled, self.second = pick.random() < 0.4, pick.random() < 0.4
        self.strategy = {"pipeline_strategy": "warp-specialize", "tensor_maps": pick.choice(("none", "host"))}
        if pick.random() < 0.3:
            self.strategy["unspecialized_pipeline_num_stages"] = pick.randint(2, 4)
        self.gpu = pick.choice(("sm_90", "sm_90", "sm_100", "sm_120"))
        self.ragged = 8 * pick.randint(0, 1)
        depth = self.k * self.steps - self.ragged
        padded = {"padding": "zero"}
        self.a = View("a", (self.m, self.k), self.element, (self.m * self.rounds, depth), **padded)
        self.b = View("b", (self.k, self.n), self.element, (depth, self.n), **padded)
        self.w = View("w", (self.k, self.n), self.element, (depth, self.n), **padded)
        self.c = View("c", (self.m, self.n), "f32", (self.m * self.rounds, self.n))

    def _step(self) -> list[str]:
        types = self.a.tile, self.b.tile, self.c.tile
        lines = [self.a.load("a", "%t, %i"), self.b.load("b", "%i, %zero")]
        left = "a"
        if self.doubled:
            lines.append(f"%aa = addf %a, %a : {self.a.tile}")
            left = "aa"
        lines.append(dot("first", left, "b", "acc", types))
        if not self.second:
            return [*lines, f"continue %first : {self.c.tile}"]
        lines += [self.w.load("w", "%i, %zero"), dot("next", "a", "w", "first", types)]
        return [*lines, f"continue %next : {self.c.tile}"]

    def kernel(self) -> Kernel:
        bound = "%trips" if self.varying else "%steps"
        product = [
            f"%sum = for %i in (%zero to {bound}, step %one) : tile<i32>",
            f"iter_values(%acc = %none) -> ({self.c.tile}) {{",
            *self._step(), "}", self.c.store("sum", "%t, %zero"),
        ]  # fmt: skip
        if self.guarded:
            product = ["if %runs {", *product, "yield", "}"]
        body = [
            ONE, zeros("none", self.c.tile),
            f"%rounds = constant <i32: {self.rounds}> : tile<i32>",
            f"%steps = constant <i32: {self.steps}> : tile<i32>",
            "for %t in (%zero to %rounds, step %one) : tile<i32> {",
            "%trips = subi %steps, %t : tile<i32>",
            "%runs = cmpi not_equal %t, %one, signed : tile<i32> -> tile<i1>",
            *product, "continue", "}",
        ]  # fmt: skip
        views = [self.a, self.b, *([self.w] if self.second else []), self.c]
        every = enumerate((self.a, self.b, self.w))
        a, b, w = (whole_numbers(view.shape, self.element, seed, 3) for seed, view in every)
        inputs = (a, b, w) if self.second else (a, b)
        before = np.full(self.c.shape, -1, np.float32)
        return Kernel(entry(views, body), inputs, (before,), (self._expected(a, b, w, before.copy()),))

    def _expected(self, a: np.ndarray, b: np.ndarray, w: np.ndarray, c: np.ndarray) -> np.ndarray:
        factor = np.asarray(b, np.float32) * (2 if self.doubled else 1)
        if self.second:
            factor = factor + np.asarray(w, np.float32)
        for t in range(self.rounds):
            if not (self.guarded and t == 1):
                depth = self.k * (self.steps - t if self.varying else self.steps)
                rows = slice(t * self.m, (t + 1) * self.m)
                c[rows] = np.asarray(a[rows, :depth], np.float32) @ factor[:depth]
        return c


class RandomChains:
    """Two dots in a loop with the other operations of attention: a dot with one loop-invariant and one column-major
    operand, its rounding to the operands' type, row sums, accumulators that iterations read, several rounds.

    All products and sums are integers that the types represent.
    """

    strategy: dict[str, str | int]
    """Options chosen by the seed."""

    def __init__(self, seed: int) -> None:
        pick = random.Random(seed)
        self.m, self.n, self.d = pick.choice((16, 64, 64, 128)), pick.choice((32, 64, 128)), pick.choice((32, 64, 128))
        self.element = pick.choice(("f16", "bf16"))
        self.rounds, self.steps = pick.randint(1, 2), pick.randint(1, 4)
        self.inside, self.scaled = pick.random() < 0.3, pick.random() < 0.5
        self.summed, self.causal = pick.random() < 0.5, pick.random() < 0.3
        self.strategy = {}
        if pick.random() < 0.3:
            self.strategy["unspecialized_pipeline_num_stages"] = pick.randint(2, 4)
        if pick.random() < 0.2:
            self.strategy["num_warps"] = pick.choice((4, 8))
        keys = self.n * self.steps - 8 * pick.randint(0, 1)
        rows = self.m * self.rounds
        self.q = View("q", (self.m, self.d), self.element, (rows, self.d))
        self.k = View("kt", (self.d, self.n), self.element, (self.d, keys), by_columns=True, padding="zero")
        self.v = View("v", (self.n, self.d), self.element, (keys, self.d), padding="zero")
        self.out = View("out", (self.m, self.d), "f32", (rows, self.d))
        self.sums = View("sums", (self.m,), "f32", (rows,))

    def _carried(self) -> list[tuple[str, str]]:
        items = [("acc", self.out.tile)]
        return [*items, ("total", self.sums.tile)] if self.summed else items

    def _step(self) -> list[str]:
        scores, narrow = tile_type((self.m, self.n), "f32"), tile_type((self.m, self.n), self.element)
        lines = [self.q.load("qi", "%t, %zero")] if self.inside else []
        left = "qi" if self.inside else "qo"
        lines += [self.k.load("ki", "%zero, %i"), self.v.load("vi", "%i, %zero")]
        lines.append(dot("s", left, "ki", "no_scores", (self.q.tile, self.k.tile, scores)))
        lines.append(f"%p = ftof %s : {scores} -> {narrow}")
        acc = "acc"
        if self.scaled:
            lines.append(f"%turned = negf %acc : {self.out.tile}")
            acc = "turned"
        lines.append(dot("next", "p", "vi", acc, (narrow, self.v.tile, self.out.tile)))
        results = ["%next"]
        if self.summed:
            lines += [reduced("rows", "s", (self.m, self.n), 1),
                      f"%now = addf %total, %rows : {self.sums.tile}"]  # fmt: skip
            results.append("%now")
        types = [type for _, type in self._carried()]
        return [*lines, f"continue {', '.join(results)} : {', '.join(types)}"]

    def kernel(self) -> Kernel:
        carried = self._carried()
        names = ", ".join(f"%{name}_end" for name, _ in carried)
        initial = ", ".join(f"%{name} = %{name}_0" for name, _ in carried)
        types = ", ".join(type for _, type in carried)
        bound = "%upto" if self.causal else "%steps"
        body = [
            ONE, zeros("no_scores", tile_type((self.m, self.n), "f32")),
            *(zeros(f"{name}_0", type) for name, type in carried),
            f"%rounds = constant <i32: {self.rounds}> : tile<i32>",
            f"%steps = constant <i32: {self.steps}> : tile<i32>",
            "for %t in (%zero to %rounds, step %one) : tile<i32> {",
            "%after = addi %t, %one : tile<i32>",
            "%upto = mini %after, %steps signed : tile<i32>",
            *([] if self.inside else [self.q.load("qo", "%t, %zero")]),
            f"{names} = for %i in (%zero to {bound}, step %one) : tile<i32>",
            f"iter_values({initial}) -> ({types}) {{",
            *self._step(), "}",
            self.out.store("acc_end", "%t, %zero"),
            *([self.sums.store("total_end", "%t")] if self.summed else []),
            "continue", "}",
        ]  # fmt: skip
        views = [self.q, self.k, self.v, self.out, *([self.sums] if self.summed else [])]
        read = enumerate((self.q, self.k, self.v))
        q, k, v = (whole_numbers(view.shape, self.element, seed, 1) for seed, view in read)
        outputs = [np.full(view.shape, -7, np.float32) for view in views[3:]]
        expected = self._expected(*(np.asarray(array, np.float32) for array in (q, k, v)))
        return Kernel(
            entry(views, body), (q, np.ascontiguousarray(k.T), v), tuple(outputs), tuple(expected[: len(outputs)])
        )

    def _expected(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
        out, sums = np.zeros(self.out.shape, np.float32), np.zeros(self.sums.shape, np.float32)
        for t in range(self.rounds):
            rows = slice(t * self.m, (t + 1) * self.m)
            for i in range(min(t + 1, self.steps) if self.causal else self.steps):
                some = slice(i * self.n, (i + 1) * self.n)
                scores = q[rows] @ k[:, some]
                out[rows] = (-out[rows] if self.scaled else out[rows]) + scores @ v[some]
                sums[rows] += scores.sum(axis=1)
        return [out, sums]
