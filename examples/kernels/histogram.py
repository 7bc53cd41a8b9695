"""How often each byte occurs.

Grid: as many tile blocks as one likes; each walks over the tiles of the array with that stride.  A tile is compared
with all bins at once, which costs no atomic operation, and every tile block adds its counts once at the end.
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def histogram(values, counts, T: ct.Constant[int], BINS: ct.Constant[int]):
    bins = ct.arange(BINS, dtype=ct.int32)
    seen = ct.zeros((BINS,), ct.int32)
    for step in range(ct.bid(0), ct.num_tiles(values, 0, (T,)), ct.num_blocks(0)):
        tile = ct.astype(ct.load(values, (step,), (T,), padding_mode=ct.PaddingMode.ZERO), ct.int32)
        exists = step * T + ct.arange(T, dtype=ct.int32) < values.shape[0]
        same = (tile[:, None] == bins[None, :]) & exists[:, None]
        seen = seen + ct.sum(ct.astype(same, ct.int32), axis=0)
    ct.atomic_add(counts, bins, seen)


def reference(values, counts):
    return [counts + np.bincount(values, minlength=len(counts))]


TILEIRAS_EXPORT = {"histogram": (histogram, "u8[?]", "i32[?]", 64, 256)}
