"""Code for the processor in checks: judged itself, and as a further opinion on large launches."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import rows
from tileiras.check import checker, judging
from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")

SAXPY = "examples/saxpy.mlir"
COUNT = 3 * 1024
ARGUMENTS = [np.arange(COUNT, dtype=np.float32), np.ones(COUNT, np.float32), np.float32(2), np.int32(COUNT)]


@pytest.fixture
def mistaken(monkeypatch):
    """Code for the processor that changes an element."""
    honest = checker.on_cpu

    def wrong(*given):
        image = honest(*given)

        def run(grid, arguments):
            result = image.run(grid, arguments)
            arguments[1].reshape(-1)[:1] += 1
            return result

        return dataclasses.replace(image, run=run)

    monkeypatch.setattr(checker, "on_cpu", wrong)


def test_code_for_the_processor_is_judged():
    verdict = tileiras.check(SAXPY, gpu_name="cpu", budget=5)
    assert verdict.status == "right" and len(verdict.launches) > 3


def test_wrong_code_for_the_processor_is_found(mistaken):
    verdict = tileiras.check(SAXPY, gpu_name="cpu", budget=5)
    assert verdict.status == "wrong" and any("argument 1 differs" in each.message for each in verdict.findings)


def judged(monkeypatch, least: int) -> str:
    monkeypatch.setattr(judging, "LARGE", least)
    monkeypatch.setattr("tileiras.check.launches.MOST", 0)
    items = [((3,), [value.copy() if isinstance(value, np.ndarray) else value for value in ARGUMENTS])]
    verdict = tileiras.check(SAXPY, gpu_name="sm_80", launches=items, budget=0, seeds=(None,))
    return verdict.status + "".join(each.message[:26] for each in verdict.findings if each.kind == "value")


def test_large_launches_have_a_further_opinion(monkeypatch, mistaken):
    assert judged(monkeypatch, 1) == "wrongcompiled for the processor"
    assert judged(monkeypatch, 1 << 20) == "right"


def test_the_further_opinion_is_the_same(monkeypatch):
    assert judged(monkeypatch, 1) == "right"


RACE = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %own: tile<ptr<i32>>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %place = offset %own, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %t0 = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token
    %t1 = store_ptr_tko weak %place, %x : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""


@pytest.mark.parametrize(("place", "status"), [(0, "fault-of-program"), (1, "wrong")])
def test_a_race_of_tile_blocks_is_the_programs(monkeypatch, place, status):
    """Two tile blocks store to one element: each order of them is right; elements of one block have one value."""
    honest = checker.on_cpu

    def otherwise(*given):
        def run(grid, arguments):
            count = grid[0]
            arguments[0][0], arguments[1][:count] = count - 1, range(count)
            arguments[place][0] = 0 if place == 0 else 1
            return ""

        return dataclasses.replace(honest(*given), run=run)

    monkeypatch.setattr(checker, "on_cpu", otherwise)
    monkeypatch.setattr("tileiras.check.launches.MOST", 0)
    launch = ((2,), [np.full(1, -1, np.int32), np.full(2, -1, np.int32)])
    assert tileiras.check(RACE, gpu_name="cpu", launches=[launch], budget=5).status == status


def test_a_check_drops_the_output_of_kernels(capfd):
    text = rows('print_tko "value %f\\n", %value : tile<4xf32> -> token\n    %result = negf %value : tile<4xf32>', 4)
    assert tileiras.check(text, gpu_name="cpu").status == "right"
    assert capfd.readouterr().out == ""
