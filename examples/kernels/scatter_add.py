"""The gradient of an embedding: every row is added to the row of the table that its token names.

Grid: tokens / TM by columns / TN tile blocks, both rounded up.  Several rows may meet in one, so the additions are
atomic, and their order is not fixed.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def scatter_add(gradient, tokens, table, TM: ct.Constant[int], TN: ct.Constant[int]):
    block, column = ct.bid(0), ct.bid(1)
    chosen = ct.load(tokens, (block,), (TM,), padding_mode=ct.PaddingMode.ZERO)
    exists = block * TM + ct.arange(TM, dtype=ct.int32) < tokens.shape[0]
    rows = ct.load(gradient, (block, column), (TM, TN), padding_mode=ct.PaddingMode.ZERO)
    columns = column * TN + ct.arange(TN, dtype=ct.int32)
    # A negative row is outside of the table and adds nothing.
    ct.atomic_add(table, (ct.where(exists, chosen, -1)[:, None], columns[None, :]), rows)


def reference(gradient, tokens, table):
    result = table.astype(np.float64)
    np.add.at(result, tokens, gradient)
    return [result]


TILEIRAS_EXPORT = {"scatter_add": (scatter_add, "f32[?, ?]", "i32[?]", "f32[?, ?]", 16, 32)}
