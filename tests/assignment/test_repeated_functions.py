"""Functions of many instructions are computed by fewer lanes for the same element, and the others get the result."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.views import DTYPES, Kernel, View, entry, operations, tile_type
from tileiras.dialects import math
from tileiras.layout.encoding import layout_of
from tileiras.sim import emulate

ROWS, ANGLES = 8, 16


def turned(function: str, rows: int = ROWS, angles: int = ANGLES, element: str = "f32") -> Kernel:
    """y = x times a function of the number of the column, for rows of numbers."""
    x, y = (View(name, (rows, angles), element) for name in "xy")
    line, row = tile_type((angles,), element), tile_type((1, angles), element)
    numbers = tile_type((angles,), "i32")
    body = [
        x.load("x"), f"%n = iota : {numbers}", f"%a = itof %n signed : {numbers} -> {line}",
        f"%c = {function} %a : {line}", f"%c_1 = reshape %c : {line} -> {row}",
        f"%c_2 = broadcast %c_1 : {row} -> {x.tile}", f"%y = mulf %c_2, %x : {x.tile}", y.store("y"),
    ]  # fmt: skip
    values = np.arange(rows * angles).reshape(rows, angles).astype(DTYPES[element])
    computed = getattr(np, function)(np.arange(angles, dtype=values.dtype))
    return Kernel(entry([x, y], body), (values,), (np.zeros_like(values),), (values * computed,))


def layout_of_function(kernel: Kernel, gpu: str):
    module = kernel.after("tileas-remove-layout-conversions", gpu, num_warps=1)
    (op,) = (op for op in operations(module, (math.CosOp, math.SinOp, math.Exp2Op)))
    return layout_of(op.result.type)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
@pytest.mark.parametrize(("function", "element"), [("cos", "f32"), ("sin", "f64")])
def test_lanes_share_the_elements_of_a_function(gpu, function, element):
    kernel = turned(function, element=element)
    layout = layout_of_function(kernel, gpu)
    assert layout.registers == 1 and layout.bases("lane").count(0) == 1
    artifact, result = kernel.compiled(gpu, emit="ptx", num_warps=1), kernel.outputs[0].copy()
    emulate(artifact.text, "k", 1, [kernel.inputs[0].copy(), result], metadata=artifact.kernels[0].metadata)
    np.testing.assert_allclose(result, kernel.expected[0], rtol=1e-5)


def test_short_functions_are_computed_where_they_are_used():
    assert layout_of_function(turned("exp2"), "sm_100").registers > 1


def test_lanes_without_copies_share_nothing():
    """A row of 128 columns is in all lanes of a warp."""
    assert layout_of_function(turned("cos", 4, 128), "sm_100").registers == 4
