"""Rows of a table, chosen by token; a token outside of the table gives a row of zeros.

Grid: tokens / TM by columns / TN tile blocks, both rounded up.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def embedding(table, tokens, y, TM: ct.Constant[int], TN: ct.Constant[int]):
    block, column = ct.bid(0), ct.bid(1)
    chosen = ct.load(tokens, (block,), (TM,), padding_mode=ct.PaddingMode.ZERO)
    columns = column * TN + ct.arange(TN, dtype=ct.int32)
    rows = ct.gather(table, (chosen[:, None], columns[None, :]))
    ct.store(y, (block, column), rows)


def reference(table, tokens, y):
    inside = (tokens >= 0) & (tokens < len(table))
    return [np.where(inside[:, None], table[np.where(inside, tokens, 0)], 0)]


TILEIRAS_EXPORT = {"embedding": (embedding, "f16[?, ?]", "i32[?]", "f16[?, ?]", 16, 32)}
