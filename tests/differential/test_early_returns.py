"""Returns inside of loops end the kernel, however deep."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate, interpret

STORE = "store_ptr_tko weak %p, {} : tile<ptr<i32>>, tile<i32> -> token"
MODULE = f"""cuda_tile.module @m {{
  entry @direct(%p: tile<ptr<i32>>, %n: tile<i32>) {{
    %one = constant <i32: 1> : tile<i32>
    loop {{
      %0 = {STORE.format("%one")}
      return
    }}
    %1 = {STORE.format("%n")}
  }}
  entry @nested(%p: tile<ptr<i32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %five = constant <i32: 5> : tile<i32>
    %r = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {{
      %last = cmpi equal %i, %n, signed : tile<i32> -> tile<i1>
      %next = addi %i, %one : tile<i32>
      %s = loop iter_values(%j = %zero) : tile<i32> -> tile<i32> {{
        %enough = cmpi equal %j, %five, signed : tile<i32> -> tile<i1>
        if %enough {{
          break %j : tile<i32>
        }}
        %far = cmpi greater_than %next, %five, signed : tile<i32> -> tile<i1>
        %0 = {STORE.format("%next")}
        if %far {{
          return
        }}
        %k = addi %j, %one : tile<i32>
        continue %k : tile<i32>
      }}
      if %last {{
        break %s : tile<i32>
      }}
      continue %next : tile<i32>
    }}
    %q = addi %r, %n : tile<i32>
    %1 = {STORE.format("%q")}
  }}
}}
"""


@pytest.fixture(scope="module")
def kernels():
    artifact = tileiras.compile(MODULE, gpu_name="sm_90", source_name="returns")
    return {kernel.name: kernel.artifacts for kernel in artifact.kernels}


@pytest.mark.parametrize(("entry", "n", "value"), [("direct", 4, 1), ("nested", 2, 7), ("nested", 9, 6)])
def test_a_return_ends_the_kernel(kernels, entry, n, value):
    result = [np.full(2, -1, np.int32) for _ in range(2)]
    interpret(MODULE, entry, 1, [result[0], n])
    artifacts = kernels[entry]
    emulate(artifacts[".ptx"].decode(), entry, 1, [result[1], n], metadata=json.loads(artifacts[".json"]))
    assert [list(array) for array in result] == [[value, -1]] * 2
