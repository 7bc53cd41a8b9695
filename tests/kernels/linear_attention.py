"""Chunked linear attention: a state that a loop reads as an operand of one dot and adds to by another one."""

from __future__ import annotations

import numpy as np

from .dots import dot
from .views import ONE, Kernel, View, entry, tile_type, whole_numbers, zeros


def linear_attention(steps: int, rows: int = 64, depth: int = 64, columns: int = 64, element: str = "f16") -> Kernel:
    """O = Q S + (Q K^T) V and S = S + K^T V a step, where S is the state before it: Q and K are rows x depth, V and O
    rows x columns a step.  No mask hides later rows of a step."""
    q, k = (View(name, (rows, depth), element, (rows * steps, depth)) for name in "qk")
    v = View("v", (rows, columns), element, (rows * steps, columns))
    out = View("o", (rows, columns), "f32", (rows * steps, columns))
    square, turned = tile_type((rows, rows), "f32"), tile_type((depth, rows), element)
    halved, state = tile_type((rows, rows), element), tile_type((depth, columns), "f32")
    rounded = tile_type((depth, columns), element)
    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", square), zeros("s_0", state),
        zeros("o_0", out.tile),
        f"%s = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%s_1 = %s_0) -> ({state}) {{",
        q.load("q", "%i, %zero"), k.load("k", "%i, %zero"), v.load("v", "%i, %zero"),
        f"%k_t = permute %k [1, 0] : {k.tile} -> {turned}",
        dot("p", "q", "k_t", "none", (q.tile, turned, square)),
        f"%s_h = ftof %s_1 : {state} -> {rounded}",
        dot("o_1", "q", "s_h", "o_0", (q.tile, rounded, out.tile)),
        f"%p_h = ftof %p : {square} -> {halved}",
        dot("o_2", "p_h", "v", "o_1", (halved, v.tile, out.tile)),
        dot("s_2", "k_t", "v", "s_1", (turned, v.tile, state)),
        out.store("o_2", "%i, %zero"),
        f"continue %s_2 : {state}", "}",
    ]  # fmt: skip
    shapes = ((rows * steps, depth), (rows * steps, depth), (rows * steps, columns))
    inputs = tuple(whole_numbers(shape, element, seed, 1) for seed, shape in enumerate(shapes))
    parts = [np.split(each.astype(np.float64), steps) for each in inputs]
    result, wanted = np.zeros((depth, columns)), []
    for queries, keys, values in zip(*parts):
        wanted.append(queries @ result + (queries @ keys.T) @ values)
        result += keys.T @ values
    expected = np.concatenate(wanted).astype(np.float32)
    return Kernel(entry([q, k, v, out], body), inputs, (np.zeros_like(expected),), (expected,))
