"""Large products are loops over K that read slices of their factors."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import parse_module
from tileiras.layout.encoding import layout_of, offsets_of
from tileiras.layout.staging import in_whole, load_access
from tileiras.rewrites.dot_k_loops import BODY, MATRIX_BODY
from tileiras.rewrites.large_dots import MATRIX_INSTRUCTIONS
from tileiras.sim import emulate, interpret

DTYPES = {
    "f32": np.float32, "f16": np.float16, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i8": np.int8,
    "f8E5M2": ml_dtypes.float8_e5m2, "i32": np.int32,
}  # fmt: skip


def strided(shape, order):
    """Strides of a dense array of which the dimensions in `order` are the slowest to the fastest."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return strides


def product(tiles, sizes, factor="f32", sums="f32", transposed=False, steps=None):
    """C = A B + C of one tile of C; `sizes` (m, n, k) of the arrays, which tiles (m, n, k) need not divide.

    B is stored by columns where it is `transposed`; `steps` tiles of K are multiplied in a loop.
    """
    shapes = {"a": (sizes[0], sizes[2]), "b": (sizes[2], sizes[1]), "c": (sizes[0], sizes[1])}
    tile = {"a": (tiles[0], tiles[2]), "b": (tiles[2], tiles[1]), "c": (tiles[0], tiles[1])}
    element = {"a": factor, "b": factor, "c": sums}
    text, view, held = [], {}, {}
    for name, shape in shapes.items():
        strides = strided(shape, (1, 0) if name == "b" and transposed else (0, 1))
        kind = f"tensor_view<{shape[0]}x{shape[1]}x{element[name]}, strides=[{strides[0]},{strides[1]}]>"
        held[name] = f"tile<{tile[name][0]}x{tile[name][1]}x{element[name]}>"
        view[name] = f"partition_view<tile=({tile[name][0]}x{tile[name][1]}), padding_value = zero, {kind}>"
        text += [
            f"    %q{name} = assume div_by<16>, %p{name} : tile<ptr<{element[name]}>>",
            f"    %t{name} = make_tensor_view %q{name}, shape = [{shape[0]}, {shape[1]}],"
            f" strides = [{strides[0]}, {strides[1]}] : {kind}",
            f"    %v{name} = make_partition_view %t{name} : {view[name]}",
        ]
    prepared = "\n".join(text)
    multiply = "mmai" if sums == "i32" else "mmaf"
    signs = " signed signed" if sums == "i32" else ""
    body = f"""
      %a, %ka = load_view_tko weak %va[%zero, %i] : {view["a"]}, tile<i32> -> {held["a"]}, token
      %b, %kb = load_view_tko weak %vb[%i, %zero] : {view["b"]}, tile<i32> -> {held["b"]}, token
      %next = {multiply} %a, %b, %partial{signs} : {held["a"]}, {held["b"]}, {held["c"]}"""
    return f"""cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<{factor}>>, %pb: tile<ptr<{factor}>>, %pc: tile<ptr<{sums}>>) {{
{prepared}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {steps or 1}> : tile<i32>
    %c, %kc = load_view_tko weak %vc[%zero, %zero] : {view["c"]}, tile<i32> -> {held["c"]}, token
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%partial = %c) -> ({held["c"]}) {{{body}
      continue %next : {held["c"]}
    }}
    %end = store_view_tko weak %sum, %vc[%zero, %zero] token = %kc : {held["c"]}, {view["c"]}, tile<i32> -> token
    return
  }}
}}
"""


def check(text, sizes, factor, sums, gpu_name, transposed=False, **options):
    """Interpreted = emulated = NumPy, to the bit: whole numbers, whose sums are exact.  Returns the PTX."""
    m, n, k = sizes
    random = np.random.default_rng(0)
    a, b, c = (
        random.integers(-4, 5, shape).astype(DTYPES[element])
        for shape, element in (((m, k), factor), ((k, n), factor), ((m, n), sums))
    )
    wanted = (a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)).astype(c.dtype)
    stored = np.ascontiguousarray(b.T) if transposed else b

    def raw(array):
        return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array

    expected, actual = c.copy(), c.copy()
    interpret(text, "k", 1, [raw(a), raw(stored), expected])
    artifact = tileiras.compile(text, gpu_name=gpu_name, **options)
    emulate(artifact.text, "k", 1, [raw(a), raw(stored), actual], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(expected, wanted)
    np.testing.assert_array_equal(actual, wanted)
    return artifact.text


@pytest.mark.parametrize(
    ("tiles", "factor", "sums", "gpu_name", "transposed"),
    [
        ((64, 32, 64), "f32", "f32", "sm_75", True),
        ((64, 64, 32), "f32", "f32", "sm_90", False),
        ((32, 64, 64), "bf16", "f32", "sm_75", True),
        ((32, 32, 128), "f8E5M2", "f32", "sm_75", False),
        ((32, 64, 64), "f64", "f64", "sm_75", True),
        ((64, 64, 64), "f32", "f32", "sm_120", True),
    ],
)
def test_product_is_a_loop(tiles, factor, sums, gpu_name, transposed):
    # Types that the target lacks are converted.
    options = {"legalize_types": True} if factor.startswith("f8") else {}
    text = check(product(tiles, tiles, factor, sums, transposed), tiles, factor, sums, gpu_name, transposed, **options)
    assert text.count('.pragma "nounroll"') == 1
    assert len(re.findall(r"\bfma\.rn\.f\d+", text)) <= BODY


@pytest.mark.parametrize(("gpu_name", "size_k"), [("sm_75", 1), ("sm_80", 31), ("sm_75", 33), ("sm_80", 65)])
def test_tails_of_k(gpu_name, size_k):
    sizes, tiles = (61, 45, size_k), (64, 64, 32)
    check(product(tiles, sizes, steps=-(-size_k // tiles[2])), sizes, "f32", "f32", gpu_name)


def test_stages_of_a_pipeline_are_read_in_slices():
    sizes, tiles = (64, 64, 160), (64, 64, 32)
    text = check(product(tiles, sizes, steps=5), sizes, "f32", "f32", "sm_90")
    assert "cp.async" in text and text.count('.pragma "nounroll"') == 1


@pytest.mark.parametrize(
    ("factor", "sums", "gpu_name", "transposed", "instructions"),
    [
        ("f16", "f32", "sm_80", False, 256),
        ("bf16", "f32", "sm_90", True, 256),
        ("i8", "i32", "sm_90", False, 128),
        ("f8E5M2", "f32", "sm_100", False, 256),
        ("f8E5M2", "f32", "sm_120", True, 128),
    ],
)
def test_matrix_products_of_stages_are_loops(factor, sums, gpu_name, transposed, instructions):
    """Those of more instructions than may be written out; an f8 one is two of f16 where the machine has none."""
    sizes, tiles = (61, 64, 592), (64, 64, 256)
    text = product(tiles, sizes, factor, sums, transposed, steps=3)
    ptx = check(text, sizes, factor, sums, gpu_name, transposed, num_warps=2)
    looped = instructions > MATRIX_INSTRUCTIONS
    assert "cp.async" in ptx and ptx.count('.pragma "nounroll"') == looped
    assert len(re.findall(r"\bmma\.sync", ptx)) == (MATRIX_BODY if looped else instructions)


def test_small_products_are_written_out():
    tiles = (32, 32, 32)
    assert "nounroll" not in check(product(tiles, tiles), tiles, "f32", "f32", "sm_90")


def with_hint(text, gpu_name, occupancy):
    """How many tile blocks an SM is to hold decides how much shared memory each has."""
    return text.replace(") {\n", f") optimization_hints=<{gpu_name} = {{occupancy = {occupancy}}}> {{\n", 1)


@pytest.mark.parametrize("transposed", [False, True])
def test_factors_go_through_little_shared_memory_in_parts(transposed):
    tiles = (64, 64, 128)
    text = with_hint(product(tiles, tiles, transposed=transposed), "sm_75", 2)
    assert check(text, tiles, "f32", "f32", "sm_75", transposed).count('.pragma "nounroll"') == 2


def test_products_without_room_are_written_out(monkeypatch):
    tiles = (64, 64, 32)
    monkeypatch.setattr("tileiras.rewrites.dot_k_loops.shared_budget", lambda func, target: 1024)
    artifact = tileiras.compile(product(tiles, tiles), gpu_name="sm_75")
    assert "nounroll" not in artifact.text
    assert ["dot fully unrolled: no shared memory left for its operands"] == [
        d.message for d in artifact.diagnostics if "unrolled" in d.message
    ]


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90"])
@pytest.mark.parametrize("transposed", [False, True])
def test_bank_conflicts_are_those_of_the_layouts(gpu_name, transposed):
    """The wavefronts of reading slices that the layouts predict, against those that the emulator counts: none is for a
    conflict."""
    tiles = (64, 64, 32)
    text = product(tiles, tiles, transposed=transposed)
    module = parse_module(tileiras.compile(text, gpu_name=gpu_name, emit="tileas").text, "kernel.tileas.mlir")
    copies = [op for op in module.walk() if isinstance(op, tileas.CopyOp) and op.slice is not None]
    warps, predicted = 4, 0
    for op in copies:
        tile = op.buffer.type.tile
        access = load_access(in_whole(layout_of(op.result.type), tile.shape), offsets_of(tile), 32)
        assert access.degree == 1 and access.vector == 4
        predicted += warps * access.wavefronts(32) * tile.shape[op.axis] // op.result.type.shape[op.axis]
    assert len(copies) == 2
    artifact = tileiras.compile(text, gpu_name=gpu_name)
    arrays = [np.zeros(shape, np.float32) for shape in ((64, 32), (32, 64), (64, 64))]
    metadata = artifact.kernels[0].metadata
    assert metadata["block"][0] == 32 * warps
    found = emulate(artifact.text, "k", 1, arrays, metadata=metadata, count_bank_conflicts=True).bank_wavefronts
    lines = artifact.text.splitlines()
    head = next(number for number, line in enumerate(lines, 1) if "nounroll" in line)
    end = next(number for number, line in enumerate(lines, 1) if number > head and "bra" in line)
    assert sum(count for line, (count, _) in found.items() if head < line < end) == predicted
    assert all(count == ideal for count, ideal in found.values())


TWICE = """cuda_tile.module @m {
  entry @k(%pa: tile<ptr<f32>>, %pc: tile<ptr<f32>>) {
    %ta = make_tensor_view %pa, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %tc = make_tensor_view %pc, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>
    %vc = make_partition_view %tc : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %same = constant <f32: 3.0> : tile<64x64xf32>
    %a, %ka = load_view_tko weak %va[%zero, %zero] : partition_view<tile=(64x32), tensor_view<64x32xf32, strides=[32,1]>>, tile<i32> -> tile<64x32xf32>, token
    %b = permute %a [1, 0] : tile<64x32xf32> -> tile<32x64xf32>
    %square = mmaf %a, %b, %none : tile<64x32xf32>, tile<32x64xf32>, tile<64x64xf32>
    %rows = mmaf %square, %same, %square : tile<64x64xf32>, tile<64x64xf32>, tile<64x64xf32>
    %end = store_view_tko weak %rows, %vc[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


def test_a_tile_times_itself_and_times_what_is_all_the_same():
    """One buffer serves both factors of the first product; the second needs one for its own."""
    a, c = np.random.default_rng(1).integers(-3, 4, (64, 32)).astype(np.float32), np.zeros((64, 64), np.float32)
    module = tileiras.compile(TWICE, gpu_name="sm_90", emit="tileas").text
    assert module.count("nv_tileas.alloc_tensor") == 2 and module.count("no_unroll") == 2
    artifact = tileiras.compile(TWICE, gpu_name="sm_90")
    emulate(artifact.text, "k", 1, [a, c], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(c, a @ a.T + 3 * (a @ a.T).sum(axis=1, keepdims=True))
