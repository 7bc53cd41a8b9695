"""Large dots are loops over K that read slices of their operands."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import matmul, square_and_rows
from tests.kernels.views import buffers, operations
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.layout.encoding import layout_of, offsets_of
from tileiras.layout.staging import in_whole, load_access
from tileiras.operands.dot_k_loops import BODY, MATRIX_BODY
from tileiras.resources.large_dots import MATRIX_INSTRUCTIONS
from tileiras.sim import emulate


def single(tiles, operand="f32", accumulator="f32", **options):
    """C += A B, with C loaded first, in a loop of `steps`, by default of one iteration."""
    return matmul(tiles, operand, accumulator, start="loaded", **{"steps": 1, **options})


def unrolled_once(module):
    """The loops that LLVM may not unroll."""
    return [op for op in operations(module, scf.ForOp) if tileas.NO_UNROLL in op.attributes]


@pytest.mark.parametrize(
    ("tiles", "operand", "accumulator", "gpu_name", "transposed"),
    [
        ((64, 32, 64), "f32", "f32", "sm_75", True),
        ((64, 64, 32), "f32", "f32", "sm_90", False),
        ((32, 64, 64), "bf16", "f32", "sm_75", True),
        ((32, 32, 128), "f8E5M2", "f32", "sm_75", False),
        ((32, 64, 64), "f64", "f64", "sm_75", True),
        ((64, 64, 64), "f32", "f32", "sm_120", True),
    ],
)
def test_a_dot_without_an_instruction_is_a_loop(tiles, operand, accumulator, gpu_name, transposed):
    # Types that the target lacks are converted.
    options = {"legalize_types": True} if operand.startswith("f8") else {}
    text = single(tiles, operand, accumulator, b_by_columns=transposed).check(gpu_name, **options).text
    assert text.count('.pragma "nounroll"') == 1
    assert len(re.findall(r"\bfma\.rn\.f\d+", text)) <= BODY


@pytest.mark.parametrize(("gpu_name", "size_k"), [("sm_75", 1), ("sm_80", 31), ("sm_75", 33), ("sm_80", 65)])
def test_tails_of_k(gpu_name, size_k):
    tiles = (64, 64, 32)
    single(tiles, sizes=(61, 45, size_k), steps=-(-size_k // tiles[2])).check(gpu_name)


def test_stages_of_a_pipeline_are_read_in_slices():
    text = single((64, 64, 32), steps=5).check("sm_90").text
    assert "cp.async" in text and text.count('.pragma "nounroll"') == 1


@pytest.mark.parametrize(
    ("operand", "accumulator", "gpu_name", "transposed", "instructions"),
    [
        ("f16", "f32", "sm_80", False, 256),
        ("bf16", "f32", "sm_90", True, 256),
        ("i8", "i32", "sm_90", False, 128),
        ("f8E5M2", "f32", "sm_100", False, 256),
        ("f8E5M2", "f32", "sm_120", True, 128),
    ],
)
def test_matrix_dots_of_stages_are_loops(operand, accumulator, gpu_name, transposed, instructions):
    """Those of more instructions than are unrolled; an f8 one is two of f16 on targets without it."""
    kernel = single((64, 64, 256), operand, accumulator, sizes=(61, 64, 592), b_by_columns=transposed, steps=3)
    # By default the loop would take smaller steps.
    ptx = kernel.check(gpu_name, num_warps=2, unspecialized_pipeline_num_stages=2).text
    looped = instructions > MATRIX_INSTRUCTIONS
    assert "cp.async" in ptx and ptx.count('.pragma "nounroll"') == looped
    assert len(re.findall(r"\bmma\.sync", ptx)) == (MATRIX_BODY if looped else instructions)


@pytest.mark.parametrize(
    ("operand", "gpu_name", "before", "row"),
    [
        ("f16", "sm_80", "tileas-spill-loop-carried", "tileas-roll-mma-dot"),
        ("f32", "sm_75", "tileas-roll-mma-dot", "tileas-legalize-fma-dot"),
    ],
)
def test_each_kind_of_dot_has_a_pass(operand, gpu_name, before, row):
    kernel = single((64, 64, 256), operand, "f32", sizes=(61, 64, 592), steps=3)
    options = {"num_warps": 2, "unspecialized_pipeline_num_stages": 2}
    counts = [len(unrolled_once(kernel.after(each, gpu_name, **options))) for each in (before, row)]
    assert counts[0] == 0 < counts[1] == len(unrolled_once(kernel.tileas(gpu_name, **options)))


def test_small_dots_are_unrolled():
    assert "nounroll" not in single((32, 32, 32)).check("sm_90").text


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_go_through_little_shared_memory_in_parts(transposed):
    # The CTAs that an SM is to hold decide how much shared memory each has.
    kernel = single((64, 64, 128), steps=2, b_by_columns=transposed, hints="sm_75 = {occupancy = 2}")
    assert kernel.check("sm_75").text.count('.pragma "nounroll"') == 2


def test_dots_without_room_are_unrolled(monkeypatch):
    kernel = single((64, 64, 32))
    assert len(unrolled_once(kernel.tileas("sm_75"))) == 1
    monkeypatch.setattr("tileiras.operands.fma_dots.shared_budget", lambda func, target: 1024)
    module = kernel.tileas("sm_75")
    assert unrolled_once(module) == [] and buffers(module) == []


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90"])
@pytest.mark.parametrize("transposed", [False, True])
def test_bank_conflicts_are_those_of_the_layouts(gpu_name, transposed):
    """The wavefronts of reading slices that the layouts predict, against those that the emulator counts: there are no
    conflicts."""
    tiles = (64, 64, 32)
    kernel = single(tiles, b_by_columns=transposed)
    copies = [op for op in operations(kernel.tileas(gpu_name), tileas.CopyOp) if op.slice is not None]
    warps, predicted = 4, 0
    for op in copies:
        tile = op.buffer.type.tile
        access = load_access(in_whole(layout_of(op.result.type), tile.shape), offsets_of(tile), 32)
        assert access.degree == 1 and access.vector == 4
        predicted += warps * access.wavefronts(32) * tile.shape[op.axis] // op.result.type.shape[op.axis]
    assert len(copies) == 2
    artifact = kernel.compiled(gpu_name)
    arrays = [np.zeros(shape, np.float32) for shape in ((64, 32), (32, 64), (64, 64))]
    metadata = artifact.kernels[0].metadata
    assert metadata["block"][0] == 32 * warps
    bank_wavefronts = emulate(
        artifact.text, "k", 1, arrays, metadata=metadata, count_bank_conflicts=True
    ).bank_wavefronts
    lines = artifact.text.splitlines()
    head = next(number for number, line in enumerate(lines, 1) if "nounroll" in line)
    end = next(number for number, line in enumerate(lines, 1) if number > head and "bra" in line)
    assert sum(count for line, (count, _) in bank_wavefronts.items() if head < line < end) == predicted
    assert all(count == ideal for count, ideal in bank_wavefronts.values())


def test_a_tile_times_itself_and_times_a_uniform_tile():
    """One buffer serves both operands of the first dot; the second needs one for its own."""
    kernel = square_and_rows()
    module = kernel.tileas("sm_90")
    assert len(buffers(module)) == 2 and len(unrolled_once(module)) == 2
    kernel.check("sm_90")
