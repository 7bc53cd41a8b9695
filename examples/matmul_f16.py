"""C = A @ B for f16 matrices, summed in f32.

Grid: rows of C / TM by columns of C / TN tile blocks, both rounded up.  Each block walks along K, TK at a time; zero
padding makes the ragged end of K harmless.
"""

import cuda.tile as ct


@ct.kernel
def matmul_f16(A, B, C, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.full((TM, TN), 0, dtype=ct.float32)
    for k in range(ct.num_tiles(A, axis=1, shape=(TM, TK))):
        a = ct.load(A, index=(row, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(k, column), shape=(TK, TN), padding_mode=ct.PaddingMode.ZERO)
        # Runs on the tensor cores.
        total = ct.mma(a, b, total)
    ct.store(C, index=(row, column), tile=ct.astype(total, C.dtype))


# Row lengths are multiples of 8: 16 bytes of f16.
TILEIRAS_EXPORT = {
    "matmul_f16": (matmul_f16, "f16[?, 8*?]", "f16[?, 8*?]", "f16[?, 8*?]", 128, 128, 64),
}
