"""Tile blocks of swizzled grids and of loops over tiles multiply in pairs where a launch has even rows of tiles."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import SPECIALIZED
from tests.kernels import swizzled_products
from tests.kernels import tensor_maps as kernels
from tests.kernels.reasons import causes
from tests.kernels.swizzled_products import Products, persistent, swizzled
from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.passes.tileaa_agent_verifier import AgentVerifier
from tileiras.passes.tileir_verify_ops_analysis import VerifyOpsAnalysis
from tileiras.sim import emulate, estimate
from tileiras.sim.emulator.launch.emulation import launch_shapes
from tileiras.sim.estimate import images
from tileiras.targets import rates

GPU, PAIR = "sm_100", ".cta_group::2"
PLANS = {"auto": {}, "agents": SPECIALIZED, "one agent": {"unspecialized_pipeline_num_stages": 2}}
SEEDS = (None, 0, 1)

LAUNCHES = {
    "two groups": (4 * 128 - 12, 40, True),
    "as many rows as a group": (256, 60, True),
    "three rows": (300, 60, False),
    "one row": (100, 60, False),
}
"""Rows and columns of C, by tiles of 128x32, and whether tile blocks of as many tiles are pairs."""


@pytest.fixture(autouse=True)
def tiles(monkeypatch):
    monkeypatch.setattr(kernels, "TILES", (128, 32, 32))


def compiled(text: str, **options):
    return tileiras.compile(text, gpu_name=GPU, emit_remarks=True, **{"tensor_maps": "host", **options})


def are_pairs(artifact, arrays: Products, blocks: int) -> bool:
    m, n, _ = arrays.sizes
    arguments = [np.zeros(0), m, 0, 0, np.zeros(0), 0, n, 0, np.zeros(0), m, n, 0, 0]
    _, _, cluster = launch_shapes(artifact.text, "k", blocks, artifact.kernels[0].metadata, arguments)
    return cluster == (2, 1, 1)


# ---- launches --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("way", ["groups", "columns"])
def test_swizzled_grids(way, plan, assemble):
    artifact = compiled(swizzled(way), **PLANS[plan])
    metadata = artifact.kernels[0].metadata
    alone, paired = artifact.text.split(".entry k$pairs(")
    assert PAIR not in alone and PAIR in paired
    assemble(artifact.text, GPU)
    for m, n, wanted in LAUNCHES.values():
        arrays = Products(m, n, 200)
        if arrays.tiles() % 2 == 0:
            assert are_pairs(artifact, arrays, arrays.tiles()) == wanted
        for seed in SEEDS if wanted else SEEDS[1:2]:
            arrays.run(artifact.text, metadata, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("group", "rows", "wanted"), [(4, 6, True), (4, 5, False), (8, 4, True)])
@pytest.mark.parametrize("make", [swizzled, persistent])
def test_a_last_group_of_fewer_rows(make, group, rows, wanted, monkeypatch):
    monkeypatch.setattr(swizzled_products, "GROUP", group)
    artifact = compiled(make())
    arrays = Products(rows * 128 - 20, 64, 70)
    assert are_pairs(artifact, arrays, 2 * rows) == wanted
    for seed in SEEDS if wanted else SEEDS[1:2]:
        arrays.run(artifact.text, artifact.kernels[0].metadata, seed, 4 if make is persistent else None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("way", ["groups", "columns"])
def test_loops_over_tiles(way, plan, assemble):
    """With fewer tile blocks than tiles, as many, and more, so that a pair has no tile; with an odd number."""
    artifact = compiled(persistent(way), **PLANS[plan])
    metadata = artifact.kernels[0].metadata
    if "pairs" not in metadata:
        # Threads that load their accumulators would wait for those of the other CTA.
        assert plan == "one agent" and any("in no other one, or with agents" in reason for reason in reasons(artifact))
        return
    assemble(artifact.text, GPU)
    for m, n, wanted in LAUNCHES.values():
        arrays = Products(m, n, 130)
        for blocks in (2, 4, 10, 3) if wanted else (2,):
            assert are_pairs(artifact, arrays, blocks) == (wanted and blocks % 2 == 0)
            for seed in SEEDS if blocks == 4 else SEEDS[1:2]:
                arrays.run(artifact.text, metadata, seed, blocks)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_few_steps_of_each_tile(steps):
    artifact = compiled(persistent())
    Products(500, 60, 32 * steps).run(artifact.text, artifact.kernels[0].metadata, 1, 4)


@pytest.mark.parametrize(("rows", "entry"), [(4, "k$pairs"), (5, "k")])
def test_the_kernel_that_is_launched_is_estimated(rows, entry, ptxas):
    artifact = compiled(swizzled())
    m, n, k = 128 * rows, 64, 64
    a, b, c = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), np.zeros((m, n), np.float32)
    arguments = [a, m, k, k, b, k, n, n, c, m, n, n, 2]
    loaded = images.load(artifact, "k", rates.gpu("B200"), grid=2 * rows, arguments=arguments)
    assert loaded.entry == entry
    assert estimate(artifact, "k", 2 * rows, arguments, gpu="B200").microseconds > 0


def test_a_launch_that_makes_pairs_of_other_columns_is_wrong():
    """The reason for the facts: in groups of three rows neighbours have different columns."""
    artifact = compiled(swizzled())
    metadata = dict(artifact.kernels[0].metadata)
    metadata["pairs"] = {name: value for name, value in metadata["pairs"].items() if name != "where"}
    with pytest.raises(AssertionError):
        Products(3 * 128, 64, 100).run(artifact.text, metadata)


def test_unknown_arguments():
    """Arguments are unknown if only the text of a kernel is compiled."""
    artifact = compiled(swizzled())
    assert launch_shapes(artifact.text, "k", 4, artifact.kernels[0].metadata)[2] == (1, 1, 1)


def test_remainders_with_the_sign_of_the_divisor():
    """As Python has them, and cuTile: of positive divisors they are the same."""
    fixed = re.sub(
        r"%place = remi (%\w+), (%\w+) signed : tile<i32>",
        r"""%rest = remi \1, \2 signed : tile<i32>
    %nothing = constant <i32: 0> : tile<i32>
    %below = cmpi less_than %rest, %nothing, signed : tile<i32> -> tile<i1>
    %negative = cmpi less_than \2, %nothing, signed : tile<i32> -> tile<i1>
    %differ = xori %below, %negative : tile<i1>
    %some = cmpi not_equal %rest, %nothing, signed : tile<i32> -> tile<i1>
    %wrong = andi %differ, %some : tile<i1>
    %moved = addi %rest, \2 : tile<i32>
    %place = select %wrong, %moved, %rest : tile<i1>, tile<i32>""",
        swizzled(),
    )
    artifact = compiled(fixed)
    arrays = Products(500, 40, 200)
    assert are_pairs(artifact, arrays, arrays.tiles())
    arrays.run(artifact.text, artifact.kernels[0].metadata, 1)


# ---- kernels without one for pairs -----------------------------------------------------------------------------------


def reasons(artifact) -> list[str]:
    return causes(artifact.diagnostics, "pairs.blocks-alone")


ALONE = {
    "rows": (lambda: swizzled("rows"), {}, "pairs.columns-differ"),
    "a loop over rows": (lambda: persistent("rows"), {}, "pairs.columns-differ"),
    "groups of an odd number of rows": (
        lambda: swizzled().replace("%most = constant <i32: 2>", "%most = constant <i32: 3>"), {},
        "pairs.columns-differ"),
    "a loop over every tile": (
        lambda: persistent().replace("step %count", "step %one"), {}, "pairs.trips-differ"),
    "a loop to another end for each": (
        lambda: persistent().replace("%tiles = muli", "%upto = addi %id, %tall : tile<i32>\n    %tiles = muli").replace(
            "(%id to %tiles,", "(%id to %upto,"), {}, "pairs.trips-differ"),
    "no launcher that reads NAME.json": (swizzled, {"tensor_maps": "none"}, "pairs.no-launcher"),
    "large tiles": (swizzled, {}, "pairs.large-tiles"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_a_remark_says_why_there_are_no_pairs(name, monkeypatch):
    if name == "large tiles":
        monkeypatch.setattr(kernels, "TILES", (256, 256, 32))
    text, options, why = ALONE[name]
    artifact = compiled(text(), **options)
    assert "pairs" not in artifact.kernels[0].metadata and PAIR not in artifact.text
    assert reasons(artifact) == [why]
    assert not reasons(tileiras.compile(text(), gpu_name="sm_90", tensor_maps="host", emit_remarks=True))


def test_kernels_with_pairs_have_no_such_remark():
    assert not reasons(compiled(swizzled())) and not reasons(compiled(kernels.matmul()))


# ---- diagnostics of the verifier -------------------------------------------------------------------------------------


WRONG = {
    "a word that says nothing": ('"p9 128 ceildiv even"', '"p9 128 ceildiv odd"', "expects even or positive"),
    "no such parameter": ('"p9 128 ceildiv even"', '"p90 128 ceildiv even"', "names parameter 90 of 13"),
    "a number too many": ('"p9 128 ceildiv even"', '"p9 128 even"', "leaves 2 numbers"),
    "a loop that one may run more often": ('"p9 128 ceildiv p10 32 ceildiv mul even", ', "", "comes to it more often"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    before, after, result = WRONG[name]
    text = compiled(persistent(), emit="tileas").text
    run_verifier(text)
    assert text.count(before) == 1
    with pytest.raises(CompileError, match=result):
        run_verifier(text.replace(before, after))


def run_verifier(text: str) -> None:
    """Raise CompileError if a verifier rejects the text."""
    passes = [VerifyOpsAnalysis(compute_capability=GPU), AgentVerifier(compute_capability=GPU)]
    PassManager(passes, verify_each=False).run(parse_module(text), PassContext(None))


def test_other_arguments_are_as_right():
    """A number of tile blocks that is given as a whole number of 64 bits, and rows as one of NumPy's."""
    artifact = compiled(swizzled())
    m, n, k = 256, 32, 64
    a, b = np.ones((m, k), np.float16), np.ones((k, n + 8), np.float16)
    c = np.zeros((m, n), np.float32)
    sizes = [np.int32(each) for each in (m, n, n)]
    result = emulate(artifact.text, "k", np.int64(2), [a, m, k, k, b, k, n, n + 8, c, *sizes, 2],
                    artifact.kernels[0].metadata, seed=0)  # fmt: skip
    assert result.instruction_counts and any(PAIR in each for each in result.instruction_counts)
    np.testing.assert_array_equal(c, np.full_like(c, k))
