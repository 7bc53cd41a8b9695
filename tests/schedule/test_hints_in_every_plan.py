"""Hints of a kernel are obeyed in every plan for loops, for each access by itself, or a remark names the substitute."""

from __future__ import annotations

import re

import pytest

import tileiras
from bench.plans import PLANS
from tests.kernels import tensor_maps
from tests.kernels.dots import Matmul
from tests.kernels.reasons import stated
from tests.kernels.tensor_maps import Arrays
from tests.kernels.views import buffers
from tests.machine_code import on_an_sm
from tileiras.targets import registers_per_thread

GPU = "sm_90"
AGENTS = ("agents", "agents-boxes", "light", "light-boxes")
NAMES = ("default", "auto", "plain", "boxes", "overlap", "overlap-boxes", *AGENTS)
"""Plans in which loads run ahead."""
CHOSEN = {name: PLANS[name] for name in NAMES}
BOXES = [name for name, plan in CHOSEN.items() if plan.get("tensor_maps") == "host"]
BOX, RUN = "cp.async.bulk.tensor", "cp.async.cg"
NO_MAPS = "allow_tma = false"


def hinted(text: str, hints: dict[str, str]) -> str:
    """The kernel with hints at the loads of views, by name, for the GPU of these tests."""
    for name, hint in hints.items():
        pattern = rf"(load_view_tko \w+ %v_{name}\[[^\]]*\])"
        text, count = re.subn(pattern, rf"\1 optimization_hints = <{GPU} = {{{hint}}}>", text)
        assert count == 1
    return text


# ---- accesses --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("plan", BOXES)
@pytest.mark.parametrize("names", ["", "a", "b", "ab"])
def test_loads_that_are_to_use_no_tensor_map(names, plan):
    """The others come in boxes."""
    text = hinted(tensor_maps.matmul(), dict.fromkeys(names, NO_MAPS))
    result = tileiras.compile(text, gpu_name=GPU, **CHOSEN[plan])
    boxes = len(re.findall(rf"{BOX}\S*\.shared::c\w+\.global", result.text))
    assert (boxes > 0) == (len(names) < 2) and (RUN in result.text) == (len(names) > 0)
    fills = [each["fill"] for each in result.kernels[0].metadata.get("hidden_parameters", ())]
    for name, parameter in (("a", "p0"), ("b", "p4")):
        assert any(f"address={parameter} " in fill for fill in fills) == (name not in names)
    for seed in (None, 0):
        Arrays(64, 71, 96).launch(result.text, result.kernels[0].metadata, seed)


@pytest.mark.parametrize("plan", BOXES)
def test_stores_that_are_to_use_no_tensor_map(plan):
    text = tensor_maps.doubled(f" optimization_hints = <{GPU} = {{{NO_MAPS}}}>")
    result = tileiras.compile(text, gpu_name=GPU, **CHOSEN[plan])
    for seed in (None, 0):
        Arrays(64, 64, 96).launch(result.text, result.kernels[0].metadata, seed, times=2)
    stores = re.findall(rf"{BOX}\S*\.global\.shared", result.text)
    if plan not in AGENTS:  # whose warps store themselves
        assert len(stores) == len(re.findall(rf"{BOX}\S*\.global\.shared", unhinted(plan))) - 2


def unhinted(plan: str) -> str:
    return tileiras.compile(tensor_maps.doubled(), gpu_name=GPU, **CHOSEN[plan]).text


@pytest.mark.parametrize("latency", [1, 10])
def test_loads_that_do_not_run_ahead_ask_for_nothing(latency):
    product = Matmul((64, 64, 32), steps=12)
    kernel = product.kernel(hinted(product.text(), {"a": f"latency = {latency}"}))
    artifact = kernel.compiled(GPU, **PLANS["none"])
    assert artifact.text == product.kernel().compiled(GPU, **PLANS["none"]).text
    kernel.emulated(artifact, 1)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("plan", CHOSEN)
@pytest.mark.parametrize("latency", [1, 5, 10])
def test_loads_that_run_ahead_as_far_as_they_ask_for(latency, plan):
    """From two stages to eight, with one more for the product in flight; plans that overlap may take more."""
    product = Matmul((64, 64, 32), steps=12)
    kernel = product.kernel(hinted(product.text(), {"a": f"latency = {latency}"}))
    stages = {tile: count for tile, count in buffers(kernel.tileas(GPU, **CHOSEN[plan]))}
    wanted = min(8, max(2, latency)) + 1
    for tile in ((64, 32), (32, 64)):
        assert stages[tile] == wanted or "overlap" in plan and stages[tile] > wanted
    kernel.emulated(kernel.compiled(GPU, **CHOSEN[plan]), 1)


@pytest.mark.parametrize("plan", CHOSEN)
def test_each_loop_runs_ahead_as_far_as_its_own_loads_ask_for(plan):
    """Agents have one ring for both loops, as deep as the deeper one."""
    text = tensor_maps.twice()
    first, again = text.index("%v_a[%x, %i]"), text.rindex("%v_a[%x, %i]")
    for place, latency in ((again, 2), (first, 5)):
        place += len("%v_a[%x, %i]")
        text = f"{text[:place]} optimization_hints = <{GPU} = {{latency = {latency}}}>{text[place:]}"
    result = tileiras.compile(text, gpu_name=GPU, emit_remarks=True, **CHOSEN[plan])
    matches = re.findall(r"loops\.pipelined stages=(\d+)", "\n".join(stated(result.diagnostics)))
    assert matches == ["6", "3"] or "overlap" in plan
    for seed in (None, 0):
        Arrays(64, 64, 96).launch(result.text, result.kernels[0].metadata, seed, times=2)


# ---- warps and CTAs --------------------------------------------------------------------------------------------------


@pytest.mark.sampled(9)
@pytest.mark.pairwise(
    warps=[1, 2, 4, 8, 16, 32], occupancy=[None, 2, 32],
    plan=["none", "overlap", "boxes", "auto", "agents", "light-boxes"],
)  # fmt: skip
def test_warps_that_compute_and_ctas_of_an_sm(warps, occupancy, plan, ptxas):
    """The number of warps that compute is the hinted one; an SM holds the hinted number of CTAs, with the registers
    that are left to each thread, or a remark gives the actual number."""
    hints = f"num_worker_warps_per_cta = {warps}" + (f", occupancy = {occupancy}" if occupancy else "")
    kernel = Matmul((64, 64, 32), steps=4, hints=f"{GPU} = {{{hints}}}").kernel()
    artifact = kernel.compiled(GPU, **PLANS[plan])
    text = "\n".join(stated(artifact.diagnostics))
    (threads,) = map(int, re.findall(r"\.reqntid (\d+)", artifact.text))
    if plan in AGENTS and threads == 32 * warps:
        assert "agents.loads-stay" in text
    computing = re.findall(r"agents\.warps compute=(\d+) load=(\d+)", text)
    assert computing == ([] if threads == 32 * warps else [(str(warps), str(threads // 32 - warps))])
    (result,) = map(int, re.findall(r"\.minnctapersm (\d+)", artifact.text) or [0])
    if occupancy:
        fewer = re.findall(r"kernel\.fewer-ctas ctas=(\d+)", text)
        assert on_an_sm(artifact, GPU)[0] >= (int(fewer[-1]) if fewer else occupancy)
        assert result * threads <= 2048
    kernel.emulated(artifact, 1)


@pytest.mark.parametrize("plan", ["default", "plain", "agents-boxes"])
@pytest.mark.parametrize(
    ("tiles", "fewer"), [((128, 128, 64), "kernel.registers-needed"), ((64, 128, 128), "kernel.bytes-ahead")]
)
def test_ctas_yield_to_products_of_warpgroups(tiles, fewer, plan):
    """Of four, which leave a thread 64 registers and a CTA 57 KB: accumulators of 64, and operands of 48 KB."""
    kernel = Matmul(tiles, steps=3, hints=f"{GPU} = {{occupancy = 4}}").kernel()
    artifact = kernel.compiled(GPU, **CHOSEN[plan])
    assert "wgmma.mma_async" in artifact.text and "mma.sync" not in artifact.text
    assert any(f"asked=4; {fewer} " in each for each in stated(artifact.diagnostics, "kernel.fewer-ctas"))
    kernel.emulated(artifact, 1)


def test_registers_come_in_units():
    """Three CTAs of 256 threads leave each 80 registers and not 85."""
    assert [registers_per_thread(256, ctas) for ctas in (1, 2, 3, 5)] == [255, 128, 80, 48]
