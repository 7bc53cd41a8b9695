"""Words that are broadcast to the elements packed in them keep the layout in which they are loaded; factors do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.views import Kernel, View, entry, operations, tile_type
from tileiras.dialects import nv_tileas as tileas

ROWS, COLUMNS, DEPTH = 16, 64, 16


def scaled_batch(gpu: str) -> Kernel:
    """y = f * (a b) of two matrices, which share the factors f: a tile half as large as the product."""
    a, b = View("a", (2, ROWS, DEPTH), "f16"), View("b", (2, DEPTH, COLUMNS), "f16")
    f, y = View("f", (1, ROWS, COLUMNS), "f16", aligned=None), View("y", (2, ROWS, COLUMNS), "f16")
    wide = tile_type((2, ROWS, COLUMNS), "f16")
    body = [
        a.load("a"), b.load("b"), f.load("f"), f"%z = constant <f16: 0.0> : {wide}",
        f"%d = mmaf %a, %b, %z : {a.tile}, {b.tile}, {wide}",
        f"%w = broadcast %f : {f.tile} -> {wide}", f"%y = mulf %w, %d : {wide}", y.store("y"),
    ]  # fmt: skip
    generator = np.random.default_rng(0)
    values = [generator.integers(-3, 4, v.shape).astype(np.float16) for v in (a, b, f)]
    return Kernel(entry([a, b, f, y], body), tuple(values), (np.zeros((2, ROWS, COLUMNS), np.float16),),
                  (values[2] * (values[0] @ values[1]),))  # fmt: skip


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_factors_of_a_batch_go_to_the_threads_of_its_products(gpu):
    kernel = scaled_batch(gpu)
    module = kernel.after("tileas-remove-layout-conversions", gpu)
    (dot,) = operations(module, tileas.DotOp)
    assert not any(isinstance(user, tileas.ConvertLayoutOp) for user in dot.result.users)
    kernel.emulated(kernel.compiled(gpu, emit="ptx"))
