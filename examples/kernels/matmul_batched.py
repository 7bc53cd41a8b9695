"""C[i] = A[i] @ B[i]; a tile has a slice of the batch, and one product does them all.

Grid: batch / TB by rows of C / TM by columns of C / TN tile blocks, all rounded up.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def matmul_batched(a, b, c, TB: ct.Constant[int], TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    batch, row, column = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((TB, TM, TN), ct.float32)
    for step in range(ct.num_tiles(a, 2, (TB, TM, TK))):
        left = ct.load(a, (batch, row, step), (TB, TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (batch, step, column), (TB, TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (batch, row, column), ct.astype(total, c.dtype))


def reference(a, b, c):
    return [a.astype(np.float64) @ b.astype(np.float64)]


TILEIRAS_EXPORT = {"matmul_batched": (matmul_batched, *["f16[?, ?, 8*?]"] * 3, 2, 32, 16, 32)}
