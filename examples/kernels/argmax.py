"""Where each row of a matrix of any width is largest; the first place of equals.

Grid: one tile block per row.  Tiles come in order, so a later one replaces the current maximum only if it is larger.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def argmax(x, places, T: ct.Constant[int]):
    row = ct.bid(0)
    highest = ct.full((1,), float("-inf"), ct.float32)
    where = ct.zeros((1,), ct.int32)
    for step in range(ct.num_tiles(x, 1, (1, T))):
        tile = ct.load(x, (row, step), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
        now = ct.max(tile, axis=1)
        place = ct.argmax(tile, axis=1) + step * T
        where = ct.where(now > highest, place, where)
        highest = ct.maximum(now, highest)
    ct.store(places, (row,), where)


def reference(x, places):
    return [np.argmax(x, axis=1)]


TILEIRAS_EXPORT = {"argmax": (argmax, "f32[?, ?]", "i32[?]", 64)}
