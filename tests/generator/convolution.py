"""Convolutions: as a product of gathered patches, as sums of shifted slices, and stencils along rows."""

from __future__ import annotations

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import Expected, Generated, array, odd, result, whole

_PATCHES = """
def kernel(x, weights, y, SIZE: ct.Constant[int], STRIDE: ct.Constant[int], CHANNELS: ct.Constant[int],
           TM: ct.Constant[int], TN: ct.Constant[int]):
    width = y.shape[1]
    pixels = ct.bid(0) * TM + ct.arange(TM, dtype=ct.int32)
    filters = ct.bid(1) * TN + ct.arange(TN, dtype=ct.int32)
    channels = ct.arange(CHANNELS, dtype=ct.int32)
    row, column = pixels // width, pixels % width
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(SIZE * SIZE):
        i, j = step // SIZE, step % SIZE
        above, left = row * STRIDE + i - SIZE // 2, column * STRIDE + j - SIZE // 2
        patch = ct.gather(x, (above[:, None], left[:, None], channels[None, :]), padding_value=0)
        {weight}
        total = ct.mma(patch, weight, total)
    ct.scatter(y, (row[:, None], column[:, None], filters[None, :]), total)
"""
_WEIGHTS = (
    "weight = ct.gather(weights, (i, j, channels[:, None], filters[None, :]), padding_value=0)",
    "weight = ct.reshape(ct.load(weights, (i, j, 0, ct.bid(1)), (1, 1, CHANNELS, TN),"
    " padding_mode=ct.PaddingMode.ZERO), (CHANNELS, TN))",
)


def patches(pick: Choices) -> Generated:
    """A two-dimensional convolution as one product; the tiles of patches are gathered."""
    element = pick.choice(("f16", "bf16"))
    size, stride, channels = pick.choice((1, 3, 3, 5)), pick.choice((1, 1, 2)), pick.choice((16, 32))
    m, n = pick.choice((16, 32, 64, 128)), pick.choice((16, 32, 64))
    height, width = pick.choice((1, 4, 7, 12)), pick.choice((1, 5, 8, 13))
    filters, sides = n - odd(pick, n), 1
    x = whole(pick, (height, width, channels), element)
    weights = whole(pick, (size, size, channels, filters), element)
    around = np.pad(x.astype(np.float64), [(size // 2,) * 2, (size // 2,) * 2, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(around, (size, size), axis=(0, 1))[::stride, ::stride]
    wanted = np.einsum("hwcij,ijcf->hwf", windows, weights.astype(np.float64))
    arguments = (array(pick, "x", x, element), array(pick, "weights", weights, element),
                 result(pick, "y", wanted.shape, "f32"))  # fmt: skip
    blocks = -(-wanted.shape[0] * wanted.shape[1] // m)
    return Generated("convolution", _PATCHES.format(weight=pick.choice(_WEIGHTS)), arguments,
                     (size, stride, channels, m, n), (blocks, sides, 1), {"y": Expected(wanted)})  # fmt: skip


_SLICES = """
def kernel(x, weights, y, SIZE: ct.Constant[int], TM: ct.Constant[int], TN: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.{total})
    for tap in range(SIZE):
        shifted = x.slice(axis=1, start=tap, stop=tap + y.shape[1])
        values = ct.load(shifted, (row, column), (TM, TN), padding_mode=ct.PaddingMode.ZERO)
        {condition}total = total + ct.astype(values, ct.{total}) * ct.astype(ct.gather(weights, tap), ct.{total})
    ct.store(y, (row, column), total)
"""


def shifted(pick: Choices) -> Generated:
    """A stencil along rows: each tap reads through a view of its own, made in the loop, in half of them on a condition
    that depends on the tap."""
    element, total = pick.choice((("f32", "float32"), ("f16", "float32"), ("i32", "int32"), ("i8", "int32")))
    out = "i32" if total == "int32" else "f32"
    size, m, n = pick.choice((1, 2, 3, 5, 7)), pick.choice((1, 2, 8, 16)), pick.choice((8, 32, 64, 128))
    blocks = pick.choice((1, 2)), pick.choice((1, 2))
    shape = m * blocks[0] - odd(pick, m), n * blocks[1] - odd(pick, n)
    x, weights = whole(pick, (shape[0], shape[1] + size - 1), element), whole(pick, (size,), element)
    sparse = pick.chance(0.5)
    wanted = np.zeros(shape)
    for tap, weight in enumerate(weights.astype(np.float64)):
        if not sparse or tap % 2 == 0:
            wanted += weight * x[:, tap : tap + shape[1]].astype(np.float64)
    body = _SLICES.format(total=total, condition="if tap % 2 == 0:\n            " if sparse else "")
    arguments = array(pick, "x", x, element), array(pick, "weights", weights, element), result(pick, "y", shape, out)
    return Generated("stencil", body, arguments, (size, m, n), (*blocks, 1), {"y": Expected(wanted)})
