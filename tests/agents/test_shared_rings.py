"""Loops that come one behind the other and take tiles of the same kind go on with one ring."""

from __future__ import annotations

import pytest

from tests.agents.running import SEEDS, SPECIALIZED, sites, survives
from tests.kernels.tensor_maps import TILES, Arrays, matmul, twice
from tileiras import compile

STAGES = 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("maps", ["none", "host"])
def test_two_loops_have_one_ring(gpu, maps, assemble):
    artifact = compile(twice(), gpu_name=gpu, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    once = compile(matmul(), gpu_name=gpu, emit="ptx", tensor_maps=maps, **SPECIALIZED)
    assert artifact.text.count("mbarrier.init") == once.text.count("mbarrier.init") > 0
    metadata = artifact.kernels[0].metadata
    assert metadata["shared_memory"] <= once.kernels[0].metadata["shared_memory"]
    assemble(artifact.text, gpu)
    arrays = Arrays(64, 64, 7 * TILES[2])
    for steps in (0, 1, 2, STAGES + 1, 7):
        for seed in SEEDS[:2]:
            arrays.launch(artifact.text, metadata, seed, steps, times=2)


@pytest.mark.slow
def test_their_synchronization_is_minimal():
    """The first loop releases the stages that it has held on to: the second one fills them again."""
    artifact = compile(twice(), gpu_name="sm_90", emit="ptx", tensor_maps="host", **SPECIALIZED)
    arrays = Arrays(64, 64, 7 * TILES[2])

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed, times=2)

    result = sites(artifact.text)
    assert len([line for line, _ in result if line.startswith("mbarrier.arrive.shared")]) >= 2
    assert [line for line, broken in result if survives(broken, judge, SEEDS[:2])] == []
