"""Loads that run ahead of arithmetic, in places of each thread and through the loop around: right in every order of
warps, wrong without any wait, and as written where a rule does not hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.machine_code import assemble
from tileiras.diagnostics.remarks import remarks_of
from tileiras.sim.errors import SimulationError

COPY = "cp.async.cg"
SEEDS = (None, 0, 1)
COLUMNS = 1024
HINTED = {gpu: f"optimization_hints = <{gpu} = {{latency = 3}}>" for gpu in ("sm_80", "sm_90", "sm_100", "sm_120")}


def sums(rows: int = 32, again: bool = False, stored: bool = False) -> str:
    """Sums down the columns of an m x n array of f32, tile by tile, and with `again` of squares beside it; `stored`:
    the sums so far are stored in the place of their elements."""
    view = "tensor_view<?x?xf32, strides=[?,1]>"
    tiles = f"partition_view<tile=({rows}x{COLUMNS}), padding_value = zero, {view}>"
    tile, out = f"tile<{rows}x{COLUMNS}xf32>", f"partition_view<tile=({COLUMNS}), tensor_view<?xf32, strides=[1]>>"
    load = f"load_view_tko weak %tiles[%i, %j]{' token = %t' if stored else ''} : {tiles}, tile<i32>"
    squares = (
        f"""%s, %u = load_view_tko weak %tiles[%i, %j] : {tiles}, tile<i32> -> {tile}, token
        %square = mulf %s, %s : {tile}
        %more = addf %next, %square : {tile}"""
        if again
        else ""
    )
    body = f"""%x, %read = {load} -> {tile}, token
        %next = addf %sum, %x : {tile}
        {squares}
        {
        f"%done = store_view_tko weak %next, %tiles[%i, %j] token = %read : {tile}, {tiles}, tile<i32> -> token"
        if stored
        else ""
    }
        continue {"%more" if again else "%next"}{", %done" if stored else ""} : {tile}{", token" if stored else ""}"""
    begin = f"%sum = %zero{', %t = %start' if stored else ''}"
    results = f"{tile}{', token' if stored else ''}"
    return f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %steps: tile<i32>) {{
        %x0 = assume div_by<16>, %p : tile<ptr<f32>>
        %y0 = assume div_by<16>, %q : tile<ptr<f32>>
        %mb = assume bounded<0, ?>, %m : tile<i32>
        %nb = assume bounded<0, ?>, %n : tile<i32>
        %nd = assume div_by<16>, %nb : tile<i32>
        %a = make_tensor_view %x0, shape = [%mb, %nd], strides = [%nd, 1] : tile<i32> -> {view}
        %b = make_tensor_view %y0, shape = [%nd], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
        %tiles = make_partition_view %a : {tiles}
        %to = make_partition_view %b : {out}
        %null = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %j, %none, %nothing = get_tile_block_id : tile<i32>
        %zero = constant <f32: 0.0> : {tile}
        {"%start = make_token : token" if stored else ""}
        %all{":2" if stored else ""} = for %i in (%null to %steps, step %one) : tile<i32>
          iter_values({begin}) -> ({results}) {{
        {body}
        }}
        %column = reduce %all{"#0" if stored else ""} dim=0 identities=[0.0 : f32] : {tile} -> tile<{COLUMNS}xf32>
          (%l : tile<f32>, %r : tile<f32>) {{
            %both = addf %l, %r : tile<f32>
            yield %both : tile<f32>
          }}
        %end = store_view_tko weak %column, %to[%j] : tile<{COLUMNS}xf32>, {out}, tile<i32> -> token
        return
      }} }}"""


def scaled(tiles: int, hint: str = "") -> str:
    """Y[r] = X[r] times the sum of the row, of m x n arrays of f32: each tile block takes pairs of rows at a fixed
    stride, and reads them in `tiles` pieces for the sum and again for the results; `hint`: of both loads."""
    view = "tensor_view<?x?xf32, strides=[?,1]>"
    tiles_of = f"partition_view<tile=(2x{COLUMNS}), padding_value = zero, {view}>"
    tile, pair = f"tile<2x{COLUMNS}xf32>", "tile<2x1xf32>"
    load = f"load_view_tko weak %from[%i, %j] {hint} : {tiles_of}, tile<i32> -> {tile}, token"
    return f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %pairs: tile<i32>) {{
        %x0 = assume div_by<16>, %p : tile<ptr<f32>>
        %y0 = assume div_by<16>, %q : tile<ptr<f32>>
        %mb = assume bounded<0, ?>, %m : tile<i32>
        %nb = assume bounded<0, ?>, %n : tile<i32>
        %nd = assume div_by<16>, %nb : tile<i32>
        %a = make_tensor_view %x0, shape = [%mb, %nd], strides = [%nd, 1] : tile<i32> -> {view}
        %b = make_tensor_view %y0, shape = [%mb, %nd], strides = [%nd, 1] : tile<i32> -> {view}
        %from = make_partition_view %a : {tiles_of}
        %to = make_partition_view %b : {tiles_of}
        %null = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %tiles = constant <i32: {tiles}> : tile<i32>
        %first, %b1, %b2 = get_tile_block_id : tile<i32>
        %count, %c1, %c2 = get_num_tile_blocks : tile<i32>
        %zero = constant <f32: 0.0> : {pair}
        for %i in (%first to %pairs, step %count) : tile<i32> {{
          %sum = for %j in (%null to %tiles, step %one) : tile<i32> iter_values(%s = %zero) -> ({pair}) {{
            %x, %t = {load}
            %part = reduce %x dim=1 identities=[0.0 : f32] : {tile} -> tile<2xf32> (%l : tile<f32>, %r : tile<f32>) {{
              %both = addf %l, %r : tile<f32>
              yield %both : tile<f32>
            }}
            %column = reshape %part : tile<2xf32> -> {pair}
            %more = addf %s, %column : {pair}
            continue %more : {pair}
          }}
          %factor = broadcast %sum : {pair} -> {tile}
          for %j in (%null to %tiles, step %one) : tile<i32> {{
            %x, %t = {load}
            %y = mulf %x, %factor : {tile}
            %end = store_view_tko weak %y, %to[%i, %j] : {tile}, {tiles_of}, tile<i32> -> token
            continue
          }}
          continue
        }}
        return
      }} }}"""


def launch(
    artifact, m: int, n: int, steps: int, seed, again: bool = False, stored: bool = False, code: str | None = None
) -> None:
    x = np.random.default_rng(0).integers(-8, 8, (m, n)).astype(np.float32)
    y = np.full(n, 7, np.float32)
    before, rows = x.copy(), 32 * steps
    tileiras.sim.emulate(
        artifact.text if code is None else code, "k", (-(-n // COLUMNS),), [x, y, m, n, steps],
        artifact.kernels[0].metadata, seed=seed,
    )  # fmt: skip
    expected = before[:rows].sum(0) + ((before[:rows] ** 2).sum(0) if again else 0)
    np.testing.assert_array_equal(y, expected)
    if stored:
        np.testing.assert_array_equal(x, before.reshape(steps, 32, n).cumsum(0).reshape(m, n))


def launch_rows(artifact, pairs: int, n: int, seed) -> None:
    x = np.random.default_rng(1).integers(-8, 8, (2 * pairs + 1, n)).astype(np.float32)
    y = np.full_like(x, 7)
    tileiras.sim.emulate(
        artifact.text, "k", (3,), [x, y, 2 * pairs, n, pairs], artifact.kernels[0].metadata, seed=seed
    )
    np.testing.assert_array_equal(y[:-1], (x * x.sum(1, keepdims=True))[:-1])
    assert (y[-1] == 7).all()


def compiled(text: str, gpu: str = "sm_90", **options):
    return tileiras.compile(text, gpu_name=gpu, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_copies_run_on_through_the_slices_of_a_tile(gpu, ptxas):
    artifact = compiled(sums(), gpu, emit_remarks=True)
    result = [each for each in remarks_of(artifact.diagnostics) if each.name == "RemarkLoopPipeline"]
    assert COPY in artifact.text and len(result) == 1
    inner = artifact.text.partition("cp.async.wait_group")[2].partition("bra")[0]
    assert "bar.sync" not in inner  # no thread waits for copies of others
    assemble(artifact.text, gpu)
    for steps in (0, 1, 2, 3):
        launch(artifact, 32 * steps + 16, 1056, steps, seed=steps)
    for seed in SEEDS[:2]:
        launch(artifact, 70, 1040, 3, seed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stages", [2, 3, 4, 6])
def test_every_depth_of_the_ring(stages):
    artifact = compiled(sums(), pipeline_strategy="unspecialize", unspecialized_pipeline_num_stages=stages)
    assert f"cp.async.wait_group \t{stages - 2};" in artifact.text
    for steps in (0, 1, 2, 4):
        launch(artifact, 128, COLUMNS, steps, seed=1)


def test_no_wait_is_superfluous():
    artifact = compiled(sums())
    lines = artifact.text.splitlines()
    result = [n for n, line in enumerate(lines) if re.search(r"cp\.async\.(wait|commit)_group", line)]
    assert len(result) == 4
    for number in result:
        broken = "\n".join(lines[:number] + lines[number + 1 :])
        with pytest.raises((AssertionError, SimulationError)):
            for seed in SEEDS[:2]:
                launch(artifact, 96, COLUMNS, 3, seed, code=broken)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_rows_that_are_read_twice_are_loaded_once_and_ahead(gpu, ptxas):
    """A loop over the tiles of a row that is one tile does not hide that both of its readings are one."""
    artifact = compiled(scaled(1), gpu, emit_remarks=True)
    result = [each.name for each in remarks_of(artifact.diagnostics)]
    assert COPY in artifact.text and "ld.global" not in artifact.text
    assert result.count("RemarkLoopPipeline") == result.count("RemarkMemoryLoadReused") == 1
    assemble(artifact.text, gpu)
    for pairs in (0, 1, 2, 7, 12):
        launch_rows(artifact, pairs, COLUMNS, seed=pairs)
    for seed in SEEDS[:2]:
        launch_rows(artifact, 9, COLUMNS - 16, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_both_loops_over_a_row_run_ahead(gpu, ptxas):
    """Copies of the next row are on their way for one while the other reads this row."""
    artifact = compiled(scaled(2, HINTED[gpu]), gpu)
    assert COPY in artifact.text and "ld.global" not in artifact.text
    assemble(artifact.text, gpu)
    for pairs in (0, 1, 5, 9):
        launch_rows(artifact, pairs, 2 * COLUMNS - 16, seed=pairs)
    launch_rows(compiled(scaled(3, HINTED[gpu]), gpu, unspecialized_pipeline_num_stages=4), 7, 3 * COLUMNS, 2)


def test_no_wait_of_two_loops_is_superfluous():
    """With fewer tiles than stages, the waits of one loop would be enough for both."""
    artifact = compiled(scaled(4, HINTED["sm_90"]))
    lines = artifact.text.splitlines()
    waits = [n for n, line in enumerate(lines) if "cp.async.wait_group" in line]
    assert len(waits) == 2
    for number in waits:
        artifact.data = "\n".join(lines[:number] + lines[number + 1 :]).encode()
        with pytest.raises((AssertionError, SimulationError)):
            for seed in SEEDS[:2]:
                launch_rows(artifact, 6, 4 * COLUMNS, seed)


def test_rows_of_several_tiles_are_loaded_twice_without_a_hint():
    """The second reading finds them in L1, which copies go past."""
    artifact = compiled(scaled(2))
    assert COPY not in artifact.text and "ld.global" in artifact.text
    launch_rows(artifact, 5, 2 * COLUMNS, 0)


def test_an_array_that_is_also_loaded_elsewhere_stays():
    """The second loop reads the first row of its tile block, which is the same tile in each iteration around it."""
    text = scaled(2, HINTED["sm_90"])
    before, result, after = text.rpartition("%from[%i, %j]")
    assert COPY in compiled(text).text and COPY not in compiled(f"{before}%from[%first, %j]{after}").text


def test_a_tile_that_is_loaded_twice_is_copied_once():
    artifact = compiled(sums(again=True))
    assert artifact.text.count(COPY) == compiled(sums()).text.count(COPY) and "ld.global" not in artifact.text
    launch(artifact, 70, 1040, 3, 0, again=True)


REFUSED = {"one stage": {}, "a store in the loop": {"stored": True}}


@pytest.mark.parametrize("name", REFUSED)
def test_loads_stay_where_they_stand(name):
    options = {"pipeline_strategy": "unspecialize", "unspecialized_pipeline_num_stages": 1}
    kernel = REFUSED[name]
    artifact = compiled(sums(**kernel), **({} if kernel else options))
    assert COPY not in artifact.text
    launch(artifact, 96, COLUMNS, 3, 0, **kernel)
