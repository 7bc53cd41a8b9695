"""Kernels of one warp whose tiles are too large for its registers."""

from __future__ import annotations

import numpy as np

from tests.kernels.tiles import Tile, assert_same, kernel_text, run_both
from tests.kernels.views import after_decision, trip_counts

N = 8192
ONE_WARP = {"num_warps": 1}
"""8,192 elements are 256 registers for each thread of a warp."""


def loops_added(text, gpu_name="sm_80"):
    """The number of loops over slices."""

    def after(row):
        return len(trip_counts(after_decision(text, row, gpu_name, **ONE_WARP)))

    return after("tileas-slicing") - after("tileas-slice-dots")


def check(body, inputs, outputs, sliced=True, ulps=0):
    assert bool(loops_added(kernel_text(inputs, body, outputs))) is sliced
    expected, actual = run_both(inputs, body, outputs, **ONE_WARP)
    for got, wanted in zip(actual, expected, strict=True):
        assert_same(body, got, wanted, inputs, ulps)


def result(shape, element="f32", dtype=np.float32):
    return Tile("r", element, np.zeros(shape, dtype))
