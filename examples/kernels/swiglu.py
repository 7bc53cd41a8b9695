"""SwiGLU: the first half of every row, through silu, times the second half; bf16 in memory, f32 in between.

Grid: rows / TM by columns of the result / TN tile blocks, both rounded up.  The halves are slices of one array, so that
a tile that reaches over the end of one does not read the other.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def swiglu(x, y, TM: ct.Constant[int], TN: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    half = y.shape[1]
    gate = ct.load(x.slice(axis=1, start=0, stop=half), (row, column), (TM, TN), padding_mode=ct.PaddingMode.ZERO)
    value = ct.load(
        x.slice(axis=1, start=half, stop=2 * half), (row, column), (TM, TN), padding_mode=ct.PaddingMode.ZERO
    )
    gate, value = ct.astype(gate, ct.float32), ct.astype(value, ct.float32)
    ct.store(y, (row, column), ct.astype(gate / (1.0 + ct.exp(-gate)) * value, y.dtype))


def reference(x, y):
    gate, value = np.split(x.astype(np.float64), 2, axis=1)
    return [gate / (1 + np.exp(-gate)) * value]


TILEIRAS_EXPORT = {"swiglu": (swiglu, "bf16[?, ?]", "bf16[?, ?]", 16, 64)}
