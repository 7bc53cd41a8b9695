"""h[t] = a[t] * h[t - 1] + b[t] along every row, the core of linear-attention and state-space layers.

Two steps in a row are one step of the same form, so that a scan finds them all at once; the last h of a tile is
carried to the next.  Grid: one tile block per row.
"""

import cuda.tile as ct
import numpy as np


def both(first_a, first_b, second_a, second_b):
    return first_a * second_a, first_b * second_a + second_b


@ct.kernel
def linear_recurrence(a, b, h, T: ct.Constant[int]):
    row = ct.bid(0)
    state = ct.zeros((1, 1), ct.float32)
    for step in range(ct.num_tiles(a, 1, (1, T))):
        factors = ct.load(a, (row, step), (1, T), padding_mode=ct.PaddingMode.ZERO)
        terms = ct.load(b, (row, step), (1, T), padding_mode=ct.PaddingMode.ZERO)
        decay, sums = ct.scan((factors, terms), 1, both, (1.0, 0.0))
        states = decay * state + sums
        ct.store(h, (row, step), states)
        state = ct.extract(states, (0, T - 1), (1, 1))


def reference(a, b, h):
    result = np.zeros(h.shape)
    state = np.zeros(len(h))
    for t in range(h.shape[1]):
        state = a[:, t].astype(np.float64) * state + b[:, t]
        result[:, t] = state
    return [result]


TILEIRAS_EXPORT = {"linear_recurrence": (linear_recurrence, "f32[?, ?]", "f32[?, ?]", "f32[?, ?]", 64)}
