"""Several tiles of C per block: outer loops around the loop over K, whose trip count differs from round to round."""

from __future__ import annotations

import numpy as np

from .dots import dot
from .views import ONE, Kernel, View, entry, tile_type, whole_numbers, zeros


def rounds(
    tiles: tuple[int, int, int] = (64, 32, 32),
    count: int = 4,
    *,
    guarded: bool = False,
    element: str = "f16",
    loaded: bool = False,
    in_one_place: bool = False,
    hints: str = "",
) -> Kernel:
    """Round t stores row tile t of A times B, over the first t tiles of K: round 0 has no step.

    `guarded`: in a branch that even rounds skip.  `loaded`: it is added to the tile in C.
    `in_one_place`: all rounds, ordered by tokens, store to C's first tile.
    `hints` are attributes of the entry.
    """
    m, n, k = tiles
    a = View("a", (m, k), element, (m * count, k * count), padding="zero")
    b = View("b", (k, n), element, (k * count, n), padding="zero")
    c = View("c", (m, n), "f32", (m * count, n), padding="zero")
    types = a.tile, b.tile, c.tile
    first, token = ("first", "%k_first") if loaded else ("none", "%before" if in_one_place else "")
    place = "%zero, %zero" if in_one_place else "%t, %zero"
    product = [
        *([c.load("first", "%t, %zero")] if loaded else []),
        f"%sum = for %i in (%zero to %t, step %one) : tile<i32> iter_values(%acc = %{first}) -> ({c.tile}) {{",
        a.load("a", "%t, %i"), b.load("b", "%i, %zero"), dot("next", "a", "b", "acc", types),
        f"continue %next : {c.tile}", "}", c.store("sum", place, token=token),
    ]  # fmt: skip
    if guarded:
        product = ["if %runs {", *product, "yield", "}"]
    body = [
        ONE, zeros("none", c.tile),
        f"%count = constant <i32: {count}> : tile<i32>", "%two = constant <i32: 2> : tile<i32>",
        *(["%start = make_token : token"] if in_one_place else []),
        f"{'%last = ' if in_one_place else ''}for %t in (%zero to %count, step %one) : tile<i32>"
        f"{' iter_values(%before = %start) -> (token)' if in_one_place else ''} {{",
        "%rest = remi %t, %two signed : tile<i32>",
        "%runs = cmpi equal %rest, %one, signed : tile<i32> -> tile<i1>",
        *product, "continue %end_c : token" if in_one_place else "continue", "}",
    ]  # fmt: skip
    left, right = whole_numbers(a.shape, element, 1, 3), whole_numbers(b.shape, element, 2, 3)
    before = np.full(c.shape, -1, np.float32)
    wanted = before.copy()
    for t in range(count):
        if t % 2 or not guarded:
            rows, depth = slice(t * m, (t + 1) * m), t * k
            product = left[rows, :depth].astype(np.float32) @ right[:depth].astype(np.float32)
            wanted[:m] = product if in_one_place else wanted[:m]
            wanted[rows] = wanted[rows] if in_one_place else product + (before[rows] if loaded else 0)
    return Kernel(entry([a, b, c], body, hints), (left, right), (before,), (wanted,))


def after_a_store(tiles: tuple[int, int, int] = (64, 32, 32), steps: int = 3, *, aliased: bool = True) -> Kernel:
    """A dot whose loads of A are ordered after a store of twos to A's first tile, or to C."""
    m, n, k = tiles
    a = View("a", (m, k), "f16", (m, k * steps), padding="zero")
    b = View("b", (k, n), "f16", (k * steps, n), padding="zero")
    c = View("c", (m, n), "f32", padding="zero")
    first = a.store("twos", "%zero, %zero") if aliased else c.store("none")
    token = "%end_a" if aliased else "%end_c"
    body = [
        ONE, zeros("none", c.tile),
        f"%twos = constant <f16: 2.0> : {tile_type((m, k), 'f16')}",
        f"%steps = constant <i32: {steps}> : tile<i32>",
        first,
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        a.load("a", "%zero, %i", token=token), b.load("b", "%i, %zero"),
        dot("next", "a", "b", "acc", (a.tile, b.tile, c.tile)),
        f"continue %next : {c.tile}", "}",
        c.store("sum").replace("%end_c", "%stored"),
    ]  # fmt: skip
    left, right = whole_numbers(a.shape, "f16", 1, 3), whole_numbers(b.shape, "f16", 2, 3)
    changed = left.copy()
    if aliased:
        changed[:, :k] = 2
    wanted = changed.astype(np.float32) @ right.astype(np.float32)
    return Kernel(entry([b, a, c], body), (right,), (left, np.zeros_like(wanted)), (changed, wanted))


def gated_products(
    tiles: tuple[int, int, int] = (64, 32, 32), count: int = 3, *, apart: bool = False, last_first: bool = False,
    hints: str = "",
) -> Kernel:  # fmt: skip
    """Round t stores the elementwise product of two dots of row tile t of A, with B and with D, over two tiles of K:
    both in one loop, or in two, `apart`; operations on the last dot alone come first if `last_first`.  `hints` are
    attributes of the entry."""
    m, n, k = tiles
    a = View("a", (m, k), "f16", (m * count, 2 * k), padding="zero")
    b, d = (View(name, (k, n), "f16", (2 * k, n), padding="zero") for name in "bd")
    c = View("c", (m, n), "f32", (m * count, n), padding="zero")
    types = a.tile, b.tile, c.tile
    steps = "%i in (%zero to %two, step %one) : tile<i32>"

    def alone(result: str, operand: View) -> list[str]:
        return [
            f"%{result} = for {steps} iter_values(%acc = %none) -> ({c.tile}) {{",
            a.load("a", "%t, %i"), operand.load(operand.name, "%i, %zero"),
            dot("next", "a", operand.name, "acc", types), f"continue %next : {c.tile}", "}",
        ]  # fmt: skip

    together = [
        f"%left, %right = for {steps} iter_values(%one_acc = %none, %other_acc = %none) -> ({c.tile}, {c.tile}) {{",
        a.load("a", "%t, %i"), b.load("b", "%i, %zero"), d.load("d", "%i, %zero"),
        dot("one_next", "a", "b", "one_acc", types), dot("other_next", "a", "d", "other_acc", types),
        f"continue %one_next, %other_next : {c.tile}, {c.tile}", "}",
    ]  # fmt: skip
    body = [
        ONE, zeros("none", c.tile),
        f"%count = constant <i32: {count}> : tile<i32>", "%two = constant <i32: 2> : tile<i32>",
        "for %t in (%zero to %count, step %one) : tile<i32> {",
        *([*alone("left", b), *alone("right", d)] if apart else together),
        *([f"%other = negf %right : {c.tile}"] if last_first else []),
        f"%gated = mulf %left, %{'other' if last_first else 'right'} rounding<nearest_even> : {c.tile}",
        c.store("gated", "%t, %zero"), "continue", "}",
    ]  # fmt: skip
    left, right, other = (whole_numbers(view.shape, "f16", seed, 2) for seed, view in enumerate((a, b, d), 1))
    wide = left.astype(np.float32)
    wanted = (wide @ right.astype(np.float32)) * (wide @ other.astype(np.float32)) * (-1 if last_first else 1)
    return Kernel(entry([a, b, d, c], body, hints), (left, right, other), (np.zeros_like(wanted),), (wanted,))
