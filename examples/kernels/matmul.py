"""C = A @ B in every type that has products: types that the tensor cores of a target lack use multiply-add.

Grid: rows of C / TM by columns of C / TN tile blocks, both rounded up.  Zero padding makes the ragged end of K
harmless.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def matmul(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), c.dtype)
    for step in range(ct.num_tiles(a, 1, (TM, TK))):
        left = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (step, column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total)


@ct.kernel
def matmul_tf32(a, b, c, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    """Operands are f32 in memory and rounded to tf32, which keeps 10 bits of their mantissas."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(ct.num_tiles(a, 1, (TM, TK))):
        left = ct.load(a, (row, step), (TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (step, column), (TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.astype(left, ct.tfloat32), ct.astype(right, ct.tfloat32), total)
    ct.store(c, (row, column), total)


def reference(a, b, c):
    wide = np.int32 if c.dtype.kind == "i" else np.float64
    return [a.astype(wide) @ b.astype(wide)]


# Rows of A and B that are no multiple of 16 bytes are allowed: sizes are not promised to divide by anything.
TILEIRAS_EXPORT = {
    "matmul_f16": (matmul, "f16[?, ?]", "f16[?, ?]", "f32[?, ?]", 32, 32, 32),
    "matmul_f16_f16": (matmul, "f16[?, 8*?]", "f16[?, 8*?]", "f16[?, 8*?]", 64, 32, 16),
    "matmul_bf16": (matmul, "bf16[?, 8*?]", "bf16[?, 8*?]", "f32[?, ?]", 64, 64, 32),
    "matmul_f32": (matmul, "f32[?, ?]", "f32[?, ?]", "f32[?, ?]", 16, 32, 16),
    "matmul_tf32": (matmul_tf32, "f32[?, 4*?]", "f32[?, 4*?]", "f32[?, ?]", 32, 32, 16),
    "matmul_f64": (matmul, "f64[?, ?]", "f64[?, ?]", "f64[?, ?]", 16, 16, 16),
    "matmul_i8": (matmul, "i8[?, 16*?]", "i8[?, 16*?]", "i32[?, ?]", 32, 32, 64),
    "matmul_u8": (matmul, "u8[?, 16*?]", "u8[?, 16*?]", "i32[?, ?]", 32, 64, 32),
    "matmul_i8_u8": (matmul, "i8[?, ?]", "u8[?, ?]", "i32[?, ?]", 32, 16, 64),
    "matmul_u8_i8": (matmul, "u8[?, ?]", "i8[?, ?]", "i32[?, ?]", 16, 16, 32),
}
