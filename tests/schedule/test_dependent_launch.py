"""Kernels that wait for the grid before them: right under every plan, and nothing of theirs reads memory before."""

from __future__ import annotations

import re

import pytest

import tileiras
from bench.plans import PLANS
from tests.kernels import tensor_maps as kernels
from tests.kernels.tensor_maps import Arrays
from tileiras.ir import parse_module

READS = re.compile(r"\bld\.(?:\w+\.)*global|cp\.async\.c[ag]|cp\.async\.bulk\.tensor\S*shared::cta\.global")


def waiting(ordered: bool) -> str:
    """The wait, followed by the loads if they are `ordered`, and the start of dependents before the store."""
    text = kernels.matmul(before="%waited = gdc_wait_tko -> token")
    if ordered:
        text = re.sub(r"(load_view_tko weak %v_[ab]\[[^\]]*\])", r"\1 token = %waited", text)
    return text.replace("    %end = store", "    %started = gdc_launch_dependents_tko -> token\n    %end = store")


@pytest.mark.sampled(7)
@pytest.mark.pairwise(plan=list(PLANS), gpu=["sm_90", "sm_120"], ordered=[False, True])
def test_a_kernel_that_waits_for_the_grid_before(plan, gpu, ordered):
    artifact = tileiras.compile(waiting(ordered), gpu_name=gpu, **PLANS[plan])
    module = tileiras.compile(waiting(ordered), gpu_name=gpu, emit="tileas", **PLANS[plan]).text
    programs = 2 if ordered and ".agent_switch " in module else 1
    assert artifact.text.count("griddepcontrol.wait;") == programs
    assert artifact.text.count("griddepcontrol.launch_dependents;") == 1
    if ordered:
        assert artifact.text.index("griddepcontrol.wait;") < READS.search(artifact.text).start()
    for seed in (None, 0):
        Arrays(64, 71, 96).launch(artifact.text, artifact.kernels[0].metadata, seed)


LOADS = ("nv_tileas.async.tma_load", "nv_tileas.async.tiled_load", "nv_tileas.tiled_load")


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("plan", [name for name in PLANS if "agents" in name])
def test_each_agent_that_reads_waits_itself(plan, gpu):
    """The order of tokens does not reach from one agent into another."""
    text = tileiras.compile(waiting(True), gpu_name=gpu, emit="tileas", **PLANS[plan]).text
    (switch,) = (op for op in parse_module(text, "k.tileas.mlir").walk() if op.name.endswith(".agent_switch"))
    readers = 0
    for region in switch.regions:
        names = [op.name for each in region.blocks[0].operations for op in each.walk()]
        loads = [at for at, name in enumerate(names) if name in LOADS]
        readers += bool(loads)
        assert not loads or names.index("nv_tileas.gdc_wait") < loads[0]
    assert readers == 1
