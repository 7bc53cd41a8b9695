"""Tiles that do not fit in registers are computed slice by slice, with unchanged results."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.dots import Matmul, without_maximum
from tests.kernels.slices import ONE_WARP, N, check, loops_added, result
from tests.kernels.tiles import Tile, assert_same
from tests.kernels.views import reduced, whole_numbers
from tileiras.sim import emulate, interpret


@pytest.mark.parametrize("shape", [(N,), (64, 128), (2, 4096), (1, N), (4, 16, 128)])
def test_elements(shape):
    t = f"tile<{'x'.join(map(str, shape))}xf32>"
    body = f"""%s = addf %a, %b rounding<nearest_even> : {t}
               %r = mulf %s, %b rounding<nearest_even> : {t}"""
    inputs = [Tile("a", "f32", whole_numbers(shape)), Tile("b", "f32", whole_numbers(shape, seed=1))]
    check(body, inputs, [result(shape)])


@pytest.mark.parametrize("distance", [1, 3, N // 2, N // 2 + 96, N + 32])
def test_tiles_that_overlap_or_lie_apart(distance):
    """Distances between tiles that are no multiples of their slices."""
    tensor = f"tensor_view<{4 * N}xf32, strides=[1]>"
    view = f"strided_view<tile=({N}), traversal_strides=[{distance}], {tensor}>"
    body = f"""%t = make_tensor_view %p_a, shape = [{4 * N}], strides = [1] : {tensor}
               %v = make_strided_view %t : {view}
               %two = constant <i32: 2> : tile<i32>
               %b, %k = load_view_tko weak %v[%two] : {view}, tile<i32> -> tile<{N}xf32>, token
               %r = mulf %b, %b rounding<nearest_even> : tile<{N}xf32>"""
    check(body, [Tile("a", "f32", whole_numbers((4 * N,)))], [result((N,))])


def test_ranges_constants_and_broadcasts_are_made_again():
    body = f"""%i = iota : tile<{N}xi32>
               %k = constant <i32: 3> : tile<{N}xi32>
               %m = muli %i, %k : tile<{N}xi32>
               %n = reshape %m : tile<{N}xi32> -> tile<64x128xi32>
               %c = iota : tile<128xi32>
               %d = reshape %c : tile<128xi32> -> tile<1x128xi32>
               %e = broadcast %d : tile<1x128xi32> -> tile<64x128xi32>
               %o = addi %n, %e : tile<64x128xi32>
               %r = addi %o, %a : tile<64x128xi32>"""
    inputs = [Tile("a", "i32", whole_numbers((64, 128), "i32"))]
    check(body, inputs, [result((64, 128), "i32", np.int32)])


def test_a_row_for_all_rows_stays_whole():
    body = """%w = broadcast %b : tile<1x128xf32> -> tile<64x128xf32>
              %r = mulf %a, %w rounding<nearest_even> : tile<64x128xf32>"""
    inputs = [Tile("a", "f32", whole_numbers((64, 128))), Tile("b", "f32", whole_numbers((1, 128), seed=1))]
    check(body, inputs, [result((64, 128))])


def test_a_permutation_is_cut_along_another_dimension():
    body = "%r = permute %a [1, 0] : tile<64x128xf32> -> tile<128x64xf32>"
    check(body, [Tile("a", "f32", whole_numbers((64, 128)))], [result((128, 64))])


def test_reductions_along_other_dimensions_are_sliced_by_rows():
    body = reduced("r", "a", (64, 128), 1)
    check(body, [Tile("a", "f32", whole_numbers((64, 128)))], [result((64,))])


SUMS = """(%x: tile<f32>, %y: tile<f32>) {
                 %z = addf %x, %y rounding<nearest_even> : tile<f32>
                 yield %z : tile<f32>
               }"""


def test_scans_are_cut_along_another_dimension():
    t = "tile<64x128xf32>"
    body = f"%r = scan %a dim=1 reverse=false identities=[0.0 : f32] : {t} -> {t} {SUMS}"
    check(body, [Tile("a", "f32", whole_numbers((64, 128)))], [result((64, 128))])


def scanned(name, source, shape, dim, reverse):
    t = f"tile<{'x'.join(map(str, shape))}xf32>"
    return f"%{name} = scan %{source} dim={dim} reverse={reverse} identities=[0.0 : f32] : {t} -> {t} {SUMS}"


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize(("shape", "dim"), [((N,), 0), ((1, N), 1), ((N, 1), 0), ((2, N // 2), 1)])
def test_scans_along_the_dimension_go_on_from_slice_to_slice(shape, dim, reverse):
    check(scanned("r", "a", shape, dim, reverse), [Tile("a", "f32", whole_numbers(shape))], [result(shape)])


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_scans_begin_with_the_first_element(reverse):
    """A sum that began with a zero would have another sign."""
    body = scanned("r", "a", (N,), 0, reverse)
    check(body, [Tile("a", "f32", np.full(N, -0.0, np.float32))], [result((N,))])


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_scans_of_several_values_in_their_order(reverse):
    """Steps of a linear recurrence, which may be put together but not change places."""
    t = f"tile<{N}xi32>"
    body = f"""%r, %s = scan %a, %b dim=0 reverse={reverse} identities=[1 : i32, 0 : i32] : {t}, {t} -> {t}, {t}
               (%xa: tile<i32>, %ya: tile<i32>, %xb: tile<i32>, %yb: tile<i32>) {{
                 %p = muli %xa, %ya : tile<i32>
                 %q = muli %ya, %xb : tile<i32>
                 %o = addi %q, %yb : tile<i32>
                 yield %p, %o : tile<i32>, tile<i32>
               }}"""
    inputs = [Tile(name, "i32", 2 * whole_numbers(N, "i32", seed) + 1) for seed, name in enumerate("ab")]
    outputs = [result((N,), "i32", np.int32), Tile("s", "i32", np.zeros(N, np.int32))]
    check(body, inputs, outputs)


def test_users_of_a_whole_scan_recompute_it():
    t = f"tile<1x{N}xf32>"
    body = f"""{scanned("s", "a", (1, N), 1, "true")}
               {reduced("m", "s", (1, N), 1, "maxf")}
               %m1 = reshape %m : tile<1xf32> -> tile<1x1xf32>
               %m2 = broadcast %m1 : tile<1x1xf32> -> {t}
               %i = iota : tile<{N}xi32>
               %f = itof %i signed : tile<{N}xi32> -> tile<{N}xf32>
               %f2 = reshape %f : tile<{N}xf32> -> {t}
               %d = subf %s, %m2 rounding<nearest_even> : {t}
               %r = addf %d, %f2 rounding<nearest_even> : {t}"""
    check(body, [Tile("a", "f32", whole_numbers((1, N)))], [result((1, N))])


def test_narrow_elements_of_scans_take_a_register_each():
    t = f"tile<{N}xi8>"
    body = f"""%r = scan %a dim=0 reverse=false identities=[0 : i8] : {t} -> {t} (%x: tile<i8>, %y: tile<i8>) {{
                 %z = addi %x, %y : tile<i8>
                 yield %z : tile<i8>
               }}"""
    inputs = [Tile("a", "i8", whole_numbers(N, "i8"))]
    check(body, inputs, [result((N,), "i8", np.int8)])
    check(f"%r = addi %a, %a : {t}", inputs, [result((N,), "i8", np.int8)], sliced=False)


def test_scans_in_both_directions_stay_whole():
    body = scanned("s", "a", (N,), 0, "false") + "\n" + scanned("r", "s", (N,), 0, "true")
    check(body, [Tile("a", "f32", whole_numbers(N))], [result((N,))], sliced=False)


@pytest.mark.parametrize("shape", [(N,), (1, N)])
def test_reductions_along_the_only_dimension_combine_slices(shape):
    rest = "1x" * (len(shape) - 1)
    body = f"""{reduced("s", "a", shape, len(shape) - 1)}
               %r = reshape %s : tile<{rest}f32> -> tile<1xf32>"""
    check(body, [Tile("a", "f32", whole_numbers(shape))], [result((1,))])


def test_a_reduction_used_with_its_tile_is_another_loop():
    t = f"tile<1x{N}xf32>"
    body = f"""{reduced("m", "a", (1, N), 1, "maxf")}
               %m1 = reshape %m : tile<1xf32> -> tile<1x1xf32>
               %m2 = broadcast %m1 : tile<1x1xf32> -> {t}
               %d = subf %a, %m2 rounding<nearest_even> : {t}
               {reduced("s", "d", (1, N), 1)}
               %s1 = reshape %s : tile<1xf32> -> tile<1x1xf32>
               %s2 = broadcast %s1 : tile<1x1xf32> -> {t}
               %r = addf %d, %s2 rounding<nearest_even> : {t}"""
    check(body, [Tile("a", "f32", whole_numbers((1, N)))], [result((1, N))])


def test_reductions_of_several_values():
    body = f"""%i = iota : tile<{N}xi32>
               %v, %w = reduce %a, %i dim=0 identities=[0xFF800000 : f32, 0 : i32]
                 : tile<{N}xf32>, tile<{N}xi32> -> tile<f32>, tile<i32>
               (%x: tile<f32>, %y: tile<f32>, %p: tile<i32>, %q: tile<i32>) {{
                 %c = cmpf greater_than ordered %x, %y : tile<f32> -> tile<i1>
                 %z = select %c, %x, %y : tile<i1>, tile<f32>
                 %o = select %c, %p, %q : tile<i1>, tile<i32>
                 yield %z, %o : tile<f32>, tile<i32>
               }}
               %r = reshape %w : tile<i32> -> tile<1xi32>"""
    values = np.random.default_rng(0).permutation(N).astype(np.float32)
    check(body, [Tile("a", "f32", values)], [result((1,), "i32", np.int32)])


def test_a_loop_with_several_carried_tiles_slices_all():
    t, view = "tile<64x128xf32>", "partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>"
    text = f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {{
    %from = make_tensor_view %p, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
    %to = make_tensor_view %q, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %v = make_partition_view %from : {view}
    %w = make_partition_view %to : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %none = constant <f32: 0.0> : {t}
    %s, %u = for %i in (%zero to %three, step %one) : tile<i32> iter_values(%x = %none, %y = %none) -> ({t}, {t}) {{
      %a, %k = load_view_tko weak %v[%zero, %zero] : {view}, tile<i32> -> {t}, token
      %x1 = addf %x, %a rounding<nearest_even> : {t}
      %b, %l = load_view_tko weak %v[%zero, %zero] : {view}, tile<i32> -> {t}, token
      %c = mulf %b, %b rounding<nearest_even> : {t}
      %y1 = addf %y, %c rounding<nearest_even> : {t}
      continue %x1, %y1 : {t}, {t}
    }}
    {reduced("f", "s", (64, 128), 1)}
    {reduced("g", "u", (64, 128), 1)}
    %r = subf %g, %f rounding<nearest_even> : tile<64xf32>
    %o = store_view_tko weak %r, %w[%zero]
      : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    return
  }}
}}
"""
    assert loops_added(text) == 1
    a, expected, actual = whole_numbers((64, 128)), np.zeros(64, np.float32), np.zeros(64, np.float32)
    interpret(text, "k", 1, [a, expected])
    artifact = tileiras.compile(text, gpu_name="sm_90", emit="ptx", **ONE_WARP)
    emulate(artifact.text, "k", 1, [a, actual], metadata=artifact.kernels[0].metadata)
    assert_same("sums", actual, expected, [])


# ---- order -----------------------------------------------------------------------------------------------------------

VIEW = f"partition_view<tile=({N}), tensor_view<{N}xf32, strides=[1]>>"


def ordered(distance):
    """Add one to N elements, and write them `distance` elements further, after all have been read."""
    to = "%q" if distance else "%p"
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f32>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %far = constant <i32: {distance}> : tile<i32>
    %q = offset %p, %far : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %one = constant <f32: 1.0> : tile<{N}xf32>
    %from = make_tensor_view %p, shape = [{N}], strides = [1] : tensor_view<{N}xf32, strides=[1]>
    %to = make_tensor_view {to}, shape = [{N}], strides = [1] : tensor_view<{N}xf32, strides=[1]>
    %v = make_partition_view %from : {VIEW}
    %w = make_partition_view %to : {VIEW}
    %a, %t = load_view_tko weak %v[%zero] : {VIEW}, tile<i32> -> tile<{N}xf32>, token
    %b = addf %a, %one rounding<nearest_even> : tile<{N}xf32>
    %u = store_view_tko weak %b, %w[%zero] token=%t : tile<{N}xf32>, {VIEW}, tile<i32> -> token
    %c, %x = load_view_tko weak %v[%zero] token=%u : {VIEW}, tile<i32> -> tile<{N}xf32>, token
    %d = addf %c, %c rounding<nearest_even> : tile<{N}xf32>
    %y = store_view_tko weak %d, %v[%zero] token=%x : tile<{N}xf32>, {VIEW}, tile<i32> -> token
    return
  }}
}}
"""


def run_ordered(text):
    memory = whole_numbers(N + 64)
    expected, actual = memory.copy(), memory.copy()
    interpret(text, "k", 1, [expected])
    artifact = tileiras.compile(text, gpu_name="sm_90", emit="ptx", **ONE_WARP)
    emulate(artifact.text, "k", 1, [actual], metadata=artifact.kernels[0].metadata)
    assert_same("memory", actual, expected, [])


def test_a_tile_may_be_updated_in_place():
    text = ordered(0)
    assert loops_added(text) == 2
    run_ordered(text)


def test_tokens_keep_tiles_whole_that_overlap():
    text = ordered(5)
    # The second pair is in place; the first would read its own stores.
    assert loops_added(text) == 1
    run_ordered(text)


# ---- dots ------------------------------------------------------------------------------------------------------------


def dot_in_a_loop(rows, columns, depth, steps, **parts):
    """C = f(A B), by default 2 A B; `parts` are those of `Matmul.text`."""
    product = Matmul((rows, columns, depth), steps=steps)
    twice = f"%r = addf %sum, %sum rounding<nearest_even> : {product.c.tile}"
    return product.kernel(product.text(**{"tail": twice, **parts}), lambda a, b: 2 * (a @ b))


def run_dot(kernel, gpu_name):
    """Against the interpreter, whose order of steps is the program's."""
    expected, actual = ([array.copy() for array in kernel.outputs] for _ in range(2))
    interpret(kernel.text, "k", 1, [*kernel.inputs, *expected])
    artifact = kernel.compiled(gpu_name, **ONE_WARP)
    emulate(artifact.text, "k", 1, [*kernel.inputs, *actual], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(actual[0], expected[0])
    return artifact.text


@pytest.mark.parametrize(("gpu_name", "rows", "columns"), [("sm_80", 64, 128), ("sm_90", 128, 64), ("sm_75", 128, 128)])
def test_the_loop_of_a_dot_is_executed_for_each_slice(gpu_name, rows, columns):
    kernel = dot_in_a_loop(rows, columns, 16, 3)
    assert loops_added(kernel.text, gpu_name) == 1
    assert "mma.sync" in run_dot(kernel, gpu_name)


def test_dots_that_fit_are_not_loaded_twice():
    assert not loops_added(dot_in_a_loop(64, 64, 16, 2).text)


def test_a_dot_is_sliced_along_dimensions_not_reduced_later():
    kernel = dot_in_a_loop(64, 128, 16, 2, tail=without_maximum("r", "sum", (64, 128)))
    assert loops_added(kernel.text) == 1
    run_dot(kernel, "sm_80")


def test_reductions_inside_the_loop_are_cut_with_their_rows():
    kernel = dot_in_a_loop(64, 128, 16, 2, inner=without_maximum("s", "next", (64, 128)))
    assert loops_added(kernel.text) == 1
    run_dot(kernel, "sm_80")


def test_slices_too_large_are_sliced_along_another_dimension():
    """Neither dimension of the result can be cut into more than two where it is reshaped."""
    t, u = "tile<128x128xf32>", "tile<2x64x2x64xf32>"
    tail = f"""%s = reshape %sum : {t} -> {u}
    %d = addf %s, %s rounding<nearest_even> : {u}
    %r = reshape %d : {u} -> {t}"""
    kernel = dot_in_a_loop(128, 128, 16, 2, tail=tail)
    assert loops_added(kernel.text) == 2
    run_dot(kernel, "sm_80")
