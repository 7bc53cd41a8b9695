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
    batch behind its first matrix; `start` as of `Matmul`; each step adds a number `per_step`.  C is stored in this
    `order`; `added`: the sum of the tile's matrices is stored instead, as the second one of C.  `outside`: A is one
    tile, loaded before the loop, that every step multiplies."""
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
    found = whole @ right.astype(np.float64) + per_step * steps + (before if start == "loaded" else 0)
    after = before.copy()
    if added:
        after[1] = found[batch : 2 * batch].sum(0)
        one = View("c", (1, m, n), "f32", c.shape, padding="zero")
        flat = tile_type((m, n), "f32")
        body += [reduced("r", "sum", (batch, m, n), 0), f"%all = reshape %r : {flat} -> {one.tile}"]
        body.append(one.store("all", "%one, %zero, %zero"))
        return Kernel(entry([a, b, one], body), (left, right), (before,), (after,))
    after[batch : 2 * batch] = found[batch : 2 * batch]
    stored = c.store("sum", "%one, %zero, %zero", token="%k_c" if start != "zeros" else "")
    if order != "weak":
        stored = stored.replace("store_view_tko weak", f"store_view_tko {order} device")
    return Kernel(entry([a, b, c], [*body, stored]), (left, right), (before,), (after.astype(DTYPES["f32"]),))
