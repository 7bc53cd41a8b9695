"""ptxas is told that one CTA of an SM is enough where tiles take all registers of a thread, and nothing elsewhere."""

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
    %at, %t0 = load_view_tko weak %ap[%i, %i]
      : partition_view<tile=(64x{k}), tensor_view<64x{k}xf16, strides=[{k},1]>>, tile<i32> -> tile<64x{k}xf16>, token
    %bt, %t1 = load_view_tko weak %bp[%i, %i]
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
    text = tileiras.compile(PRODUCT.format(k=depth), gpu_name="sm_90").text
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
