"""Matrix multiplications in forms that the examples lack, in cuTile Python: B column-major, and persistent blocks."""

import cuda.tile as ct
import numpy as np


@ct.kernel
def product_tn(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """C = A @ B^T."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32 if c.dtype != ct.int32 else ct.int32)
    for step in range(ct.num_tiles(a, 1, (TM, TK))):
        left = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (step, column), (TK, TN), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), ct.astype(total, c.dtype))


@ct.kernel
def persistent(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """C = A @ B, several tiles of C for each block."""
    rows, columns = ct.cdiv(a.shape[0], TM), ct.cdiv(b.shape[1], TN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        row, column = tile // columns, tile % columns
        total = ct.zeros((TM, TN), ct.float32)
        for step in range(ct.num_tiles(a, 1, (TM, TK))):
            left = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
            right = ct.load(b, (step, column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(left, right, total)
        ct.store(c, (row, column), ct.astype(total, c.dtype))


def reference_product_tn(a, b, c):
    return [a.astype(np.float64) @ b.astype(np.float64).T]


def reference_persistent(a, b, c):
    return [a.astype(np.float64) @ b.astype(np.float64)]


TILEIRAS_EXPORT = {
    "product_tn": (product_tn, *["f16[?, 8*?]"] * 2, "f32[?, 4*?]", 64, 64, 64),
    "persistent": (persistent, *["f16[?, 8*?]"] * 3, 64, 64, 64),
}
