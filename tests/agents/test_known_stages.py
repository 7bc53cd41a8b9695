"""Stages of a ring of boxes that the barrier of a ring beside it, which threads copy, shows to be empty."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import matmul
from tests.kernels.tensor_memory import fails, survivors
from tests.machine_code import assemble
from tileiras.codegen import toolkit

PLAIN = {"tensor_maps": "host", "pipeline_strategy": "unspecialize"}
WAIT = re.compile(r"mbarrier\.try_wait[^;]*;\s*not\.pred[^;]*;\s*@%p\d+ bra[^;]*;")
ORDERS = r"bar\.sync[^;]*;|cp\.async\.wait_group[^;]*;|wgmma\.(?:wait|fence|commit)[^;]*;|fence\.proxy[^;]*;"


def mixed(columns: int = 64):
    """B lies along N, whose bytes no instruction takes so: threads copy it, and read it back to turn it."""
    return matmul((64, columns, 64), "f8E5M2", steps=5)


@pytest.mark.parametrize(("gpu", "columns"), [("sm_90", 64), ("sm_120", 8)])
def test_waits_implied_by_a_barrier_are_omitted(gpu, columns):
    """Warpgroups read boxes in shared memory; with `mma.sync` threads load them, and a fence follows the loads.  Of
    eight columns no matrix of 16x16 bytes consists, which threads would load from boxes."""
    kernel = mixed(columns)
    artifact = kernel.compiled(gpu, **PLAIN)
    assert "cp.async.bulk.tensor" in artifact.text and re.search(r"cp\.async\.c[ag]\.", artifact.text)
    (wait,) = WAIT.finditer(artifact.text)
    for seed in (None, 0, 1, 2):
        kernel.emulated(artifact, seed)
    assert fails(kernel, artifact, artifact.text[: wait.start()] + artifact.text[wait.end() :])
    assert not survivors(kernel, artifact, ORDERS)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, "sm_90a" if gpu == "sm_90" else gpu)


@pytest.mark.parametrize(("kernel", "options"), [
    (matmul((64, 64, 64), steps=5), PLAIN), (mixed(), {**PLAIN, "pipeline_strategy": "warp-specialize"}),
], ids=["boxes alone", "agents"])  # fmt: skip
def test_others_wait(kernel, options):
    text = kernel.compiled("sm_90", emit="tileas", **options).text
    acquires = [line for line in text.splitlines() if "pipeline.producer_acquire" in line]
    assert any("fresh" not in line for line in acquires) and not any("known" in line for line in acquires)
