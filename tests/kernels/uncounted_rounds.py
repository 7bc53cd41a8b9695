"""Several tiles of C per block, in loops without a counter: each round computes whether another one follows."""

from __future__ import annotations

import numpy as np

from .dots import dot
from .views import ONE, Kernel, View, entry, whole_numbers, zeros

ENDS = -1
"""The index that ends a list of tiles."""


def rounds(
    tiles: tuple[int, int, int] = (64, 32, 32), count: int = 4, *, way: str = "counted", ordered: bool = False
) -> Kernel:
    """Round t of several stores row tile t of A times B, over t tiles of K, for as many rounds as there are.

    `way` selects the next tile and the end.  `counted`: the following tile, up to the count.  `listed`: the entry of an
    array for this tile (the next even tile), up to `ENDS`.  `taken`: the result of an atomic update of a number that
    all blocks share, up to the count.  `first`: as `counted`, but tested at the end of a round, so that one is always
    executed.  `within`: the rounds of two halves, whose bounds come from an outer loop, as in grouped products; further
    halves are empty.
    `ordered`: tokens order the stores.
    """
    m, n, k = tiles
    a = View("a", (m, k), "f16", (m * count, k * count), padding="zero")
    b = View("b", (k, n), "f16", (k * count, n), padding="zero")
    c = View("c", (m, n), "f32", (m * count, n), padding="zero")
    following = View("next", (1,), "i32", (count,), aligned=None)
    types = a.tile, b.tile, c.tile
    product = [
        f"%sum = for %i in (%zero to %t, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        a.load("a", "%t, %i"), b.load("b", "%i, %zero"), dot("next", "a", "b", "acc", types),
        f"continue %next : {c.tile}", "}", c.store("sum", "%t, %zero", token="%before" if ordered else ""),
    ]  # fmt: skip
    order = range(0, count, 2)
    body = [
        ONE, zeros("none", c.tile), f"%count = constant <i32: {count}> : tile<i32>", "%start = make_token : token",
        *_loop(way, product, following, ordered, count),
    ]  # fmt: skip
    left, right = whole_numbers(a.shape, "f16", 1, 3), whole_numbers(b.shape, "f16", 2, 3)
    wanted = np.full(c.shape, -1, np.float32)
    before = wanted.copy()
    links = np.full(count, ENDS, np.int32)
    links[order[:-1]] = order[1:]
    left_there = links.copy()
    if way == "taken":
        links[0], left_there[0] = 1, 1 + count
    for t in order if way == "listed" else range(count):
        rows, depth = slice(t * m, (t + 1) * m), t * k
        wanted[rows] = left[rows, :depth].astype(np.float32) @ right[:depth].astype(np.float32)
    return Kernel(entry([a, b, following, c], body), (left, right), (links, before), (left_there, wanted))


_I32, _I1 = "tile<i32>", "tile<i1>"


def _loop(way: str, product: list[str], following: View, ordered: bool, count: int) -> list[str]:
    carried, on = (", %before = %start", ", token") if ordered else ("", "")
    step = "%u = addi %t, %one : tile<i32>"
    again = f"continue %u{', %end_c' if ordered else ''} : {_I32}{on}"

    def asked() -> list[str]:
        """The begin of a loop over %t, which breaks unless %t is below the count, or, of a list, nonnegative."""
        beyond = "less_than %t, %zero" if way == "listed" else "greater_than_or_equal %t, %count"
        return [
            f"loop iter_values(%t = %zero{carried}) : {_I32}{on} {{",
            f"%ends = cmpi {beyond}, signed : {_I32} -> {_I1}", "if %ends {", "break", "}",
        ]  # fmt: skip

    if way == "listed":
        load = [following.load("link", "%t"), f"%u = reshape %link : tile<1xi32> -> {_I32}"]
        return [*asked(), *load, *product, again, "}"]
    if way == "counted":
        return [*asked(), *product, step, again, "}"]
    if way == "taken":
        update = f"atomic_rmw_tko relaxed device %p_next, add, %one : tile<ptr<i32>>, {_I32} -> {_I32}, token"
        return [*asked(), *product, f"%u, %k_taken = {update}", again, "}"]
    if way == "first":
        return [
            f"loop iter_values(%t = %zero{carried}) : {_I32}{on} {{", *product, step,
            f"%ends = cmpi greater_than_or_equal %u, %count, signed : {_I32} -> {_I1}", "if %ends {", "break", "}",
            again, "}",
        ]  # fmt: skip
    assert way == "within" and not ordered
    return [
        f"%half = constant <i32: {count // 2}> : {_I32}", f"%three = constant <i32: 3> : {_I32}",
        f"%last = for %h in (%zero to %three, step %one) : {_I32} iter_values(%at = %zero) -> ({_I32}) {{",
        f"%g = addi %h, %one : {_I32}", f"%all = muli %g, %half : {_I32}",
        f"%end = mini %all, %count signed : {_I32}",
        f"%on = loop iter_values(%t = %at) : {_I32} -> {_I32} {{",
        f"%ends = cmpi greater_than_or_equal %t, %end, signed : {_I32} -> {_I1}",
        "if %ends {", f"break %t : {_I32}", "}",
        *product, step, f"continue %u : {_I32}", "}",
        f"continue %on : {_I32}", "}",
    ]  # fmt: skip
