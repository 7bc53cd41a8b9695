"""Arrays with elements past 2^31 and bytes past 2^32; the system maps only pages that are touched."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tileiras
from tests.kernels.views import View, entry
from tileiras.sim import EmulationError, emulate, interpret

LENGTH = 2**32 + 2**20
FAR = (2**31 + 11) // 64, 2**32 // 64 + 3
"""Tiles of 64 elements behind 2^31 elements, and behind 2^32 bytes."""
LIMIT = LENGTH >> 5
COLUMN = """cuda_tile.module @m { entry @k(%a: tile<ptr<i32>>) {
    %n, %y, %z = get_tile_block_id : tile<i32>
    %row = constant <i32: 16384> : tile<i32>
    %five = constant <i32: 5> : tile<i32>
    %o = muli %n, %row : tile<i32>
    %at = addi %o, %five : tile<i32>
    %p = offset %a, %at : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %x, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %s = addi %x, %n : tile<i32>
    %u = store_ptr_tko weak %p, %s token = %t : tile<ptr<i32>>, tile<i32> -> token
    return
} }
"""


@pytest.fixture
def array():
    try:
        return np.zeros(LENGTH, np.int8)
    except MemoryError:
        pytest.skip("this system maps no more than it has")


@pytest.fixture
def taken():
    """The most bytes that were allocated at one time."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def source(array: np.ndarray) -> str:
    """A tile block adds its number and 2 to one tile, and stores the sum as another one."""
    view = View("a", (64,), "i8", array.shape)
    return entry([view], [
        *(f"%{name} = constant <i32: {index}> : tile<i32>" for name, index in zip(("from", "to"), FAR)),
        view.load("x", "%from"),
        "%n, %y, %z = get_tile_block_id : tile<i32>", "%two = constant <i32: 2> : tile<i32>",
        "%m = addi %n, %two : tile<i32>", "%b = trunci %m : tile<i32> -> tile<i8>",
        "%r = reshape %b : tile<i8> -> tile<1xi8>", "%t = broadcast %r : tile<1xi8> -> tile<64xi8>",
        "%s = addi %x, %t : tile<64xi8>",
        view.store("s", "%to"),
    ])  # fmt: skip


def fill(array: np.ndarray) -> None:
    array[FAR[0] * 64 : FAR[0] * 64 + 64] = np.arange(64)


def result(array: np.ndarray) -> list[int]:
    return array[FAR[1] * 64 - 1 : FAR[1] * 64 + 65].tolist()


@pytest.mark.parametrize("tensor_maps", ["none", "host"])
def test_emulator_reaches_far_bytes_in_little_memory(array, taken, tensor_maps):
    compiled = tileiras.compile(source(array), gpu_name="sm_90", emit="ptx", tensor_maps=tensor_maps)
    fill(array)
    tracemalloc.reset_peak()
    emulate(compiled.text, "k", 1, [array], compiled.kernels[0].metadata)
    assert result(array) == [0, *(np.arange(64) + 2), 0]
    assert taken() < LIMIT


def test_emulator_tells_a_race_on_far_bytes(array, taken):
    compiled = tileiras.compile(source(array), gpu_name="sm_80", emit="ptx")
    tracemalloc.reset_peak()
    with pytest.raises(EmulationError, match="race on address"):
        emulate(compiled.text, "k", 2, [array], compiled.kernels[0].metadata)
    assert taken() < LIMIT


def test_interpreter_reaches_far_bytes_in_little_memory(array, taken):
    module = tileiras.parse(source(array))
    fill(array)
    tracemalloc.reset_peak()
    assert interpret(module, "k", 1, [array]) == {}
    assert result(array) == [0, *(np.arange(64) + 2), 0]
    assert taken() < LIMIT


def test_a_column_takes_the_pages_that_it_touches(taken):
    """Of a matrix of 256 MiB: a granule of each of 4,096 rows."""
    array = np.zeros((4096, 16384), np.int32)
    ptx = tileiras.compile(COLUMN, gpu_name="sm_80", emit="ptx")
    before = taken()
    tracemalloc.reset_peak()
    emulate(ptx.text, "k", 4096, [array], ptx.kernels[0].metadata)
    assert (array[:, 5] == np.arange(4096)).all() and not array[:, 4].any()
    assert taken() - before < array.nbytes >> 2
