"""Kernels like the backward pass of attention: two dots of loaded tiles, computation, and dots of the result with tiles
that the first ones have read."""

from __future__ import annotations

import numpy as np

from .dots import dot
from .views import ONE, Kernel, View, entry, tile_type, whole_numbers, zeros


def of_queries(steps: int, rows: int = 64, columns: int = 64, depth: int = 64, element: str = "f16") -> Kernel:
    """O = sum of (2 Q K^T - D V^T) K: a step reads a tile of K twice.  Q and D are rows x depth, K and V columns x
    depth a step."""
    q, d = (View(name, (rows, depth), element) for name in "qd")
    k, v = (View(name, (columns, depth), element, (columns * steps, depth)) for name in "kv")
    out = View("o", (rows, depth), "f32")
    square, turned = tile_type((rows, columns), "f32"), tile_type((depth, columns), element)
    halved = tile_type((rows, columns), element)
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", square), zeros("o_0", out.tile),
        f"%two = constant <f32: 2.0> : {square}",
        q.load("q"), d.load("d"),
        f"%o = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%o_1 = %o_0) -> ({out.tile}) {{",
        k.load("k", "%i, %zero"), v.load("v", "%i, %zero"),
        f"%k_t = permute %k [1, 0] : {k.tile} -> {turned}", f"%v_t = permute %v [1, 0] : {v.tile} -> {turned}",
        dot("s", "q", "k_t", "none", (q.tile, turned, square)),
        f"%p = mulf %s, %two : {square}",
        dot("r", "d", "v_t", "none", (d.tile, turned, square)),
        f"%e = subf %p, %r : {square}",
        f"%e_h = ftof %e : {square} -> {halved}",
        dot("o_2", "e_h", "k", "o_1", (halved, k.tile, out.tile)),
        f"continue %o_2 : {out.tile}", "}",
        out.store("o"),
    ]  # fmt: skip
    shapes = 2 * [(rows, depth)] + 2 * [(columns * steps, depth)]
    inputs = tuple(whole_numbers(shape, element, seed, 1) for seed, shape in enumerate(shapes))
    a, b, keys, values = (each.astype(np.float64) for each in inputs)
    wanted = ((2 * a @ keys.T - b @ values.T) @ keys).astype(np.float32)
    return Kernel(entry([q, d, k, v, out], body), inputs, (np.zeros_like(wanted),), (wanted,))


def of_keys(
    steps: int, rows: int = 64, columns: int = 64, depth: int = 64, element: str = "f16", of_rows: bool = False,
    loaded_first: bool = False,
) -> Kernel:  # fmt: skip
    """W = sum of S^T D and O = sum of (S - D V^T)^T Q, with S = Q K^T: a step reads its tiles of Q and D twice, each of
    which is rows x depth; K and V are columns x depth.  `of_rows`: a number for each row, which a step loads, is
    subtracted from the row of S - D V^T; `loaded_first`: it is loaded before all dots."""
    q, d = (View(name, (rows, depth), element, (rows * steps, depth)) for name in "qd")
    k, v = (View(name, (columns, depth), element) for name in "kv")
    o, w = (View(name, (columns, depth), "f32") for name in "ow")
    square, turned = tile_type((rows, columns), "f32"), tile_type((depth, columns), element)
    halved, upright = tile_type((rows, columns), element), tile_type((columns, rows), element)
    x, column = View("x", (rows,), "f32", (rows * steps,)), tile_type((rows, 1), "f32")
    lowered = [
        x.load("x", "%i"), f"%x_c = reshape %x : {x.tile} -> {column}", f"%x_s = broadcast %x_c : {column} -> {square}",
        f"%e = subf %e_1, %x_s : {square}",
    ]  # fmt: skip
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", square), zeros("o_0", o.tile),
        k.load("k"), v.load("v"),
        f"%k_t = permute %k [1, 0] : {k.tile} -> {turned}", f"%v_t = permute %v [1, 0] : {v.tile} -> {turned}",
        f"""%o, %w = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%o_1 = %o_0, %w_1 = %o_0)
          -> ({o.tile}, {w.tile}) {{""",
        q.load("q", "%i, %zero"), d.load("d", "%i, %zero"), *(lowered[:1] if loaded_first else []),
        dot("s", "q", "k_t", "none", (q.tile, turned, square)),
        f"%s_h = ftof %s : {square} -> {halved}",
        f"%s_t = permute %s_h [1, 0] : {halved} -> {upright}",
        dot("w_2", "s_t", "d", "w_1", (upright, d.tile, w.tile)),
        dot("r", "d", "v_t", "none", (d.tile, turned, square)),
        f"%{'e_1' if of_rows else 'e'} = subf %s, %r : {square}", *(lowered[loaded_first:] if of_rows else []),
        f"%e_h = ftof %e : {square} -> {halved}",
        f"%e_t = permute %e_h [1, 0] : {halved} -> {upright}",
        dot("o_2", "e_t", "q", "o_1", (upright, q.tile, o.tile)),
        f"continue %o_2, %w_2 : {o.tile}, {w.tile}", "}",
        o.store("o"), w.store("w"),
    ]  # fmt: skip
    shapes = 2 * [(rows * steps, depth)] + 2 * [(columns, depth)]
    inputs = tuple(whole_numbers(shape, element, seed, 1) for seed, shape in enumerate(shapes))
    queries, others, keys, values = (each.astype(np.float64) for each in inputs)
    scores = queries @ keys.T
    differences, views = scores - others @ values.T, [q, d, k, v]
    if of_rows:
        views.append(x)
        inputs += (whole_numbers((rows * steps,), "f32", 4, 3),)
        differences -= inputs[-1][:, None]
    wanted = tuple(array.astype(np.float32) for array in (differences.T @ queries, scores.T @ others))
    return Kernel(entry([*views, o, w], body), inputs, tuple(map(np.zeros_like, wanted)), wanted)


def repeated(kernel: Kernel, count: int) -> Kernel:
    """The kernel with so many steps that only a launch tells: all of its own, or none."""
    result = kernel.text.partition("%steps = constant <i32: ")[2].partition(">")[0]
    assert count in (0, int(result))
    known = f"%steps = constant <i32: {result}> : tile<i32>"
    unknown = f"%bx, %by, %bz = get_tile_block_id : tile<i32>\n%more = constant <i32: {count}> : tile<i32>\n" \
              "%steps = addi %bx, %more : tile<i32>"  # fmt: skip
    wanted = kernel.expected if count else kernel.outputs
    return kernel._replace(text=kernel.text.replace(known, unknown), expected=wanted)
