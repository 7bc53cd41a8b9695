"""C = A @ B for matrices of 8-bit floats, summed in f32 or f16; for targets that have these types (sm_90 and newer)."""

import numpy as np
from matmul import matmul


def reference(a, b, c):
    return [a.astype(np.float64) @ b.astype(np.float64)]


TILEIRAS_REQUIRES = "sm_90"
TILEIRAS_EXPORT = {
    "matmul_f8e4m3fn": (matmul, "f8e4m3fn[?, 16*?]", "f8e4m3fn[?, 16*?]", "f32[?, ?]", 32, 32, 32),
    "matmul_f8e4m3fn_f16": (matmul, "f8e4m3fn[?, ?]", "f8e4m3fn[?, ?]", "f16[?, ?]", 32, 16, 64),
    "matmul_f8e5m2_f16": (matmul, "f8e5m2[?, 16*?]", "f8e5m2[?, 16*?]", "f16[?, 8*?]", 32, 64, 32),
    "matmul_f8e5m2": (matmul, "f8e5m2[?, ?]", "f8e5m2[?, ?]", "f32[?, ?]", 16, 32, 32),
}
