"""Attention as Dao et al. do it: keys and values are visited once, with a running maximum and sum.

q, k, v and the result are (heads, positions, D).  Grid: query positions / TM, rounded up, by heads.
"""

import cuda.tile as ct
import numpy as np

LOG2_E = 1.4426950408889634


@ct.kernel
def attention(q, k, v, out, scale, CAUSAL: ct.Constant[bool], TM: ct.Constant[int], TN: ct.Constant[int],
              D: ct.Constant[int]):  # fmt: skip
    block, head = ct.bid(0), ct.bid(1)
    rows = block * TM + ct.arange(TM, dtype=ct.int32)
    queries = ct.reshape(ct.load(q, (head, block, 0), (1, TM, D), padding_mode=ct.PaddingMode.ZERO), (TM, D))
    highest = ct.full((TM, 1), -1e30, ct.float32)
    weight = ct.zeros((TM, 1), ct.float32)
    total = ct.zeros((TM, D), ct.float32)
    # Of later keys a causal block sees none.
    stop = min((block + 1) * TM, k.shape[1]) if CAUSAL else k.shape[1]
    for step in range(ct.cdiv(stop, TN)):
        keys = ct.load(k, (head, 0, step), (1, D, TN), order=(0, 2, 1), padding_mode=ct.PaddingMode.ZERO)
        scores = ct.mma(queries, ct.reshape(keys, (D, TN)), ct.zeros((TM, TN), ct.float32)) * (scale * LOG2_E)
        columns = step * TN + ct.arange(TN, dtype=ct.int32)
        visible = (columns < k.shape[1])[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        scores = ct.where(visible, scores, float("-inf"))
        now = ct.maximum(highest, ct.max(scores, axis=1, keepdims=True))
        shares, fade = ct.exp2(scores - now), ct.exp2(highest - now)
        weight = weight * fade + ct.sum(shares, axis=1, keepdims=True)
        values = ct.load(v, (head, step, 0), (1, TN, D), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.astype(shares, q.dtype), ct.reshape(values, (TN, D)), total * fade)
        highest = now
    ct.store(out, (head, block, 0), ct.reshape(ct.astype(total / weight, out.dtype), (1, TM, D)))


def attend(q, k, v, scale, visible=True):
    scores = np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64)) * scale
    scores = np.where(visible, scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    return [shares / shares.sum(axis=2, keepdims=True) @ v.astype(np.float64)]


def reference_attention(q, k, v, out, scale):
    return attend(q, k, v, scale)


def reference_causal_attention(q, k, v, out, scale):
    return attend(q, k, v, scale, np.tril(np.ones((q.shape[1], k.shape[1]), bool)))


ARRAYS = ["f16[?, ?, 8*?]"] * 4
TILEIRAS_EXPORT = {
    "attention": (attention, *ARRAYS, "f32", False, 32, 32, 32),
    "causal_attention": (attention, *ARRAYS, "f32", True, 32, 16, 32),
}
