"""Cross entropy of rows of logits against one class each, and its gradient.

Grid: one tile block per row.  Outside of the row the logits are minus infinity, which adds nothing to the sum.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def cross_entropy(logits, classes, losses, gradient, T: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(logits, (row, 0), (1, T), padding_mode=ct.PaddingMode.NEG_INF)
    highest = ct.max(values, axis=1, keepdims=True)
    powers = ct.exp(values - highest)
    total = ct.sum(powers, axis=1, keepdims=True)
    wanted = ct.load(classes, (row,), (1,))
    hit = ct.arange(T, dtype=ct.int32)[None, :] == wanted[:, None]
    chosen = ct.sum(ct.where(hit, values, 0.0), axis=1, keepdims=True)
    ct.store(losses, (row,), ct.reshape(ct.log(total) + highest - chosen, (1,)))
    ct.store(gradient, (row, 0), powers / total - ct.where(hit, 1.0, 0.0))


def reference(logits, classes, losses, gradient):
    logits = logits.astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    rows = np.arange(len(classes))
    loss = -np.log(shares[rows, classes])
    shares[rows, classes] -= 1
    return [loss, shares]


TILEIRAS_EXPORT = {"cross_entropy": (cross_entropy, "f32[?, 4*?]", "i32[?]", "f32[?]", "f32[?, 4*?]", 128)}
