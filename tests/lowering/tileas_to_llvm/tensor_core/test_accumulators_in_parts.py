"""Tiles whose accumulators no warpgroups hold are worked on in parts, with the loop around their products."""

from __future__ import annotations

import pytest

from tests.kernels.dots import attention_like
from tests.kernels.reasons import stated
from tileiras.codegen import ptxas as assembler

PLANS = {
    "unspecialize": {"pipeline_strategy": "unspecialize"},
    "agents and boxes": {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"},
}


@pytest.mark.parametrize("plan", PLANS)
def test_rows_of_attention_that_two_warpgroups_do_not_hold(plan, ptxas):
    """256 rows: 128 registers of scores, 64 of probabilities and 64 of the result in each thread would be all it has;
    ptxas would spill some, and serialize the products."""
    kernel = attention_like(1, rows=256, columns=128, depth=64, steps=3, halved=True)
    artifact = kernel.compiled("sm_90", **PLANS[plan])
    (result,) = stated(artifact.diagnostics, "slices.tile")
    assert result == "slices.tile shape=256x64 parts=2 registers=256"
    assembled = assembler.assemble(artifact.text, "sm_90")
    assert not assembled.messages and assembled.resources["k"].stack == 0
    assert "wgmma.mma_async" in artifact.text
    assert ("mbarrier.init" in artifact.text) == (plan != "unspecialize")
    for seed in (None, 1):
        kernel.emulated(artifact, seed)


def test_rows_that_they_hold_are_whole():
    """160 registers."""
    kernel = attention_like(1, rows=128, columns=128, depth=128, steps=3, halved=True)
    artifact = kernel.compiled("sm_90", emit="tileas", num_warps=8)
    assert not stated(artifact.diagnostics, "slices.tile")


def test_parts_that_two_ctas_on_an_sm_could_not_hold_whole():
    """The kernel asks for two, for which 128 registers of scores are too many: parts have wgmma."""
    kernel = attention_like(2, rows=256, columns=128, depth=64, steps=3, halved=True)
    artifact = kernel.compiled("sm_90", pipeline_strategy="unspecialize")
    assert any("slices.tile shape=256x64 parts=2 " in item for item in stated(artifact.diagnostics))
    assert "wgmma.mma_async" in artifact.text and "mma.sync" not in artifact.text
