"""Kernels with loops over tiles: a warp of its own copies a tile to memory in boxes, while the warps that compute go on
with the next one."""

from __future__ import annotations

import re

import pytest

from tests.agents.running import SEEDS, SPECIALIZED, sites, survives, verify
from tests.kernels.reasons import stated
from tests.kernels.tile_rounds import rounds
from tests.kernels.views import Kernel, View
from tileiras.diagnostics import CompileError

HOST = {"tensor_maps": "host", **SPECIALIZED}
#: Stages of the rings of tiles with which an SM has room for one CTA, with the tile that is stored and without.
FULL = {"sm_90": 8, "sm_100": 8, "sm_120": 4}
BOX_STORE = "cp.async.bulk.tensor.2d.global.shared::cta"
TILES = 64, 64, 64

KERNELS = {
    "each round": lambda gpu: rounds(TILES, count=4),
    "in one place": lambda gpu: rounds(TILES, count=4, in_one_place=True),
    "guarded": lambda gpu: rounds(TILES, count=5, guarded=True),
    "f8": lambda gpu: rounds((64, 64, 128), count=3, element="f8E4M3FN"),
}


def compiled(kernel: Kernel, gpu: str, **options: object):
    return kernel.compiled(gpu, **{"unspecialized_pipeline_num_stages": FULL[gpu], **HOST, **options})


def said(artifact) -> str:
    (result,) = stated(artifact.diagnostics, "agents.stores")
    return result


@pytest.mark.sampled(6)
@pytest.mark.parametrize("gpu", FULL)
@pytest.mark.parametrize("name", KERNELS)
def test_stores_in_any_order_of_the_agents(name, gpu, assemble):
    kernel = KERNELS[name](gpu)
    artifact = compiled(kernel, gpu)
    assert said(artifact) == "agents.stores-specialized stores=1"
    assert BOX_STORE in artifact.text and "st.global" not in artifact.text
    assert assemble(artifact.text, gpu).stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("options, kernel, why", [
    ({}, lambda: rounds(TILES, count=3, loaded=True), "agents.ordered-after op=nv_tileas.tiled_load"),
    ({}, lambda: rounds((64, 8, 64), count=3), "maps.small-tile bytes=2048 least=4096"),
    ({"unspecialized_pipeline_num_stages": 2}, lambda: rounds(TILES, count=3), "agents.fewer-ctas alone=5 beside=4"),
])  # fmt: skip
def test_stores_that_stay_with_the_warps_that_compute(options, kernel, why):
    kernel = kernel()
    artifact = compiled(kernel, "sm_90", **options)
    assert said(artifact) == f"agents.stores-stay; {why}"
    assert BOX_STORE not in artifact.text
    kernel.emulated(artifact, 1)


def test_stores_before_a_load_stay_with_the_compute_agent():
    """The stored tile is loaded again, doubled, and stored in its place."""
    kernel = rounds(TILES, count=3)
    m, n, _ = TILES
    c = View("c", (m, n), "f32", kernel.outputs[0].shape, padding="zero")
    again = "\n".join([
        c.load("again", "%t, %zero", token="%end_c"), f"%twice = addf %again, %again : {c.tile}",
        c.store("twice", "%t, %zero", token="%k_again").replace("%end_c", "%doubled", 1),
    ])  # fmt: skip
    text, stores = re.subn(r"(%end_c = store_view_tko [^\n]*\n)", lambda found: f"{found[1]}{again}\n", kernel.text)
    assert stores == 1
    kernel = kernel._replace(text=text, expected=(2 * kernel.expected[0],))
    artifact = compiled(kernel, "sm_90")
    assert said(artifact) == "agents.stores-stay; agents.store-ordered-before op=nv_tileas.tiled_load"
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("maps", ["none", "device"])
def test_without_host_maps_stores_do_not_use_boxes(maps):
    kernel = rounds(TILES, count=3)
    artifact = compiled(kernel, "sm_90", tensor_maps=maps)
    assert BOX_STORE not in artifact.text
    kernel.emulated(artifact, 1)


@pytest.mark.slow
def test_synchronization_of_the_stores_is_minimal():
    kernel = rounds(TILES, count=6, in_one_place=True)
    artifact = compiled(kernel, "sm_90")
    own = [(line, broken) for line, broken in sites(artifact.text)
           if "bulk" in line or "fence.proxy" in line or re.search(r"mbarrier\.arrive\.shared", line)]  # fmt: skip
    assert len(own) >= 4

    def judge(code: str, seed: int | None) -> None:
        kernel.emulated(artifact, seed, code)

    assert survives(artifact.text, judge, SEEDS[:3])
    assert sum("wait_group" in line for line, _ in own) == 2
    assert [line for line, broken in own if survives(broken, judge, SEEDS[:3])] == []


def test_the_verifier_knows_the_pipe():
    kernel = rounds(TILES, count=3)
    text = compiled(kernel, "sm_90", emit="tileas").text
    assert "producer = st_shared consumer = bulk_store" in text and "nv_tileas.async.tma_store_stage" in text
    verify(text)
    release = re.search(r"tma_store_stage [^\n]*\n([^\n]*consumer_release [^\n]*\n)", text)
    with pytest.raises(CompileError, match="waits for a stage that it never releases"):
        verify(text.replace(release[1], ""))
    commit = re.search(r"producer_write [^\n]*\n([^\n]*producer_commit [^\n]*\n)", text)
    with pytest.raises(CompileError, match="acquires a stage that it never commits"):
        verify(text.replace(commit[1], ""))
