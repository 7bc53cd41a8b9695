"""Factors that a loop needs in every iteration stay in shared memory when registers are short."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tileiras.sim import emulate, interpret

M, N = 64, 64


def view(rows, columns, element):
    return f"tensor_view<{rows}x{columns}x{element}, strides=[{columns},1]>"


def powers(depth, steps):
    """C = A B_0 + ... + A B_n with A of M x `depth`; and the sum of A's first column, which needs no product."""
    a = f"partition_view<tile=({M}x{depth}), {view(M, depth, 'f16')}>"
    b = f"partition_view<tile=({depth}x{N}), {view(depth * steps, N, 'f16')}>"
    c = f"partition_view<tile=({M}x{N}), {view(M, N, 'f32')}>"
    return f"""cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f32>>) {{
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %ta = make_tensor_view %qa, shape = [{M}, {depth}], strides = [{depth}, 1] : {view(M, depth, "f16")}
    %tb = make_tensor_view %qb, shape = [{depth * steps}, {N}], strides = [{N}, 1] : {view(depth * steps, N, "f16")}
    %tc = make_tensor_view %pc, shape = [{M}, {N}], strides = [{N}, 1] : {view(M, N, "f32")}
    %va = make_partition_view %ta : {a}
    %vb = make_partition_view %tb : {b}
    %vc = make_partition_view %tc : {c}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {steps}> : tile<i32>
    %none = constant <f32: 0.0> : tile<{M}x{N}xf32>
    %a, %ka = load_view_tko weak %va[%zero, %zero] : {a}, tile<i32> -> tile<{M}x{depth}xf16>, token
    %sum = for %i in (%zero to %steps, step %one) : tile<i32>
        iter_values(%partial = %none) -> (tile<{M}x{N}xf32>) {{
      %b, %kb = load_view_tko weak %vb[%i, %zero] : {b}, tile<i32> -> tile<{depth}x{N}xf16>, token
      %next = mmaf %a, %b, %partial : tile<{M}x{depth}xf16>, tile<{depth}x{N}xf16>, tile<{M}x{N}xf32>
      continue %next : tile<{M}x{N}xf32>
    }}
    %kc = store_view_tko weak %sum, %vc[%zero, %zero] : tile<{M}x{N}xf32>, {c}, tile<i32> -> token
    return
  }}
}}
"""


def stays(text, **options):
    artifact = tileiras.compile(text, emit="tileas", num_warps=1, **options)
    return [d.message for d in artifact.diagnostics if "stays in shared memory" in d.message]


@pytest.mark.parametrize(("depth", "gpu_name", "resident"), [(128, "sm_80", True), (128, "sm_90", True),
                                                            (32, "sm_90", False), (128, "sm_75", False)])  # fmt: skip
def test_only_where_registers_are_short_and_copies_run_by_themselves(depth, gpu_name, resident):
    # A thread of one warp holds 128 elements of C, and 256 of A where that is 128 columns wide.
    assert bool(stays(powers(depth, 2), gpu_name=gpu_name)) is resident


def test_the_product_is_the_same():
    depth, steps = 128, 3
    text = powers(depth, steps)
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((M, depth), (depth * steps, N)))
    expected, actual = np.zeros((M, N), np.float32), np.zeros((M, N), np.float32)
    interpret(text, "k", 1, [a, b, expected])
    artifact = tileiras.compile(text, gpu_name="sm_80", num_warps=1)
    assert "ldmatrix" in artifact.text
    emulate(artifact.text, "k", 1, [a, b, actual], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(actual, expected)


def both_in_the_loop(depth, steps):
    """As powers(), with an A for each step."""
    text = powers(depth, steps).replace(f"shape = [{M}, {depth}], strides = [{depth}, 1] : {view(M, depth, 'f16')}",
                                        f"shape = [{M * steps}, {depth}], strides = [{depth}, 1] :"
                                        f" {view(M * steps, depth, 'f16')}")  # fmt: skip
    text = text.replace(f"partition_view<tile=({M}x{depth}), {view(M, depth, 'f16')}>",
                        f"partition_view<tile=({M}x{depth}), {view(M * steps, depth, 'f16')}>")  # fmt: skip
    before = text.index("    %a, %ka"), text.index("    %sum")
    load = text[slice(*before)].replace("%va[%zero", "%va[%i")
    text = text[: before[0]] + text[before[1] :]
    return text.replace("      %b, %kb", f"  {load}      %b, %kb")


@pytest.mark.parametrize(("gpu_name", "element", "depth", "stages", "directly"),
                         [("sm_90", "f16", 512, True, 1), ("sm_120", "f32", 256, False, 1),
                          ("sm_80", "f16", 512, False, 2)])  # fmt: skip
def test_what_does_not_run_ahead_is_copied_where_it_is_used(gpu_name, element, depth, stages, directly):
    # Each factor takes 64 KiB: two stages of one leave room for the other on sm_90; sm_120 has room for one, sm_80 for
    # both.
    steps = 2
    text = both_in_the_loop(depth, steps).replace("f16", element)
    artifact = tileiras.compile(text, gpu_name=gpu_name, num_warps=8)
    said = [d.message for d in artifact.diagnostics]
    assert ("Failed to pipeline loop" not in said) is stages, said
    assert f"{directly} of the loads that do not run ahead go to shared memory where they are used" in said, said
    random = np.random.default_rng(1)
    dtype = {"f16": np.float16, "f32": np.float32}[element]
    a, b = (random.integers(-4, 5, shape).astype(dtype) for shape in ((M * steps, depth), (depth * steps, N)))
    actual = np.zeros((M, N), np.float32)
    emulate(artifact.text, "k", 1, [a, b, actual], metadata=artifact.kernels[0].metadata)
    pairs = zip(np.split(a.astype(np.float32), steps), np.split(b.astype(np.float32), steps))
    np.testing.assert_array_equal(actual, sum(x @ y for x, y in pairs))


def chained(shape, sizes, element="f16"):
    """D = (A B) W with A of m x k, B of k x n and W of n x p; `sizes` (m, k, n, p) of the arrays, which the tiles of
    `shape` need not divide."""
    (m, k, n, p), (rows, inner, middle, columns) = shape, sizes
    tiles = {"a": (m, k), "b": (k, n), "w": (n, p), "d": (m, p)}
    arrays = {"a": (rows, inner), "b": (inner, middle), "w": (middle, columns), "d": (rows, columns)}
    types = dict.fromkeys("abw", element) | {"d": "f32"}
    tile = {x: f"tile<{tiles[x][0]}x{tiles[x][1]}x{types[x]}>" for x in tiles}
    views, loads = "", ""
    for x in tiles:
        tensor = view(*arrays[x], types[x])
        kind = f"partition_view<tile=({tiles[x][0]}x{tiles[x][1]}), padding_value = zero, {tensor}>"
        views += f"""
    %q{x} = assume div_by<16>, %p{x} : tile<ptr<{types[x]}>>
    %t{x} = make_tensor_view %q{x}, shape = [{arrays[x][0]}, {arrays[x][1]}], strides = [{arrays[x][1]}, 1] : {tensor}
    %v{x} = make_partition_view %t{x} : {kind}"""
        if x != "d":
            loads += f"""
    %{x}, %k{x} = load_view_tko weak %v{x}[%zero, %zero] : {kind}, tile<i32> -> {tile[x]}, token"""
    parameters = ", ".join(f"%p{x}: tile<ptr<{types[x]}>>" for x in tiles)
    sums, factor = f"tile<{m}x{n}xf32>", f"tile<{m}x{n}x{element}>"
    return f"""cuda_tile.module @m {{
  entry @k({parameters}) {{{views}
    %zero = constant <i32: 0> : tile<i32>
    %none = constant <f32: 0.0> : {sums}
    %nothing = constant <f32: 0.0> : {tile["d"]}{loads}
    %s = mmaf %a, %b, %none : {tile["a"]}, {tile["b"]}, {sums}
    %h = ftof %s : {sums} -> {factor}
    %r = mmaf %h, %w, %nothing : {factor}, {tile["w"]}, {tile["d"]}
    %kd = store_view_tko weak %r, %vd[%zero, %zero] : {tile["d"]}, {kind}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("gpu_name", "shape", "sizes", "copied"),
    [
        ("sm_80", (64, 64, 256, 128), (64, 64, 256, 128), True),
        ("sm_120", (64, 64, 256, 128), (60, 64, 200, 128), True),
        ("sm_90", (64, 64, 256, 128), (64, 8, 256, 104), True),
        # Shared memory does not hold 128 KiB.
        ("sm_120", (64, 64, 256, 256), (64, 64, 256, 256), False),
        # No copy fills it by itself.
        ("sm_75", (64, 64, 256, 128), (64, 64, 256, 128), False),
        # A step at a time comes through shared memory.
        ("sm_80", (64, 64, 128, 128), (64, 64, 128, 128), False),
    ],
)
def test_a_large_factor_beside_a_computed_one_goes_to_shared_memory_at_once(gpu_name, shape, sizes, copied):
    artifact = tileiras.compile(chained(shape, sizes), gpu_name=gpu_name)
    assert any("to shared memory at once" in d.message for d in artifact.diagnostics) is copied
    rows, inner, middle, columns = sizes
    random = np.random.default_rng(2)
    arrays = (rows, inner), (inner, middle), (middle, columns)
    a, b, w = (random.integers(-2, 3, array).astype(np.float16) for array in arrays)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16).astype(np.float32) @ w.astype(np.float32)
    expected, actual = np.zeros_like(wanted), np.zeros_like(wanted)
    interpret(chained(shape, sizes), "k", 1, [a, b, w, expected])
    emulate(artifact.text, "k", 1, [a, b, w, actual], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(expected, wanted)
    np.testing.assert_array_equal(actual, wanted)
