"""Tile blocks that copy for each other where a launch makes neighbours along x a cluster, else each for itself."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import verify
from tests.agents.shared_copies import EVERYWHERE, SEEDS, compiled, may_share, superfluous
from tests.kernels import tensor_maps as kernels
from tests.kernels.tensor_maps import Arrays
from tileiras.sim import emulate
from tileiras.sim.emulator.launch.emulation import launch_shapes
from tileiras.sim.estimate.sampling import block_order


@pytest.fixture(autouse=True)
def large_tiles(monkeypatch):
    """B has 16 KiB."""
    monkeypatch.setattr(kernels, "TILES", (64, 128, 64))


# ---- launches --------------------------------------------------------------------------------------------------------


def test_neighbours_share_tiles_that_both_load(assemble):
    artifact = compiled(kernels.matmul())
    metadata = artifact.kernels[0].metadata
    assert artifact.text.count(EVERYWHERE) == 1 and metadata["cluster_blocks"] == [2, 1, 1]
    assert metadata["cluster"] == [1, 1, 1] and "reqnctapercluster" not in artifact.text
    assert assemble(artifact.text, "sm_90").stack == 0
    # Two clusters in each of two columns, more steps than stages, and tiles over the edge.
    for seed in SEEDS[:2]:
        Arrays(200, 140, 430).launch(artifact.text, metadata, seed)


@pytest.mark.parametrize("rows", [64, 180])
def test_grids_without_possible_clusters(rows):
    """One tile block along x, and three."""
    artifact = compiled(kernels.matmul())
    metadata = artifact.kernels[0].metadata
    grid, _, cluster = launch_shapes(artifact.text, "k", (-(-rows // 64), 2), metadata)
    assert grid[0] % 2 and cluster == (1, 1, 1)
    for seed in SEEDS[:2]:
        Arrays(rows, 140, 430).launch(artifact.text, metadata, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cluster", [(1, 1, 1), (1, 2, 1), (4, 1, 1), (2, 2, 1)])
def test_clusters_of_another_shape(cluster):
    """A launcher that does not read NAME.json launches without clusters, or with clusters of a shape of its own."""
    artifact = compiled(kernels.matmul())
    for seed in SEEDS[:2]:
        Arrays(256, 256, 330).launch(artifact.text, artifact.kernels[0].metadata, seed, cluster=cluster)


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_any_number_of_steps(steps):
    artifact = compiled(kernels.matmul())
    for seed in SEEDS[:2]:
        Arrays(128, 128, 576).launch(artifact.text, artifact.kernels[0].metadata, seed, steps)


@pytest.mark.slow
def test_synchronization_of_the_tile_blocks_is_minimal():
    artifact = compiled(kernels.matmul())
    together, alone = Arrays(128, 128, 320), Arrays(64, 128, 320)

    def judge(code, seed):
        for arrays in (together, alone):
            arrays.launch(code, artifact.kernels[0].metadata, seed, step_limit=20_000)

    passed = superfluous(artifact.text, judge, remote=1)
    # The last of the waits before the exit implies the others, as each warp releases the stages in turn.
    assert 0 < len(passed) < artifact.text.count("mbarrier.try_wait")
    assert all(line.startswith("mbarrier.try_wait") for line in passed)


# ---- loops that run more often in one tile block than in another -------------------------------------------------


def triangle(lower: str = "") -> str:
    """Tile block x of a row takes x + 1 + %steps steps of K; with `lower`, in two loops, as causal attention does: the
    second one runs the last step, and begins at another index in each tile block."""
    text = kernels.matmul(before="""
    %next_x = addi %x, %one : tile<i32>
    %end = addi %next_x, %steps : tile<i32>
    %last = addi %x, %steps : tile<i32>""").replace("%end = store", "%done = store")
    if not lower:
        return text.replace("(%zero to %steps,", "(%zero to %end,")
    begin, end = text.index("    %sum = for"), text.index("    %done = store")
    first = text[begin:end].replace("%sum", "%part").replace("(%zero to %steps,", "(%zero to %last,")
    second = text[begin:end].replace("%acc = %none", "%acc = %part").replace("(%zero to %steps,", "(%last to %end,")
    return text[:begin] + first + second + text[end:]


class Triangle(Arrays):
    def launch(self, code, metadata, seed=0, steps=0, cluster=None, blocks=None):
        m, n, k = self.sizes
        c = np.full((m, n), -7, np.float32)
        a, b = self.a.copy(), self.b.copy()
        arguments = [a, m, k, a.shape[1], b, k, n, b.shape[1], c, m, n, n, steps]
        result = emulate(code, "k", (-(-m // 64), -(-n // 128)), arguments, metadata, seed=seed, cluster=cluster,
                        blocks=blocks)  # fmt: skip
        assert result.searched_races
        wanted = np.full_like(c, -7)
        for row in range(0, m, 64):
            deep = min(k, 64 * (row // 64 + 1 + steps))
            wanted[row : row + 64] = self.a[row : row + 64, :deep].astype(np.float32) @ self.b[:deep, :n].astype("f4")
        return c, wanted


@pytest.mark.sampled(1)
@pytest.mark.parametrize("loops", ["one", "two"])
def test_each_returns_buffers_of_its_neighbour_only(loops, assemble):
    artifact = compiled(triangle("elsewhere" if loops == "two" else ""))
    metadata = artifact.kernels[0].metadata
    assert artifact.text.count(EVERYWHERE) == 1 and metadata["cluster_blocks"] == [2, 1, 1]
    assert assemble(artifact.text, "sm_90").stack == 0
    arrays = Triangle(256, 256, 512)
    for seed, steps, cluster in ((None, 0, None), (0, 0, None), (1, 4, None), (0, 1, (1, 1, 1))):
        result, wanted = arrays.launch(artifact.text, metadata, seed, steps, cluster)
        np.testing.assert_array_equal(result, wanted)


def test_grids_without_clusters_run_up_to_their_limit():
    artifact = compiled(triangle("elsewhere"))
    result, wanted = Triangle(192, 128, 512).launch(artifact.text, artifact.kernels[0].metadata, 0, 1)
    np.testing.assert_array_equal(result, wanted)


def test_clusters_with_more_work_start_first_as_estimated():
    artifact = compiled(triangle())
    metadata, arrays = artifact.kernels[0].metadata, Triangle(256, 256, 512)
    order = block_order((2, 2, 1), metadata["block_group"] // 2)
    for started in range(4):
        result, _ = arrays.launch(artifact.text, metadata, blocks=[2 * started, 2 * started + 1])
        rows = np.flatnonzero((result != -7).any(axis=1))
        assert rows.tolist() == list(range(128 * (order[started] % 2), 128 * (order[started] % 2) + 128))


# ---- which kernels ---------------------------------------------------------------------------------------------------


def test_without_agents_or_maps_of_the_host_nothing_is_shared():
    for options in ({"pipeline_strategy": "unspecialize"}, {"tensor_maps": "none"}, {"tensor_maps": "device"},
                    {"opt_level": 0}):  # fmt: skip
        artifact = compiled(kernels.matmul(), **options)
        assert EVERYWHERE not in artifact.text and "cluster_blocks" not in artifact.kernels[0].metadata, options


def test_small_tiles_are_copied_apart(monkeypatch):
    monkeypatch.setattr(kernels, "TILES", (64, 64, 32))
    artifact = compiled(kernels.matmul())
    assert EVERYWHERE not in artifact.text and not may_share(artifact)


def test_tiles_of_each_tile_block():
    """B is indexed by the row of C as well: neighbours read different tiles of it."""
    text = kernels.matmul().replace("%v_b[%i, %y]", "%v_b[%i, %x]")
    artifact = compiled(text)
    assert EVERYWHERE not in artifact.text and not may_share(artifact)


def test_tile_blocks_that_may_wait_for_each_other():
    lock = """
    %unit = constant <i32: 1> : tile<i32>
    %old, %locked = atomic_rmw_tko acq_rel device %p_lock, add, %unit
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"""
    text = kernels.matmul(before=lock).replace("%steps: tile<i32>)", "%steps: tile<i32>, %p_lock: tile<ptr<i32>>)")
    artifact = compiled(text)
    assert EVERYWHERE not in artifact.text and not may_share(artifact)


def test_the_tile_launch_makes_no_clusters_of_tile_blocks():
    artifact = compiled(kernels.matmul(), tile_launch=True)
    assert "cluster_blocks" not in artifact.kernels[0].metadata


@pytest.mark.parametrize("gpu", ["sm_100", "sm_120"])
def test_other_targets(gpu):
    artifact = compiled(kernels.matmul(), gpu)
    assert re.search(r"cp\.async\.bulk\.tensor\S*\.multicast::cluster", artifact.text) is None
    assert not may_share(artifact) and "cluster_blocks" not in artifact.kernels[0].metadata


# ---- diagnostics of the verifier -------------------------------------------------------------------------------------


WRONG = {
    "tile blocks that nothing says are a cluster": (
        lambda text: text.replace("nv_tileas.cluster_blocks = 2 : i32, ", "", 1),
        "is a pipe between 2 CTAs, in a cluster of 1"),
    "a tile of each tile block's own": (
        lambda text: re.sub(r"(tma_load [^\n]*) into (%\w+) :", r"\1 into \2 {multicast} :", text, count=1),
        "a tile that is not the same for all|expects a descriptor of box"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    change, result = WRONG[name]
    before = compiled(kernels.matmul(), emit="tileas").text
    after = change(before)
    assert after != before
    with pytest.raises(tileiras.CompileError, match=result):
        verify(after)
