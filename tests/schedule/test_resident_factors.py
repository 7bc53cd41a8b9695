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


@pytest.mark.parametrize(("gpu_name", "stages", "directly"), [("sm_90", True, 1), ("sm_120", False, 1),
                                                            ("sm_80", False, 2)])  # fmt: skip
def test_what_does_not_run_ahead_is_copied_where_it_is_used(gpu_name, stages, directly):
    # Each factor takes 64 KiB: two stages of one leave room for the other on sm_90; sm_120 has room for one, sm_80 for
    # both.
    depth, steps = 512, 2
    text = both_in_the_loop(depth, steps)
    artifact = tileiras.compile(text, gpu_name=gpu_name)
    said = [d.message for d in artifact.diagnostics]
    assert ("Failed to pipeline loop" not in said) is stages, said
    assert f"{directly} of them go to shared memory where they are used" in said, said
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((M * steps, depth), (depth * steps, N)))
    actual = np.zeros((M, N), np.float32)
    emulate(artifact.text, "k", 1, [a, b, actual], metadata=artifact.kernels[0].metadata)
    pairs = zip(np.split(a.astype(np.float32), steps), np.split(b.astype(np.float32), steps))
    np.testing.assert_array_equal(actual, sum(x @ y for x, y in pairs))
