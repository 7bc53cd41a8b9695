"""Bounds of integers: from assumptions, the grid and loops, through arithmetic; and the instructions that they save."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.dots import matmul
from tileiras.analysis.ranges import Range, RangeAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.bulk_copies import TmaLoadOp
from tileiras.ir import parse_module
from tileiras.sim import emulate

BODY = """cuda_tile.module @m {
  entry @k(%n: tile<i32>, %m: tile<i32>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %a = assume bounded<3, 10>, %n : tile<i32>
    %b = assume bounded<?, 5>, %a : tile<i32>
    %c4 = constant <i32: 4> : tile<i32>
    %c = constant <i32: -7> : tile<i32>
    %sum = addi %a, %b : tile<i32>
    %difference = subi %a, %b : tile<i32>
    %product = muli %a, %c : tile<i32>
    %quotient = divi %a, %c4 signed rounding<positive_inf> : tile<i32>
    %unsigned = divi %m, %c4 unsigned rounding<positive_inf> : tile<i32>
    %remainder = remi %a, %c4 signed : tile<i32>
    %masked = andi %m, %c4 : tile<i32>
    %wide = exti %product signed : tile<i32> -> tile<i64>
    %unknown = addi %m, %c4 : tile<i32>
    %wrapped = muli %x, %nx : tile<i32>
    %least = mini %m, %c4 signed : tile<i32>
    %lanes = iota : tile<32xi32>
    %s1 = reshape %a : tile<i32> -> tile<1xi32>
    %sb = broadcast %s1 : tile<1xi32> -> tile<32xi32>
    %places = addi %lanes, %sb : tile<32xi32>
    %last = for %i in (%b to %a, step %c4) : tile<i32> iter_values(%t = %c4) -> (tile<i32>) {
      %t0 = print_tko "%d", %i : tile<i32> -> token
      continue %i : tile<i32>
    }
    SHOW
    return
  }
}
"""
EXPECTED = {
    "sum": (6, 15), "difference": (-2, 7), "product": (-70, -21), "quotient": (0, 3), "remainder": (0, 3),
    "unsigned": (0, 2**30), "masked": (0, 4), "wide": (-70, -21), "unknown": (-(2**31), 2**31 - 1),
    "wrapped": (-(2**31), 2**31 - 1), "least": (-(2**31), 4), "places": (3, 41),
    "x": (0, 2**24 - 2), "ny": (1, 2**24 - 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def shown():
    """The values of EXPECTED, and the loop's counter last."""
    types = {"places": "tile<32xi32>", "wide": "tile<i64>"}
    lines = [f'%p{n} = print_tko "%d", %{v} : {types.get(v, "tile<i32>")} -> token' for n, v in enumerate(EXPECTED)]
    text = BODY.replace("SHOW", "\n".join(lines))
    text = tileiras.compile(text, gpu_name="sm_90", emit="tileaa", source_name="kernel.mlir").text
    module = parse_module(text, "kernel.tileaa.mlir")
    counter, *others = [op.args[0] for op in module.walk() if isinstance(op, aa.PrintOp)]
    return module, dict(zip(EXPECTED, others, strict=True)), counter


@pytest.mark.parametrize("name", EXPECTED)
def test_arithmetic(shown, name):
    assert RangeAnalysis().range(shown[1][name]) == Range(*EXPECTED[name])


def test_counter_of_a_loop(shown):
    assert RangeAnalysis().range(shown[2]) == Range(3, 9)


def test_comparisons_that_ranges_decide(shown):
    _, values, _ = shown
    ranges = RangeAnalysis()
    assert ranges.decided("slt", values["product"], values["sum"]) is True
    assert ranges.decided("ult", values["remainder"], values["sum"]) is True
    assert ranges.decided("sge", values["masked"], values["sum"]) is False
    assert ranges.decided("ne", values["places"], values["wide"]) is True
    assert ranges.decided("ult", values["product"], values["sum"]) is None
    assert ranges.decided("sle", values["difference"], values["sum"]) is None


VIEW = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {{
    %k = {index}
    %t = make_tensor_view %p, shape = [1000], strides = [1] : tensor_view<1000xf32, strides=[1]>
    %v = make_partition_view %t : partition_view<tile=(128), tensor_view<1000xf32, strides=[1]>>
    %x, %t0 = load_view_tko weak %v[%k]{promise} : partition_view<tile=(128), tensor_view<1000xf32, strides=[1]>>,
        tile<i32> -> tile<128xf32>, token
    %t1 = store_view_tko weak %x, %v[%k] token = %t0{promise}
        : tile<128xf32>, partition_view<tile=(128), tensor_view<1000xf32, strides=[1]>>, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize(
    "index, promise, checked",
    [
        ("assume bounded<0, 6>, %n : tile<i32>", "", False),
        ("assume bounded<0, 7>, %n : tile<i32>", "", True),
        ("assume bounded<?, 6>, %n : tile<i32>", "", True),
        ("reshape %n : tile<i32> -> tile<i32>", " inbounds = [true]", False),
    ],
)
def test_accesses_that_are_surely_inside_are_not_checked(index, promise, checked):
    text = VIEW.format(index=index, promise=promise)
    ptx = tileiras.compile(text, gpu_name="sm_90", source_name="kernel.mlir").text
    assert ("setp" in ptx) == checked


SIZED = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n0: tile<i32>, %k0: tile<i32>) {{
    %n = assume bounded<0, ?>, %n0 : tile<i32>
    %k = assume bounded<{low}, {high}>, %k0 : tile<i32>
    %t = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %u = make_tensor_view %q, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %v = make_partition_view %t : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf32, strides=[1]>>
    %w = make_partition_view %u : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
    %zero = constant <i32: 0> : tile<i32>
    %z = constant <f32: 0.0> : tile<1024xf32>
    %r = for %i in (%zero to %n0, step %n0) : tile<i32> iter_values(%a = %z) -> (tile<1024xf32>) {{
    %x, %t0 = load_view_tko weak %v[%k]
        : partition_view<tile=(1024), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32>
        -> tile<1024xf32>, token
    continue %x : tile<1024xf32>
    }}
    %t1 = store_view_tko weak %r, %w[%zero]
        : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("most", [2**21 - 1, 2**21])
def test_bounds_of_the_last_tiles_of_32_bits_and_of_more(most):
    artifact = tileiras.compile(SIZED.format(low=0, high=most), gpu_name="sm_90", source_name="kernel.mlir")
    source = np.arange(1, 3001, dtype=np.float32)
    for size, tile in [(3000, 0), (3000, 2), (1500, 1), (1024, 1), (1, 0), (3000, most)]:
        loaded, expected = np.full(1024, np.nan, np.float32), np.zeros(1024, np.float32)
        inside = source[1024 * tile : size][:1024]
        expected[: len(inside)] = inside
        emulate(artifact.text, "k", 1, [source, loaded, size, tile], metadata=artifact.kernels[0].metadata)
        np.testing.assert_array_equal(loaded, expected)


def test_counter_of_an_iteration_that_is_known_to_follow():
    module = matmul((64, 64, 64), steps=512).tileas("sm_90", tensor_maps="host", pipeline_strategy="unspecialize")
    ahead = [op for op in module.walk() if isinstance(op, TmaLoadOp) and isinstance(op.parent_op, scf.IfOp)]
    ranges = RangeAnalysis()
    assert max(ranges.range(value).high for op in ahead for value in op.coords) == 511
