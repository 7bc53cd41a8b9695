"""Loops and branches on the emulator, scalars and tiles carried through them."""

import re

import numpy as np
import pytest

from tests.tileas_stage import llvm_text, ptx
from tileiras.sim import emulate

KERNEL = """
builtin.module {
  nv_tileaa.func @steps(%a: !nv_tileaa.ptr<i32>, %n: i32)
      attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32
    %m = nv_tileaa.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<i32>, (), () -> MEMREF
    %v = nv_tileaa.block_tile %m : VIEW
    %x, %t = nv_tileaa.tiled_load %v[%c0] : VIEW, (i32) -> tensor<256xi32>, !nv_tileaa.mem_token
    %tile, %count, %last = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x, %q = %c0, %k = %t)
        -> (tensor<256xi32>, i32, !nv_tileaa.mem_token) : i32 {
      %odd = arith.andi %i, %c1 : i32
      %is = arith.cmpi eq, %odd, %c1 : i32
      %new, %r = scf.if %is -> (tensor<256xi32>, i32) {
        %s = nv_tileaa.splat %i : i32 -> tensor<256xi32>
        %y = arith.addi %p, %s : tensor<256xi32>
        scf.yield %y, %c3 : tensor<256xi32>, i32
      } else {
        %y = arith.muli %p, %p : tensor<256xi32>
        scf.yield %y, %q : tensor<256xi32>, i32
      }
      %sum = arith.addi %q, %r : i32
      scf.yield %new, %sum, %k : tensor<256xi32>, i32, !nv_tileaa.mem_token
    }
    %s = nv_tileaa.splat %count : i32 -> tensor<256xi32>
    %y = arith.addi %tile, %s : tensor<256xi32>
    %u = nv_tileaa.tiled_store %y, %v[%c0] token = %last : tensor<256xi32>, VIEW, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
"""
MEMREF = "!nv_tileaa.memref<256xi32, strides = [1]>"
VIEW = f"!nv_tileaa.tiled_view<[256], {MEMREF}>"


def reference(tile, n):
    count = 0
    for i in range(n):
        if i & 1:
            tile, r = tile + i, 3
        else:
            tile, r = tile * tile, count
        count += r
    return tile + count


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_loop_with_branches(gpu):
    text = ptx(KERNEL.replace("VIEW", VIEW).replace("MEMREF", MEMREF), gpu)
    for n in (0, 1, 4, 5):
        a = np.arange(256, dtype=np.int32) % 7
        expected = reference(a, np.int32(n)).astype(np.int32)
        emulate(text, "steps", 1, [a, n])
        assert np.array_equal(a, expected)


@pytest.mark.parametrize("kernel", ["KERNEL", "COLLATZ"])
@pytest.mark.parametrize(("gpu", "types"), [("sm_90", {"i32", "vector<8xi32>"}), ("sm_100", {"i32"})])
def test_32_bit_elements_stay_apart_if_llvm_would_pair_them(kernel, gpu, types):
    text = llvm_text(globals()[kernel].replace("VIEW", VIEW).replace("MEMREF", MEMREF), gpu)
    blocks = re.findall(r"^ *\^bb\d+\((.*)\):", text, re.MULTILINE)
    assert {each.split(": ")[1] for block in blocks for each in block.split(", ")} == types


COLLATZ = """
builtin.module {
  nv_tileaa.func @collatz(%a: !nv_tileaa.ptr<i32>, %n: i32)
      attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c3 = arith.constant 3 : i32
    %m = nv_tileaa.make_memref %a, sizes = [], strides = [] : !nv_tileaa.ptr<i32>, (), () -> MEMREF
    %v = nv_tileaa.block_tile %m : VIEW
    %x, %t = nv_tileaa.tiled_load %v[%c0] : VIEW, (i32) -> tensor<256xi32>, !nv_tileaa.mem_token
    %tile, %steps = "scf.while"(%x, %n) ({
    ^bb0(%p: tensor<256xi32>, %k: i32):
      %go = arith.cmpi sgt, %k, %c1 : i32
      scf.condition(%go) %p, %k : tensor<256xi32>, i32
    }, {
    ^bb0(%p: tensor<256xi32>, %k: i32):
      %s = nv_tileaa.splat %k : i32 -> tensor<256xi32>
      %q = arith.addi %p, %s : tensor<256xi32>
      %odd = arith.andi %k, %c1 : i32
      %is = arith.cmpi eq, %odd, %c1 : i32
      %triple = arith.muli %k, %c3 : i32
      %up = arith.addi %triple, %c1 : i32
      %down = arith.divsi %k, %c2 : i32
      %next = arith.select %is, %up, %down : i1, i32
      scf.yield %q, %next : tensor<256xi32>, i32
    }) : (tensor<256xi32>, i32) -> (tensor<256xi32>, i32)
    %s = nv_tileaa.splat %steps : i32 -> tensor<256xi32>
    %y = arith.addi %tile, %s : tensor<256xi32>
    %u = nv_tileaa.tiled_store %y, %v[%c0] token = %t : tensor<256xi32>, VIEW, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
"""


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_loop_whose_end_is_computed(gpu):
    text = ptx(COLLATZ.replace("VIEW", VIEW).replace("MEMREF", MEMREF), gpu)
    for n in (1, 7):
        a = np.arange(256, dtype=np.int32)
        expected, k = a.copy(), n
        while k > 1:
            expected, k = expected + k, 3 * k + 1 if k & 1 else k // 2
        emulate(text, "collatz", 1, [a, n])
        assert np.array_equal(a, expected + k)
