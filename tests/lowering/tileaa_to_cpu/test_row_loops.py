"""Rows that stay in the user's memory, tiles that reductions compute, extrema and quotients with fast paths."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import Tile, run_both
from tileiras import runtime
from tileiras.sim import interpret
from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")

LENGTH = 1024
SPECIALS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-38, 3e38, 2.0**-100, 1.0], np.float32)


def equal(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal numbers with equal signs, or NaN in both."""
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


def shifted(target: int, edge: int = 0) -> str:
    """Read a row and a factor, reduce the row, and write its quotients `target` elements further on."""
    whole = f"tensor_view<{LENGTH - edge}xf32, strides=[1]>"
    view = f"partition_view<tile=({LENGTH}), padding_value = zero, {whole}>"
    return f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>) {{
%n = constant <i32: {target}> : tile<i32>
%q = offset %p, %n : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
%pt = make_tensor_view %p, shape = [{LENGTH - edge}], strides = [1] : {whole}
%qt = make_tensor_view %q, shape = [{LENGTH - edge}], strides = [1] : {whole}
%pv = make_partition_view %pt : {view}
%qv = make_partition_view %qt : {view}
%zero = constant <i32: 0> : tile<i32>
%x, %t0 = load_view_tko weak %pv[%zero] : {view}, tile<i32> -> tile<{LENGTH}xf32>, token
%m = reduce %x dim=0 identities=[0.0 : f32] : tile<{LENGTH}xf32> -> tile<f32>
(%a: tile<f32>, %b: tile<f32>) {{
  %s = addf %a, %b : tile<f32>
  yield %s : tile<f32>
}}
%m1 = reshape %m : tile<f32> -> tile<1xf32>
%ms = broadcast %m1 : tile<1xf32> -> tile<{LENGTH}xf32>
%y = divf %x, %ms : tile<{LENGTH}xf32>
%t1 = store_view_tko weak %y, %qv[%zero] token = %t0 : tile<{LENGTH}xf32>, {view}, tile<i32> -> token
%z = mulf %x, %x : tile<{LENGTH}xf32>
%far = constant <i32: {3 * LENGTH}> : tile<i32>
%r = offset %p, %far : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
%rt = make_tensor_view %r, shape = [{LENGTH - edge}], strides = [1] : {whole}
%rv = make_partition_view %rt : {view}
%t2 = store_view_tko weak %z, %rv[%zero] token = %t1 : tile<{LENGTH}xf32>, {view}, tile<i32> -> token
return
}} }}"""


@pytest.mark.parametrize("edge", [0, 100])
@pytest.mark.parametrize("target", [0, 1, 17, LENGTH])
def test_a_row_survives_stores_over_it(target, edge):
    """Later uses of a row see the elements that were read, wherever the kernel has written meanwhile."""
    text = shifted(target, edge)
    # Whole numbers, whose sum is exact in any order.
    before = np.random.default_rng(target).integers(1, 9, 4 * LENGTH).astype(np.float32)
    expected, result = before.copy(), before.copy()
    interpret(text, "k", 1, [expected])
    runtime.launch(tileiras.compile(text, gpu_name="cpu", source_name="k.mlir"), "k", 1, [result])
    assert (expected == result).all() and (expected != before).any()


VALUES = (
    (0.0, -0.0), (-0.0,), (np.nan,), (np.nan, -np.inf), (np.nan, np.inf), (-0.0, np.nan), (-3.0, -5.0, np.nan),
    (2.0, 0.5),
)  # fmt: skip


@pytest.mark.parametrize("name", ["maxf", "minf"])
def test_extrema_of_rows(name):
    """Signs of zeros and NaN, for which comparisons are not enough."""
    draw = np.random.default_rng(1)
    rows = np.array([draw.choice(np.array(values, np.float32), 128) for values in VALUES])
    body = f"""%y = reduce %x dim=1 identities=[0.0 : f32] : tile<8x128xf32> -> tile<8xf32>
    (%a: tile<f32>, %b: tile<f32>) {{
      %m = {name} %a, %b : tile<f32>
      yield %m : tile<f32>
    }}"""
    expected, result = run_both([Tile("x", "f32", rows)], body, [Tile("y", "f32", np.zeros(8, np.float32))], "cpu")
    equal(result[0], expected[0])


DIVISORS = (3.0, -7.5e-4, 2.0**-24, 2.0**24, 2.0**100, 1e-40, 0.0, np.nan)


@pytest.mark.parametrize("target", ["cpu", "cpu-x86-64-v3"])
def test_quotients_of_rows_by_one_number_each(target):
    """Correctly rounded whether the reciprocal is used or not."""
    if target != "cpu" and host().machine != "x86_64":
        pytest.skip("another processor")
    draw = np.random.default_rng(3)
    numbers = [np.resize(SPECIALS, 64), draw.standard_normal(128).astype(np.float32)]
    numbers.append(np.ldexp(draw.uniform(1, 2, 64), draw.integers(-104, -70, 64)).astype(np.float32))
    body = """%xs = broadcast %x : tile<1x256xf32> -> tile<8x256xf32>
    %ds = broadcast %d : tile<8x1xf32> -> tile<8x256xf32>
    %y = divf %xs, %ds : tile<8x256xf32>"""
    inputs = [
        Tile("x", "f32", np.concatenate(numbers).reshape(1, 256)),
        Tile("d", "f32", np.array(DIVISORS, np.float32).reshape(8, 1)),
    ]
    expected, result = run_both(inputs, body, [Tile("y", "f32", np.zeros((8, 256), np.float32))], target)
    equal(result[0], expected[0])


def test_a_scalar_of_a_narrow_format_is_used_in_a_branch_first():
    """Its conversion must not be left to the branch: later uses would read a value that is not there."""
    body = """%b = ftof %x : tile<1xf32> -> tile<1xbf16>
    %c = addf %b, %b : tile<1xbf16>
    %s = reshape %c : tile<1xbf16> -> tile<bf16>
    %i = reshape %f : tile<1xi1> -> tile<i1>
    %r = if %i -> (tile<bf16>) {
      %t = addf %s, %s : tile<bf16>
      yield %t : tile<bf16>
    } else {
      yield %s : tile<bf16>
    }
    %u = addf %r, %s : tile<bf16>
    %v = reshape %u : tile<bf16> -> tile<1xbf16>
    %y = ftof %v : tile<1xbf16> -> tile<1xf32>"""
    for flag in (0, 1):
        inputs = [Tile("x", "f32", np.array([1.5], np.float32)), Tile("f", "i1", np.array([flag], np.uint8))]
        expected, result = run_both(inputs, body, [Tile("y", "f32", np.zeros(1, np.float32))], "cpu")
        equal(result[0], expected[0])
