"""Which accesses may meet: pointers followed through arithmetic, views, branches and loops."""

from __future__ import annotations

import pytest

import tileiras
from tileiras.analysis.alias import AliasAnalysis, address_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import parse_module

TEXT = """cuda_tile.module @m {
  global @g <i32: [1, 2]> : tile<2xi32>
  global @h <i32: [1, 2]> : tile<2xi32>
  entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %table: tile<ptr<i64>>, %c: tile<i1>, %n: tile<i32>) {
    %one = constant <i32: 1> : tile<i32>
    %a = alloca num_elem = 4, alignment = 4 : tile<ptr<i32>>
    %b = alloca num_elem = 4, alignment = 4 : tile<ptr<i32>>
    %g = get_global @g : tile<ptr<i32>>
    %h = get_global @h : tile<ptr<i32>>
    %row, %t0 = load_ptr_tko weak %table : tile<ptr<i64>> -> tile<i64>, token
    %far = int_to_ptr %row : tile<i64> -> tile<ptr<i32>>
    %either = if %c -> (tile<ptr<i32>>) {
      yield %a : tile<ptr<i32>>
    } else {
      yield %g : tile<ptr<i32>>
    }
    %walked = for %i in (%one to %n, step %one) : tile<i32> iter_values(%w = %b) -> (tile<ptr<i32>>) {
      %next = offset %w, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      continue %next : tile<ptr<i32>>
    }
    %v = make_tensor_view %a, shape = [4], strides = [1] : tensor_view<4xi32, strides=[1]>
    %pv = make_partition_view %v : partition_view<tile=(4), tensor_view<4xi32, strides=[1]>>
    %zero = constant <i32: 0> : tile<i32>
    %t1 = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token
    %t2 = store_ptr_tko weak %q, %one : tile<ptr<i32>>, tile<i32> -> token
    %t3 = store_ptr_tko weak %a, %one : tile<ptr<i32>>, tile<i32> -> token
    %t4 = store_ptr_tko weak %b, %one : tile<ptr<i32>>, tile<i32> -> token
    %t5 = store_ptr_tko weak %g, %one : tile<ptr<i32>>, tile<i32> -> token
    %t6 = store_ptr_tko weak %h, %one : tile<ptr<i32>>, tile<i32> -> token
    %t7 = store_ptr_tko weak %far, %one : tile<ptr<i32>>, tile<i32> -> token
    %t8 = store_ptr_tko weak %either, %one : tile<ptr<i32>>, tile<i32> -> token
    %t9 = store_ptr_tko weak %walked, %one : tile<ptr<i32>>, tile<i32> -> token
    %x, %t10 = load_view_tko weak %pv[%zero]
        : partition_view<tile=(4), tensor_view<4xi32, strides=[1]>>, tile<i32> -> tile<4xi32>, token
    %t11 = print_tko "%d", %x : tile<4xi32> -> token
    return
  }
}
"""
NAMES = ("p", "q", "a", "b", "g", "h", "far", "either", "walked", "view")
MEET = {
    "p": "p q g h far either", "a": "a far either view", "b": "b far walked", "g": "p q g far either",
    "h": "p q h far", "view": "a far either view", "either": "p q a g far either view",
}  # fmt: skip


@pytest.fixture(scope="module")
def accesses():
    text = tileiras.compile(TEXT, gpu_name="sm_90", emit="tileaa", source_name="kernel.mlir").text
    module = parse_module(text, "kernel.tileaa.mlir")
    operations = [op for op in module.walk() if isinstance(op, (aa.StoreOp, aa.TiledLoadOp))]
    return module, dict(zip(NAMES, operations, strict=True))


@pytest.mark.parametrize("name", MEET)
def test_pairs_that_may_meet(accesses, name):
    _, operations = accesses
    aliases = AliasAnalysis()
    address = address_of(operations[name])
    meeting = [other for other in NAMES if aliases.may_alias(address, address_of(operations[other]))]
    assert meeting == [other for other in NAMES if other in MEET[name].split()]
