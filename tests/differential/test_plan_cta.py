"""CTAs of a cluster that share a tile block's work: which kernels, and with unchanged results.

The emulator looks for races between the CTAs, which may not wait for each other here.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import tileiras
from tests.kernels.reasons import stated
from tests.kernels.tiles import Tile, assert_same, kernel_text, run_both
from tests.kernels.views import whole_numbers
from tileiras.sim import emulate, interpret


def planned(text, num_ctas=2):
    """The remarks: whether the CTAs share the work, and the reason if they do not."""
    artifact = tileiras.compile(text, gpu_name="sm_90", emit="tileas", num_ctas=num_ctas)
    return [item for item in stated(artifact.diagnostics, "slices.") if f"ctas={num_ctas}" in item]


def result(shape, element="f32", dtype=np.float32):
    return Tile("r", element, np.zeros(shape, dtype))


F = "tile<32x64xf32>"
SHARED = {
    "elements": f"%r = addf %a, %a rounding<nearest_even> : {F}",
    "other_shapes": f"""%t = permute %a [1, 0] : {F} -> tile<64x32xf32>
        %u = reshape %t : tile<64x32xf32> -> tile<2048xf32>
        %v = reshape %u : tile<2048xf32> -> tile<64x32xf32>
        %r = permute %v [1, 0] : tile<64x32xf32> -> {F}""",
    "rows": f"""%s = reduce %a dim=1 identities=[0.0 : f32] : {F} -> tile<32xf32> (%x: tile<f32>, %y: tile<f32>) {{
          %z = addf %x, %y : tile<f32>
          yield %z : tile<f32>
        }}
        %t = reshape %s : tile<32xf32> -> tile<32x1xf32>
        %u = broadcast %t : tile<32x1xf32> -> {F}
        %r = subf %a, %u : {F}""",
    "columns": f"""%s = reduce %a dim=0 identities=[0.0 : f32] : {F} -> tile<64xf32> (%x: tile<f32>, %y: tile<f32>) {{
          %z = addf %x, %y : tile<f32>
          yield %z : tile<f32>
        }}
        %t = reshape %s : tile<64xf32> -> tile<1x64xf32>
        %u = broadcast %t : tile<1x64xf32> -> {F}
        %r = subf %a, %u : {F}""",
    "ranges": f"""%i = iota : tile<2048xi32>
        %j = reshape %i : tile<2048xi32> -> tile<32x64xi32>
        %k = itof %j signed rounding<nearest_even> : tile<32x64xi32> -> {F}
        %r = mulf %a, %k : {F}""",
    "products": f"""%t = permute %a [1, 0] : {F} -> tile<64x32xf32>
        %c = constant <f32: 1.0> : tile<32x32xf32>
        %p = mmaf %a, %t, %c : {F}, tile<64x32xf32>, tile<32x32xf32>
        %r = mmaf %p, %a, %a : tile<32x32xf32>, {F}, {F}""",
}


@pytest.mark.parametrize("num_ctas", [2, 8])
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in SHARED.items() if name != "products"])
def test_slices_are_computed_by_different_ctas(body, num_ctas):
    inputs, outputs = [Tile("a", "f32", whole_numbers((32, 64)))], [result((32, 64))]
    (remark,) = planned(kernel_text(inputs, body, outputs), num_ctas)
    assert remark == f"slices.shared-by-ctas ctas={num_ctas} shape=32x64"
    expected, actual = run_both(inputs, body, outputs, "sm_90", num_ctas=num_ctas)
    assert_same(body, actual[0], expected[0], inputs)


def test_a_factor_that_all_rows_take_is_everybodys():
    inputs, outputs = [Tile("a", "f32", whole_numbers((32, 64)))], [result((32, 64))]
    (remark,) = planned(kernel_text(inputs, SHARED["products"], outputs))
    # The tile is the left factor and the right one: its rows cannot be both cut and whole.
    assert remark == "slices.first-cta ctas=2; slices.dependent parts=2"
    inputs.append(Tile("b", "f32", whole_numbers((64, 64), seed=1)))
    body = f"%r = mmaf %a, %b, %a : {F}, tile<64x64xf32>, {F}"
    (remark,) = planned(kernel_text(inputs, body, outputs))
    assert remark.startswith("slices.shared-by-ctas ")
    expected, actual = run_both(inputs, body, outputs, "sm_90", num_ctas=2)
    assert_same(body, actual[0], expected[0], inputs)


# ---- order -----------------------------------------------------------------------------------------------------------

TENSOR = "tensor_view<64x64xf32, strides=[64,1]>"
ROWS, COLUMNS = (f"partition_view<tile=({tile}), {TENSOR}>" for tile in ("16x64", "64x16"))
IN_ORDER = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>) {{
    %t = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : {tensor}
    %v = make_partition_view %t : {first}
    %w = make_partition_view %t : {second}
    %z = constant <i32: 0> : tile<i32>
    %o = constant <i32: 1> : tile<i32>
    %n = constant <i32: 3> : tile<i32>
    %k0 = make_token : token
    %end = for %i in (%z to %n, step %o) : tile<i32> iter_values(%k = %k0) -> (token) {{
      %a, %k1 = load_view_tko weak %v[{at_first}] token=%k : {first}, tile<i32> -> tile<{first_shape}xf32>, token
      %b = addf %a, %a : tile<{first_shape}xf32>
      %k2 = store_view_tko weak %b, %v[{at_first}] token=%k1 : tile<{first_shape}xf32>, {first}, tile<i32> -> token
      %c, %k3 = load_view_tko weak %w[{at_second}] token=%k2 : {second}, tile<i32> -> tile<{second_shape}xf32>, token
      %d = addf %c, %c : tile<{second_shape}xf32>
      %k4 = store_view_tko weak %d, %w[{at_second}] token=%k3 : tile<{second_shape}xf32>, {second}, tile<i32> -> token
      continue %k4 : token
    }}
    return
  }}
}}
"""


def in_order(first, at_first, second, at_second):
    one, other = ("16x64" if view is ROWS else "64x16" for view in (first, second))
    return IN_ORDER.format(tensor=TENSOR, first=first, second=second, at_first=at_first, at_second=at_second,
                           first_shape=one, second_shape=other)  # fmt: skip


def check_in_order(text, num_ctas):
    before = whole_numbers((64, 64))
    expected, actual = before.copy(), before.copy()
    interpret(text, "k", 1, [expected])
    artifact = tileiras.compile(text, gpu_name="sm_90", num_ctas=num_ctas)
    emulate(artifact.text, "k", 1, [actual], metadata=json.loads(artifact.kernels[0].artifacts[".json"]))
    assert (actual == expected).all() and (actual != before).any()


@pytest.mark.parametrize("num_ctas", [2, 4])
def test_adjacent_tiles_are_reread_by_the_cta_that_wrote_them(num_ctas):
    text = in_order(ROWS, "%i, %z", ROWS, "%o, %z")
    assert planned(text, num_ctas) == [f"slices.shared-by-ctas ctas={num_ctas} shape=16x64"] * 2
    check_in_order(text, num_ctas)


def test_tiles_that_cross_are_for_one_cta():
    text = in_order(ROWS, "%i, %z", COLUMNS, "%z, %i")
    (remark,) = planned(text)
    assert remark == "slices.first-cta ctas=2; slices.meets-other-cta"
    check_in_order(text, 2)


def test_read_only_inputs_may_be_sliced_in_any_way():
    """Rows of the one array are written where columns of the other are read, in no order."""
    inputs = [Tile("a", "f32", whole_numbers((32, 32))), Tile("b", "f32", whole_numbers((32, 32), seed=1))]
    body = """%t = permute %b [1, 0] : tile<32x32xf32> -> tile<32x32xf32>
              %r = addf %a, %t : tile<32x32xf32>"""
    outputs = [result((32, 32))]
    assert planned(kernel_text(inputs, body, outputs))[0].startswith("slices.shared-by-ctas ")
    expected, actual = run_both(inputs, body, outputs, "sm_90", num_ctas=2)
    assert_same(body, actual[0], expected[0], inputs)


ONCE = {
    "slices.executes-once op=nv_tileaa.atomic_rmw":
        "%o, %k = atomic_rmw_tko relaxed device %q, addf, %s : tile<ptr<f32>>, tile<f32> -> tile<f32>, token",
    "slices.scalar": "%k = store_ptr_tko weak %q, %s : tile<ptr<f32>>, tile<f32> -> token",
    "slices.executes-once op=nv_tileaa.load":
        "%o, %k = load_ptr_tko relaxed device %q : tile<ptr<f32>> -> tile<f32>, token",
    "slices.executes-once op=nv_tileaa.print": 'print_tko "%f", %s : tile<f32> -> token',
}  # fmt: skip


@pytest.mark.parametrize("why", ONCE)
def test_effects_that_happen_once_are_on_one_cta(why):
    text = kernel_text([Tile("a", "f32", whole_numbers((32, 64)))],
                       f"%r = addf %a, %a : {F}\n%s = constant <f32: 1.0> : tile<f32>\n{ONCE[why]}",
                       [result((32, 64))]).replace("@k(", "@k(%q: tile<ptr<f32>>, ")  # fmt: skip
    (remark,) = planned(text)
    assert remark == f"slices.first-cta ctas=2; {why}"
