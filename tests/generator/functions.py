"""Functions of single elements: activations and their gates, powers and angles, and positions rotated into pairs."""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import Expected, Generated, array, hinted, normal, odd, result, whole

UNITS = {"f32": 2e-5, "f16": 4e-3, "bf16": 3e-2, "f64": 2e-5}
_FUNCTIONS = {
    "silu": ("x / (1 + ct.exp(-x))", lambda x, y: x / (1 + np.exp(-x))),
    "gelu": ("0.5 * x * (1 + ct.tanh(0.79788456 * (x + 0.044715 * x * x * x)))",
             lambda x, y: 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))),
    "softplus": ("ct.log(1 + ct.exp(x))", lambda x, y: np.log1p(np.exp(x))),
    "log2": ("ct.log2(ct.abs(x) + 0.5)", lambda x, y: np.log2(np.abs(x) + 0.5)),
    "wave": ("ct.sin(x) * ct.cos(y)", lambda x, y: np.sin(x) * np.cos(y)),
    "angle": ("ct.atan2(x, ct.abs(y) + 0.25)", lambda x, y: np.arctan2(x, np.abs(y) + 0.25)),
    "power": ("ct.pow(ct.abs(x) + 0.5, y)", lambda x, y: (np.abs(x) + 0.5) ** y),
    "hyperbolic": ("ct.sinh(x) / ct.cosh(x) + ct.tan(0.25 * y)", lambda x, y: np.tanh(x) + np.tan(y / 4)),
    "root": ("ct.sqrt(x * x + 1) * ct.rsqrt(y * y + 1)", lambda x, y: np.sqrt((x * x + 1) / (y * y + 1))),
    "quotient": ("ct.truediv(x, ct.abs(y) + 0.5, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)",
                 lambda x, y: x / (np.abs(y) + 0.5)),
    "clipped exponential": ("ct.exp2(ct.minimum(x, y, propagate_nan=True), flush_to_zero=True)",
                            lambda x, y: np.exp2(np.minimum(x, y))),
}  # fmt: skip
_ACTIVATED = """
def kernel(x_, y_, out, greatest, R: ct.Constant[int], T: ct.Constant[int]):
    row = ct.bid(0)
    most = ct.full((R, 1), -1e30, ct.{wide})
    for step in range(ct.bid(1), ct.num_tiles(x_, 1, (R, T)), ct.num_blocks(1)):
        x = ct.astype(ct.load(x_, (row, step), (R, T), padding_mode=ct.PaddingMode.ZERO{hint}), ct.{wide})
        y = ct.astype({other}, ct.{wide})
        value = {function}
        inside = step * T + ct.arange(T, dtype=ct.int32) < x_.shape[1]
        most = ct.maximum(most, ct.max(ct.where(inside[None, :], value, -1e30), axis=1, keepdims=True))
        ct.store(out, (row, step), ct.astype(value, out.dtype){hint})
    ct.store(greatest, (row, ct.bid(1)), most)
"""


def activated(pick: Choices) -> Generated:
    """One or two arrays through a function, in a loop over tiles; the greatest value of each row is carried."""
    kind, element = pick.choice(list(_FUNCTIONS)), pick.choice(("f32", "f32", "f16", "bf16", "f64"))
    # Approximations exist for f32 alone.
    element = "f32" if kind in ("quotient", "clipped exponential") and element == "f64" else element
    rows, width = pick.choice((1, 2, 8, 16, 64)), pick.choice((16, 64, 128, 256, 512))
    width = min(width, 8192 // rows)
    blocks, steps, parts = pick.choice((1, 2)), pick.choice((1, 2, 3, 5)), pick.choice((1, 1, 2))
    parts = min(parts, steps)
    shape = rows * blocks - odd(pick, rows), width * steps - odd(pick, width)
    x, y = (normal(pick, shape, element) for _ in range(2))
    transposed = pick.chance(0.3)
    text, meaning = _FUNCTIONS[kind]
    wanted = meaning(x.astype(np.float64), y.astype(np.float64))
    greatest = np.full((shape[0], parts), -1e30)
    for step in range(steps):
        part = wanted[:, step * width : (step + 1) * width]
        greatest[:, step % parts] = np.maximum(greatest[:, step % parts], part.max(axis=1, initial=-1e30))
    loads = ("ct.transpose(ct.load(y_, (step, row), (T, R), padding_mode=ct.PaddingMode.ZERO))" if transposed else
             f"ct.load(y_, (row, step), (R, T), padding_mode=ct.PaddingMode.ZERO{hinted(pick)})")  # fmt: skip
    body = _ACTIVATED.format(wide="float64" if element == "f64" else "float32", hint=hinted(pick), other=loads,
                             function=text)  # fmt: skip
    tolerance = UNITS[element] * max(1.0, float(np.abs(wanted).max()))
    arguments = (array(pick, "x_", x, element),
                 array(pick, "y_", np.ascontiguousarray(y.T) if transposed else y, element),
                 result(pick, "out", shape, element),
                 result(pick, "greatest", greatest.shape, "f64" if element == "f64" else "f32"))  # fmt: skip
    expected = {"out": Expected(wanted, UNITS[element], tolerance), "greatest": Expected(greatest, 1e-4, 1e-4)}
    return Generated(kind, body, arguments, (rows, width), (blocks, parts, 1), expected)


_ROTATED = """
def kernel(x, angles, out, R: ct.Constant[int], H: ct.Constant[int]):
    row, head = ct.bid(0), ct.bid(1)
    {load}
    turn = ct.reshape(ct.load(angles, (row, 0, 0), (R, 2, H), padding_mode=ct.PaddingMode.ZERO), (R, 2, H))
    cosine = ct.reshape(ct.extract(turn, (0, 0, 0), (R, 1, H)), (R, H))
    sine = ct.reshape(ct.extract(turn, (0, 1, 0), (R, 1, H)), (R, H))
    left, right = first * cosine - second * sine, second * cosine + first * sine
    {store}
"""
_HALVES = {
    "halves": (
        "first = ct.reshape(ct.load(x, (row, head, 0), (R, 1, H), padding_mode=ct.PaddingMode.ZERO), (R, H))\n"
        "    second = ct.reshape(ct.load(x, (row, head, 1), (R, 1, H), padding_mode=ct.PaddingMode.ZERO), (R, H))",
        "ct.store(out, (row, head, 0), ct.reshape(left, (R, 1, H)))\n"
        "    ct.store(out, (row, head, 1), ct.reshape(right, (R, 1, H)))",
    ),
    "joined": (
        "both = ct.reshape(ct.load(x, (row, head, 0), (R, 1, 2 * H), padding_mode=ct.PaddingMode.ZERO), (R, 2 * H))\n"
        "    first, second = ct.extract(both, (0, 0), (R, H)), ct.extract(both, (0, 1), (R, H))",
        "ct.store(out, (row, head, 0), ct.reshape(ct.cat((left, right), 1), (R, 1, 2 * H)))",
    ),
    "pairs": (
        "both = ct.reshape(ct.load(x, (row, head, 0), (R, 1, 2 * H), padding_mode=ct.PaddingMode.ZERO), (R, H, 2))\n"
        "    first = ct.reshape(ct.extract(both, (0, 0, 0), (R, H, 1)), (R, H))\n"
        "    second = ct.reshape(ct.extract(both, (0, 0, 1), (R, H, 1)), (R, H))",
        "pairs = ct.cat((ct.reshape(left, (R, H, 1)), ct.reshape(right, (R, H, 1))), 2)\n"
        "    ct.store(out, (row, head, 0), ct.reshape(pairs, (R, 1, 2 * H)))",
    ),
}  # fmt: skip


def rotated(pick: Choices) -> Generated:
    """Pairs of a head's elements, its halves or neighbours, are rotated by whole numbers that memory holds."""
    kind, element = pick.choice(list(_HALVES)), pick.choice(("f32", "f16", "bf16", "i32"))
    rows, half = pick.choice((1, 4, 16, 32)), pick.choice((1, 8, 16, 32, 64))
    blocks, heads = pick.choice((1, 2)), pick.choice((1, 2, 3))
    shape = rows * blocks - odd(pick, rows), heads, 2 * half
    x, angles = whole(pick, shape, element), whole(pick, (shape[0], 2, half), element)
    pairs = x.astype(np.float64).reshape(shape[0], heads, *((half, 2) if kind == "pairs" else (2, half)))
    axis = 3 if kind == "pairs" else 2
    first, second = pairs.take(0, axis), pairs.take(1, axis)
    cosine, sine = (angles.astype(np.float64)[:, number][:, None] for number in range(2))
    wanted = np.stack((first * cosine - second * sine, second * cosine + first * sine), axis).reshape(shape)
    load, store = _HALVES[kind]
    arguments = (array(pick, "x", x, element), array(pick, "angles", angles, element),
                 result(pick, "out", shape, element))  # fmt: skip
    return Generated(f"rotated {kind}", _ROTATED.format(load=load, store=store), arguments, (rows, half),
                     (blocks, heads, 1), {"out": Expected(wanted)})  # fmt: skip
