"""Dropout by a hash of seed and place: no state, and the backward pass finds the same elements without a mask.

Grid: elements / T tile blocks, rounded up.  The hash is 32 bits wide; an element stays if it is below the threshold.
"""

import cuda.tile as ct
import numpy as np


def mixed(word):
    """Every bit of the word has come to matter for every bit of the result."""
    word = (word ^ (word >> 16)) * 0x7FEB352D
    word = (word ^ (word >> 15)) * 0x846CA68B
    return word ^ (word >> 16)


@ct.kernel
def dropout(x, y, seed, threshold, scale, T: ct.Constant[int]):
    block = ct.bid(0)
    place = ct.astype(block * T + ct.arange(T, dtype=ct.int32), ct.uint32)
    stays = mixed(mixed(place) ^ seed) < threshold
    values = ct.load(x, (block,), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(y, (block,), ct.where(stays, values * scale, 0.0))


def reference(x, y, seed, threshold, scale):
    stays = mixed(mixed(np.arange(len(x), dtype=np.uint32)) ^ seed) < threshold
    return [np.where(stays, x.astype(np.float64) * scale, 0)]


TILEIRAS_EXPORT = {"dropout": (dropout, "f32[?]", "f32[?]", "u32", "u32", "f32", 256)}
