"""Several updates by one thread, between fences: stores before them are visible to tile blocks that update later."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.agents.running import survives
from tileiras.codegen import ptxas as assembler
from tileiras.sim import emulate

SIZE, BLOCKS, WARPS = 256, 2, 4
SEEDS = (None, 0, 1, 2)
FENCE = re.compile(r"fence\.acq_rel\.gpu;")


def last_one(order: str = "acq_rel") -> str:
    """Each block writes its row of %data and counts itself, element by element; for elements at which it is the last
    one, it puts the sum of both rows in %out."""
    pointers, tile = f"tile<{SIZE}xptr<i32>>", f"tile<{SIZE}xi32>"

    def spread(name: str, base: str, place: str) -> str:
        return f"""
    %{name}_1 = reshape {base} : tile<ptr<i32>> -> tile<1xptr<i32>>
    %{name}_b = broadcast %{name}_1 : tile<1xptr<i32>> -> {pointers}
    %{name} = offset %{name}_b, {place} : {pointers}, {tile} -> {pointers}"""

    def wide(name: str, scalar: str) -> str:
        return f"""
    %{name}_1 = reshape {scalar} : tile<i32> -> tile<1xi32>
    %{name} = broadcast %{name}_1 : tile<1xi32> -> {tile}"""

    return f"""cuda_tile.module @m {{
  entry @k(%data: tile<ptr<i32>>, %counts: tile<ptr<i32>>, %out: tile<ptr<i32>>) {{
    %lane = iota : {tile}
    %x, %y, %z = get_tile_block_id : tile<i32>
    %size = constant <i32: {SIZE}> : tile<i32>
    %one = constant <i32: 1> : {tile}
    %single = constant <i32: 1> : tile<i32>
    %start = muli %x, %size : tile<i32>
    %opposite = subi %single, %x : tile<i32>
    %other = muli %opposite, %size : tile<i32>
    {wide("starts", "%start")}
    {wide("others", "%other")}
    %place = addi %lane, %starts : {tile}
    %there = addi %lane, %others : {tile}
    {spread("own", "%data", "%place")}
    {spread("far", "%data", "%there")}
    {spread("count", "%counts", "%lane")}
    {spread("result", "%out", "%lane")}
    %value = addi %place, %one : {tile}
    %t0 = store_ptr_tko weak %own, %value : {pointers}, {tile} -> token
    %before, %t1 = atomic_rmw_tko {order} device %count, add, %one token=%t0 : {pointers}, {tile} -> {tile}, token
    %last = cmpi equal %before, %one, signed : {tile} -> tile<{SIZE}xi1>
    %nothing = constant <i32: 0> : {tile}
    %theirs, %t2 = load_ptr_tko weak %far, %last, %nothing token=%t1
      : {pointers}, tile<{SIZE}xi1>, {tile} -> {tile}, token
    %sum = addi %theirs, %value : {tile}
    %t3 = store_ptr_tko weak %result, %sum, %last token=%t2 : {pointers}, {tile}, tile<{SIZE}xi1> -> token
    return
  }}
}}
"""


def judge(code: str, seed: int | None) -> None:
    data, counts, out = np.zeros(BLOCKS * SIZE, np.int32), np.zeros(SIZE, np.int32), np.zeros(SIZE, np.int32)
    assert emulate(code, "k", BLOCKS, [data, counts, out], seed=seed).searched_races
    place = np.arange(SIZE)
    np.testing.assert_array_equal(out, place + 1 + place + SIZE + 1)
    np.testing.assert_array_equal(counts, BLOCKS)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_neither_fence_is_superfluous(gpu, ptxas):
    code = tileiras.compile(last_one(), gpu_name=gpu, num_warps=WARPS).text
    assembler.assemble(code, gpu)
    fences = list(FENCE.finditer(code))
    assert len(fences) == 2 and code.count("atom.relaxed.gpu") == SIZE // (32 * WARPS)
    assert survives(code, judge, SEEDS)
    assert not any(survives(code[: each.start()] + code[each.end() :], judge, SEEDS) for each in fences)


def test_relaxed_updates_order_nothing():
    assert not survives(tileiras.compile(last_one("relaxed"), gpu_name="sm_90", num_warps=WARPS).text, judge, SEEDS)
