"""Kernels around dots of batches."""

from __future__ import annotations

import numpy as np

from .dots import dot
from .views import DTYPES, ONE, Kernel, View, entry, reduced, tile_type, whole_numbers, zeros


def product(
    tiles: tuple[int, int, int, int] = (1, 64, 64, 32), element: str = "f16", steps: int = 3, start: str = "zeros",
    per_step: int = 0, order: str = "weak", added: bool = False, outside: bool = False,
) -> Kernel:  # fmt: skip
    """C = A @ B by the second of the tiles (batch, m, n, k) along the batch, of arrays that end within it, along the
    batch after its first matrix; `start` as of `Matmul`; each step adds a number `per_step`.  C is stored in this
    `order`; `added`: the sum of the tile's matrices is stored instead, as the second one of C.  `outside`: A is one
    tile, loaded before the loop and multiplied in every step."""
    batch, m, n, k = tiles
    matrices = max(3, batch + 1)
    rows, columns, depth = m - 3, n - 8, k * steps - 8
    a = View("a", (batch, m, k), element, (matrices, rows, k if outside else depth), padding="zero")
    b = View("b", (batch, k, n), element, (matrices, depth, columns), padding="zero")
    c = View("c", (batch, m, n), "f32", (matrices, rows, columns), padding="zero")
    load_a = a.load("a", f"%one, %zero, {'%zero' if outside else '%i'}")
    body = [
        ONE,
        f"%steps = constant <i32: {steps}> : tile<i32>",
        zeros("c", c.tile) if start == "zeros" else c.load("c", "%one, %zero, %zero"),
        load_a if outside else "",
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %c) -> ({c.tile}) {{",
        "" if outside else load_a,
        b.load("b", "%one, %i, %zero"),
        dot("next", "a", "b", "acc", (a.tile, b.tile, c.tile)),
        f"%more = constant <f32: {per_step}.0> : {c.tile}" if per_step else "",
        f"%s = addf %next, %more rounding<nearest_even> : {c.tile}" if per_step else "",
        f"continue {'%s' if per_step else '%next'} : {c.tile}",
        "}",
    ]
    left, right, before = (whole_numbers(v.shape, v.element, seed) for seed, v in enumerate((a, b, c), 1))
    whole = np.tile(left.astype(np.float64), steps)[..., :depth] if outside else left.astype(np.float64)
    result = whole @ right.astype(np.float64) + per_step * steps + (before if start == "loaded" else 0)
    after = before.copy()
    if added:
        after[1] = result[batch : 2 * batch].sum(0)
        one = View("c", (1, m, n), "f32", c.shape, padding="zero")
        flat = tile_type((m, n), "f32")
        body += [reduced("r", "sum", (batch, m, n), 0), f"%all = reshape %r : {flat} -> {one.tile}"]
        body.append(one.store("all", "%one, %zero, %zero"))
        return Kernel(entry([a, b, one], body), (left, right), (before,), (after,))
    after[batch : 2 * batch] = result[batch : 2 * batch]
    stored = c.store("sum", "%one, %zero, %zero", token="%k_c" if start != "zeros" else "")
    if order != "weak":
        stored = stored.replace("store_view_tko weak", f"store_view_tko {order} device")
    return Kernel(entry([a, b, c], [*body, stored]), (left, right), (before,), (after.astype(DTYPES["f32"]),))


def scaled(tiles: tuple[int, int, int, int], steps: int = 2) -> Kernel:
    """C = A B of a tile (batch, m, n, k) of f8 with a scale for 32 elements along K, in a loop of `steps` tiles."""
    batch, m, n, k = tiles
    depth, runs = k * steps, k // 32
    a = View("a", (batch, m, k), "f8E4M3FN", (batch, m, depth))
    b = View("b", (batch, k, n), "f8E4M3FN", (batch, depth, n))
    x = View("x", (batch, m, runs), "f8E8M0FNU", (batch, m, runs * steps))
    y = View("y", (batch, runs, n), "f8E8M0FNU", (batch, runs * steps, n))
    c = View("c", (batch, m, n), "f32")
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", c.tile),
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        a.load("a", "%zero, %zero, %i"), b.load("b", "%zero, %i, %zero"),
        x.load("x", "%zero, %zero, %i"), y.load("y", "%zero, %i, %zero"),
        f"%next = mmaf_scaled %a, %b, %acc, %x, %y : {a.tile}, {b.tile}, {c.tile}, {x.tile}, {y.tile}",
        f"continue %next : {c.tile}",
        "}",
        c.store("sum"),
    ]  # fmt: skip
    generator = np.random.default_rng(4)
    left, right = (whole_numbers(v.shape, v.element, seed, 2) for seed, v in enumerate((a, b), 1))
    of_rows, of_columns = ((2.0 ** generator.integers(-2, 3, v.shape)).astype(DTYPES[v.element]) for v in (x, y))
    wide = [each.astype(np.float64) for each in (left, right, of_rows, of_columns)]
    wanted = (wide[0] * np.repeat(wide[2], 32, 2)) @ (wide[1] * np.repeat(wide[3], 32, 1))
    out = np.zeros(c.shape, np.float32)
    return Kernel(entry([a, b, x, y, c], body), (left, right, of_rows, of_columns), (out,), (wanted.astype("f4"),))
