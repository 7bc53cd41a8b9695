"""The choice of the strategy `auto`, the default, for loops whose loads run ahead: agents or not, and the reason."""

from __future__ import annotations

import pytest

import tileiras
from tests.kernels import tensor_maps
from tests.kernels.dots import Matmul, attention_like, matmul
from tests.kernels.reasons import stated
from tests.kernels.tensor_maps import Arrays
from tests.kernels.views import Kernel
from tests.machine_code import on_an_sm
from tileiras.codegen import ptxas as assembler
from tileiras.ir import print_op
from tileiras.options import CompileOptions
from tileiras.schedule import overlap

KERNELS = {
    "product": lambda: matmul((128, 128, 64), steps=4),
    "large product": lambda: matmul((128, 256, 64), steps=4),
    "small product": lambda: matmul((32, 32, 32), steps=4),
    "short loop": lambda: matmul((128, 128, 64), steps=2),
    "8-bit product": lambda: matmul((128, 128, 64), "i8", steps=4),
    "attention": lambda: attention_like(1, rows=64, columns=64, depth=128, steps=4),
    "attention of two CTAs": lambda: attention_like(
        2, rows=64, columns=64, depth=128, steps=4, gpu_name="sm_100", halved=True
    ),
    "attention of 256 rows": lambda: attention_like(1, rows=256, columns=64, depth=64, steps=4, halved=True),
    "attention of large tiles": lambda: attention_like(1, rows=256, columns=128, depth=64, steps=4, halved=True),
}
AGENTS = "agents.loads-specialized variant=auto loops=1; "
ONE = "agents.loads-stay variant=auto; "


def chosen(kernel: Kernel, gpu: str, maps: str = "none", **options: int | str) -> tuple[str, str]:
    """The schedule of the loop in nv_tileas, and the remark about it."""
    artifact = kernel.compiled(gpu, emit="tileas", tensor_maps=maps, **options)
    (result,) = stated(artifact.diagnostics, "agents.loads")
    return "agents" if ".agent_switch " in artifact.text else "one", result


@pytest.mark.parametrize("name, gpu, maps, plan, why", [
    # One thread copies all boxes.
    ("product", "sm_90", "host", "agents", "agents.one-thread-copies"),
    ("product", "sm_100", "host", "agents", "agents.one-thread-copies"),
    ("product", "sm_120", "host", "agents", "agents.one-thread-copies"),
    # Threads that wait for their product could as well copy.
    ("product", "sm_90", "none", "one", "agents.copies-dominate copies=16 "),
    ("product", "sm_100", "none", "one", "agents.copies-dominate copies=16 "),
    # Those that issue it, or compute exponentials, could not.
    ("product", "sm_120", "none", "agents", "agents.copies-are-covered copies=16 others=128"),
    ("attention", "sm_90", "none", "agents", "agents.copies-are-covered "),
    ("attention", "sm_120", "none", "agents", "agents.copies-are-covered "),
    # Threads start with 128 registers, and those that compute take more from those that copy.
    ("attention of two CTAs", "sm_100", "host", "agents", "agents.one-thread-copies"),
    ("small product", "sm_120", "none", "one", "agents.few-bytes bytes=4096 least=8192"),
    ("short loop", "sm_120", "host", "one", "agents.few-iterations iterations=2"),
    ("product", "sm_80", "none", "one", "agents.no-registers-by-agent target=sm_80"),
    # Two CTAs of 8 warps, or one of 12.
    ("8-bit product", "sm_120", "none", "one", "agents.fewer-ctas alone=2 beside=1"),
    # Tiles that leave registers free, and tiles that do not.
    ("attention of 256 rows", "sm_120", "host", "agents", "agents.one-thread-copies"),
    ("attention of large tiles", "sm_120", "host", "one", "agents.no-register-left most=255"),
])  # fmt: skip
def test_choice(name, gpu, maps, plan, why):
    result, value = chosen(KERNELS[name](), gpu, maps)
    assert result == plan
    assert value.startswith((AGENTS if plan == "agents" else ONE) + why)


def test_one_agent_avoids_local_memory(ptxas):
    """Where it is likely to take all registers, and products are the warps' own."""
    kernel = KERNELS["attention of large tiles"]()
    alone, beside = (kernel.compiled("sm_120", tensor_maps="host", **options)
                     for options in ({}, {"pipeline_strategy": "warp-specialize"}))  # fmt: skip
    local = [assembler.assemble(each.text, "sm_120").resources["k"].stack for each in (alone, beside)]
    assert local[0] < local[1]
    kernel.emulated(alone, 1)


def overlaps(kernel: Kernel, gpu: str, maps: str, **options: int | str) -> bool:
    artifact = kernel.compiled(gpu, tensor_maps=maps, **options)
    return any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_compute_agents_overlap_with_one_warpgroup_per_sm(gpu, maps):
    """Of tiles of d 64, 64x64 elements of 2 bytes on sm_90 and 64x32 in the 100 KiB of sm_120, an SM holds several
    CTAs, whose products are under way while this one computes."""
    alone, among_others = (
        attention_like(1, rows=64, columns=columns, depth=depth, steps=5, gpu_name=gpu, halved=True)
        for columns, depth in ((64, 128), (64 if gpu == "sm_90" else 32, 64))
    )
    assert overlaps(alone, gpu, maps) and not overlaps(alone, gpu, maps, rrt_size_threshold=0)
    assert not overlaps(among_others, gpu, maps)
    artifact = alone.compiled(gpu, tensor_maps=maps)
    for seed in (None, 0, 1):
        alone.emulated(artifact, seed)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_86", "sm_89"])
def test_iterations_overlap_without_agents_with_one_warpgroup(gpu):
    """Of 100 KiB three stages of tiles of 64x64 with d 128 leave no room for a stage that is held for longer."""
    depth = 128 if gpu == "sm_80" else 64
    kernel = attention_like(1, rows=64, columns=64, depth=depth, steps=5, gpu_name=gpu, halved=True)
    assert overlaps(kernel, gpu, "none") and not overlaps(kernel, gpu, "none", rrt_size_threshold=0)
    artifact = kernel.compiled(gpu)
    for seed in (None, 0, 1):
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("gpu, rows, columns, depth", [
    ("sm_80", 64, 64, 64),  # two CTAs on an SM
    ("sm_86", 64, 64, 128),  # loads would run fewer iterations ahead
])  # fmt: skip
def test_iterations_do_not_overlap_if_the_clock_says_slower(gpu, rows, columns, depth):
    kernel = attention_like(1, rows=rows, columns=columns, depth=depth, steps=5, gpu_name=gpu, halved=True)
    plain = kernel.compiled(gpu, pipeline_strategy="unspecialize")
    chosen = kernel.compiled(gpu)
    assert chosen.text == plain.text
    codes = ("loops.overlap", "loops.no-overlap", "loops.not-in-stages")
    assert not any(stated(chosen.diagnostics, code) for code in codes)


def test_unrequested_overlap_leaves_registers(monkeypatch):
    """Tiles take 185 registers of the 215 that a thread has for them, and 123 as the loop is written."""
    kernel = attention_like(1, rows=64, columns=128, depth=64, steps=5, gpu_name="sm_80", halved=True)
    for left, loop in ((overlap.LEFT_BY_RULE, "unspecialize, "), (95, "plain, ")):
        monkeypatch.setattr(overlap, "LEFT_BY_RULE", left)
        module = kernel.after("tileas-generate-schedule", "sm_80", pipeline_strategy="auto")
        assert f"loop_schedule<{loop}" in print_op(module)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_86"])
@pytest.mark.parametrize("name", ["product", "large product", "small product", "8-bit product"])
def test_products_without_agents_are_the_plain_ring(name, gpu):
    kernel = KERNELS[name]()
    assert kernel.compiled(gpu).text == kernel.compiled(gpu, pipeline_strategy="unspecialize").text


def test_options_of_the_unspecialized_pipeline_choose_it():
    kernel = KERNELS["product"]()
    for options in ({"v2_opt_level": 1}, {"unspecialized_pipeline_num_stages": 3}, {"opt_level": 0}):
        assert "agent_switch" not in kernel.compiled("sm_120", emit="tileas", **options).text


@pytest.mark.parametrize("word", ["-c", "--compile-only"])
def test_kernels_linked_later_have_one_agent(word):
    """ptxas ignores `setmaxnreg` there."""
    options = {"gpu-name": "sm_120", "ptxas-options": ["-v", word]}
    assert CompileOptions(options)["pipeline-strategy"] == "unspecialize"
    result = CompileOptions({**options, "pipeline-strategy": "warp-specialize"})
    assert result["pipeline-strategy"] == "warp-specialize"
    assert CompileOptions({"gpu-name": "sm_120", "ptxas-options": ["-v"]})["pipeline-strategy"] == "auto"


def test_maps_that_a_loop_around_makes_serve_one_agent():
    """No agent could know them before it begins; boxes are copied all the same."""
    around = ("for %again in (%zero to %steps, step %one) : tile<i32> {", "continue\n}")
    text = tensor_maps.matmul(around=around)
    start, end = text.index("%q_a = assume"), text.index("%q_b = assume")
    view = text[start:end]
    text = (text[:start] + text[end:]).replace(around[0], f"{around[0]}\n    {view}")
    result = tileiras.compile(text, gpu_name="sm_90", tensor_maps="host")
    assert "cp.async.bulk.tensor" in result.text
    assert "setmaxnreg" not in result.text and ".reqntid 128" in result.text
    for seed in (None, 0):
        Arrays(64, 71, 96).launch(result.text, result.kernels[0].metadata, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_hints_of_warps_and_ctas_stand(gpu, maps, ptxas):
    """`num_worker_warps_per_cta` counts the warps that compute; an SM holds the CTAs of `occupancy`."""
    for warps in (1, 2, 4, 8):
        hints = f"{gpu} = {{num_worker_warps_per_cta = {warps}, occupancy = 2}}"
        kernel = Matmul((64, 64, 64), steps=4, hints=hints).kernel()
        artifact = kernel.compiled(gpu, tensor_maps=maps)
        module = kernel.compiled(gpu, emit="tileas", tensor_maps=maps).text
        assert f"numWarps = {warps}" in module
        if "agent_switch" in module:
            assert f"num_warps = [{warps}, " in module
        assert on_an_sm(artifact, gpu)[0] >= 2
        kernel.emulated(artifact, 1)
