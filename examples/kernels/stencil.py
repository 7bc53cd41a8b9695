"""One step of the heat equation on a plane whose border is kept: each point moves towards its four neighbours' mean.

Grid: rows / TM by columns / TN tile blocks, both rounded up.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def heat(x, y, rate, TM: ct.Constant[int], TN: ct.Constant[int]):
    i = (ct.bid(0) * TM + ct.arange(TM, dtype=ct.int32))[:, None]
    j = (ct.bid(1) * TN + ct.arange(TN, dtype=ct.int32))[None, :]
    here = ct.gather(x, (i, j))
    around = ct.gather(x, (i - 1, j)) + ct.gather(x, (i + 1, j)) + ct.gather(x, (i, j - 1)) + ct.gather(x, (i, j + 1))
    inner = (i > 0) & (i < x.shape[0] - 1) & (j > 0) & (j < x.shape[1] - 1)
    ct.scatter(y, (i, j), ct.where(inner, here + rate * (0.25 * around - here), here))


def reference(x, y, rate):
    x = x.astype(np.float64)
    result = x.copy()
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    result[1:-1, 1:-1] += rate * (0.25 * around - x[1:-1, 1:-1])
    return [result]


TILEIRAS_EXPORT = {"heat": (heat, "f32[?, ?]", "f32[?, ?]", "f32", 16, 32)}
