"""C = A @ B for 8-bit floats with a power of two for every 32 elements along K (the OCP's microscaling formats).

Grid: rows of C / TM by columns of C / TN tile blocks, both rounded up; K is a multiple of TK.  For targets that have
f8E8M0FNU (sm_100 and newer).
"""

import cuda.tile as ct
import numpy as np

BLOCK = 32


@ct.kernel
def matmul_scaled(a, a_scales, b, b_scales, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(ct.num_tiles(a, 1, (TM, TK))):
        left = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (step, column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        left_scales = ct.load(a_scales, (row, step), (TM, TK // BLOCK))
        right_scales = ct.load(b_scales, (step, column), (TK // BLOCK, TN))
        total = ct.mma_scaled(left, left_scales, right, right_scales, total)
    ct.store(c, (row, column), total)


def reference(a, a_scales, b, b_scales, c):
    left = a.astype(np.float64) * np.repeat(a_scales.astype(np.float64), BLOCK, axis=1)
    right = b.astype(np.float64) * np.repeat(b_scales.astype(np.float64), BLOCK, axis=0)
    return [left @ right]


TILEIRAS_REQUIRES = "sm_100"
TILEIRAS_EXPORT = {
    "matmul_scaled": (
        matmul_scaled, *["f8e4m3fn[?, ?]", "f8e8m0fnu[?, ?]"] * 2, "f32[?, ?]", 32, 32, 64,
    ),
}  # fmt: skip
