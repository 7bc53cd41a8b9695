"""The list of TileAS decisions: each leaves the inputs of later ones in the IR, and reports its own missing inputs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tests.kernels.dots import Matmul
from tests.kernels.views import Kernel, View, reduced
from tests.tileas_stage import through
from tileiras import pipeline
from tileiras.analysis.function_pass import functions_of
from tileiras.analysis.function_state import LEFT_BY, State, function_state
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.dialects.nv_tileas import ORDER
from tileiras.driver.tileir_pipeline import tileas_passes
from tileiras.ir import parse_module, print_op, verify
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.options import CompileOptions
from tileiras.passes import DOTS, LOOPS, PASSES, TILEAA_DOTS
from tileiras.passes.convert_tileas_to_llvm import ConvertTileASToLLVM
from tileiras.stages import StageContext, tileas
from tileiras.stages.tileas import DECISIONS

ROWS, COLUMNS = 64, 64


@cache
def matmul() -> Kernel:
    """A dot in a loop, whose loads can run ahead, and the sums of its rows."""
    sums, product = View("d", (ROWS,), "f32"), Matmul((ROWS, COLUMNS, 32), steps=4)
    store = [reduced("r", "sum", (ROWS, COLUMNS), 1), product.c.store("sum"), sums.store("r")]
    kernel = product.kernel(product.text(store=store, more=[sums]))
    (c,) = kernel.expected
    return kernel._replace(outputs=(np.zeros_like(c), np.zeros(ROWS, np.float32)), expected=(c, c.sum(axis=1)))


@cache
def tileaa(gpu: str) -> str:
    return matmul().compiled(gpu, emit="tileaa").text


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
        if leaves and gpu != "sm_90" and State[leaves] in (State.SCHEDULED, State.ASYNCHRONOUS):
            # Without dots of warpgroups, scheduling leaves the function in the state ASYNCHRONOUS already.
            assert after is State.ASYNCHRONOUS and LEFT_BY[State[leaves]] == item.name
            seen.append(State[leaves])
            continue
        assert (after > before) == bool(leaves), f"{item.name}: from {before.spelled} to {after.spelled}"
        if leaves:
            assert after is State[leaves] and LEFT_BY[after] == item.name
            seen.append(after)
    assert seen == list(State)[1:]


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"])
def test_every_row_can_go_on_from_text(gpu):
    """The text printed between two rows holds all results of the earlier rows that later ones use."""
    count = len(passes(gpu))
    expected = print_op(run(parse_module(tileaa(gpu), "k.mlir"), passes(gpu)))
    for number in range(1, count):
        halfway = print_op(run(parse_module(tileaa(gpu), "k.mlir"), passes(gpu)[:number]))
        again = parse_module(halfway, "halfway.mlir")
        verify(again)
        assert print_op(again) == halfway
        assert print_op(run(again, passes(gpu)[number:])) == expected, passes(gpu)[number].name


@pytest.mark.sampled(22)
@pytest.mark.parametrize("number", [n for n, row in enumerate(DECISIONS) if row.optional])
def test_without_an_optional_row_the_result_is_as_right(number, tmp_path):
    items = passes("sm_90")
    del items[number]
    path = tmp_path / "k.tileas.mlir"
    path.write_text(print_op(run(parse_module(tileaa("sm_90"), "k.mlir"), items)))
    matmul().emulated(tileiras.compile(path, gpu_name="sm_90", emit="ptx"))


@pytest.mark.parametrize("number", [n for n, row in enumerate(DECISIONS) if not row.optional])
def test_without_a_mandatory_row_a_later_one_names_it(number):
    items = passes("sm_90")
    left_out = items.pop(number)
    if left_out.name == "tileas-legalize-scaled-dot":
        pytest.skip("there is no block-scaled dot here; the atom of one that the target lacks is not found")
    if left_out.name == "tileas-promote-accumulators":
        pytest.skip("there is no dot of 8-bit floats here")
    if left_out.name == "tileas-attach-tma-desc-args":
        pytest.skip("there is no descriptor of a tensor here")
    items.append(ConvertTileASToLLVM(compute_capability="sm_90"))
    with pytest.raises(CompileError) as caught:
        PassManager(items).run(parse_module(tileaa("sm_90"), "k.mlir"), PassContext(DiagnosticEngine()))
    (result,) = [each for each in caught.value.diagnostics if "first" in each.message]
    assert f"run '{left_out.name}' first" in result.message
    assert result.location is not None


def test_passes_before_conversion_skip_converted_functions():
    done = print_op(through(parse_module(tileaa("sm_90"), "k.mlir"), "dce"))
    again = through(parse_module(done, "k.mlir"), "dce", num_warps=8)
    assert print_op(again) == done


BYTECODE = Path(__file__).parents[2] / "examples" / "bytecode"


@pytest.mark.parametrize("strategy", ["auto", "warp-specialize", "none"])
@pytest.mark.parametrize("name", ["vector_add", "softmax", "layer_norm", "matmul_f16"])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100"])
def test_a_pass_that_is_left_out_has_nothing_to_do(gpu, name, strategy):
    """The stage omits passes by the operations in the IR (`Place.triggers`); running all of them gives the same IR."""
    result = {"gpu-name": gpu, "pipeline-strategy": strategy, "tensor-maps": "host", "emit-remarks": True}
    options = pipeline.stage("tileas").select(CompileOptions(result))
    text = tileiras.compile(BYTECODE / f"{name}.tileirbc", gpu_name=gpu, emit="tileaa").text
    stage, whole = DiagnosticEngine(), DiagnosticEngine()
    whole.remarks = True
    output = tileas.run(parse_module(text, "k.mlir"), options, StageContext(stage)).output
    expected = parse_module(text, "k.mlir")
    PassManager(tileas.passes(options), verify_each=False).run(expected, PassContext(whole))
    for op in output.walk():
        op.attributes.pop(ORDER, None)  # the stage's, and no pass's
    assert print_op(output) == print_op(expected)
    assert [str(each) for each in stage.diagnostics] == [str(each) for each in whole.diagnostics]


@pytest.mark.parametrize("name", ["layer_norm", "matmul_f16"])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_a_pass_that_adds_no_operations_adds_none(gpu, name):
    """The stage does not name operations again after a pass that declares to add none (`adds_operations`)."""
    options = pipeline.stage("tileas").select(CompileOptions({"gpu-name": gpu, "tensor-maps": "host"}))
    module = tileiras.compile(BYTECODE / f"{name}.tileirbc", gpu_name=gpu, emit="tileaa").text
    module = parse_module(module, "k.mlir")
    names: set[str] = set()
    result = 0
    for item in tileas.passes(options):
        before = names
        run(module, [item], verify_each=False)
        names = {each for op in module.walk() for each in (op.name, *op.attributes)}
        result += not item.adds_operations
        assert item.adds_operations or names <= before, item.name
    assert result > 3


def test_a_kernel_without_loops_and_dots_leaves_passes_out(monkeypatch):
    ran, run_pass = [], PassManager._run_pass
    monkeypatch.setattr(PassManager, "_run_pass", lambda *given: (ran.append(given[1].name), run_pass(*given)))
    tileiras.compile(BYTECODE / "vector_add.tileirbc", gpu_name="sm_90", emit="tileas")
    of_dots = {*LOOPS, *TILEAA_DOTS, *DOTS}
    of_loops_and_dots = {name for name, place in PASSES.items() if place.triggers and {*place.triggers} <= of_dots}
    assert len(of_loops_and_dots) > 10 and of_loops_and_dots <= {row.name for row in DECISIONS}
    assert "tileas-slicing" in ran and not of_loops_and_dots & {*ran}
