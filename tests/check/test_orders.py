"""Memory that depends on the order of tile blocks: rounded sums behind a lock."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tileiras.check.checker import check

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "kernels" / "spin_lock.mlir"


@functools.cache
def ptx() -> str:
    return tileiras.compile(SOURCE, gpu_name="sm_90").text


@pytest.mark.parametrize("seeds", [(0, 1, 2, 3), (4, 5, 6, 7)])
def test_sums_in_the_order_of_a_lock_are_right_in_each_order(seeds):
    """Of four tile blocks few orders give some of the elements another value."""
    verdict = check(SOURCE, gpu_name="sm_90", image=ptx(), seeds=seeds)
    assert verdict.status == "right", str(verdict)


def test_wrong_sums_behind_a_lock_are_found():
    assert ptx().count("add.rn.f32")
    verdict = check(SOURCE, gpu_name="sm_90", image=ptx().replace("add.rn.f32", "add.rz.f32"))
    assert verdict.status == "wrong"


def test_no_order_of_warps_is_begun_after_the_budget():
    """The first launch has one all the same, and the verdict names the orders that it had."""
    grid, arguments = (1, 1, 1), [np.ones(64, np.float32), np.zeros(64, np.float32), np.zeros(1, np.int32)]
    verdict = check(SOURCE, gpu_name="sm_90", image=ptx(), given=[(grid, arguments)], budget=0)
    (launch,) = verdict.launches
    assert launch.status == "right" and launch.seeds == (None,)
    assert sum("the time is up" in each.message for each in verdict.findings) == 2
