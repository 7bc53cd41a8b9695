"""ptxas is told that one CTA of an SM is enough where tiles take all registers of a thread or more than two have, and
nothing elsewhere."""

from __future__ import annotations

import json

import pytest

import tileiras
from tileiras.codegen import toolkit

PRODUCT = """cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
    %i = constant <i32: 0> : tile<i32>
    %z = constant <f32: 0.0> : tile<64x64xf32>
    %aa = assume div_by<16>, %a : tile<ptr<f16>>
    %ba = assume div_by<16>, %b : tile<ptr<f16>>
    %av = make_tensor_view %aa, shape = [64, {k}], strides = [{k}, 1] : tensor_view<64x{k}xf16, strides=[{k},1]>
    %bv = make_tensor_view %ba, shape = [{k}, 64], strides = [64, 1] : tensor_view<{k}x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %ap = make_partition_view %av : partition_view<tile=(64x{k}), tensor_view<64x{k}xf16, strides=[{k},1]>>
    %bp = make_partition_view %bv : partition_view<tile=({k}x64), tensor_view<{k}x64xf16, strides=[64,1]>>
    %cp = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %at, %t0 = load_view_tko relaxed device %ap[%i, %i]
      : partition_view<tile=(64x{k}), tensor_view<64x{k}xf16, strides=[{k},1]>>, tile<i32> -> tile<64x{k}xf16>, token
    %bt, %t1 = load_view_tko relaxed device %bp[%i, %i]
      : partition_view<tile=({k}x64), tensor_view<{k}x64xf16, strides=[64,1]>>, tile<i32> -> tile<{k}x64xf16>, token
    %ct = mmaf %at, %bt, %z : tile<64x{k}xf16>, tile<{k}x64xf16>, tile<64x64xf32>
    %t2 = store_view_tko weak %ct, %cp[%i, %i]
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }}
}}
"""

WORD = ".minnctapersm 1"


@pytest.mark.parametrize("depth, told", [(64, False), (256, False), (1024, True)])
def test_products_of_factors_that_fill_all_registers(depth, told):
    # Loads with an order stay whole, and in registers.
    text = tileiras.compile(PRODUCT.format(k=depth), gpu_name="sm_90").text
    assert (WORD in text) is told


ROWS = """cuda_tile.module @m {
  entry @k(%a: tile<ptr<f32>>, %c: tile<ptr<f32>>) {
    %i = constant <i32: 0> : tile<i32>
    %av = make_tensor_view %a, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %cv = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %ap = make_partition_view %av : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %cp = make_partition_view %cv : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %at, %t0 = load_view_tko weak %ap[%i, %i] : partition_view<tile=(128x128),
      tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> tile<128x128xf32>, token
    %et, %t1 = load_view_tko weak %cp[%i, %i] : partition_view<tile=(128x128),
      tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> tile<128x128xf32>, token
    %sum = reduce %at dim=1 identities=[0.0 : f32] : tile<128x128xf32> -> tile<128xf32>
    (%x: tile<f32>, %y: tile<f32>) {
      %z = addf %x, %y : tile<f32>
      yield %z : tile<f32>
    }
    %column = reshape %sum : tile<128xf32> -> tile<128x1xf32>
    %all = broadcast %column : tile<128x1xf32> -> tile<128x128xf32>
    %parts = divf %at, %all : tile<128x128xf32>
    %ct = mulf %et, %parts : tile<128x128xf32>
    %t2 = store_view_tko weak %ct, %cp[%i, %i] : tile<128x128xf32>, partition_view<tile=(128x128),
      tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
"""


def test_rows_of_which_ptxas_makes_a_little_again():
    # 512 threads have 128 registers each, with a second CTA 64: 32 of them hold the rows, 32 the second tile, 8 what is
    # known of rows.
    assert WORD not in tileiras.compile(ROWS, gpu_name="sm_90", num_warps=16).text


SUMS = """cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
    %i = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %n = constant <i32: 16> : tile<i32>
    %z = constant <f32: 0.0> : tile<{m}x256xf32>
    %aa = assume div_by<{aligned}>, %a : tile<ptr<f16>>
    %ba = assume div_by<{aligned}>, %b : tile<ptr<f16>>
    %av = make_tensor_view %aa, shape = [{m}, 4096], strides = [4096, 1] : tensor_view<{m}x4096xf16, strides=[4096,1]>
    %bv = make_tensor_view %ba, shape = [4096, 256], strides = [256, 1] : tensor_view<4096x256xf16, strides=[256,1]>
    %cv = make_tensor_view %c, shape = [{m}, 256], strides = [256, 1] : tensor_view<{m}x256xf32, strides=[256,1]>
    %ap = make_partition_view %av : partition_view<tile=({m}x{k}), tensor_view<{m}x4096xf16, strides=[4096,1]>>
    %bp = make_partition_view %bv : partition_view<tile=({k}x256), tensor_view<4096x256xf16, strides=[256,1]>>
    %cp = make_partition_view %cv : partition_view<tile=({m}x256), tensor_view<{m}x256xf32, strides=[256,1]>>
    %ct = for %j in (%i to %n, step %one) : tile<i32> iter_values(%s = %z) -> (tile<{m}x256xf32>) {{
      %at, %t0 = load_view_tko weak %ap[%i, %j]
        : partition_view<tile=({m}x{k}), tensor_view<{m}x4096xf16, strides=[4096,1]>>, tile<i32>
          -> tile<{m}x{k}xf16>, token
      %bt, %t1 = load_view_tko weak %bp[%j, %i]
        : partition_view<tile=({k}x256), tensor_view<4096x256xf16, strides=[256,1]>>, tile<i32>
          -> tile<{k}x256xf16>, token
      %next = mmaf %at, %bt, %s : tile<{m}x{k}xf16>, tile<{k}x256xf16>, tile<{m}x256xf32>
      continue %next : tile<{m}x256xf32>
    }}
    %t2 = store_view_tko weak %ct, %cp[%i, %i]
      : tile<{m}x256xf32>, partition_view<tile=({m}x256), tensor_view<{m}x256xf32, strides=[256,1]>>, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize(
    "rows, depth, aligned, told",
    [
        (64, 16, 2, False),
        (64, 16, 16, False),
        pytest.param(128, 16, 2, True, id="a thread of 256 has 128 of the sums, and two factors"),
        pytest.param(64, 64, 16, True, id="three stages of 40 KiB are more than half of the shared memory"),
    ],
)
def test_sums_of_which_two_ctas_have_no_room(rows, depth, aligned, told):
    text = tileiras.compile(SUMS.format(m=rows, k=depth, aligned=aligned), gpu_name="sm_90", num_warps=8).text
    assert (WORD in text) is told


def test_ptxas_gives_such_kernels_the_registers_that_there_are():
    if toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    artifact = tileiras.compile(PRODUCT.format(k=1024), gpu_name="sm_90", emit="cubin")
    found = json.loads(artifact.kernels[0].artifacts[".resources.json"])
    assert found["kernels"]["k"]["registers"] > 168


def test_the_kernels_own_wish_comes_first():
    hints = "optimization_hints=<sm_90 = {occupancy = 2}> {"
    wish = PRODUCT.format(k=64).replace("tile<ptr<f32>>) {", f"tile<ptr<f32>>) {hints}")
    assert ".minnctapersm 2" in tileiras.compile(wish, gpu_name="sm_90").text
