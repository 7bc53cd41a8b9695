"""The list of TileAS decisions: each leaves what the next ones need in the IR, and says what it needs itself."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tileiras
from tests.tileas_stage import through
from tileiras.analysis.function_state import LEFT_BY, State, function_state
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.ir import parse_module, print_op, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.passes import functions_of
from tileiras.passes.convert_tileas_to_llvm import ConvertTileASToLLVM
from tileiras.sim import emulate, interpret
from tileiras.stages.tileas import DECISIONS
from tileiras.tileir_pipeline import tileas_passes

ROWS, COLUMNS, DEPTH, STEPS = 64, 64, 32, 4


def view(name: str, tile: tuple[int, int], shape: tuple[int, int], element: str) -> tuple[str, str]:
    tensor = f"tensor_view<{shape[0]}x{shape[1]}x{element}, strides=[{shape[1]},1]>"
    type = f"partition_view<tile=({tile[0]}x{tile[1]}), {tensor}>"
    return (
        f"%q_{name} = assume div_by<16>, %p_{name} : tile<ptr<{element}>>\n"
        f"%t_{name} = make_tensor_view %q_{name}, shape = {list(shape)}, strides = [{shape[1]}, 1] : {tensor}\n"
        f"%v_{name} = make_partition_view %t_{name} : {type}\n"
    ), type


def matmul() -> str:
    """A dot in a loop, whose loads can run ahead, and the sums of its rows."""
    a, a_type = view("a", (ROWS, DEPTH), (ROWS, DEPTH * STEPS), "f16")
    b, b_type = view("b", (DEPTH, COLUMNS), (DEPTH * STEPS, COLUMNS), "f16")
    c, c_type = view("c", (ROWS, COLUMNS), (ROWS, COLUMNS), "f32")
    d, d_type = view("d", (ROWS, 1), (ROWS, 1), "f32")
    acc, sums = f"tile<{ROWS}x{COLUMNS}xf32>", f"tile<{ROWS}xf32>"
    return f"""cuda_tile.module @m {{
  entry @k(%p_a: tile<ptr<f16>>, %p_b: tile<ptr<f16>>, %p_c: tile<ptr<f32>>, %p_d: tile<ptr<f32>>) {{
    {a}{b}{c}{d}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {STEPS}> : tile<i32>
    %none = constant <f32: 0.0> : {acc}
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%s = %none) -> ({acc}) {{
      %x, %kx = load_view_tko weak %v_a[%zero, %i] : {a_type}, tile<i32> -> tile<{ROWS}x{DEPTH}xf16>, token
      %y, %ky = load_view_tko weak %v_b[%i, %zero] : {b_type}, tile<i32> -> tile<{DEPTH}x{COLUMNS}xf16>, token
      %n = mmaf %x, %y, %s : tile<{ROWS}x{DEPTH}xf16>, tile<{DEPTH}x{COLUMNS}xf16>, {acc}
      continue %n : {acc}
    }}
    %r = reduce %sum dim=1 identities=[0.0 : f32] : {acc} -> {sums} (%u: tile<f32>, %v: tile<f32>) {{
      %w = addf %u, %v : tile<f32>
      yield %w : tile<f32>
    }}
    %column = reshape %r : {sums} -> tile<{ROWS}x1xf32>
    %kc = store_view_tko weak %sum, %v_c[%zero, %zero] : {acc}, {c_type}, tile<i32> -> token
    %kd = store_view_tko weak %column, %v_d[%zero, %zero] : tile<{ROWS}x1xf32>, {d_type}, tile<i32> -> token
    return
  }}
}}
"""


@cache
def tileaa(gpu: str) -> str:
    return tileiras.compile(matmul(), gpu_name=gpu, emit="tileaa").text


def passes(gpu: str) -> list:
    return tileas_passes(f"compute-capability={gpu}")


def run(module, items, verify_each: bool = True):
    PassManager(items, verify_each=verify_each).run(module, PassContext(DiagnosticEngine()))
    return module


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90"])
def test_a_function_comes_to_each_state_by_the_pass_that_says_so(gpu):
    module = parse_module(tileaa(gpu), "k.mlir")
    (func,) = functions_of(module)
    assert function_state(func) is State.TILEAA
    seen = []
    for item in passes(gpu):
        before = function_state(func)
        run(module, [item])
        after = function_state(func)
        assert before <= after, item.name
        leaves = getattr(item, "leaves", "")
        assert (after > before) == bool(leaves), f"{item.name}: from {before.spelled} to {after.spelled}"
        if leaves:
            assert after is State[leaves] and LEFT_BY[after] == item.name
            seen.append(after)
    assert seen == list(State)[1:]


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"])
def test_every_row_can_go_on_from_text(gpu):
    """Whatever a row needs of earlier ones stands in what was printed between them."""
    count = len(passes(gpu))
    expected = print_op(run(parse_module(tileaa(gpu), "k.mlir"), passes(gpu)))
    for number in range(1, count):
        halfway = print_op(run(parse_module(tileaa(gpu), "k.mlir"), passes(gpu)[:number]))
        again = parse_module(halfway, "halfway.mlir")
        verify(again)
        assert print_op(again) == halfway
        assert print_op(run(again, passes(gpu)[number:])) == expected, passes(gpu)[number].name


def arrays():
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (ROWS, DEPTH * STEPS)).astype(np.float16)
    b = random.integers(-4, 5, (DEPTH * STEPS, COLUMNS)).astype(np.float16)
    return [a, b, np.zeros((ROWS, COLUMNS), np.float32), np.zeros((ROWS, 1), np.float32)]


@pytest.mark.parametrize("number", [n for n, row in enumerate(DECISIONS) if row.optional])
def test_without_an_optional_row_the_result_is_as_right(number, tmp_path):
    items = passes("sm_90")
    del items[number]
    path = tmp_path / "k.tileas.mlir"
    path.write_text(print_op(run(parse_module(tileaa("sm_90"), "k.mlir"), items)))
    artifact = tileiras.compile(path, gpu_name="sm_90", emit="ptx")
    expected, found = arrays(), arrays()
    interpret(matmul(), "k", 1, expected)
    emulate(artifact.text, "k", 1, found, metadata=artifact.kernels[0].metadata)
    for want, got in zip(expected, found):
        assert np.array_equal(want, got)


@pytest.mark.parametrize("number", [n for n, row in enumerate(DECISIONS) if not row.optional])
def test_without_a_mandatory_row_a_later_one_names_it(number):
    items = passes("sm_90")
    left_out = items.pop(number)
    if left_out.name == "tileas-legalize-scaled-dot":
        pytest.skip("there is no block-scaled dot here; the atom of one that the target lacks is not found")
    items.append(ConvertTileASToLLVM(compute_capability="sm_90"))
    with pytest.raises(CompileError) as caught:
        PassManager(items).run(parse_module(tileaa("sm_90"), "k.mlir"), PassContext(DiagnosticEngine()))
    (said,) = [each for each in caught.value.diagnostics if "first" in each.message]
    assert f"run '{left_out.name}' first" in said.message
    assert said.location is not None


def test_passes_before_the_conversion_leave_converted_functions_alone():
    done = print_op(through(parse_module(tileaa("sm_90"), "k.mlir"), "dce"))
    again = through(parse_module(done, "k.mlir"), "dce", num_warps=8)
    assert print_op(again) == done
