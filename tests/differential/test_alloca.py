"""Memory of a tile block: compiled against interpreted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_memory_order import run

import tileiras
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


def test_memory_lives_as_long_as_its_block():
    """An allocation an iteration, given back at its end, of a break as well."""
    assert run(LOOP, 2, [4, np.zeros(1, np.int32)])[1][0] == 0 + 1 + 2 + 3
    ptx = tileiras.compile(LOOP, gpu_name="sm_90", source_name="kernel.mlir").text
    assert ptx.count("call.uni (retval0), malloc") == ptx.count("call.uni free") == 2


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
