"""C = A @ B for 8-bit and 4-bit floats with a scale for every few elements along K.

Scales are powers of two for 32 elements (the OCP's microscaling formats), or f8E4M3FN for 16 elements of 4 bits.

Grid: rows of C / TM by columns of C / TN tile blocks, both rounded up; K is a multiple of TK.  For targets that have
these types (sm_100 and newer).
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


@ct.kernel
def matmul_scaled_f4(a, a_scales, b, b_scales, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int],
                     BLOCK: ct.Constant[int]):  # fmt: skip
    """Rows of A and B are bytes of two elements each, the lower half first."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(ct.num_tiles(a, 1, (TM, TK // 2))):
        left = ct.load(a, (row, step), (TM, TK // 2), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (step, column), (TK, TN // 2), padding_mode=ct.PaddingMode.ZERO)
        left = ct.unpack_from_bytes(left.reshape((TM * TK // 2,)), ct.float4_e2m1fn).reshape((TM, TK))
        right = ct.unpack_from_bytes(right.reshape((TK * TN // 2,)), ct.float4_e2m1fn).reshape((TK, TN))
        left_scales = ct.load(a_scales, (row, step), (TM, TK // BLOCK))
        right_scales = ct.load(b_scales, (step, column), (TK // BLOCK, TN))
        total = ct.mma_scaled(left, left_scales, right, right_scales, total)
    ct.store(c, (row, column), total)


def unpacked(array):
    """The numbers of bytes of two 4-bit floats: a sign, two bits of exponent with bias 1, one of mantissa."""
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    halves = np.stack((array & 15, array >> 4), axis=-1).reshape(array.shape[0], -1)
    return np.where(halves < 8, 1, -1) * numbers[halves & 7]


def reference(a, a_scales, b, b_scales, c):
    left, right = (unpacked(x) if x.dtype == np.uint8 else x.astype(np.float64) for x in (a, b))
    block = left.shape[1] // a_scales.shape[1]
    left *= np.repeat(a_scales.astype(np.float64), block, axis=1)
    right *= np.repeat(b_scales.astype(np.float64), block, axis=0)
    return [left @ right]


TILEIRAS_REQUIRES = "sm_100"
TILEIRAS_EXPORT = {
    "matmul_scaled": (
        matmul_scaled, *["f8e4m3fn[?, ?]", "f8e8m0fnu[?, ?]"] * 2, "f32[?, ?]", 32, 32, 64,
    ),
    "matmul_scaled_f8e5m2": (
        matmul_scaled, *["f8e5m2[?, 16*?]", "f8e8m0fnu[?, ?]"] * 2, "f32[?, ?]", 64, 32, 128,
    ),
    "matmul_scaled_mxf4": (
        matmul_scaled_f4, *["u8[?, ?]", "f8e8m0fnu[?, ?]"] * 2, "f32[?, ?]", 32, 32, 64, 32,
    ),
    "matmul_scaled_nvf4": (
        matmul_scaled_f4, *["u8[?, 16*?]", "f8e4m3fn[?, ?]"] * 2, "f32[?, ?]", 32, 64, 128, 16,
    ),
}  # fmt: skip
