"""Every atomic update, order and scope: compiled against interpreted, with lanes that contend and lanes masked off."""

from __future__ import annotations

import itertools
import json

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tests.kernels.tiles import compiled
from tests.kernels.views import tile_type
from tileiras.sim import emulate, interpret

DTYPES = {"i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
          "f64": np.float64}  # fmt: skip
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("tl_blk", "device", "sys")
INTEGER_MODES = ("add", "and", "or", "xor", "max", "min", "umax", "umin")
UPDATES = [
    *itertools.product(INTEGER_MODES, ("i32", "i64")),
    *itertools.product(("addf",), ("f16", "bf16", "f32", "f64")),
    *itertools.product(("xchg",), ("i32", "i64", "f32", "f64")),
]
COUNT, PLACES = 128, 5


def entry(name: str, mode: str, element: str, order: str, scope: str) -> str:
    """Lanes 0 to 89 update few places and ignore the old values, then all lanes update places of their own and store
    the old values."""
    p, t = tile_type((COUNT,), f"ptr<{element}>"), tile_type((COUNT,), element)
    i, m, one = tile_type((COUNT,), "i32"), tile_type((COUNT,), "i1"), tile_type((1,), f"ptr<{element}>")
    return f"""  entry @{name}(%few: tile<ptr<{element}>>, %own: tile<ptr<{element}>>, %out: tile<ptr<{element}>>,
      %values: tile<ptr<{element}>>) {{
    %lane = iota : {i}
    %places = constant <i32: {PLACES}> : {i}
    %place = remi %lane, %places unsigned : {i}
    %limit = constant <i32: 90> : {i}
    %mask = cmpi less_than %lane, %limit, signed : {i} -> {m}
    %few1 = reshape %few : tile<ptr<{element}>> -> {one}
    %fewb = broadcast %few1 : {one} -> {p}
    %fewp = offset %fewb, {"%lane" if mode == "xchg" else "%place"} : {p}, {i} -> {p}
    %own1 = reshape %own : tile<ptr<{element}>> -> {one}
    %ownb = broadcast %own1 : {one} -> {p}
    %ownp = offset %ownb, %lane : {p}, {i} -> {p}
    %out1 = reshape %out : tile<ptr<{element}>> -> {one}
    %outb = broadcast %out1 : {one} -> {p}
    %outp = offset %outb, %lane : {p}, {i} -> {p}
    %val1 = reshape %values : tile<ptr<{element}>> -> {one}
    %valb = broadcast %val1 : {one} -> {p}
    %valp = offset %valb, %lane : {p}, {i} -> {p}
    %v, %t0 = load_ptr_tko weak %valp : {p} -> {t}, token
    %u, %t1 = atomic_rmw_tko {order} {scope} %fewp, {mode}, %v, %mask : {p}, {t}, {m} -> {t}, token
    %old, %t2 = atomic_rmw_tko {order} {scope} %ownp, {mode}, %v : {p}, {t} -> {t}, token
    %t3 = store_ptr_tko weak %outp, %old : {p}, {t} -> token
    return
  }}
"""


def values(element: str, count: int, seed: int) -> np.ndarray:
    """Small integers for floats, so that sums are exact in any order."""
    generator = np.random.default_rng(seed)
    if element.startswith("i"):
        return generator.integers(-(2**31), 2**31, count).astype(DTYPES[element])
    return generator.integers(-4, 5, count).astype(DTYPES[element])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_every_mode_and_type(gpu_name):
    rotation = itertools.cycle(itertools.product(ORDERS, SCOPES))
    cases = [(f"k{n}", mode, element, *next(rotation)) for n, (mode, element) in enumerate(UPDATES)]
    text = "cuda_tile.module @m {\n" + "".join(entry(*case) for case in cases) + "}\n"
    artifact, metadata = compiled(text, gpu_name)
    for name, mode, element, *_ in cases:
        result = [values(element, COUNT, seed) for seed in range(4)]
        expected, actual = ([array.copy() for array in result] for _ in range(2))
        interpret(text, name, 1, expected)
        emulate(artifact.text, name, 1, actual, metadata=metadata[name])
        for got, want in zip(actual, expected):
            assert got.tobytes() == want.tobytes(), (mode, element)


def run(text: str, entry_name: str, grid: int, arguments: list[np.ndarray], gpu_name: str) -> tuple[list, list]:
    """Interpreted and emulated copies of the arguments."""
    expected, actual = ([array.copy() for array in arguments] for _ in range(2))
    interpret(text, entry_name, grid, expected)
    artifact = tileiras.compile(text, gpu_name=gpu_name, source_name="kernel.mlir")
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    emulate(artifact.text, entry_name, grid, actual, metadata=metadata)
    return expected, actual


@pytest.mark.parametrize("mode, element", [("add", "i64"), ("addf", "bf16"), ("addf", "f16"), ("addf", "f64")])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_contending_lanes_take_turns(mode, element, gpu_name):
    """128 lanes of three tile blocks add one to one place: every old value is seen once."""
    p, t, i = (tile_type((COUNT,), e) for e in (f"ptr<{element}>", element, "i32"))
    one = "1" if element == "i64" else "1.0"
    text = f"""cuda_tile.module @m {{
  entry @k(%counter: tile<ptr<{element}>>, %out: tile<ptr<{element}>>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %ones = constant <{element}: {one}> : {t}
    %c1 = reshape %counter : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %cb = broadcast %c1 : tile<1xptr<{element}>> -> {p}
    %old, %t0 = atomic_rmw_tko relaxed device %cb, {mode}, %ones : {p}, {t} -> {t}, token
    %count = constant <i32: {COUNT}> : tile<i32>
    %start = muli %x, %count : tile<i32>
    %mine = offset %out, %start : tile<ptr<{element}>>, tile<i32> -> tile<ptr<{element}>>
    %m1 = reshape %mine : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %mb = broadcast %m1 : tile<1xptr<{element}>> -> {p}
    %lane = iota : {i}
    %mp = offset %mb, %lane : {p}, {i} -> {p}
    %t1 = store_ptr_tko weak %mp, %old : {p}, {t} -> token
    return
  }}
}}
"""
    blocks = 1 if element == "bf16" else 3  # bf16 counts to 256
    items = [np.zeros(1, DTYPES[element]), np.zeros(blocks * COUNT, DTYPES[element])]
    for counter, olds in run(text, "k", blocks, items, gpu_name):
        assert counter[0] == blocks * COUNT
        assert sorted(olds.astype(np.int64)) == list(range(blocks * COUNT))


@pytest.mark.parametrize("element", ["i32", "i64", "f32", "f64"])
def test_compare_and_swap(element):
    """Half of the lanes read the value they expect; masked lanes return the expected value; floats are compared as
    bits."""
    p, t, i, m = (tile_type((COUNT,), e) for e in (f"ptr<{element}>", element, "i32", "i1"))
    pointers = "\n".join(
        f"""%{n}1 = reshape %{n} : tile<ptr<{element}>> -> tile<1xptr<{element}>>
        %{n}b = broadcast %{n}1 : tile<1xptr<{element}>> -> {p}
        %{n}p = offset %{n}b, %lane : {p}, {i} -> {p}"""
        for n in ("memory", "expected", "new", "out")
    )
    text = f"""cuda_tile.module @m {{
  entry @k(%memory: tile<ptr<{element}>>, %expected: tile<ptr<{element}>>, %new: tile<ptr<{element}>>,
      %out: tile<ptr<{element}>>) {{
    %lane = iota : {i}
    {pointers}
    %limit = constant <i32: 100> : {i}
    %mask = cmpi less_than %lane, %limit, signed : {i} -> {m}
    %e, %t0 = load_ptr_tko weak %expectedp : {p} -> {t}, token
    %n, %t1 = load_ptr_tko weak %newp : {p} -> {t}, token
    %old, %t2 = atomic_cas_tko acq_rel sys %memoryp, %e, %n, %mask : {p}, {t}, {m} -> {t}, token
    %t3 = store_ptr_tko weak %outp, %old : {p}, {t} -> token
    return
  }}
}}
"""
    memory = values(element, COUNT, 1)
    if element.startswith("f"):
        memory[:4] = [0.0, -0.0, np.nan, np.nan]
    expected = np.where(np.arange(COUNT) % 2, memory, values(element, COUNT, 2)).astype(memory.dtype)
    if element.startswith("f"):
        expected[:4] = [-0.0, -0.0, np.nan, -np.nan]
    items = [memory, expected, values(element, COUNT, 3), np.zeros(COUNT, memory.dtype)]
    for interpreted, emulated in zip(*run(text, "k", 1, items, "sm_90")):
        assert emulated.tobytes() == interpreted.tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
def test_reductions_into_views(gpu_name):
    """Tile blocks reduce into one ragged view, through a partition and, one at its own scope, overlapping tiles."""
    entries, cases = [], []
    for mode, element in UPDATES:
        if mode == "xchg":
            continue
        for kind, scope in (("partition", "device"), ("strided", "tl_blk")):
            name = f"k{len(cases)}"
            tensor = f"tensor_view<11x20x{element}, strides=[20,1]>"
            steps = "" if kind == "partition" else "traversal_strides=[4,16], "
            view = f"{kind}_view<tile=(8x16), {steps}{tensor}>"
            tile = tile_type((8, 16), element)
            source = f"tensor_view<8x16x{element}, strides=[16,1]>"
            cases.append((name, element, 2 if scope == "device" else 1))
            entries.append(f"""  entry @{name}(%memory: tile<ptr<{element}>>, %values: tile<ptr<{element}>>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %aligned = assume div_by<16>, %memory : tile<ptr<{element}>>
    %mt = make_tensor_view %aligned, shape = [11, 20], strides = [20, 1] : {tensor}
    %mv = make_{kind}_view %mt : {view}
    %st = make_tensor_view %values, shape = [8, 16], strides = [16, 1] : {source}
    %sv = make_partition_view %st : partition_view<tile=(8x16), {source}>
    %v, %t0 = load_view_tko weak %sv[%zero, %zero] : partition_view<tile=(8x16), {source}>, tile<i32> -> {tile}, token
    %t1 = atomic_red_view_tko relaxed {scope} %mv[%zero, %x], {mode}, %v : {tile}, {view}, tile<i32> -> token
    %t2 = atomic_red_view_tko relaxed {scope} %mv[%x, %zero], {mode}, %v token=%t1 : {tile}, {view}, tile<i32> -> token
    return
  }}
""")
    text = "cuda_tile.module @m {\n" + "".join(entries) + "}\n"
    artifact, metadata = compiled(text, gpu_name)
    for name, element, blocks in cases:
        items = [values(element, 220, 1), values(element, 128, 2)]
        expected, actual = ([array.copy() for array in items] for _ in range(2))
        interpret(text, name, blocks, expected)
        emulate(artifact.text, name, blocks, actual, metadata=metadata[name])
        assert actual[0].tobytes() == expected[0].tobytes(), name
