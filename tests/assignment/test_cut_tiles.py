"""Tiles that a kernel cuts into neighbours in memory, such as the parts of complex numbers: each thread has both."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.views import DTYPES, Kernel, View, entry, operations, tile_type
from tileiras.dialects import nv_tileas as tileas
from tileiras.layout.encoding import slice_registers

ROWS, COLUMNS = 32, 64


def sum_of_parts(element: str, parts: int = 2, aligned: int | None = None) -> Kernel:
    """y = 2 x[0] + 3 x[1] + ..., of numbers whose parts are neighbours."""
    x = View("x", (ROWS, COLUMNS, parts), element, aligned=aligned)
    y = View("y", (ROWS, COLUMNS), element, aligned=aligned)
    part, one = tile_type((ROWS, COLUMNS, 1), element), "1" if element.startswith("i") else "1.0"
    suffix = "i" if element.startswith("i") else "f"
    body = [x.load("x"), f"%s_0 = constant <{element}: {one}> : {y.tile}"]
    for n in range(parts):
        factor = f"{n + 2}" if element.startswith("i") else f"{n + 2}.0"
        body += [
            f"%n_{n} = constant <i32: {n}> : tile<i32>",
            f"%e_{n} = extract %x[%zero, %zero, %n_{n}] : {x.tile} -> {part}",
            f"%p_{n} = reshape %e_{n} : {part} -> {y.tile}", f"%f_{n} = constant <{element}: {factor}> : {y.tile}",
            f"%m_{n} = mul{suffix} %p_{n}, %f_{n} : {y.tile}",
            f"%s_{n + 1} = add{suffix} %s_{n}, %m_{n} : {y.tile}",
        ]  # fmt: skip
    body += [f"%y = reshape %s_{parts} : {y.tile} -> {y.tile}", y.store("y")]
    values = np.random.default_rng(0).integers(-3, 4, x.shape).astype(DTYPES[element])
    expected = 1 + sum((n + 2) * values[..., n] for n in range(parts))
    return Kernel(entry([x, y], body), (values,), (np.zeros((ROWS, COLUMNS), DTYPES[element]),),
                  (expected.astype(DTYPES[element]),))  # fmt: skip


def moves(kernel: Kernel, gpu: str) -> bool:
    """Whether a slice goes to other threads."""
    module = kernel.after("tileas-remove-layout-conversions", gpu)
    return any(slice_registers(op) is None for op in operations(module, tileas.ExtractSliceOp))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("element", "parts", "aligned"), [
    ("f16", 2, None), ("f32", 2, None), ("i8", 4, None), ("f16", 2, 16), ("f16", 4, None),
])  # fmt: skip
def test_parts_of_numbers_stay_in_their_threads(gpu, element, parts, aligned):
    kernel = sum_of_parts(element, parts, aligned)
    assert not moves(kernel, gpu)
    kernel.emulated(kernel.compiled(gpu, emit="ptx"))


def test_parts_far_apart_move():
    """Lanes whose elements lie 16 bytes apart would load as many sectors as there are lanes."""
    kernel = sum_of_parts("f32", 4)
    assert moves(kernel, "sm_90")
    kernel.emulated(kernel.compiled("sm_90", emit="ptx"))
