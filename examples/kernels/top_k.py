"""The K largest of every row, largest first, and where they are; of equals the first.

Grid: one tile block per row, which fits into a tile.  Each turn takes the largest that is left and rules it out.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def top_k(x, values, places, K: ct.Constant[int], T: ct.Constant[int]):
    row = ct.bid(0)
    columns = ct.arange(T, dtype=ct.int32)[None, :]
    left = ct.load(x, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
    for turn in range(K):
        place = ct.argmax(left, axis=1)
        ct.store(values, (row, turn), ct.max(left, axis=1, keepdims=True))
        ct.store(places, (row, turn), ct.reshape(place, (1, 1)))
        left = ct.where(columns == place[:, None], float("-inf"), left)


def reference(x, values, places):
    order = np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, : places.shape[1]]
    return [np.take_along_axis(x, order, axis=1), order]


TILEIRAS_EXPORT = {"top_k": (top_k, "f32[?, ?]", "f32[?, ?]", "i32[?, ?]", 5, 128)}
