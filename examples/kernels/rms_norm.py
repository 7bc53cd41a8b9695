"""Rows divided by their root mean square and scaled by weights; f16 in memory, f32 in between.

Grid: one tile block per row, which fits into a tile.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def rms_norm(x, weight, y, epsilon, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.astype(ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    mean = ct.sum(values * values, axis=1, keepdims=True) / x.shape[1]
    scale = ct.reshape(ct.load(weight, (0,), (T,), padding_mode=ct.PaddingMode.ZERO), (1, T))
    ct.store(y, (row, 0), ct.astype(values * ct.rsqrt(mean + epsilon) * scale, y.dtype))


def reference(x, weight, y, epsilon):
    x = x.astype(np.float64)
    return [x / np.sqrt((x * x).mean(axis=1, keepdims=True) + epsilon) * weight]


TILEIRAS_EXPORT = {"rms_norm": (rms_norm, "f16[?, 8*?]", "f32[?]", "f16[?, 8*?]", "f32", 512)}
