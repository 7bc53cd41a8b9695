"""Softmax of every row of a matrix; one row is one tile.

Grid: one tile block per row.  Rows shorter than the tile are padded with minus infinity, which exp turns into zero, so
that neither the maximum nor the sum notices.
"""

import cuda.tile as ct


@ct.kernel
def softmax(x, y, TILE: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, TILE), padding_mode=ct.PaddingMode.NEG_INF)
    # Subtracting the maximum keeps exp from overflowing.
    powers = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(y, index=(row, 0), tile=powers / ct.sum(powers, axis=1, keepdims=True))


# Row lengths are multiples of 4, so that every row starts at a multiple of 16 bytes.
TILEIRAS_EXPORT = {
    "softmax": (softmax, "f32[?, 4*?]", "f32[?, 4*?]", 1024),
}
