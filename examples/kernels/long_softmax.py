"""Softmax of rows longer than a tile: one walk finds the maximum and the sum, a second one writes the quotients.

Grid: one tile block per row.  The running sum is scaled down whenever a later tile raises the maximum, so that one walk
is enough for both.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def long_softmax(x, y, T: ct.Constant[int]):
    row = ct.bid(0)
    steps = ct.num_tiles(x, axis=1, shape=(1, T))
    highest = ct.full((1, 1), -1e30, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for step in range(steps):
        tile = ct.load(x, (row, step), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        now = ct.maximum(highest, ct.max(tile, axis=1, keepdims=True))
        total = total * ct.exp(highest - now) + ct.sum(ct.exp(tile - now), axis=1, keepdims=True)
        highest = now
    for step in range(steps):
        tile = ct.load(x, (row, step), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        ct.store(y, (row, step), ct.exp(tile - highest) / total)


def reference(x, y):
    x = x.astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return [powers / powers.sum(axis=1, keepdims=True)]


TILEIRAS_EXPORT = {"long_softmax": (long_softmax, "f32[?, 4*?]", "f32[?, 4*?]", 256)}
