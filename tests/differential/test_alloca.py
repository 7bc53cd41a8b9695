"""Memory of a tile block: compiled against interpreted."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import run
from tileiras.sim import emulate, interpret
from tileiras.sim.emulator.errors import EmulationError
from tileiras.sim.errors import SimulationError


def pointers(base: str, name: str, element: str, count: int) -> str:
    return f"""%{name}1 = reshape {base} : tile<ptr<{element}>> -> tile<1xptr<{element}>>
        %{name}b = broadcast %{name}1 : tile<1xptr<{element}>> -> tile<{count}xptr<{element}>>
        %{name} = offset %{name}b, %lane
            : tile<{count}xptr<{element}>>, tile<{count}xi32> -> tile<{count}xptr<{element}>>"""


TURN = """cuda_tile.module @m {{
  entry @k(%out: tile<ptr<{e}>>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %lane = iota : tile<{n}xi32>
    %last = constant <i32: {last}> : tile<{n}xi32>
    %turned = subi %last, %lane : tile<{n}xi32>
    %size = constant <i32: {n}> : tile<i32>
    %start = muli %x, %size : tile<i32>
    %mine = offset %out, %start : tile<ptr<{e}>>, tile<i32> -> tile<ptr<{e}>>
    {o}
    %memory = alloca num_elem = {n}, alignment = {alignment} {shared}: tile<ptr<{e}>>
    %aligned = assume div_by<{alignment}>, %memory : tile<ptr<{e}>>
    {m}
    %there = offset %mb, %turned : tile<{n}xptr<{e}>>, tile<{n}xi32> -> tile<{n}xptr<{e}>>
    %v = {convert} : tile<{n}xi32> -> tile<{n}x{e}>
    %t0 = store_ptr_tko weak %m, %v : tile<{n}xptr<{e}>>, tile<{n}x{e}> -> token
    %w, %t1 = load_ptr_tko weak %there token=%t0 : tile<{n}xptr<{e}>> -> tile<{n}x{e}>, token
    %t2 = store_ptr_tko weak %o, %w : tile<{n}xptr<{e}>>, tile<{n}x{e}> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize(
    "element, count, alignment, shared",
    [("i8", 16, 1, ""), ("i16", 256, 256, "global "), ("f32", 1024, 16, ""), ("f64", 4, 64, "global ")],
)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
def test_each_block_has_its_own_memory(element, count, alignment, shared, gpu_name):
    convert = {"i8": "trunci %lane", "i16": "trunci %lane"}.get(element, "itof %lane signed")
    text = TURN.format(
        e=element, n=count, last=count - 1, alignment=alignment, shared=shared, convert=convert,
        o=pointers("%mine", "o", element, count), m=pointers("%aligned", "m", element, count),
    )  # fmt: skip
    dtype = {"i8": np.int8, "i16": np.int16, "f32": np.float32, "f64": np.float64}[element]
    expected = run(text, 3, [np.zeros(3 * count, dtype)], gpu_name, num_warps=4)[0]
    assert (expected == np.tile(np.arange(count)[::-1], 3).astype(dtype)).all()


LOOP = """cuda_tile.module @m {
  entry @k(%n: tile<i32>, %out: tile<ptr<i32>>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %count, %sum = loop iter_values(%i = %zero, %s = %zero) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
      %m = alloca num_elem = 2, alignment = 32 : tile<ptr<i32>>
      %second = offset %m, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %t0 = store_ptr_tko weak %second, %i : tile<ptr<i32>>, tile<i32> -> token
      %done = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
      if %done {
        %w = alloca num_elem = 1, alignment = 4 : tile<ptr<i32>>
        %t1 = store_ptr_tko weak %w, %s : tile<ptr<i32>>, tile<i32> -> token
        %last, %t2 = load_ptr_tko weak %w token=%t1 : tile<ptr<i32>> -> tile<i32>, token
        break %i, %last : tile<i32>, tile<i32>
      }
      %v, %t3 = load_ptr_tko weak %second token=%t0 : tile<ptr<i32>> -> tile<i32>, token
      %more = addi %s, %v : tile<i32>
      %next = addi %i, %one : tile<i32>
      continue %next, %more : tile<i32>, tile<i32>
    }
    %t4 = store_ptr_tko weak %out, %sum : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""


@pytest.mark.parametrize("shared", ["", " global"])
def test_memory_lives_as_long_as_its_block(shared):
    """An allocation an iteration, given back at its end, of a break as well."""
    text = LOOP.replace("alignment = 32", f"alignment = 32{shared}").replace("alignment = 4", f"alignment = 4{shared}")
    assert run(text, 2, [4, np.zeros(1, np.int32)])[1][0] == 0 + 1 + 2 + 3
    ptx = tileiras.compile(text, gpu_name="sm_90", source_name="kernel.mlir").text
    calls = 2 if shared else 0
    assert ptx.count("call.uni (retval0), malloc") == ptx.count("call.uni free") == calls


def test_memory_in_sight_is_shared_memory():
    """Views, contending updates and compare-and-swap of it, beside reductions and conversions that use shared memory as
    well, in a loop."""
    text = """cuda_tile.module @m {
      entry @k(%out: tile<ptr<i32>>) {
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %three = constant <i32: 3> : tile<i32>
        %lane = iota : tile<256xi32>
        %eight = constant <i32: 8> : tile<256xi32>
        %slot = remi %lane, %eight unsigned : tile<256xi32>
        %zeros = constant <i32: 0> : tile<256xi32>
        %end = for %i in (%zero to %three, step %one) : tile<i32> iter_values(%sum = %zero) -> (tile<i32>) {
          %counts = alloca num_elem = 256, alignment = 16 : tile<ptr<i32>>
          %square = alloca num_elem = 256, alignment = 128 : tile<ptr<i32>>
          %c1 = reshape %counts : tile<ptr<i32>> -> tile<1xptr<i32>>
          %cb = broadcast %c1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
          %all = offset %cb, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
          %few = offset %cb, %slot : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
          %t0 = store_ptr_tko weak %all, %zeros : tile<256xptr<i32>>, tile<256xi32> -> token
          %o, %t1 = atomic_rmw_tko relaxed tl_blk %few, add, %lane token=%t0
              : tile<256xptr<i32>>, tile<256xi32> -> tile<256xi32>, token
          %u, %t2 = atomic_cas_tko acq_rel tl_blk %all, %zeros, %lane token=%t1
              : tile<256xptr<i32>>, tile<256xi32> -> tile<256xi32>, token
          %v, %t3 = load_ptr_tko relaxed tl_blk %all token=%t2 : tile<256xptr<i32>> -> tile<256xi32>, token
          %st = make_tensor_view %square, shape = [16, 16], strides = [16, 1] : tensor_view<16x16xi32, strides=[16,1]>
          %sv = make_partition_view %st : partition_view<tile=(16x16), tensor_view<16x16xi32, strides=[16,1]>>
          %tv = make_partition_view %st
              : partition_view<tile=(16x16), tensor_view<16x16xi32, strides=[16,1]>, dim_map=[1, 0]>
          %w = reshape %v : tile<256xi32> -> tile<16x16xi32>
          %t4 = store_view_tko weak %w, %sv[%zero, %zero]
              : tile<16x16xi32>, partition_view<tile=(16x16), tensor_view<16x16xi32, strides=[16,1]>>, tile<i32>
              -> token
          %x, %t5 = load_view_tko weak %tv[%zero, %zero] token = %t4
              : partition_view<tile=(16x16), tensor_view<16x16xi32, strides=[16,1]>, dim_map=[1, 0]>, tile<i32>
              -> tile<16x16xi32>, token
          %r = reduce %x dim=0 identities=[0 : i32] : tile<16x16xi32> -> tile<16xi32> (%a: tile<i32>, %b: tile<i32>) {
            %c = addi %a, %b : tile<i32>
            yield %c : tile<i32>
          }
          %p = iota : tile<16xi32>
          %weighted = muli %r, %p : tile<16xi32>
          %s = reduce %weighted dim=0 identities=[0 : i32] : tile<16xi32> -> tile<i32> (%a: tile<i32>, %b: tile<i32>) {
            %c = addi %a, %b : tile<i32>
            yield %c : tile<i32>
          }
          %more = addi %sum, %s : tile<i32>
          continue %more : tile<i32>
        }
        %t6 = store_ptr_tko weak %out, %end : tile<ptr<i32>>, tile<i32> -> token
        return
      }
    }
    """
    for gpu_name in ("sm_80", "sm_90"):
        ptx = tileiras.compile(text, gpu_name=gpu_name, source_name="kernel.mlir").text
        assert "malloc" not in ptx and re.search(r"atom\.(acq_rel|relaxed)\.cta\.shared\.cas\.b32", ptx)
        for num_warps in (None, 4):
            run(text, 2, [np.zeros(1, np.int32)], gpu_name, num_warps=num_warps)


@pytest.mark.parametrize(
    "use",
    [
        "%i = ptr_to_int %m : tile<ptr<i32>> -> tile<i64>\n"
        "%t = store_ptr_tko weak %addresses, %i : tile<ptr<i64>>, tile<i64> -> token",
        "%p = select %c, %m, %out : tile<i1>, tile<ptr<i32>>\n"
        "%t = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token",
    ],
)
def test_memory_out_of_sight_is_on_the_heap(use):
    text = f"""cuda_tile.module @m {{
      entry @k(%c: tile<i1>, %out: tile<ptr<i32>>, %addresses: tile<ptr<i64>>) {{
        %one = constant <i32: 1> : tile<i32>
        %m = alloca num_elem = 1, alignment = 4 : tile<ptr<i32>>
        {use}
        return
      }}
    }}
    """
    assert "malloc" in tileiras.compile(text, gpu_name="sm_90", source_name="kernel.mlir").text


def test_an_address_is_dead_behind_its_block():
    text = """cuda_tile.module @m {
      entry @k(%c: tile<i1>, %out: tile<ptr<i32>>) {
        %p = if %c -> (tile<ptr<i32>>) {
          %m = alloca num_elem = 1, alignment = 4 : tile<ptr<i32>>
          yield %m : tile<ptr<i32>>
        } else {
          yield %out : tile<ptr<i32>>
        }
        %one = constant <i32: 1> : tile<i32>
        %t = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token
        return
      }
    }
    """
    out = np.zeros(1, np.int32)
    with pytest.raises(SimulationError, match="in no allocation"):
        interpret(text, "k", 1, [True, out])
    artifact = tileiras.compile(text, gpu_name="sm_90", source_name="kernel.mlir")
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    with pytest.raises(EmulationError, match="in no allocation"):
        emulate(artifact.text, "k", 1, [True, out], metadata=metadata)
    emulate(artifact.text, "k", 1, [False, out], metadata=metadata)
    assert out[0] == 1
