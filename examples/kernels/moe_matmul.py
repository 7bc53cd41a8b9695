"""A layer of experts: every token's row times the matrix of its expert.

`order` lists the tokens sorted by expert, each expert's filled up to a multiple of TM with a number that no token has;
`experts` names the expert of each TM of them.  Grid: entries of `experts` by columns / TN, rounded up.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def moe_matmul(tokens, weights, order, experts, out, TM: ct.Constant[int], TN: ct.Constant[int], TK: ct.Constant[int]):
    block, column = ct.bid(0), ct.bid(1)
    chosen = ct.load(order, (block,), (TM,))
    expert = ct.gather(experts, block)
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(ct.cdiv(tokens.shape[1], TK)):
        places = step * TK + ct.arange(TK, dtype=ct.int32)
        # Numbers that no token has give zeros, as do places behind the end of a row.
        rows = ct.gather(tokens, (chosen[:, None], places[None, :]))
        weight = ct.load(weights, (expert, step, column), (1, TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(rows, ct.reshape(weight, (TK, TN)), total)
    columns = column * TN + ct.arange(TN, dtype=ct.int32)
    ct.scatter(out, (chosen[:, None], columns[None, :]), ct.astype(total, out.dtype))


def reference(tokens, weights, order, experts, out):
    result = out.astype(np.float64)
    for expert, chosen in zip(experts, order.reshape(len(experts), -1)):
        chosen = chosen[chosen < len(tokens)]
        result[chosen] = tokens[chosen].astype(np.float64) @ weights[expert].astype(np.float64)
    return [result]


TILEIRAS_EXPORT = {
    "moe_matmul": (moe_matmul, "f16[?, ?]", "f16[?, ?, 8*?]", "i32[?]", "i32[?]", "f16[?, ?]", 16, 32, 32),
}
