"""Rotary position embedding: the halves of every head's vector are the coordinates of points that are turned.

x is positions by heads by 2 * HALF.  Grid: one tile block per position.  The angle of pair i at position p is
p * base ** (-i / HALF).
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def rope(x, y, log2_base, HEADS: ct.Constant[int], HALF: ct.Constant[int]):
    position = ct.bid(0)
    a = ct.load(x, (position, 0, 0), (1, HEADS, HALF))
    b = ct.load(x, (position, 0, 1), (1, HEADS, HALF))
    pairs = ct.astype(ct.arange(HALF, dtype=ct.int32), ct.float32)
    angles = ct.exp2(pairs * (-log2_base / HALF)) * ct.astype(position, ct.float32)
    cosines = ct.reshape(ct.cos(angles), (1, 1, HALF))
    sines = ct.reshape(ct.sin(angles), (1, 1, HALF))
    ct.store(y, (position, 0, 0), a * cosines - b * sines)
    ct.store(y, (position, 0, 1), b * cosines + a * sines)


def reference(x, y, log2_base):
    x = x.astype(np.float64)
    half = x.shape[2] // 2
    angles = np.arange(len(x))[:, None] * np.exp2(-np.arange(half) * float(log2_base) / half)
    points = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None]
    return [np.concatenate([points.real, points.imag], axis=2)]


TILEIRAS_EXPORT = {"rope": (rope, "f32[?, 4, 32]", "f32[?, 4, 32]", "f32", 4, 16)}
