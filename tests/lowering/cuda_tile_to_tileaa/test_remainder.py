"""Python's remainder of tiles: right for all signs, and columns of an index are accessed in vectors."""

import re

import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate

REMAINDER = """
      %r = remi %x, %c signed : tile<128xi32>
      %below = cmpi less_than %r, %zero, signed : tile<128xi32> -> tile<128xi1>
      %minus = cmpi less_than %c, %zero, signed : tile<128xi32> -> tile<128xi1>
      %other = xori %below, %minus : tile<128xi1>
      %some = cmpi not_equal %r, %zero, signed : tile<128xi32> -> tile<128xi1>
      %both = andi %other, %some : tile<128xi1>
      %up = addi %r, %c : tile<128xi32>
      %m = select %both, %up, %r : tile<128xi1>, tile<128xi32>
"""

OF_VALUES = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %out: tile<ptr<i32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<128xi32>
    %i = iota : tile<128xi32>
    %base = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %bases = broadcast %base : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %at = offset %bases, %i : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %x, %t = load_ptr_tko weak %at : tile<128xptr<i32>> -> tile<128xi32>, token
    DIVISOR
    REMAINDER
    QUOTIENT
    %to = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
    %all = broadcast %to : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %place = offset %all, %i : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %u = store_ptr_tko weak %place, %y : tile<128xptr<i32>>, tile<128xi32> -> token
    return
  }
}
"""
BY_ARGUMENT = """%one = reshape %n : tile<i32> -> tile<1xi32>
    %c = broadcast %one : tile<1xi32> -> tile<128xi32>"""
WITH_QUOTIENT = """%q = divi %x, %c signed rounding<negative_inf> : tile<128xi32>
    %h = constant <i32: 1000> : tile<128xi32>
    %l = muli %q, %h : tile<128xi32>
    %y = addi %l, %m : tile<128xi32>"""
ALONE = """%k = constant <i32: 0> : tile<128xi32>
    %y = addi %m, %k : tile<128xi32>"""


@pytest.mark.parametrize("divisor", [1, 2, 7, 64, 96, -3, -64])
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("use", [WITH_QUOTIENT, ALONE])
def test_remainders_have_the_sign_of_the_divisor(divisor, is_constant, use):
    by = f"%c = constant <i32: {divisor}> : tile<128xi32>" if is_constant else BY_ARGUMENT
    text = OF_VALUES.replace("DIVISOR", by).replace("REMAINDER", REMAINDER).replace("QUOTIENT", use)
    (kernel,) = tileiras.compile(text.encode(), gpu_name="sm_90", emit="ptx").kernels
    x = np.random.default_rng(divisor & 0xFF).integers(-(2**31), 2**31, 128).astype(np.int32)
    x[:9] = 0, -1, 1, -64, 64, -96, -(2**31), 2**31 - 1, divisor
    out = np.zeros(128, np.int32)
    emulate(kernel.artifacts[".ptx"].decode(), "k", 1, [x, out, divisor], metadata=kernel.metadata)
    with np.errstate(over="ignore"):
        quotient = (x.astype(np.int64) // divisor).astype(np.int32) * np.int32(1000)
    expected = x.astype(np.int64) % divisor
    np.testing.assert_array_equal(out, (expected + (quotient if use is WITH_QUOTIENT else 0)).astype(np.int32))


OF_PLACES = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %out: tile<ptr<f32>>, %n: tile<i32>) {
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %oa = assume div_by<16>, %out : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<128xi32>
    %size = constant <i32: 128> : tile<i32>
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %first = muli %b, %size : tile<i32>
    %one = reshape %first : tile<i32> -> tile<1xi32>
    %firsts = broadcast %one : tile<1xi32> -> tile<128xi32>
    %i = iota : tile<128xi32>
    %x = addi %firsts, %i : tile<128xi32>
    %c = constant <i32: COLUMNS> : tile<128xi32>
    REMAINDER
    %q = divi %x, %c signed rounding<negative_inf> : tile<128xi32>
    %pitch = constant <i32: 256> : tile<128xi32>
    %row = muli %q, %pitch : tile<128xi32>
    %place = addi %row, %m : tile<128xi32>
    %base = reshape %pa : tile<ptr<f32>> -> tile<1xptr<f32>>
    %bases = broadcast %base : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %at = offset %bases, %place : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %v, %t = load_ptr_tko weak %at : tile<128xptr<f32>> -> tile<128xf32>, token
    %to = reshape %oa : tile<ptr<f32>> -> tile<1xptr<f32>>
    %all = broadcast %to : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %there = offset %all, %x : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %u = store_ptr_tko weak %there, %v : tile<128xptr<f32>>, tile<128xf32> -> token
    return
  }
}
"""


@pytest.mark.parametrize("columns, words", [(64, 4), (48, 4), (6, 2), (9, 1)])
def test_columns_of_an_index_are_loaded_in_vectors(columns, words):
    text = OF_PLACES.replace("REMAINDER", REMAINDER).replace("COLUMNS", str(columns))
    (kernel,) = tileiras.compile(text.encode(), gpu_name="sm_90", emit="ptx").kernels
    ptx = kernel.artifacts[".ptx"].decode()
    loads = re.findall(r"ld\.global(?:\.L\w+::\w+)*(?:\.v(\d))?\.b32", ptx)
    assert {int(width or 1) for width in loads} == {words}
    rows = 256 // columns + 1
    matrix = np.arange(rows * 256, dtype=np.float32)
    out = np.zeros(256, np.float32)
    emulate(ptx, "k", 2, [matrix, out, 0], metadata=kernel.metadata)
    place = np.arange(256)
    np.testing.assert_array_equal(out, (place // columns * 256 + place % columns).astype(np.float32))
