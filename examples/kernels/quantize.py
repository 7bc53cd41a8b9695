"""Rows of floats as bytes with one scale per row, and back.

Grid of `quantize`: one tile block per row; of `dequantize`: rows / TM by columns / TN, both rounded up.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def quantize(x, bytes_, scales, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.astype(ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    scale = ct.maximum(ct.max(ct.abs(values), axis=1, keepdims=True), 1e-30) / 127.0
    steps = values / scale
    # Halves away from zero.
    whole = ct.where(steps < 0.0, ct.ceil(steps - 0.5), ct.floor(steps + 0.5))
    ct.store(bytes_, (row, 0), ct.astype(whole, ct.int8))
    ct.store(scales, (row,), ct.reshape(scale, (1,)))


@ct.kernel
def dequantize(bytes_, scales, y, TM: ct.Constant[int], TN: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    values = ct.astype(ct.load(bytes_, (row, column), (TM, TN), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    scale = ct.load(scales, (row,), (TM,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(y, (row, column), ct.astype(values * scale[:, None], y.dtype))


def reference_quantize(x, bytes_, scales):
    x = x.astype(np.float32)
    scale = np.maximum(np.abs(x).max(axis=1), np.float32(1e-30)) / np.float32(127)
    steps = x / scale[:, None]
    half = np.float32(0.5)
    return [np.where(steps < 0, np.ceil(steps - half), np.floor(steps + half)), scale]


def reference_dequantize(bytes_, scales, y):
    return [bytes_.astype(np.float64) * scales[:, None]]


TILEIRAS_EXPORT = {
    "quantize": (quantize, "f16[?, 8*?]", "i8[?, 8*?]", "f32[?]", 256),
    "dequantize": (dequantize, "i8[?, 8*?]", "f32[?]", "f16[?, 8*?]", 8, 64),
}
