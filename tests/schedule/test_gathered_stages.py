"""Loops of products whose rows threads gather have as many stages as leave an SM its CTAs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tileiras
from tests.kernels.dots import dot
from tests.kernels.reasons import stated
from tests.kernels.views import ONE, Kernel, View, entry, operations, tile_type, whole_numbers, zeros
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"
RAMPS = {"pipeline_strategy": "unspecialize"}


def gathered_product(tiles=(128, 64, 64), steps=9, table=300, latency: int | None = None) -> Kernel:
    """C = A[rows] @ B; a row outside of the table of rows is zero."""
    m, n, k = tiles
    depth = k * steps
    rows, a = View("i", (m,), "i32"), View("a", (1, 1), "f16", (table, depth))
    b, c = View("b", (k, n), "f16", (depth, n)), View("c", (m, n), "f32")
    long, tile = tile_type((m, k), "i32"), tile_type((m, k), "f16")
    pointers, flags = f"tile<{m}x{k}xptr<f16>>", tile_type((m, k), "i1")
    column, line = tile_type((m, 1), "i32"), tile_type((1, k), "i32")
    hint = f" optimization_hints = <sm_100 = {{latency = {latency}}}>" if latency else ""

    def spread(value: str, number: int) -> str:
        return f"%{value} = constant <i32: {number}> : {long}"

    body = [
        ONE, f"%steps = constant <i32: {steps}> : tile<i32>", zeros("none", c.tile), rows.load("rows"),
        f"%rows_1 = reshape %rows : {rows.tile} -> {column}", f"%rows_2 = broadcast %rows_1 : {column} -> {long}",
        spread("end", table), spread("wide", depth), f"%missing = constant <f16: 0.0> : {tile}",
        f"%inside = cmpi less_than %rows_2, %end, signed : {long} -> {flags}",
        f"%starts = muli %rows_2, %wide : {long}", f"%from_0 = iota : {tile_type((k,), 'i32')}",
        f"%from_1 = reshape %from_0 : {tile_type((k,), 'i32')} -> {line}",
        f"%k = constant <i32: {k}> : tile<i32>",
        "%a_1 = reshape %q_a : tile<ptr<f16>> -> tile<1x1xptr<f16>>",
        f"%a_all = broadcast %a_1 : tile<1x1xptr<f16>> -> {pointers}",
        f"%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({c.tile}) {{",
        "%at_0 = muli %i, %k : tile<i32>", "%at_1 = reshape %at_0 : tile<i32> -> tile<1x1xi32>",
        f"%at_2 = broadcast %at_1 : tile<1x1xi32> -> {line}", f"%at_3 = addi %at_2, %from_1 : {line}",
        f"%at_4 = broadcast %at_3 : {line} -> {long}", f"%at_5 = addi %starts, %at_4 : {long}",
        f"%at = offset %a_all, %at_5 : {pointers}, {long} -> {pointers}",
        f"%x, %t = load_ptr_tko weak %at, %inside, %missing{hint} : {pointers}, {flags}, {tile} -> {tile}, token",
        b.load("y", "%i, %zero"),
        dot("next", "x", "y", "acc", (tile, b.tile, c.tile)),
        f"continue %next : {c.tile}", "}",
        c.store("sum"),
    ]  # fmt: skip
    chosen = np.random.default_rng(0).integers(0, table + 20, m).astype(np.int32)
    left, right = whole_numbers((table, depth), "f16", 1), whole_numbers((depth, n), "f16", 2)
    known = np.where((chosen < table)[:, None], left[chosen.clip(0, table - 1)], np.float16(0))
    wanted = (known.astype(np.float64) @ right.astype(np.float64)).astype(np.float32)
    return Kernel(entry([rows, a, b, c], body), (chosen, left, right), (np.zeros((m, n), np.float32),), (wanted,))


def stages(kernel: Kernel, gpu_name: str, **options) -> int:
    module = kernel.after("tileas-generate-schedule", gpu_name, **{**RAMPS, "tensor_maps": "none", **options})
    (loop,) = operations(module, scf.ForOp)
    return loop.attributes[tileas.LOOP_SCHEDULE].stages


@pytest.mark.parametrize("tiles, gpu_name, number", [
    ((128, 128, 64), "sm_100", 7),
    ((128, 128, 64), "sm_90", 7),
    ((128, 64, 64), "sm_100", 4),
])  # fmt: skip
def test_as_many_as_leave_an_sm_its_ctas(tiles, gpu_name, number):
    kernel = gathered_product(tiles)
    assert stages(kernel, gpu_name) == number
    for maps in ("none", "host", "auto"):
        kernel.check(gpu_name, tensor_maps=maps)


def test_no_more_than_there_are_steps():
    assert stages(gathered_product((128, 128, 64), steps=5), "sm_100") == 5


def test_a_number_given_by_the_user():
    kernel = gathered_product((128, 128, 64))
    assert stages(kernel, "sm_100", num_stages=3) == 3
    assert stages(gathered_product((128, 128, 64), latency=2), "sm_100") <= 3


def test_dots_that_threads_execute_have_as_many_as_before():
    """They wait for each tile themselves, and read it with their own instructions."""
    assert stages(gathered_product((64, 64, 64)), "sm_80") == 3


def test_a_dot_is_in_flight_beside_boxes_of_other_stages():
    """The stage that an iteration releases is that of the dot before the last one, which the last one waited for."""
    module = gathered_product((128, 128, 64)).after("tileas-materialize-async", "sm_90", tensor_maps="host", **RAMPS)
    (loop,) = operations(module, scf.ForOp)
    waits = [op.pending.value for op in loop.walk() if isinstance(op, tileas.FutureWaitOp)]
    assert waits == [1] and any(op.name == names.CONSUMER_RELEASE for op in loop.walk())


def test_rows_that_an_agent_gathers():
    """Facts about its addresses hold in the agent: consecutive elements are copied together."""
    kernel, agents = gathered_product((128, 128, 64)), {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}
    module = kernel.after("tileas-materialize-schedule", "sm_90", **agents)
    (func,) = operations(module, aa.FuncOp)
    (copy,) = operations(module, tileas.AsyncLoadOp)
    assert DivisibilityAnalysis(func).contiguity(copy.pointer)[1] == 64
    kernel.check("sm_90", unspecialized_pipeline_num_stages=3, **agents)


def test_masks_of_an_agent_are_not_packed_into_words(tmp_path):
    """A stage is acquired, with branches, between the comparisons and the copies: LLVM would hold a vector of i1 in
    words, of all elements, although a copy of eight has a single condition."""
    pytest.importorskip("cuda.tile")
    source = (EXAMPLES / "moe_matmul.py").read_text()
    small = '"f16[?, ?]", "f16[?, ?, 8*?]", "i32[?]", "i32[?]", "f16[?, ?]", 16, 32, 32'
    assert small in source
    large = small.replace('"f16[?, ?]"', '"f16[?, 8*?]"').replace("16, 32, 32", "64, 64, 64")
    path = tmp_path / "moe_matmul.py"
    path.write_text(source.replace(small, large))
    text = tileiras.compile(str(path), gpu_name="sm_90", emit="ptx", pipeline_strategy="warp-specialize").text
    assert text.count("cp.async.cg") >= 4 and "selp.b16" not in text


def test_threads_that_gather_copy_the_other_operand_too():
    """They only wait otherwise; without an agent, one of them would start its boxes as well as the dots."""
    kernel = gathered_product()
    artifact = tileiras.compile(kernel.text, gpu_name="sm_100", emit_remarks=True)
    assert "cp.async.cg" in artifact.text and "cp.async.bulk.tensor" not in artifact.text
    assert "maps.unused; maps.threads-wait" in stated(artifact.diagnostics)
    for seed in (None, 0):
        kernel.emulated(artifact, seed)
