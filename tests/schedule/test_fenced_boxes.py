"""Boxes that are ordered after ordinary stores of the kernel or of another CTA: a fence for all memory stands before
the barrier that precedes the copies, and without it the result is wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import sites, survives
from tests.kernels import tensor_maps as kernels
from tests.kernels.reasons import causes
from tests.kernels.tensor_maps import TILES, Arrays
from tests.machine_code import assemble
from tileiras.sim import emulate

SEEDS = (None, 0, 1)
BOX, FENCE = "cp.async.bulk.tensor", "fence.proxy.async;"
HINT = f" optimization_hints = <{', '.join(f'sm_{number} = {{allow_tma = false}}' for number in (90, 100, 120))}>"
M, N, K = TILES
A_VIEW = f"partition_view<tile=({M}x{K}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>"
A_TILE = f"tile<{M}x{K}xf16>"


def doubling(row: str, hints: str) -> str:
    """Doubles a row of tiles of A in place; %written is behind the last store."""
    return f"""
    %start = make_token : token
    %written = for %j in (%zero to %steps, step %one) : tile<i32> iter_values(%before = %start) -> (token) {{
      %old, %k_old = load_view_tko weak %v_a[{row}, %j] token = %before{HINT}
        : {A_VIEW}, tile<i32> -> {A_TILE}, token
      %new = addf %old, %old : {A_TILE}
      %k_new = store_view_tko weak %new, %v_a[{row}, %j] token = %k_old{hints}
        : {A_TILE}, {A_VIEW}, tile<i32> -> token
      continue %k_new : token
    }}"""


def written_before(hints: str = HINT) -> str:
    """C = 2 A B: A is doubled in memory, and loaded again."""
    text = kernels.matmul(before=doubling("%x", hints))
    return text.replace("load_view_tko weak %v_a[%x, %i]", "load_view_tko weak %v_a[%x, %i] token = %written")


def compiled(text: str, gpu: str, tensor_maps: str = "host", **options):
    return tileiras.compile(text, gpu_name=gpu, tensor_maps=tensor_maps, **options)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("gpu", "maps", "strategy"),
    [
        ("sm_90", "host", "auto"),
        ("sm_90", "host", "warp-specialize"),
        ("sm_90", "device", "unspecialize"),
        ("sm_100", "host", "auto"),
        ("sm_120", "host", "auto"),
        ("sm_120", "host", "unspecialize"),
        ("sm_120", "host", "warp-specialize"),
    ],
)
def test_loads_after_stores_of_the_kernel_have_a_fence(gpu, maps, strategy, ptxas):
    artifact = compiled(written_before(), gpu, maps, pipeline_strategy=strategy)
    assert artifact.text.count(BOX + ".2d.shared") >= 2 and artifact.text.count(FENCE) == 1
    assert "setmaxnreg" not in artifact.text  # a fence of the agent that loads does not cover writes of another one
    assemble(artifact.text, gpu)
    arrays = Arrays(64, 64, 160)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed, times=2)

    assert survives(artifact.text, judge, SEEDS)
    for broken in (artifact.text.replace(FENCE, ""), artifact.text.replace(FENCE, "fence.proxy.async.shared::cta;")):
        assert not survives(broken, judge, SEEDS)


def test_synchronization_of_boxes_behind_stores_is_minimal():
    artifact = compiled(written_before(), "sm_90", pipeline_strategy="unspecialize")
    arrays = Arrays(64, 64, 160)

    def judge(code, seed):
        arrays.launch(code, artifact.kernels[0].metadata, seed, times=2)

    result = [site for site in sites(artifact.text) if re.match(r"fence\.proxy|bar\.sync", site[0])]
    assert [line for line, broken in result if survives(broken, judge, SEEDS)] == []


def test_ctas_with_multicast_load_such_tiles_by_threads():
    artifact = compiled(written_before(), "sm_90", num_ctas=2, emit_remarks=True)
    reasons = causes(artifact.diagnostics)
    assert "maps.ordered-in-cluster" in reasons
    for seed in SEEDS[:2]:
        Arrays(64, 64, 160).launch(artifact.text, artifact.kernels[0].metadata, seed, times=2)


def test_loads_behind_stores_in_boxes():
    """Whether a store goes in boxes is not known yet where loads get their fence."""
    artifact = compiled(written_before(""), "sm_90", pipeline_strategy="unspecialize")
    assert "bulk_group" in artifact.text
    for seed in SEEDS[:2]:
        Arrays(64, 64, 160).launch(artifact.text, artifact.kernels[0].metadata, seed, times=2)


ROW_OF_OTHER = """
    %unit = constant <i32: 1> : tile<i32>
    %written_c = store_view_tko weak %blank, %v_c[%x, %y] token = %start{HINT} : {C_TILE}, {C_VIEW}, tile<i32> -> token
    %both = join_tokens %written, %written_c : token
    %count, %counted = atomic_rmw_tko acq_rel device %p_count, add, %unit token = %both
      : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %is_last = cmpi equal %count, %unit, signed : tile<i32> -> tile<i1>
    %other = subi %unit, %x : tile<i32>
    if %is_last {{"""
C_TILE = f"tile<{M}x{N}xf32>"
C_VIEW = f"partition_view<tile=({M}x{N}), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>"


def last_of_two(boxes: str) -> str:
    """Both tile blocks double their rows of A and clear those of C; the one that counts last multiplies the rows that
    the other one has written, and stores the product over the rows that the other one has cleared.  `boxes`: loads,
    stores or both."""
    row = ROW_OF_OTHER.format(HINT=HINT, C_TILE=C_TILE, C_VIEW=C_VIEW)
    blank = f"%blank = constant <f32: 0.0> : {C_TILE}"
    text = kernels.matmul(before=blank + doubling("%x", HINT) + row, around=("", "}"))
    text = text.replace("%steps: tile<i32>)", "%steps: tile<i32>, %p_count: tile<ptr<i32>>)")
    load, store = ("" if part in boxes else HINT for part in ("loads", "stores"))
    text = text.replace("weak %v_a[%x, %i]", f"weak %v_a[%other, %i] token = %counted{load}")
    text = text.replace("weak %v_b[%i, %y]", f"weak %v_b[%i, %y] token = %counted{load}")
    return text.replace("weak %sum, %v_c[%x, %y]", f"weak %sum, %v_c[%other, %y] token = %counted{store}")


def launch_last(code, metadata, seed):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((2 * M, 96), (96, N)))
    doubled, c = a.copy(), np.full((2 * M, N), -7, np.float32)
    arguments = [doubled, *a.shape, a.shape[1], b, *b.shape, b.shape[1], c, *c.shape, c.shape[1], 3]
    assert emulate(code, "k", (2, 1), [*arguments, np.zeros(1, np.int32)], metadata, seed=seed).searched_races
    product = 2 * a.astype(np.float32) @ b.astype(np.float32)
    rows = [slice(0, M), slice(M, 2 * M)]
    written = [(c[each] == product[each]).all() for each in rows]
    cleared = [(c[each] == 0).all() for each in rows]
    assert sorted(zip(written, cleared)) == [(False, True), (True, False)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("boxes", ["loads", "stores", "loads and stores"])
def test_boxes_after_a_release_of_another_tile_block(boxes, gpu, ptxas):
    artifact = compiled(last_of_two(boxes), gpu)
    assert artifact.text.count(FENCE) == boxes.count("s ") + 1
    assert (BOX + ".2d.shared" in artifact.text) == ("loads" in boxes)
    assert (BOX + ".2d.global" in artifact.text) == ("stores" in boxes)
    assemble(artifact.text, gpu)

    def judge(code, seed):
        launch_last(code, artifact.kernels[0].metadata, seed)

    assert survives(artifact.text, judge, SEEDS)
    assert not survives(artifact.text.replace(FENCE, "fence.proxy.async.shared::cta;"), judge, SEEDS)


def test_a_store_with_waiting_tile_blocks_is_made_by_threads():
    """It stands between an access that has seen releases of other tile blocks and one that releases."""
    text = last_of_two("stores")
    kind = "tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
    released = f"%more, %handed = atomic_rmw_tko release device %p_count, add, %unit token = %end : {kind}\n    }}"
    end = text.rindex("    }", 0, text.rindex("return"))
    text = text[:end] + released + text[end + len("    }") :]
    artifact = compiled(text, "sm_90", emit_remarks=True)
    reasons = causes(artifact.diagnostics)
    assert "maps.others-wait" in reasons
    assert BOX + ".2d.global" not in artifact.text
    for seed in SEEDS[:2]:
        launch_last(artifact.text, artifact.kernels[0].metadata, seed)
