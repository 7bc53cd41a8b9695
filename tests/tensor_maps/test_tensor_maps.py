"""Loads that run ahead of a loop in boxes of tensor maps: right in the order of warps of every seed, wrong if any of
their synchronization is deleted, and unchanged where a rule of maps does not hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import sites, survives
from tests.kernels import tensor_maps as kernels
from tests.kernels.dots import Matmul, attention_like, matmul
from tests.kernels.reasons import causes
from tests.kernels.tensor_maps import Arrays
from tests.machine_code import assemble
from tileiras.diagnostics import DiagnosticEngine
from tileiras.driver.tileir_pipeline import tileas_passes
from tileiras.ir import parse_module, print_op
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.targets import target

SEEDS = (None, 0, 1, 2)
BOX, RUN = "cp.async.bulk.tensor", "cp.async.cg"


def compiled(text: str, gpu: str = "sm_90", **options):
    """With one agent, unless the options name another strategy."""
    chosen = {"pipeline_strategy": "unspecialize", **options}
    return tileiras.compile(text, gpu_name=gpu, tensor_maps="host", **chosen)


OPERANDS = {
    "K of A, N of B": ((64, 64, 64), "f16", {}),
    "K of both": ((64, 64, 64), "bf16", {"b_by_columns": True}),
    "several boxes a stage": ((128, 128, 128), "f16", {"steps": 3}),
    "rows of 32 bytes": ((64, 16, 16), "f16", {}),
    "rows of 64 bytes": ((64, 32, 32), "f16", {}),
    "f8": ((64, 64, 128), "f8E4M3FN", {"b_by_columns": True}),
    "i8": ((64, 64, 64), "i8", {"b_by_columns": True}),
    "more rows than a box": ((512, 16, 16), "f16", {"steps": 2}),
    "A outside": ((64, 64, 64), "f16", {"a_outside": True}),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("gpu", "product"), [("sm_90", "wgmma"), ("sm_100", "tcgen05.mma")])
@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_dots_read_in_shared_memory_come_in_boxes(name, gpu, product, ptxas):
    tiles, element, options = OPERANDS[name]
    kernel = matmul(tiles, element, **{"steps": 5, **options})
    artifact = compiled(kernel.text, gpu)
    assert BOX in artifact.text and product in artifact.text
    assemble(artifact.text, gpu)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_every_number_of_iterations_in_rings_of_every_depth(stages):
    artifact = compiled(kernels.matmul(), unspecialized_pipeline_num_stages=stages)
    assert BOX in artifact.text and RUN not in artifact.text
    for steps in (0, 1, 2, 3, 4, 9):
        for seed in SEEDS[:2]:
            Arrays(64, 64, 288).launch(artifact.text, artifact.kernels[0].metadata, seed, steps)


@pytest.mark.parametrize("sizes", [(64, 64, 27), (9, 64, 64), (65, 130, 71), (1, 1, 1), (130, 8, 96)])
def test_elements_outside_of_an_array_are_zero(sizes):
    artifact = compiled(kernels.matmul())
    for seed in SEEDS[:2]:
        Arrays(*sizes).launch(artifact.text, artifact.kernels[0].metadata, seed)


@pytest.mark.parametrize("sizes", [(64, 64, 0), (0, 64, 64), (64, 0, 64), (0, 0, 0)])
def test_arrays_without_elements(sizes):
    """Steps along K that an array does not have, too: all of these tiles is zero."""
    artifact = compiled(kernels.matmul())
    for steps in (0, 1, 3):
        Arrays(*sizes).launch(artifact.text, artifact.kernels[0].metadata, 0, steps)


THREADS = {
    "f16": ((64, 64, 64), "f16", {"steps": 4}),
    "K of both": ((64, 32, 32), "bf16", {"b_by_columns": True}),
    "several boxes a stage": ((64, 64, 128), "f16", {"steps": 3}),
    "f8": ((64, 64, 64), "f8E4M3FN", {"b_by_columns": True}),
    # Eight columns of bytes are no matrix that threads would read from boxes.
    "f8 beside copies by all threads": ((64, 8, 64), "f8E4M3FN", {}),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gpu", ["sm_100", "sm_120"])
@pytest.mark.parametrize("name", THREADS)
def test_operands_read_from_smem_by_threads_come_in_boxes(name, gpu, ptxas):
    tiles, element, options = THREADS[name]
    kernel = matmul(tiles, element, **{"steps": 3, **options})
    # Two warps have no tensor memory.
    artifact = compiled(kernel.text, gpu, num_warps=2)
    assert BOX in artifact.text and "mma.sync" in artifact.text
    assert bool(re.search(r"cp\.async\.c[ag]\.", artifact.text)) == (name == "f8 beside copies by all threads")
    assemble(artifact.text, gpu)
    for seed in SEEDS[:3]:
        kernel.emulated(artifact, seed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("gpu", "stages"), [("sm_90", 2), ("sm_90", 3), ("sm_120", 2), ("sm_120", 3)])
def test_synchronization_of_the_ring_is_minimal(gpu, stages):
    """Two stages free the one that was read at once, three with a product under way a round later; threads that loaded
    from a stage fence before they give it back."""
    kernel = matmul((64, 64, 64), "f16", steps=7)
    artifact = compiled(kernel.text, gpu, unspecialized_pipeline_num_stages=stages)

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    result = sites(artifact.text)
    assert len(result) >= 10 and survives(artifact.text, judge, SEEDS)
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []
    without_bytes = re.sub(r"(expect_tx\S+\s+\S+ \[[^\]]*\], )%r\d+;", r"\g<1>16;", artifact.text)
    assert without_bytes != artifact.text and not survives(without_bytes, judge, SEEDS)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_a_ring_in_the_place_of_another_one(gpu):
    """Threads fence their loads from that place before boxes come."""
    artifact = compiled(kernels.twice(), gpu)
    arrays = Arrays(64, 64, 224)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed, times=2)

    assert survives(artifact.text, judge, SEEDS)
    fences = [(line, broken) for line, broken in sites(artifact.text) if line.startswith("fence.proxy")]
    assert [line for line, broken in fences if survives(broken, judge, SEEDS)] == []


def test_register_loads_are_made_by_all_threads_beside_boxes():
    kernel = attention_like(1)
    artifact = compiled(kernel.text)
    assert BOX in artifact.text
    assemble(artifact.text, "sm_90")
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


# ---- stores ----------------------------------------------------------------------------------------------------------

STORE = "tile.bulk_group"
STORED = {
    "f32": ((64, 64, 64), "f16", None, 2),
    "f16": ((128, 64, 64), "f16", "f16", 1),
    "i32": ((64, 64, 64), "i8", "i32", 2),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("name", STORED)
def test_results_are_stored_in_boxes(name, gpu, ptxas):
    tiles, operand, accumulator, boxes = STORED[name]
    kernel = matmul(tiles, operand, accumulator, steps=3, b_by_columns=operand == "i8")
    artifact = compiled(kernel.text, gpu)
    assert artifact.text.count(STORE) == boxes
    assemble(artifact.text, gpu)
    for seed in SEEDS[:3]:
        kernel.emulated(artifact, seed)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_synchronization_of_a_store_is_minimal(gpu):
    kernel = matmul((64, 64, 64), "f16", steps=7)
    artifact = compiled(kernel.text, gpu)

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    result = sites(artifact.text)
    lines = [line for line, _ in result]
    assert "cp.async.bulk.commit_group;" in lines and any("bulk.wait_group" in line for line in lines)
    assert survives(artifact.text, judge, SEEDS)
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []


HINT = " optimization_hints = <sm_90 = {allow_tma = false}>"


@pytest.mark.parametrize("hints", ["", HINT])
def test_a_store_completes_before_operations_of_its_token(hints):
    """Earlier writes of threads, with a hint that requests them, are fenced in all memory as well."""
    artifact = compiled(kernels.doubled(hints))
    assert artifact.text.count(STORE) == (2 if hints else 4)
    assert ("fence.proxy.async;" in artifact.text) == bool(hints)
    arrays = Arrays(64, 64, 224)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed, times=2)

    assert survives(artifact.text, judge, SEEDS)
    result = [site for site in sites(artifact.text) if re.match(r"fence\.proxy|bar\.sync|cp\.async\.bulk", site[0])]
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []
    if hints:
        narrow = artifact.text.replace("fence.proxy.async;", "fence.proxy.async.shared::cta;")
        assert not survives(narrow, judge, SEEDS)


# ---- rules -----------------------------------------------------------------------------------------------------------

K, M = "64x32", kernels.view
REFUSED = {
    "alignment of the base": (kernels.matmul(M("a", K, aligned=8)), "maps.base-alignment"),
    "alignment of rows": (kernels.matmul(M("a", K, divisor=4)), "maps.stride-alignment dim=0"),
    "a hint": (kernels.matmul(hints=HINT), "maps.hint"),
    "an order": (kernels.matmul(order="relaxed device"), "maps.ordered"),
    "a computed size": (
        kernels.matmul(M("a", K).replace("assume bounded<0, ?>, %s_a_0", "maxi %s_a_0, %s_a_1 signed")),
        "maps.size-computed dim=0",
    ),
    "multiply-adds": (
        matmul((64, 64, 32), "f32", steps=3).text,
        "maps.read-by-fma",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_that_fails_is_named(name):
    text, reason = REFUSED[name]
    program = compiled(text, emit_remarks=True)
    result = causes(program.diagnostics, "maps.unused")
    assert reason in result
    if name != "multiply-adds":
        Arrays(64, 64, 96).launch(program.text, program.kernels[0].metadata)


def test_nothing_changes_without_maps_or_without_the_instruction():
    text = kernels.matmul()
    plain = tileiras.compile(text, gpu_name="sm_90").text
    assert tileiras.compile(text, gpu_name="sm_90", tensor_maps="none").text == plain and BOX not in plain
    assert not target("sm_80").has("tma")
    assert compiled(text, "sm_80").text == tileiras.compile(text, gpu_name="sm_80").text


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_every_row_goes_on_from_text(gpu):
    """The text before a row has all facts about boxes and descriptors that the row needs."""
    source = tileiras.compile(kernels.doubled(), gpu_name=gpu, emit="tileaa").text
    passes = tileas_passes(f"compute-capability={gpu} tensor-maps=host")

    def run(module, those):
        PassManager(those, verify_each=True).run(module, PassContext(DiagnosticEngine()))
        return print_op(module)

    expected = run(parse_module(source, "k.mlir"), passes)
    assert "async.tma_load" in expected and "async.tma_store" in expected and "make_tma_desc" not in expected
    text = source
    for each in passes:
        text = run(parse_module(text, "k.mlir"), [each])
    assert text == expected


def test_the_description_says_how_maps_are_made():
    metadata = compiled(kernels.matmul()).kernels[0].metadata
    assert [each["fill"] for each in metadata["hidden_parameters"]] == [
        "tensor_map element=f16 address=p0 dims=p2,p1 strides=p3 box=32,64 swizzle=64",
        "tensor_map element=f16 address=p4 dims=p6,p5 strides=p7 box=64,32 swizzle=128",
        "tensor_map element=f32 address=p8 dims=p10,p9 strides=p11 box=32,64 swizzle=128",
    ]


@pytest.mark.parametrize("number", [2**25 - 1, 2**25, 2**26, 2**31 - 4])
def test_tiles_behind_all_tensors_are_padding(number):
    parts = Matmul((64, 64, 64), steps=3)
    far = [f"%far = constant <i32: {number}> : tile<i32>", "%there = addi %i, %far : tile<i32>"]
    text = parts.text([*far, parts.a.load("a", "%zero, %there"), parts.load_b])
    kernel = parts.kernel(text, expected=lambda a, b: np.zeros((64, 64)))
    artifact = compiled(text)
    assert BOX in artifact.text
    kernel.emulated(artifact)
