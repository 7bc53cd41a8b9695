"""Loads and stores with an order and a scope: every combination and type, and the ordering among tile blocks."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import compiled, run
from tests.kernels.views import tile_type
from tileiras.sim import emulate, interpret

ELEMENTS = {"i1": "bool", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "bf16": "u2", "tf32": "f4",
            "f32": "f4", "f64": "f8"}  # fmt: skip
FP8 = {"f8E4M3FN": "u1", "f8E5M2": "u1"}
SCOPES = ("tl_blk", "device", "sys")
LOADS = ["weak", *(f"{order} {scope}" for order in ("relaxed", "acquire") for scope in SCOPES)]
STORES = ["weak", *(f"{order} {scope}" for order in ("relaxed", "release") for scope in SCOPES)]


def copy_entry(name: str, element: str, load: str, store: str, count: int) -> str:
    """A copy through pointers, and one through views of 3 elements less, whose tiles have more lanes than elements."""
    p, t, i = (tile_type((count,), e) for e in (f"ptr<{element}>", element, "i32"))
    tensor = f"tensor_view<{count - 3}x{element}, strides=[1]>"
    view = f"partition_view<tile=({count}), {tensor}>"
    return f"""  entry @{name}(%a: tile<ptr<{element}>>, %b: tile<ptr<{element}>>, %c: tile<ptr<{element}>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %lane = iota : {i}
    %a1 = reshape %a : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %ab = broadcast %a1 : tile<1xptr<{element}>> -> {p}
    %ap = offset %ab, %lane : {p}, {i} -> {p}
    %b1 = reshape %b : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %bb = broadcast %b1 : tile<1xptr<{element}>> -> {p}
    %bp = offset %bb, %lane : {p}, {i} -> {p}
    %x, %t0 = load_ptr_tko {load} %ap : {p} -> {t}, token
    %t1 = store_ptr_tko {store} %bp, %x token=%t0 : {p}, {t} -> token
    %bt = make_tensor_view %b, shape = [{count - 3}], strides = [1] : {tensor}
    %bv = make_partition_view %bt : {view}
    %ct = make_tensor_view %c, shape = [{count - 3}], strides = [1] : {tensor}
    %cv = make_partition_view %ct : {view}
    %y, %t2 = load_view_tko {load} %bv[%zero] token=%t1 : {view}, tile<i32> -> {t}, token
    %t3 = store_view_tko {store} %y, %cv[%zero] token=%t2 : {t}, {view}, tile<i32> -> token
    return
  }}
"""


@pytest.mark.parametrize("number, gpu_name", list(enumerate(["sm_80", "sm_90", "sm_100", "sm_120"])))
def test_every_order_scope_and_type(number, gpu_name):
    """Combinations go round with types and targets."""
    elements = ELEMENTS if gpu_name == "sm_80" else ELEMENTS | FP8
    counts = itertools.cycle((4, 16, 128, 1024))
    pairs = itertools.islice(itertools.cycle(zip(LOADS, STORES)), 2 * number, None)
    cases = [(f"k{n}", element, *next(pairs), next(counts)) for n, element in enumerate(elements)]
    text = "cuda_tile.module @m {\n" + "".join(copy_entry(*case) for case in cases) + "}\n"
    artifact, metadata = compiled(text, gpu_name)
    generator = np.random.default_rng(3)
    for name, element, _, _, count in cases:
        data = generator.integers(0, 2 if element == "i1" else 100, count).astype(elements[element])
        expected, actual = ([data.copy(), np.zeros_like(data), np.zeros_like(data)] for _ in range(2))
        interpret(text, name, 1, expected)
        emulate(artifact.text, name, 1, actual, metadata=metadata[name])
        for got, want in zip(actual, expected):
            assert (got == want).all(), name
        assert (expected[1] == data).all() and (expected[2][:-3] == data[:-3]).all()


MESSAGE = """cuda_tile.module @m {{
  entry @k(%data: tile<ptr<i32>>, %flags: tile<ptr<i32>>, %out: tile<ptr<i32>>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %lane = iota : tile<256xi32>
    %ones = constant <i32: 1> : tile<256xi32>
    %last = constant <i32: 255> : tile<256xi32>
    %turned = subi %last, %lane : tile<256xi32>
    %d1 = reshape %data : tile<ptr<i32>> -> tile<1xptr<i32>>
    %db = broadcast %d1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
    %dp = offset %db, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %dq = offset %db, %turned : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %first = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>
    if %first {{
      %t0 = store_ptr_tko weak %dp, %last : tile<256xptr<i32>>, tile<256xi32> -> token
      %t1 = store_ptr_tko release device %flags, %one token=%t0 : tile<ptr<i32>>, tile<i32> -> token
    }} else {{
      %start = make_token : token
      %seen = loop iter_values(%t = %start) : token -> token {{
        %f, %t1 = load_ptr_tko {order} device %flags token=%t : tile<ptr<i32>> -> tile<i32>, token
        %set = cmpi equal %f, %one, signed : tile<i32> -> tile<i1>
        if %set {{
          break %t1 : token
        }}
        continue %t1 : token
      }}
      %v, %t2 = load_ptr_tko weak %dq token=%seen : tile<256xptr<i32>> -> tile<256xi32>, token
      %o1 = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
      %ob = broadcast %o1 : tile<1xptr<i32>> -> tile<256xptr<i32>>
      %op = offset %ob, %lane : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
      %t3 = store_ptr_tko weak %op, %v : tile<256xptr<i32>>, tile<256xi32> -> token
    }}
    return
  }}
}}
"""


def test_a_released_flag_passes_on_earlier_stores():
    """Warps of the waiting block would see the flag at different times if each read it for itself."""
    items = [np.zeros(256, np.int32), np.zeros(1, np.int32), np.zeros(256, np.int32)]
    text = MESSAGE.format(order="acquire")
    for gpu_name in ("sm_80", "sm_90"):
        assert (run(text, 2, items, gpu_name, num_warps=8)[2] == 255).all()
    artifact = tileiras.compile(text, gpu_name="sm_90", source_name="kernel.mlir", num_warps=8)
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    for seed in range(8):
        arrays = [array.copy() for array in items]
        emulate(artifact.text, "k", 2, arrays, metadata=metadata, seed=seed)
        assert (arrays[2] == 255).all()
