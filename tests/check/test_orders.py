"""Memory that depends on an order: of tile blocks, as rounded sums behind a lock, or of the elements of a tile."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import module
from tileiras.check.checker import check
from tileiras.check.judging import varies
from tileiras.diagnostics import Diagnostic
from tileiras.sim.interpreter.machine import InterpreterError

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


EXCHANGES = """
    %lane = iota : tile<16xi32>
    %two = constant <i32: 2> : tile<16xi32>
    %place = remi %lane, %two signed : tile<16xi32>
    %one = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
    %same = broadcast %one : tile<1xptr<i32>> -> tile<16xptr<i32>>
    %at = offset %same, %place : tile<16xptr<i32>>, tile<16xi32> -> tile<16xptr<i32>>
    %old, %t = atomic_rmw_tko relaxed device %at, xchg, %lane
      : tile<16xptr<i32>>, tile<16xi32> -> tile<16xi32>, token"""


def test_elements_of_a_tile_exchange_in_any_order():
    text = module(EXCHANGES, "%out: tile<ptr<i32>>")
    items = [((1, 1, 1), [np.zeros(4, np.int32)])]
    image = tileiras.compile(text, gpu_name="sm_90").text
    assert check(text, gpu_name="sm_90", image=image, launches=items).status == "right"
    moved = re.sub(r"(atom\S*exch\S* %r\d+, \[%rd\d+)\]", r"\1+8]", image)
    assert moved != image and check(text, gpu_name="sm_90", image=moved, launches=items).status == "wrong"



def updates(count: int) -> str:
    """Each tile block updates one place, and with a `count` of 2 another one; it stores the sum of the old values."""
    second = """
    %next = offset %x, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %b, %u = atomic_rmw_tko relaxed device %next, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %sum = addi %a, %b : tile<i32>"""
    return module(f"""
    %one = constant <i32: 1> : tile<i32>
    %a, %t = atomic_rmw_tko relaxed device %x, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    {second if count == 2 else "%sum = addi %a, %a : tile<i32>"}
    %block, %y, %z = get_tile_block_id : tile<i32>
    %own = offset %out, %block : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %done = store_ptr_tko weak %own, %sum : tile<ptr<i32>>, tile<i32> -> token""",
    "%x: tile<ptr<i32>>, %out: tile<ptr<i32>>")


@pytest.mark.parametrize(("count", "status"), [(1, "wrong"), (2, "inconclusive")])
def test_updates_of_one_tile_block_may_have_others_between_them(count, status):
    """With two updates the sums of two tile blocks may be alike, which no order of whole tile blocks gives."""
    launch = ((2, 1, 1), [np.zeros(2, np.int32), np.zeros(2, np.int32)])
    image = tileiras.compile(updates(count), gpu_name="sm_90").text
    assert check(updates(count), gpu_name="sm_90", image=image, launches=[launch]).status in ("right", "inconclusive")
    other = image.replace("mov.b32 \t%r1, 1;", "mov.b32 \t%r1, 3;").replace(", 1;", ", 3;")
    assert other != image
    assert check(updates(count), gpu_name="sm_90", image=other, launches=[launch]).status == status


def test_no_order_of_warps_is_begun_after_the_budget():
    """The first launch has one all the same, and the verdict names the orders that it had."""
    grid, arguments = (1, 1, 1), [np.ones(64, np.float32), np.zeros(64, np.float32), np.zeros(1, np.int32)]
    verdict = check(SOURCE, gpu_name="sm_90", image=ptx(), launches=[(grid, arguments)], budget=0)
    (launch,) = verdict.launches
    assert launch.status == "right" and launch.seeds == (None,)
    assert sum("the time is up" in each.message for each in verdict.findings) == 2


def test_an_order_in_which_the_program_has_an_error_is_left_out():
    reference = SimpleNamespace(machine=SimpleNamespace(grid=(2, 1, 1), repeats_places=False,
                                                        updates=SimpleNamespace(interleave=False)),
                                arguments=[np.array([1, 2], np.int32)])  # fmt: skip

    def again(order):
        if list(order.blocks) == [1, 0]:
            raise InterpreterError(Diagnostic.note(None, "an undefined value as an address"))
        return SimpleNamespace(arguments=[np.array([1, 3], np.int32)])

    varying = varies(reference, again, 0, np.array([1, 3], np.int32))
    assert varying.differing.tolist() == [False, True] and varying.explained.tolist() == [False, True]
