"""Tile blocks of a cluster that find out at run time which of their tiles are the same, and share copies of these."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import verify
from tests.agents.shared_copies import EVERYWHERE, SEEDS, compiled, may_share, superfluous
from tests.kernels import tensor_maps as kernels
from tests.kernels.swizzled_products import Products, persistent, swizzled
from tileiras.analysis.pipes import PipeUses
from tileiras.analysis.pipes.model import order_errors
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import parse_module
from tileiras.sim import emulate

TWO_STAGES = {"unspecialized_pipeline_num_stages": 2}


@pytest.fixture(autouse=True)
def large_tiles(monkeypatch):
    """A and B have 16 KiB."""
    monkeypatch.setattr(kernels, "TILES", (64, 64, 128))


# ---- one tile by each tile block ---------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["groups", "rows", "columns"])
def test_neighbours_share_tiles_that_both_find_equal(way, assemble):
    """Three rows of two tiles: a group of two rows, whose tile blocks have the same B, and one of one, whose have the
    same A.  Column by column neighbours have the same B, the same A, or neither."""
    artifact = compiled(swizzled(way))
    metadata = artifact.kernels[0].metadata
    assert artifact.text.count(EVERYWHERE) == 2 and metadata["cluster_blocks"] == [2, 1, 1]
    assert assemble(artifact.text, "sm_90").stack == 0
    for seed in SEEDS[:2]:
        Products(180, 100, 330).run(artifact.text, metadata, seed)


@pytest.mark.parametrize(("m", "n"), [(180, 180), (64, 50), (50, 180)])
def test_odd_numbers_of_tiles_make_no_clusters(m, n):
    artifact = compiled(swizzled())
    Products(m, n, 200).run(artifact.text, artifact.kernels[0].metadata, 0)


@pytest.mark.parametrize("cluster", [(1, 1, 1), (4, 1, 1)])
def test_clusters_of_another_shape(cluster):
    artifact = compiled(swizzled())
    Products(128, 128, 330).run(artifact.text, artifact.kernels[0].metadata, 1, cluster=cluster)


def test_small_tiles_are_copied_apart(monkeypatch):
    """A has 8 KiB: row by row it would be the same."""
    monkeypatch.setattr(kernels, "TILES", (64, 128, 64))
    artifact = compiled(swizzled("rows"))
    assert artifact.text.count(EVERYWHERE) == 1
    Products(128, 256, 200).run(artifact.text, artifact.kernels[0].metadata)


def test_tiles_that_always_differ_are_not_shared():
    """Of a grid of two dimensions a row of A is each tile block's own, however far it is moved."""
    text = kernels.matmul(before="%two = constant <i32: 2> : tile<i32>\n%twice = muli %x, %two : tile<i32>")
    artifact = compiled(text.replace("%v_a[%x, %i]", "%v_a[%twice, %i]").replace("%v_b[%i, %y]", "%v_b[%i, %x]"))
    assert EVERYWHERE not in artifact.text and not may_share(artifact)


@pytest.mark.slow
def test_synchronization_of_the_tile_blocks_is_minimal():
    artifact = compiled(swizzled(), **TWO_STAGES)
    launches = Products(128, 64, 500), Products(64, 128, 500), Products(64, 64, 500)

    def judge(code, seed):
        for arrays in launches:
            arrays.run(code, artifact.kernels[0].metadata, seed, step_limit=20_000)

    assert superfluous(artifact.text, judge, remote=1) == []


# ---- columns that are loaded --------------------------------------------------------------------------------------

_GROUPS = "tensor_view<?xi32, strides=[1]>"
_COLUMN = f"""
    %t_g = make_tensor_view %p_g, shape = [%m_a], strides = [1] : tile<i32> -> {_GROUPS}
    %v_g = make_partition_view %t_g : partition_view<tile=(1), {_GROUPS}>
    %group, %k_g = load_view_tko weak %v_g[%x] : partition_view<tile=(1), {_GROUPS}>, tile<i32> -> tile<1xi32>, token
    %column = reshape %group : tile<1xi32> -> tile<i32>"""


def grouped() -> str:
    """Each tile of rows of A times the columns of B that its entry of an array names, as the expert of its tokens."""
    text = kernels.matmul(before=_COLUMN).replace("%v_b[%i, %y]", "%v_b[%i, %column]")
    return text.replace("%steps: tile<i32>)", "%steps: tile<i32>, %p_g: tile<ptr<i32>>)")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("groups", [(1, 1, 0, 0), (0, 1, 1, 1), (0, 7, 7, 7), (1, 1, 1)])
def test_neighbours_share_tiles_whose_columns_both_load(groups):
    """The same columns, others, columns outside of B, and an odd number of tiles."""
    artifact = compiled(grouped(), **TWO_STAGES)
    metadata = artifact.kernels[0].metadata
    assert artifact.text.count(EVERYWHERE) == 1 and metadata["cluster_blocks"] == [2, 1, 1]
    m, n, k = 64 * len(groups) - 5, 128, 330
    arrays = kernels.Arrays(m, n, k)
    depth, columns = arrays.a.shape[1], arrays.b.shape[1]
    right = np.zeros((k, 8 * 64), np.float32)
    right[:, :n] = arrays.b[:, :n]
    wanted = np.concatenate([arrays.a[64 * at : 64 * at + 64, :k].astype(np.float32) @ right[:, 64 * g : 64 * g + 64]
                             for at, g in enumerate(groups)])  # fmt: skip
    for seed in SEEDS[:2]:
        c = np.zeros((m, 64), np.float32)
        arguments = [arrays.a.copy(), m, k, depth, arrays.b.copy(), k, n, columns, c, m, 64, 64, 3,
                     np.array(groups, np.int32)]  # fmt: skip
        assert emulate(artifact.text, "k", (len(groups),), arguments, metadata, seed=seed).searched_races
        np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("change", [
    ("%sum, %v_c[%x, %y] :", "%sum, %v_c[%x, %y] token = %k_g :"),
    ("weak %v_g[%x] :", "relaxed device %v_g[%x] :"),
    ("weak %v_g[%x] :", "weak %v_g[%x] token = %k_0 :"),
])  # fmt: skip
def test_columns_that_others_may_write_are_copied_apart(change):
    """A token, or a scope, orders the load of the column with writes."""
    first = "%k_0 = store_view_tko weak %none, %v_c[%x, %y]"
    text = grouped().replace(_COLUMN, "").replace("    %sum = for", f"{_COLUMN}\n    %sum = for")
    if "%k_0" in change[1]:
        begin = text.index("%end = store_view_tko")
        stored = text[begin : text.index("\n", begin)].replace("%end", "%k_0").replace("%sum", "%none")
        assert stored.startswith(first)
        text = text.replace(_COLUMN, f"\n    {stored}{_COLUMN}")
    assert change[0] in text
    artifact = compiled(text.replace(*change))
    assert EVERYWHERE not in artifact.text and not may_share(artifact)


# ---- every nth tile by each tile block ---------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("way", "blocks"), [("groups", 4), ("groups", 2), ("rows", 4), ("columns", 2), ("groups", 8)])
def test_tiles_of_a_loop_over_tiles(way, blocks, assemble):
    """Of nine tiles, and six, the last ones are of the first tile block of a cluster, or of no second cluster."""
    artifact = compiled(persistent(way))
    metadata = artifact.kernels[0].metadata
    assert artifact.text.count(EVERYWHERE) == 2 and metadata["cluster_blocks"] == [2, 1, 1]
    assert assemble(artifact.text, "sm_90").stack == 0
    for seed, (m, n) in ((None, (180, 180)), (0, (180, 180)), (1, (180, 100))):
        Products(m, n, 200).run(artifact.text, metadata, seed, blocks)


@pytest.mark.parametrize("blocks", [1, 3])
def test_loops_over_tiles_without_clusters(blocks):
    artifact = compiled(persistent())
    Products(180, 100, 200).run(artifact.text, artifact.kernels[0].metadata, 0, blocks)


@pytest.mark.slow
def test_nothing_in_a_loop_over_tiles_is_superfluous():
    """Rounds that are shared, and rounds that are not, on the same stages."""
    artifact = compiled(persistent("columns"), **TWO_STAGES)
    launches = (Products(180, 100, 200), 2), (Products(180, 50, 200), 2), (Products(100, 50, 300), 1)

    def judge(code, seed):
        for arrays, blocks in launches:
            arrays.run(code, artifact.kernels[0].metadata, seed, blocks, step_limit=40_000)

    assert superfluous(artifact.text, judge, remote=1) == []


@pytest.mark.parametrize("change", [
    ("step %count", "step %one"),
    ("(%id to", "(%zero to"),
    ("(%id to %tiles,", "(%id to %upto,"),
])  # fmt: skip
def test_other_loops_over_tiles_are_copied_apart(change):
    """In these loops no rule shows that each number is a round of one tile block, or that all loops end alike."""
    text = persistent().replace("%tiles = muli", "%upto = addi %id, %tall : tile<i32>\n    %tiles = muli")
    assert change[0] in text
    artifact = compiled(text.replace(*change))
    assert EVERYWHERE not in artifact.text and not may_share(artifact)


# ---- diagnostics of the verifier -------------------------------------------------------------------------------------


def _without(pattern: str, by: str = ""):
    return lambda text: re.sub(pattern, by, text, count=1)


SAME = r"(%\w+) = nv_tileas\.is_same_tile\[(%\w+)\], \[(%\w+)\]"
WRONG = {
    "a stage that all fill together, where some have no such round": (
        _without(r"(producer_acquire %\w+, %\w+) if %\w+", r"\1"), "some of them come to it more often"),
    "rounds that only some have": (
        lambda text: re.sub(r"( = nv_tileas\.is_same_tile[^\n]*) round %\w+ : i32", r"\1", text),
        "some of them come to it more often"),
    "a pipe whose CTAs fill no stage alone": (
        _without(r"(create_pipeline [^\n]*\{)alone, ", r"\1"), "on a pipe whose CTAs fill no stage alone"),
    "a copy to all into a stage that was acquired for one": (
        _without(r"(async\.tma_load [^\n]*) if %\w+", r"\1"), "a tile that is not the same for all"),
    "other numbers than the tile's": (
        _without(SAME, r"\1 = nv_tileas.is_same_tile[\2], [\2]"), "nothing says that the tile is the same"),
    "the tile of another rank": (
        lambda text: re.sub(r"(neighbor_counter %\w+ of) 0", r"\1 1", text), "nothing says that the tile is the same"),
    "a number of the tile block's own": (
        lambda text: re.sub(r"(= nv_tileas\.)neighbor_counter (%\w+) of 0", r"\1assume #nv_tileaa.div_by<1>, \2", text),
        "more often|nothing says"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    change, result = WRONG[name]
    before = compiled(persistent(), emit="tileas").text
    verify(before)
    after = change(before)
    assert after != before
    with pytest.raises(tileiras.CompileError, match=result):
        verify(after)


def test_the_model_has_tile_blocks_whose_rounds_end_before():
    """It reports the deadlock of a kernel that does not state that all tile blocks have the round."""
    before = compiled(persistent(), emit="tileas").text
    after = re.sub(r"( = nv_tileas\.is_same_tile[^\n]*) round %\w+ : i32", r"\1", before)
    assert after != before
    assert list(_order(before)) == []
    assert any("waits for ever" in text for _, text in _order(after))


def _order(text: str):
    (func,) = (op for op in parse_module(text).walk() if isinstance(op, aa.FuncOp))
    return order_errors(func, PipeUses(func))
