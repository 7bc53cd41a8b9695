"""Division of many elements by one divisor, computed with one reciprocal, is rounded as any division is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.views import Kernel, View, entry, of_rows
from tileiras.sim import emulate

ROWS, COLUMNS = 32, 1024

ELEMENTS = {np.float32: "f32", np.float16: "f16", np.int32: "i32", np.int8: "i8"}
CONVERSIONS = {"f16": "ftof %x", "i32": "itof %x signed", "i8": "itof %x signed"}


def quotients(dividends: np.ndarray, divisors: np.ndarray) -> Kernel:
    """Each row, converted to f32, over its divisor."""
    rows, columns = dividends.shape
    element = ELEMENTS[dividends.dtype.type]
    x, y = View("x", (8, columns), element, (rows, columns)), View("y", (8, columns), "f32", (rows, columns))
    d = View("d", (8,), "f32", (rows,))
    body = [
        "%i, %j, %k = get_tile_block_id : tile<i32>",
        x.load("x", "%i, %zero"),
        d.load("d", "%i"),
        of_rows("all", "d", (8, columns)),
        *([f"%w = {CONVERSIONS[element]} : {x.tile} -> {y.tile}"] if element in CONVERSIONS else []),
        f"%q = divf %{'w' if element in CONVERSIONS else 'x'}, %all rounding<nearest_even> : {y.tile}",
        y.store("q", "%i, %zero"),
    ]
    with np.errstate(all="ignore"):
        wanted = dividends.astype(np.float32) / divisors[:, None]
    outputs = (np.zeros((rows, columns), np.float32),)
    return Kernel(entry([x, d, y], body), (dividends, divisors), outputs, (wanted,), grid=rows // 8)


def floats(seed: int, count: int, least: int = 0, most: int = 255) -> np.ndarray:
    """Floats of all signs, with exponent fields in a range."""
    generator = np.random.default_rng(seed)
    fields = generator.integers(least, most, count, endpoint=True).astype(np.uint32)
    bits = fields << 23 | generator.integers(0, 1 << 23, count).astype(np.uint32)
    return (bits | generator.integers(0, 2, count).astype(np.uint32) << 31).view(np.float32)


EDGES = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x0C800000, 0x0C7FFFFF, 0x3F800000, 0x3FFFFFFF, 0x7F7FFFFF, 0x7F800000,
     0x7FC00000],
    np.uint32,
)  # fmt: skip
"""Zero, the least and the largest numbers of each kind, around 2^-102, infinity, NaN."""


def check_bits(dividends: np.ndarray, divisors: np.ndarray, gpu_name: str) -> None:
    """Emulated quotients are IEEE 754's, with the signs of zeros, for either neighbour of each reciprocal."""
    kernel = quotients(dividends, divisors)
    artifact = kernel.check(gpu_name)
    assert "rcp.approx" in artifact.text
    (wanted,) = kernel.expected
    known = ~np.isnan(wanted)
    for farther in (False, True):
        (result,) = (array.copy() for array in kernel.outputs)
        emulate(
            artifact.text, "k", kernel.grid, [*kernel.inputs, result], metadata=artifact.kernels[0].metadata,
            farther=farther,
        )  # fmt: skip
        assert np.array_equal(result[known].view(np.uint32), wanted[known].view(np.uint32))
        assert np.isnan(result[~known]).all()


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
def test_moderate_numbers(gpu_name):
    check_bits(floats(0, ROWS * COLUMNS, 90, 160).reshape(ROWS, COLUMNS), np.abs(floats(1, ROWS, 90, 160)), gpu_name)


def test_divisors_of_any_size():
    check_bits(floats(2, ROWS * COLUMNS, 100, 150).reshape(ROWS, COLUMNS), floats(3, ROWS), "sm_90")


@pytest.mark.parametrize("least, most", [(0, 255), (0, 90), (170, 255)])
def test_dividends_of_any_size(least, most):
    dividends = floats(4, ROWS * COLUMNS, least, most).reshape(ROWS, COLUMNS)
    check_bits(dividends, np.abs(floats(5, ROWS, 67, 187)), "sm_90")


def test_one_dividend_of_a_thread_at_a_limit():
    """The others leave the decision to it."""
    dividends = floats(6, ROWS * COLUMNS, 120, 130).reshape(ROWS, COLUMNS)
    dividends[:, ::8] = np.resize(EDGES.view(np.float32), (ROWS, COLUMNS // 8))
    dividends[::2] *= -1
    check_bits(dividends, np.abs(floats(7, ROWS, 66, 188)), "sm_90")


def test_significands_next_to_powers_of_two():
    """Quotients closest to the middle of two floats."""
    ones = np.uint32(0x3F800000)
    near = ones + np.r_[np.arange(COLUMNS // 2), (1 << 23) - 1 - np.arange(COLUMNS // 2)].astype(np.uint32)
    divisors = ones + np.r_[np.arange(ROWS // 2), (1 << 23) - 1 - np.arange(ROWS // 2)].astype(np.uint32)
    check_bits(np.tile(near.view(np.float32), (ROWS, 1)), divisors.view(np.float32), "sm_90")


def test_a_divisor_for_each_element_is_not_shared():
    text = quotients(np.ones((8, 4), np.float32), np.ones(8, np.float32)).compiled("sm_90").text
    assert "rcp.approx" not in text


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_dividends_of_every_f16(gpu_name):
    """All 65,536 in places that vary, and all but infinities and NaN: half of the threads find none."""
    every = np.arange(1 << 16, dtype=np.uint16)
    mixed = np.random.default_rng(8).permutation(every)[: ROWS * COLUMNS // 2]
    finite = np.resize(every[(every & 0x7C00) != 0x7C00], ROWS * COLUMNS // 2)
    dividends = np.concatenate([mixed, finite]).view(np.float16).reshape(ROWS, COLUMNS)
    check_bits(dividends, np.abs(floats(9, ROWS, 66, 188)), gpu_name)


@pytest.mark.parametrize("type", [np.int8, np.int32])
def test_dividends_of_integers(type):
    limits = np.iinfo(type)
    dividends = np.random.default_rng(10).integers(limits.min, limits.max, (ROWS, COLUMNS), type, endpoint=True)
    check_bits(dividends, np.abs(floats(11, ROWS, 66, 188)), "sm_90")
