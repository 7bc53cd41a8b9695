"""One step of decoding: attention of a single position per sequence, with several query heads to a head of keys.

q and the result are (sequences, heads, D), the cache is (sequences, key heads, positions, D); `lengths` gives the
number of filled positions.  Grid: sequences by key heads.  The GROUP query heads of a key head are the rows of the
product.
"""

import cuda.tile as ct
import numpy as np

LOG2_E = 1.4426950408889634


@ct.kernel
def attention_decode(q, keys, values, lengths, out, scale, GROUP: ct.Constant[int], TN: ct.Constant[int],
                     D: ct.Constant[int]):  # fmt: skip
    sequence, head = ct.bid(0), ct.bid(1)
    length = ct.gather(lengths, sequence)
    queries = ct.reshape(ct.load(q, (sequence, head, 0), (1, GROUP, D)), (GROUP, D))
    highest = ct.full((GROUP, 1), -1e30, ct.float32)
    weight = ct.zeros((GROUP, 1), ct.float32)
    total = ct.zeros((GROUP, D), ct.float32)
    for step in range(ct.cdiv(length, TN)):
        k = ct.load(keys, (sequence, head, step, 0), (1, 1, TN, D), padding_mode=ct.PaddingMode.ZERO)
        k = ct.transpose(ct.reshape(k, (TN, D)))
        scores = ct.mma(queries, k, ct.zeros((GROUP, TN), ct.float32)) * (scale * LOG2_E)
        filled = step * TN + ct.arange(TN, dtype=ct.int32) < length
        scores = ct.where(filled[None, :], scores, float("-inf"))
        now = ct.maximum(highest, ct.max(scores, axis=1, keepdims=True))
        shares, fade = ct.exp2(scores - now), ct.exp2(highest - now)
        weight = weight * fade + ct.sum(shares, axis=1, keepdims=True)
        v = ct.load(values, (sequence, head, step, 0), (1, 1, TN, D), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.astype(shares, v.dtype), ct.reshape(v, (TN, D)), total * fade)
        highest = now
    ct.store(out, (sequence, head, 0), ct.reshape(ct.astype(total / weight, out.dtype), (1, GROUP, D)))


def reference(q, keys, values, lengths, out, scale):
    result = np.zeros(out.shape)
    group = q.shape[1] // keys.shape[1]
    for sequence, length in enumerate(lengths):
        for head in range(q.shape[1]):
            k, v = (a[sequence, head // group, :length].astype(np.float64) for a in (keys, values))
            scores = k @ q[sequence, head].astype(np.float64) * scale
            shares = np.exp(scores - scores.max())
            result[sequence, head] = shares / shares.sum() @ v
    return [result]


TILEIRAS_EXPORT = {
    "attention_decode": (
        attention_decode, "bf16[?, ?, 8*?]", *["bf16[?, ?, ?, 8*?]"] * 2, "i32[?]", "bf16[?, ?, 8*?]", "f32", 4, 32, 32,
    ),
}  # fmt: skip
