"""Values that a program leaves undetermined, since it orders no two accesses of its tile blocks."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import module
from tileiras.check.tracking import TrackedMemory


def stores(*elements: list[int]) -> tuple[TrackedMemory, int]:
    """Memory in which each tile block has stored f32 elements of one array, and the array's address."""
    memory = TrackedMemory()
    address = memory.allocate(np.zeros(64, np.float32))
    memory.watching = True
    for number, own in enumerate(elements):
        memory.block_id = (number, 0, 0)
        memory.store(address + 4 * np.array(own), np.ones(len(own), np.float32))
    memory.watching = False
    return memory, address


@pytest.mark.parametrize(
    "elements, cells",
    [
        ([[0, 1], [2, 3]], []), ([[0, 1], [1, 2]], [0]), ([[4, 7], [7, 8]], [1]), ([[4, 4], [8]], [1]),
        ([[0, 1, 2, 3], [4, 5, 6, 7], [7]], [1]),
    ],
    ids=["neighbours", "one element", "the end of a cell", "twice in one store", "the third block"],
)  # fmt: skip
def test_conflicts_are_of_one_element(elements, cells):
    memory, address = stores(*elements)
    assert [cell for cell in range(16) if memory.conflicts_at(address + 16 * cell)] == cells
    undetermined = np.flatnonzero(memory.order.races(memory.find(address), 4))
    assert sorted({int(element) // 4 for element in undetermined}) == cells


def test_neighbouring_elements_do_not_conflict():
    """Cells of the race checker may be as small as an element."""
    memory, address = stores([0, 1], [2, 3], [4])
    assert not any(memory.conflicts_at(address + byte) for byte in range(256))


@pytest.mark.parametrize("scope, status", [("tl_blk", "fault-of-program"), ("device", "right")])
def test_updates_within_a_tile_block_order_no_tile_blocks(scope, status):
    body = f"""
    %one = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko relaxed {scope} %x, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token"""
    launch = ((2, 1, 1), [np.zeros(1, np.int32)])
    text = module(body, "%x: tile<ptr<i32>>")
    assert tileiras.check(text, gpu_name="sm_90", launches=[launch]).status == status
