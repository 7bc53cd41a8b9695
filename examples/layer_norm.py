"""y = (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance taken along each row.

Grid: one tile block per row; one row is one tile, padded with zeros.
"""

import cuda.tile as ct


@ct.kernel
def layer_norm(x, weight, bias, y, eps, TILE: ct.Constant[int]):
    row = ct.bid(0)
    columns = x.shape[1]
    values = ct.load(x, index=(row, 0), shape=(1, TILE), padding_mode=ct.PaddingMode.ZERO)
    mean = ct.sum(values, axis=1, keepdims=True) / columns
    # The padding must not count as columns that are -mean away from the mean.
    exists = ct.arange(TILE, dtype=ct.int32) < columns
    centered = ct.where(exists, values - mean, 0.0)
    variance = ct.sum(centered * centered, axis=1, keepdims=True) / columns
    scale = ct.load(weight, index=(0,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
    shift = ct.load(bias, index=(0,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(y, index=(row, 0), tile=centered * ct.rsqrt(variance + eps) * scale + shift)


TILEIRAS_EXPORT = {
    "layer_norm": (layer_norm, "f32[?, 4*?]", "f32[?]", "f32[?]", "f32[?, 4*?]", "f32", 1024),
}
