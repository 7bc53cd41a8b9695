"""Loops without a counter around loops of products: each agent finds out by itself whether there is a further round."""

from __future__ import annotations

import pytest

import tileiras
from tests.agents.running import LIGHT, SEEDS, SPECIALIZED, sites, survives, verify
from tests.kernels.reasons import stated
from tests.kernels.uncounted_rounds import rounds

HOST = {"tensor_maps": "host", **SPECIALIZED}
TILES = {"sm_90": (64, 32, 64), "sm_100": (128, 64, 64), "sm_120": (64, 64, 64)}
FULL = {"sm_90": 8, "sm_100": 8, "sm_120": 4}
"""Stages with which an SM has room for one CTA, with the tile that is stored and without."""
BOX_STORE = "cp.async.bulk.tensor.2d.global.shared::cta"

WAYS = [("counted", False), ("listed", True), ("first", True), ("within", False)]


def said(artifact) -> str:
    return "\n".join(stated(artifact.diagnostics))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize(("way", "ordered"), WAYS)
def test_rounds_in_any_order_of_the_agents(way, ordered, maps, assemble):
    kernel = rounds(TILES["sm_90"], way=way, ordered=ordered)
    kernel.interpreted()
    artifact = kernel.compiled("sm_90", tensor_maps=maps, **SPECIALIZED)
    assert "agents.loads-specialized " in said(artifact)
    assert assemble(artifact.text, "sm_90").stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("gpu", ["sm_100", "sm_120"])
@pytest.mark.parametrize("way", ["listed", "within"])
def test_agents_that_multiply_and_store(way, gpu, assemble):
    """In boxes: into accumulators in turn, or by warps, and to memory by a warp of its own."""
    kernel = rounds(TILES[gpu], way=way)
    artifact = kernel.compiled(gpu, unspecialized_pipeline_num_stages=FULL[gpu], **HOST)
    assert ("agents.dots-specialized accumulators=2" in said(artifact)) == (gpu == "sm_100")
    assert "agents.stores-specialized stores=1" in said(artifact) and BOX_STORE in artifact.text
    assemble(artifact.text, gpu)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("ordered", [False, True])
def test_an_agent_that_stores(ordered, assemble):
    kernel = rounds((64, 64, 64), way="first", ordered=ordered)
    artifact = kernel.compiled("sm_90", unspecialized_pipeline_num_stages=FULL["sm_90"], **HOST)
    assert "agents.stores-specialized stores=1" in said(artifact) and BOX_STORE in artifact.text
    assemble(artifact.text, "sm_90")
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.slow
@pytest.mark.parametrize("maps", ["none", "host"])
def test_synchronization_of_agents_is_minimal(maps):
    kernel = rounds((64, 16, 64), way="listed", count=10)
    artifact = kernel.compiled("sm_90", tensor_maps=maps, **LIGHT)
    result = sites(artifact.text)
    assert len(result) >= 10

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    assert survives(artifact.text, judge, SEEDS[:3])
    assert [line for line, broken in result if survives(broken, judge, SEEDS[:3])] == []


def test_effects_that_happen_once_stay_with_one_agent():
    """The next tile is one that no other block has taken: only one agent can take it."""
    kernel = rounds(TILES["sm_90"], way="taken")
    kernel.interpreted()
    artifact = kernel.compiled("sm_90", **HOST)
    assert "agents.executes-once" in said(artifact) and "op=nv_tileas.atomic_rmw" in said(artifact)
    assert "turns.tiles-alternate" not in said(artifact) and ".reqntid 128" in artifact.text
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def test_the_model_has_rounds_that_agents_count_alike():
    """Where the agent that loads goes on for longer than the other one, its copies are still under way in the end."""
    text = rounds(TILES["sm_90"]).compiled("sm_90", emit="tileas", unspecialized_pipeline_num_stages=4, **HOST).text
    verify(text)
    before, asks, behind = text.rpartition("arith.cmpi sge")
    assert asks in before and "producer_acquire" in behind
    broken = f"{before}arith.cmpi sgt{behind}"
    with pytest.raises(tileiras.CompileError, match=r"leaves copies into stage 0 in flight .* end after 9 rounds"):
        verify(broken)
