"""Tile blocks that multiply in pairs where a launch makes neighbours along x a cluster: a kernel beside the one that
every launch can start."""

from __future__ import annotations

import re

import pytest

import tileiras
from tests.agents.running import SPECIALIZED, sites, survives
from tests.kernels import tensor_maps as kernels
from tests.kernels.tensor_maps import Arrays
from tests.kernels.views import whole_numbers
from tileiras.sim.emulator.launch.emulation import launch_shapes

GPU, PAIR = "sm_100", ".cta_group::2"
PLANS = {"auto": {}, "agents": SPECIALIZED, "one agent": {"unspecialized_pipeline_num_stages": 2}}


@pytest.fixture(autouse=True)
def tiles(monkeypatch):
    monkeypatch.setattr(kernels, "TILES", (128, 32, 32))


def compiled(text: str, gpu: str = GPU, **options):
    return tileiras.compile(text, gpu_name=gpu, emit="ptx", **{"tensor_maps": "host", **options})


def of_elements(element: str) -> str:
    """The product with operands of another type, in rows of a multiple of 16 elements."""
    return re.sub(r"(?<=[x<])f16(?=[>,])", element, kernels.matmul()).replace("div_by<8>", "div_by<16>")


class OfElements(Arrays):
    def __init__(self, m: int, n: int, k: int, element: str) -> None:
        super().__init__(m, n, k, extra=16)
        self.a, self.b = (whole_numbers(each.shape, element, seed) for seed, each in enumerate((self.a, self.b)))


# ---- launches --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plan", PLANS)
def test_a_grid_of_pairs_starts_the_kernel_for_pairs(plan, assemble):
    artifact = compiled(kernels.matmul(), **PLANS[plan])
    metadata = artifact.kernels[0].metadata
    alone, paired = artifact.text.split(".entry k$pairs(")
    assert PAIR not in alone and PAIR in paired and ".reqnctapercluster 2" in paired
    assert metadata["cluster"] == [1, 1, 1] and metadata["pairs"]["cluster_blocks"] == [2, 1, 1]
    assert [kernel.name for kernel in artifact.kernels] == ["k"]
    assemble(artifact.text, GPU)
    for grid, cluster in (((4, 2), 2), ((2, 1), 2), ((3, 2), 1)):
        assert launch_shapes(artifact.text, "k", grid, metadata)[2] == (cluster, 1, 1)
    # Two pairs in each of two columns, tiles over the edge and more steps than stages; and a grid of three.
    for rows in (500, 300):
        for seed in (0, 1):
            Arrays(rows, 60, 300).launch(artifact.text, metadata, seed)


def test_a_launcher_without_clusters_starts_the_other_kernel():
    artifact = compiled(kernels.matmul())
    metadata = {name: value for name, value in artifact.kernels[0].metadata.items() if name != "pairs"}
    Arrays(256, 32, 100).launch(artifact.text, metadata)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_few_steps(steps):
    artifact = compiled(kernels.matmul())
    Arrays(256, 32, 96).launch(artifact.text, artifact.kernels[0].metadata, 1, steps)


@pytest.mark.parametrize(
    ("element", "tile"),
    [("bf16", (128, 64, 64)), ("f8E4M3FN", (128, 64, 128)), ("f16", (64, 64, 64)), ("f16", (256, 32, 64))],
)
def test_types_and_tiles(element, tile, monkeypatch, assemble):
    monkeypatch.setattr(kernels, "TILES", tile)
    artifact = compiled(of_elements(element))
    assert "pairs" in artifact.kernels[0].metadata
    assemble(artifact.text, GPU)
    m, n, k = tile
    OfElements(2 * m - 8, 2 * n, 3 * k, element).launch(artifact.text, artifact.kernels[0].metadata, 1)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_the_rest_of_the_family(gpu, assemble):
    artifact = compiled(kernels.matmul(), gpu)
    assemble(artifact.text, gpu)
    Arrays(256, 60, 130).launch(artifact.text, artifact.kernels[0].metadata)


def test_two_products():
    """The loop of the second one fills the stages that the first one's leaves."""
    artifact = compiled(kernels.twice())
    assert "pairs" in artifact.kernels[0].metadata
    Arrays(256, 32, 96).launch(artifact.text, artifact.kernels[0].metadata, 1, times=2)


@pytest.mark.slow
def test_synchronization_of_the_pair_is_minimal():
    artifact = compiled(kernels.matmul(), **SPECIALIZED, unspecialized_pipeline_num_stages=3)
    metadata = artifact.kernels[0].metadata
    arrays = Arrays(256, 32, 200)

    def judge(code, seed):
        arrays.launch(code, metadata, seed, step_limit=20_000)

    head, paired = artifact.text.split(".entry k$pairs(")
    changed = sites(paired)
    commits = re.finditer(
        r"tcgen05\.commit[^;]*;|barrier\.cluster\.arrive[^;]*;\s*barrier\.cluster\.wait[^;]*;", paired
    )
    changed += [(each[0], paired[: each.start()] + paired[each.end() :]) for each in commits]
    assert survives(artifact.text, judge, (None, 0, 1)) and len(changed) > 10
    left = (line for line, rest in changed if survives(f"{head}.entry k$pairs({rest}", judge, (None, 0, 1)))
    assert list(left) == []


# ---- kernels without one for pairs -----------------------------------------------------------------------------------


LOCK = """
    %unit = constant <i32: 1> : tile<i32>
    %old, %locked = atomic_rmw_tko acq_rel device %p_lock, add, %unit
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"""

ALONE = {
    "B of each tile block's own": (lambda: kernels.matmul().replace("%v_b[%i, %y]", "%v_b[%i, %x]"), {}),
    "as many steps as each tile block's number": (lambda: kernels.matmul().replace("to %steps,", "to %x,"), {}),
    "tile blocks that may wait for each other": (
        lambda: kernels.matmul(before=LOCK).replace(
            "%steps: tile<i32>)", "%steps: tile<i32>, %p_lock: tile<ptr<i32>>)"), {}),
    "a launcher that reads no NAME.json": (kernels.matmul, {"tensor_maps": "none"}),
    "maps of the device": (kernels.matmul, {"tensor_maps": "device"}),
    "tile blocks of two CTAs": (kernels.matmul, {"num_ctas": 2}),
    "a tile launch": (kernels.matmul, {"tile_launch": True}),
    "loads that do not run ahead": (kernels.matmul, {"pipeline_strategy": "none"}),
    "no optimisation": (kernels.matmul, {"opt_level": 0}),
    "no tensor memory": (kernels.matmul, {"gpu_name": "sm_90"}),
    "A that is computed": (
        lambda: kernels.matmul().replace("%next = mmaf %a,", """%twice = addf %a, %a : tile<128x32xf16>
      %next = mmaf %twice,"""), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_one_kernel(name):
    text, options = ALONE[name]
    result = {"gpu_name": GPU, "tensor_maps": "host", **options}
    artifact = tileiras.compile(text(), emit="ptx", **result)
    assert artifact.text.count(".entry") == 1 and "pairs" not in artifact.kernels[0].metadata


def test_tiles_whose_products_are_as_fast_alone(monkeypatch):
    monkeypatch.setattr(kernels, "TILES", (256, 256, 32))
    assert "pairs" not in compiled(kernels.matmul()).kernels[0].metadata
