"""Block-scaled dots that two CTAs of a cluster execute together: each has the scales of its rows and those of all
columns, which the thread that issues the dot has copied for both."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests.kernels.dots import scaled
from tests.kernels.packed_scales import packed_matmul
from tests.kernels.reasons import causes
from tests.kernels.tensor_memory import GPU, ORDERS, SEEDS, fails, survivors
from tests.kernels.views import Kernel
from tests.machine_code import assemble
from tileiras.codegen import toolkit

CLUSTER = r"|barrier\.cluster\.(?:arrive|wait)[^;]*;"
WAIT = r"mbarrier\.try_wait[^;]*;\s*not\.pred[^;]*;\s*@%p\d+ bra[^;]*;"
"""Until a phase is complete, with the branch back."""
COPY = r"tcgen05\.cp[^;]*;"
BOXES = {"tensor_maps": "host", "pipeline_strategy": "unspecialize"}
AGENTS = {"tensor_maps": "host", "pipeline_strategy": "warp-specialize"}
PLANS = {
    "boxes": BOXES,
    "agents": AGENTS,
    "maps of the device": {**BOXES, "tensor_maps": "device"},
    "agents, maps of the device": {**AGENTS, "tensor_maps": "device"},
    "two stages": {**AGENTS, "unspecialized_pipeline_num_stages": 2},
}


def check(kernel: Kernel, kind: str, gpu: str = GPU, **options) -> str:
    """The kernel multiplies in pairs only, ptxas takes it, and it is right; its PTX."""
    artifact = kernel.compiled(gpu, **options)
    assert f"tcgen05.mma.cta_group::2.kind::{kind}" in artifact.text and "mma.sync" not in artifact.text
    assert "tcgen05.cp.cta_group::2.32x128b.warpx4" in artifact.text and "cta_group::1" not in artifact.text
    for seed in SEEDS:
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, gpu)
    return artifact.text


def remarks(kernel: Kernel, **options) -> list[str]:
    artifact = kernel.compiled(GPU, emit_remarks=True, emit="tileas", **{**BOXES, **options})
    return causes(artifact.diagnostics, "pairs.cta-alone")


def stored_by_threads(kernel: Kernel) -> Kernel:
    """Without the copy of a result through shared memory to boxes, and without the barriers around it."""
    hint = "optimization_hints = <sm_100 = {allow_tma = false}>"
    text = re.sub(r"(store_view_tko weak %\w+, %v_c\[[^]]*\])", rf"\1 {hint}", kernel.text)
    assert text != kernel.text
    return kernel._replace(text=text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plan", PLANS)
def test_plans(plan):
    kernel = packed_matmul((256, 128, 128), steps=5, ctas=2)
    check(kernel, "mxf8f6f4.block_scale.block32", **PLANS[plan])


KINDS = [
    ("f8E5M2", "f8E8M0FNU", 32, 128, "mxf8f6f4.block_scale.block32"),
    ("f4E2M1FN", "f8E8M0FNU", 32, 256, "mxf4.block_scale.block32"),
    ("f4E2M1FN", "f8E4M3FN", 16, 256, "mxf4nvf4.block_scale.block16"),
    ("f4E2M1FN", "f8E8M0FNU", 16, 128, "mxf4nvf4.block_scale.block16"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("operand", "scale", "block", "depth", "kind"), KINDS)
def test_kinds(operand, scale, block, depth, kind):
    kernel = packed_matmul((256, 128, depth), operand, scale=scale, block=block, ctas=2)
    kernel.interpreted()
    plan = "agents, maps of the device" if operand == "f4E2M1FN" else "agents"
    check(kernel, kind, **PLANS[plan])


def test_b_by_rows():
    check(packed_matmul((256, 128, 128), by_rows=True, ctas=2), "mxf8f6f4", **AGENTS)


@pytest.mark.parametrize("tiles", [(256, 256, 128), (512, 128, 128), (256, 128, 256)])
def test_more_words_of_scales(tiles):
    check(packed_matmul(tiles, steps=2, ctas=2), "mxf8f6f4", **AGENTS)


def test_pairs_of_a_larger_cluster():
    check(packed_matmul((512, 128, 128), steps=3, ctas=4), "mxf8f6f4", **AGENTS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ctas", [1, 2])
def test_loops_over_tiles(ctas):
    """An agent of one warp multiplies, with accumulators in turn; scales have columns by the stages of its operands."""
    kernel = packed_matmul((128 * ctas, 128, 128), steps=2, rounds=4, ctas=ctas)
    artifact = kernel.compiled(GPU, **AGENTS)
    assert artifact.kernels[0].metadata["block"][0] == 256 + 32 + 32
    if ctas == 2:
        check(kernel, "mxf8f6f4", **AGENTS)
    else:
        for seed in SEEDS:
            kernel.emulated(artifact, seed)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu):
    check(packed_matmul((256, 128, 128), ctas=2, gpu=gpu), "mxf8f6f4", gpu, **AGENTS)


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("plan", [BOXES, AGENTS])
def test_dots_of_a_loop_are_not_waited_for_in_it(ctas, plan):
    """Scales have columns for each stage: the copy that fills them again has waited for the dot that read them."""
    text = packed_matmul((128 * ctas, 128, 128), steps=9, ctas=ctas).compiled(GPU, emit="tileas", **plan).text
    loop = text[text.index("scf.for") : text.index("tensor_memory.wait")]
    assert "tensor_memory.dot" in loop and "nv_tileas.barrier" not in loop


MUTATED = {
    "boxes": (BOXES, f"{ORDERS}|{COPY}{CLUSTER}"),
    "agents": ({**AGENTS, "unspecialized_pipeline_num_stages": 3}, f"{ORDERS}|{COPY}{CLUSTER}|{WAIT}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATED)
def test_synchronization_is_minimal(name):
    options, orders = MUTATED[name]
    kernel = stored_by_threads(packed_matmul((256, 128, 128), steps=6, ctas=2))
    artifact = kernel.compiled(GPU, **options)
    assert not survivors(kernel, artifact, orders)


def test_scales_of_all_stages_need_columns_of_their_own(tmp_path):
    """In those of one stage the next dot's are copied while the last dot reads them."""
    kernel = packed_matmul((128, 128, 128), steps=6)
    artifact = kernel.compiled(GPU, **AGENTS)
    kernel.emulated(artifact)
    text = kernel.compiled(GPU, emit="tileas", **AGENTS).text
    path = tmp_path / "k.tileas.mlir"
    one, count = re.subn(r"(tensor_memory\.slice %\d+\[)(%\d+), %\d+\]", r"\1\2, \2]", text)
    assert count == 2
    path.write_text(one)
    assert fails(kernel, artifact, tileiras.compile(path, gpu_name=GPU, emit="ptx").text)


def test_remarks_say_why_a_cta_multiplies_by_itself():
    hints = "sm_100 = {num_cta_in_cga = 2}"
    kernel = scaled((256, 128, 128), hints=hints)
    assert remarks(kernel) == ["pairs.scales-not-in-boxes operand=A; maps.tile-alignment"]
    far = scaled((256, 128, 512), hints=hints)
    assert remarks(far) == ["pairs.scales-not-in-boxes operand=A; pairs.scales-in-other-order"]
    for each in (kernel, far):
        artifact = each.compiled(GPU, **AGENTS)
        assert "cta_group::1" in artifact.text
        each.emulated(artifact)


def test_machine_code_is_of_pairs():
    text = packed_matmul((256, 128, 128), ctas=2).compiled(GPU, emit="sass", **AGENTS).text
    assert re.search(r"UTC\w*MMA\S*2CTA", text) and re.search(r"UTCCP\S*2CTA", text)
