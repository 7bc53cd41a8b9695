"""Each pass of the lowering continues from the text of the pass before it: texts lose nothing."""

import pytest

import tileiras
from tests.kernels.dots import Matmul
from tileiras.driver.tileir_pipeline import llvm_passes
from tileiras.ir import parse_module, print_op, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.lowering.llvm_to_ir import translate_module

ASSERTIONS = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %seven = constant <i32: 7> : tile<i32>
    %positive = cmpi greater_than %n, %zero, signed : tile<i32> -> tile<i1>
    assert %positive, "no elements" : tile<i1>
    %last = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%s = %zero) -> (tile<i32>) {
      %small = cmpi less_than %s, %n, signed : tile<i32> -> tile<i1>
      assert %small, "too many" : tile<i1>
      %next = divi %n, %k signed rounding<negative_inf> : tile<i32>
      continue %next : tile<i32>
    }
    %x = itof %last signed : tile<i32> -> tile<f32>
    %y = exp %x : tile<f32>
    %t = store_ptr_tko weak %p, %y : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""


def products() -> str:
    product = Matmul((64, 64, 32), steps=4)
    return product.kernel(product.text(store=[product.c.store("sum")])).compiled("sm_90", emit="tileas").text


def assertions() -> str:
    return tileiras.compile(ASSERTIONS, gpu_name="sm_90", emit="tileas").text


@pytest.mark.parametrize("source", [assertions, products])
def test_texts_between_passes_are_the_whole_program(source):
    text = source()
    whole = parse_module(text, "k.mlir")
    PassManager(llvm_passes("compute-capability=sm_90")).run(whole, PassContext())
    module = parse_module(text, "k.mlir")
    for item in llvm_passes("compute-capability=sm_90"):
        PassManager([item]).run(module, PassContext())
        printed = print_op(module)
        module = parse_module(printed, "k.mlir")
        verify(module)
        assert print_op(module) == printed, item.name
    assert translate_module(module, "sm_90") == translate_module(whole, "sm_90")
