"""Two-dimensional convolution, stride 1, zeros around the image, odd square filters; twice.

`conv2d` sums shifted images, one multiplication for each pixel of the filter and input channel.  `conv2d_matmul` does
the same as one matrix product: a row for each pixel, a column for each output channel, and (filter pixel, input
channel) in between.  The matrix of patches is never stored: its tiles are gathered from the image as they are needed.

x is (height, width, channels), the weights are (rows, columns, channels, filters), y is (height, width, filters).
"""

import cuda.tile as ct
import numpy as np


@ct.kernel
def conv2d(x, weights, y, SIZE: ct.Constant[int], CHANNELS: ct.Constant[int], TH: ct.Constant[int],
           TW: ct.Constant[int]):  # fmt: skip
    """Grid: height / TH by width / TW by filters."""
    rows = ct.bid(0) * TH + ct.arange(TH, dtype=ct.int32)
    columns = ct.bid(1) * TW + ct.arange(TW, dtype=ct.int32)
    number = ct.bid(2)
    total = ct.zeros((TH, TW), ct.float32)
    for i in range(SIZE):
        for j in range(SIZE):
            for channel in range(CHANNELS):
                # Outside of the image, gather gives its padding value.
                above, left = i - SIZE // 2, j - SIZE // 2
                pixels = ct.gather(x, ((rows + above)[:, None], (columns + left)[None, :], channel), padding_value=0)
                total = total + pixels * ct.gather(weights, (i, j, channel, number))
    ct.store(y, (ct.bid(0), ct.bid(1), number), total[:, :, None])


@ct.kernel
def conv2d_matmul(x, weights, y, SIZE: ct.Constant[int], CHANNELS: ct.Constant[int], TM: ct.Constant[int],
                  TN: ct.Constant[int]):  # fmt: skip
    """Grid: pixels / TM by filters / TN.  A step of the product's inner dimension is one pixel of the filter."""
    width = x.shape[1]
    pixels = ct.bid(0) * TM + ct.arange(TM, dtype=ct.int32)
    filters = ct.bid(1) * TN + ct.arange(TN, dtype=ct.int32)
    channels = ct.arange(CHANNELS, dtype=ct.int32)
    row, column = pixels // width, pixels % width
    total = ct.zeros((TM, TN), ct.float32)
    for step in range(SIZE * SIZE):
        i, j = step // SIZE, step % SIZE
        above, left = i - SIZE // 2, j - SIZE // 2
        patch = ct.gather(x, ((row + above)[:, None], (column + left)[:, None], channels[None, :]), padding_value=0)
        weight = ct.gather(weights, (i, j, channels[:, None], filters[None, :]))
        total = ct.mma(patch, weight, total)
    ct.scatter(y, (row[:, None], column[:, None], filters[None, :]), ct.astype(total, y.dtype))


def reference(x, weights, y):
    size = len(weights)
    around = np.pad(x.astype(np.float64), [(size // 2,) * 2, (size // 2,) * 2, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(around, (size, size), axis=(0, 1))
    return [np.einsum("hwcij,ijcf->hwf", windows, weights.astype(np.float64))]


TILEIRAS_EXPORT = {
    "conv2d": (conv2d, "f32[?, ?, ?]", "f32[?, ?, ?, ?]", "f32[?, ?, ?]", 3, 2, 8, 16),
    "conv2d_matmul": (conv2d_matmul, "f16[?, ?, 16]", "f16[?, ?, 16, ?]", "f32[?, ?, ?]", 3, 16, 32, 16),
}
