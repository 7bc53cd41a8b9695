"""Layouts of operands in shared memory against the emulator's reading of matrix descriptors, which is its own, written
from the ISA."""

from __future__ import annotations

import numpy as np
import pytest

from tileiras.layout import LinearLayout
from tileiras.layout.matrix_descriptor import byte_offset, describe, matrix_layout
from tileiras.sim.emulator.matrix_descriptor import Operand, _addresses, decode_descriptor

PTX_TYPES = {8: "s8", 16: "f16", 32: "tf32"}

CASES = [
    (bits, major, rows, k)
    for bits, depths in ((16, (16, 32, 64, 128)), (8, (32, 64, 128, 256)), (32, (8, 16, 32, 64)))
    for major in (("k", "mn") if bits == 16 else ("k",))
    for rows in (8, 16, 32, 64, 128, 256)
    for k in depths
]


@pytest.mark.parametrize("k_axis", [0, 1])
@pytest.mark.parametrize(("bits", "major", "rows", "k"), CASES)
def test_a_descriptor_finds_every_element(bits, major, rows, k, k_axis):
    """The parts that instructions read, of 32 bytes along K and up to 64 rows."""
    shape = (k, rows) if k_axis == 0 else (rows, k)
    layout = matrix_layout(shape, k_axis, bits, major)
    found = describe(layout, k_axis, bits)
    assert found.major == major
    places = np.arange(rows * k).reshape(shape)
    memory = np.zeros(rows * k, np.int64)
    for offset in range(layout.size):
        memory[offset] = places[layout.coordinates(layout.apply(offset=offset))]
    depth, height = 256 // bits, min(rows, 64)
    for first in range(0, rows, height):
        for step in range(0, k, depth):
            corner = (step, first) if k_axis == 0 else (first, step)
            word = found.constant + (byte_offset(layout, corner, bits) >> 4)
            operand = Operand(PTX_TYPES[bits], height, depth, major == "mn")
            lines = depth if operand.transposed else height
            units = _addresses(operand, decode_descriptor(word)).astype(np.int64).reshape(lines, -1)
            # Elements of each unit of 16 bytes, along the contiguous dimension.
            elements = (units[..., None] * 8 // bits + np.arange(128 // bits)).reshape(units.shape[0], -1)
            part = places[tuple(slice(at, at + n) for at, n in zip(corner, _extent(k_axis, depth, height)))]
            wanted = part if (major == "k") == (k_axis == 1) else part.T
            assert np.array_equal(memory[elements], wanted)


def _extent(k_axis, depth, height):
    return (depth, height) if k_axis == 0 else (height, depth)


def test_other_layouts_have_no_descriptor():
    assert describe(LinearLayout.identity("offset", 4096, shape=(64, 64)), 1, 16) is None


@pytest.mark.parametrize("shape", [(4, 64), (64, 4)])
def test_short_operands_have_no_layout(shape):
    with pytest.raises(ValueError, match="no operand of a matrix descriptor"):
        matrix_layout(shape, 1, 16, "k")
