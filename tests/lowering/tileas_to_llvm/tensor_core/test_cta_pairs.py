"""Dots that two CTAs of a cluster execute together: each has 128 rows of A, or 64, and half of B, and the one of even
rank has them issued for both."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.dots import Matmul
from tests.kernels.reasons import stated
from tests.kernels.tensor_memory import GPU, ORDERS, TENSOR_ORDERS, check, fails, survivors
from tests.kernels.tile_rounds import rounds
from tests.kernels.views import Kernel, of_rows, reduced, tile_type, whole_numbers

CLUSTER = r"|barrier\.cluster\.(?:arrive|wait)[^;]*;"
ONE_CTA = "pairs.cta-alone; "
TOGETHER = "pairs.together"
BOXES = {"tensor_maps": "host"}
AGENTS = {**BOXES, "pipeline_strategy": "warp-specialize"}


def matmul(tiles: tuple[int, int, int], operand: str = "f16", ctas: int = 2, **options) -> Kernel:
    named = {"steps": 3, **options}
    return Matmul(tiles, operand, hints=f"sm_100 = {{num_cta_in_cga = {ctas}}}", **named).kernel()


def with_sums_of_rows(steps: int = 3) -> Kernel:
    """Threads read A's tile in shared memory as well, and add the sums of its rows to the accumulator in each step."""
    tiles = m, n, k = (256, 32, 32)
    parts = Matmul(tiles, steps=steps, hints="sm_100 = {num_cta_in_cga = 2}")
    inner = "\n".join((
        f"%wide = ftof %a : {tile_type((m, k), 'f16')} -> {tile_type((m, k), 'f32')}",
        reduced("sums", "wide", (m, k), 1), of_rows("rows", "sums", (m, n)),
        f"%s = addf %next, %rows rounding<nearest_even> : {tile_type((m, n), 'f32')}",
    ))  # fmt: skip
    return parts.kernel(parts.text(inner=inner), lambda a, b: a @ b + a.sum(1, keepdims=True))


def remarks(kernel: Kernel, **options) -> list[str]:
    """The remarks about pairs."""
    artifact = kernel.compiled(GPU, emit_remarks=True, emit="tileas", **{**BOXES, **options})
    return stated(artifact.diagnostics, "pairs.")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("operand", "k", "kind"),
    [("bf16", 64, "f16"), ("f8E4M3FN", 128, "f8f6f4"), ("tf32", 32, "tf32"), ("i8", 64, "i8")],
)
@pytest.mark.parametrize("b_by_columns", [False, True])
def test_kinds(operand, k, kind, b_by_columns):
    check(matmul((256, 64, k), operand, b_by_columns=b_by_columns), f"{kind} 256x64", **AGENTS)


@pytest.mark.parametrize("columns", [32, 128, 256])
def test_columns(columns):
    check(matmul((256, columns, 64)), f"f16 256x{columns}", **BOXES)


@pytest.mark.parametrize("distance", [16, 80])
def test_tiles_of_b_that_overlap_or_lie_apart(distance):
    """Half of a tile's columns is no step from tile to tile."""
    kernel = matmul((256, 64, 64))
    narrow, wide = ("tensor_view<192x64xf16,strides=[64,1]>", "tensor_view<192x256xf16,strides=[256,1]>")
    partition = f"partition_view<tile=(64x64), padding_value = zero, {narrow}>"
    strided = f"strided_view<tile=(64x64), traversal_strides=[64,{distance}], padding_value = zero, {wide}>"
    changes = {
        "shape = [192, 64], strides = [64, 1]": "shape = [192, 256], strides = [256, 1]", partition: strided,
        narrow: wide, "%v_b = make_partition_view": "%v_b = make_strided_view", "%v_b[%i, %zero]": "%v_b[%i, %one]",
    }  # fmt: skip
    text = kernel.text
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    a, b = kernel.inputs[0], whole_numbers((192, 256), "f16", seed=3)
    columns = b[:, distance : distance + 64]
    expected = a.astype(np.float32) @ columns.astype(np.float32)
    check(kernel._replace(text=text, inputs=[a, b], expected=(expected,)), "f16 256x64", **BOXES)


def test_rows_beyond_an_instruction():
    check(matmul((512, 64, 64), steps=2), "f16 256x64", **BOXES)


@pytest.mark.parametrize("columns", [32, 256])
@pytest.mark.parametrize("plan", [BOXES, AGENTS])
def test_64_rows_of_each_cta(columns, plan):
    """The second half of the columns lies in other lanes."""
    check(matmul((128, columns, 64)), f"f16 128x{columns}", **plan)


def test_64_rows_with_operands_loaded_by_threads():
    check(matmul((128, 64, 128), "f8E4M3FN", start="loaded"), "f8f6f4 128x64", **BOXES)


@pytest.mark.parametrize("ctas", [4, 8])
@pytest.mark.parametrize("plan", [BOXES, AGENTS])
def test_pairs_of_a_larger_cluster(ctas, plan):
    check(matmul((128 * ctas, 32, 64), ctas=ctas), "f16 256x32", **plan)


@pytest.mark.parametrize("plan", [BOXES, AGENTS])
def test_ragged_tiles(plan):
    check(matmul((256, 64, 64), sizes=(200, 40, 152)), "f16 256x64", **plan)


PLANS = {
    "two stages": {**BOXES, "unspecialized_pipeline_num_stages": 2},
    "maps of the device": {"tensor_maps": "device"},
    "agents": AGENTS,
    "agents, maps of the device": {**AGENTS, "tensor_maps": "device"},
    "overlap": {**BOXES, "v2_opt_level": 1},
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("start", ["zeros", "loaded"])
def test_plans(plan, start):
    ptx = check(matmul((256, 64, 64), steps=5, start=start), "f16 256x64", **PLANS[plan])
    assert "cp.async.bulk.tensor" in ptx and ".cta_group::2 [" in ptx


def test_agents_that_would_wait_for_those_of_the_peer():
    """Nothing brings the threads of one agent of both CTAs together."""
    artifact = matmul((256, 64, 64), start="loaded").compiled(GPU, **AGENTS)
    assert artifact.kernels[0].metadata["block"][0] == 128
    assert any("agents.pair-accumulator-written" in item for item in stated(artifact.diagnostics))


def test_tiles_also_read_by_threads_follow_a_cluster_barrier():
    """They copy it then, and the next dot comes when the threads of both CTAs have stored its accumulator."""
    check(with_sums_of_rows(), "f16 256x32", **BOXES)
    check(with_sums_of_rows(), "f16 256x32", **AGENTS)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu):
    kernel = Matmul((256, 64, 64), steps=3, hints=f"{gpu} = {{num_cta_in_cga = 2}}").kernel()
    check(kernel, "f16 256x64", gpu=gpu, **BOXES)


WAIT = r"mbarrier\.try_wait[^;]*;\s*not\.pred[^;]*;\s*@%p\d+ bra[^;]*;"
"""Until a phase is complete, with the branch back."""

MUTATED = {
    "boxes": (lambda: matmul((256, 32, 32), steps=4), BOXES, ORDERS),
    "agents": (
        lambda: matmul((256, 32, 32), steps=6),
        {**AGENTS, "unspecialized_pipeline_num_stages": 3},
        rf"{ORDERS}|{WAIT}",
    ),
    "accumulator loaded": (lambda: matmul((256, 32, 32), start="loaded"), BOXES, TENSOR_ORDERS),
}
"""Kernels, options, and the passages to delete: with agents also waits for stages, for the dots, and the last waits,
for stages that dots of the peer release."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", MUTATED)
def test_synchronization_is_minimal(name):
    make, options, orders = MUTATED[name]
    kernel = make()
    artifact = kernel.compiled(GPU, **options)
    assert not survivors(kernel, artifact, orders + CLUSTER)


def test_a_commit_arrives_in_both_ctas():
    """Without the peer in the mask, its threads wait for ever."""
    kernel = matmul((256, 32, 32), steps=3)
    artifact = kernel.compiled(GPU, **BOXES)
    for mask in sorted(set(re.findall(r"multicast::cluster\.b64 \[%r\d+\], (%rs\d+)", artifact.text))):
        alone = re.sub(rf"mov\.b16\s+{mask}, 3;", f"mov.b16 {mask}, 1;", artifact.text)
        assert alone != artifact.text and fails(kernel, artifact, alone)


def test_bytes_of_both_stages_are_expected():
    """If it expects the bytes of its own stage alone, the first CTA multiplies elements that have not arrived."""
    kernel = matmul((256, 32, 32), steps=3)
    artifact = kernel.compiled(GPU, **BOXES)
    stage = (128 + 16) * 32 * 2
    alone = re.sub(rf"(mov\.b32\s+%r\d+), {2 * stage};", rf"\1, {stage};", artifact.text)
    assert alone != artifact.text and fails(kernel, artifact, alone)


def test_remarks_say_why_a_cta_multiplies_by_itself():
    assert remarks(matmul((256, 64, 64))) == [TOGETHER]
    copied = "pairs.no-maps"
    assert remarks(matmul((256, 64, 64)), tensor_maps="none") == [ONE_CTA + copied]
    few = 'pairs.rows least="64 or 128" rows=32'
    assert remarks(matmul((64, 64, 64))) == [ONE_CTA + few]
    narrow = "pairs.columns columns=16"
    assert remarks(matmul((256, 16, 64))) == [ONE_CTA + narrow]
    check(matmul((256, 16, 64)), "f16 128x16", **BOXES)
    inside = "pairs.nested-loop"
    hints = "sm_100 = {num_cta_in_cga = 2}"
    plain = {**BOXES, "pipeline_strategy": "unspecialize"}
    assert remarks(rounds((256, 64, 32), count=4, hints=hints), **plain) == [ONE_CTA + inside]
    check(rounds((256, 64, 32), count=3, hints=hints), "f16 128x64", **BOXES)
    loaded = "pairs.no-agent-multiplies"
    assert remarks(rounds((256, 64, 32), count=4, loaded=True, hints=hints), **AGENTS) == [ONE_CTA + loaded]
    check(rounds((256, 64, 32), count=3, loaded=True, hints=hints), "f16 128x64", **AGENTS)


def test_machine_code_is_of_pairs():
    text = matmul((256, 64, 64)).compiled(GPU, emit="sass", **BOXES).text
    assert "UTCHMMA.2CTA" in text and "UTMALDG.2D.2CTA" in text


@pytest.mark.parametrize("plan", [BOXES, AGENTS])
def test_ctas_begin_without_a_fence_of_the_gpu(plan):
    """They wait for each other's mbarriers alone; an accumulator that threads have stored needs the fence."""
    assert "MEMBAR.ALL.GPU" not in matmul((256, 64, 64)).compiled(GPU, emit="sass", **plan).text
    loaded = matmul((256, 64, 64), start="loaded").compiled(GPU, emit="sass", **plan).text
    assert loaded.count("MEMBAR.ALL.GPU") == loaded.count("UCGABAR_ARV")
