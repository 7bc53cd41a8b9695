"""Kernels on sm_100 whose loads go to an agent and whose products go to tensor memory: one thread waits for stages and
issues products, and commits of these free the stages."""

from __future__ import annotations

import re

import pytest

from tests.agents.running import SEEDS, SPECIALIZED, WAIT, survives
from tests.kernels.deletions import deletions
from tests.kernels.dots import attention_like, matmul, scaled
from tests.kernels.tile_rounds import rounds
from tests.kernels.views import Kernel

GPU = "sm_100"
COMMIT = re.compile(r"tcgen05\.commit[^;]*;")

KERNELS = {
    "128 rows": lambda: matmul((128, 64, 64), steps=5),
    "two stages": lambda: matmul((128, 64, 64), steps=2),
    "edges": lambda: matmul((128, 32, 64), steps=3, sizes=(100, 24, 168)),
    "A outside": lambda: matmul((64, 32, 32), steps=5, a_outside=True),
    "accumulator loaded": lambda: matmul((128, 64, 64), steps=4, start="loaded"),
    "attention": lambda: attention_like(1, rows=64, columns=64, depth=64, steps=3),
    "rounds": lambda: rounds((64, 64, 32), count=4),
    "guarded rounds": lambda: rounds((64, 64, 32), count=6, guarded=True),
}
STRATEGIES = {"agents": SPECIALIZED, "ring": {"pipeline_strategy": "unspecialize"}}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_in_any_order_of_their_agents(name, maps, assemble):
    kernel: Kernel = KERNELS[name]()
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    # Loops over tiles, and those in which threads compute between products, have a warp that multiplies.
    multiplies = "rounds" in name or name == "attention"
    assert artifact.kernels[0].metadata["block"][0] == 128 + (128 if maps == "none" else 32) + 32 * multiplies
    assert "tcgen05.mma" in artifact.text
    assert ("cp.async.bulk.tensor" in artifact.text) is (maps == "host")
    assert assemble(artifact.text, GPU).stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("name", ["128 rows", "rounds", "attention"])
def test_a_ring_of_boxes_without_agents(name, assemble):
    kernel: Kernel = KERNELS[name]()
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host", **STRATEGIES["ring"])
    assert "cp.async.bulk.tensor" in artifact.text and artifact.kernels[0].metadata["block"][0] == 128
    assemble(artifact.text, GPU)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("strategy", "maps"), [("agents", "none"), ("agents", "host"), ("ring", "host")])
def test_synchronization_of_agents_is_minimal(strategy, maps):
    kernel = matmul((64, 16, 32), steps=6)
    options = {"unspecialized_pipeline_num_stages": 4, "tensor_maps": maps, **STRATEGIES[strategy]}
    artifact = kernel.compiled(GPU, emit="ptx", **options)  # of deeper rings not all stages are used again
    # Commits arrive by the asynchronous proxy; the emulator asks for the fence behind `mbarrier.init` of copies only.
    result = [each for each in deletions(artifact.text) if not each.deleted.startswith("fence.mbarrier_init")]
    assert any("tcgen05.commit" in each.deleted for each in result)

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    assert [each.deleted for each in result if survives(each.text, judge)] == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_commit_a_loop_is_waited_for(strategy):
    """Stages are released by commits of their own: in the loop no warp waits for products, and only the copies wait for
    stages; behind the loop all warps wait for the one commit of all products."""
    code = KERNELS["128 rows"]().compiled(GPU, emit="ptx", tensor_maps="host", **STRATEGIES[strategy]).text
    assert len(COMMIT.findall(code)) == 2
    assert len(re.findall(WAIT, code)) == 3


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu, assemble):
    kernel = KERNELS["rounds"]()
    artifact = kernel.compiled(gpu, emit="ptx", tensor_maps="host", **SPECIALIZED)
    assert artifact.kernels[0].metadata["block"][0] == 192 and "tcgen05.mma" in artifact.text
    assemble(artifact.text, gpu)
    kernel.emulated(artifact, 1)


@pytest.mark.parametrize("maps", ["none", "host"])
def test_block_scales_are_stored_by_the_agent_that_multiplies(maps, assemble):
    kernel = scaled((128, 128, 128), steps=4)
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    assert "block_scale" in artifact.text and artifact.kernels[0].metadata["block"][0] > 256
    assemble(artifact.text, GPU)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_stores_behind_the_loop_leave_it_three_stages(assemble):
    """Of 64 KiB each: 256x256 elements are stored in slices, through the memory of stages that are no longer read."""
    kernel = matmul((256, 256, 64), steps=4)
    options = {"tensor_maps": "host", **SPECIALIZED}
    text = kernel.compiled(GPU, emit="tileas", **options).text
    assert re.search(r"stages 3 producer = bulk_load", text)
    stage, slices = (re.search(rf"alloc_tensor {{offset = (\d+) : i32}}.*buffer<{count}, ", text) for count in (3, 4))
    assert stage[1] == slices[1] and slices.start() > text.index("consumer_tail")
    artifact = kernel.compiled(GPU, emit="ptx", **options)
    assert assemble(artifact.text, GPU).stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)
