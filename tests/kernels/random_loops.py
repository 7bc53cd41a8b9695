"""Random programs with dots in loops, whose results are the same in any order of sums."""

from __future__ import annotations

import random

import numpy as np

from .dots import dot
from .views import ONE, Kernel, View, entry, whole_numbers, zeros


class RandomLoops:
    """A tile of C in each round of an outer loop, with what a front end makes of that: edges, computed operands, trip
    counts that the round decides, branches, a second dot of the same accumulators."""

    strategy: dict[str, str | int]
    """Options that the seed gives."""

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
