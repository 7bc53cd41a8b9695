"""C += A @ B with K shared out over tile blocks, for small C and large K; the parts are added atomically.

Grid: rows of C / TM by columns of C / TN by parts.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def matmul_split_k(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    row, column, part = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(part, ct.num_tiles(a, 1, (TM, TK)), ct.num_blocks(2)):
        left = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (step, column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    rows = row * TM + ct.arange(TM, dtype=ct.int32)
    columns = column * TN + ct.arange(TN, dtype=ct.int32)
    # Places outside of C are left alone.
    ct.atomic_add(c, (rows[:, None], columns[None, :]), total)


def reference(a, b, c):
    return [c + a.astype(np.float64) @ b.astype(np.float64)]


TILEIRAS_EXPORT = {"matmul_split_k": (matmul_split_k, "bf16[?, ?]", "bf16[?, ?]", "f32[?, ?]", 16, 32, 32)}
