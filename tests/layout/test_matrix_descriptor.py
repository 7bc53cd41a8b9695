"""Layouts of operands in shared memory against the emulator's reading of matrix descriptors, which is its own, written
from the ISA."""

from __future__ import annotations

import numpy as np
import pytest

from tileiras.layout import LinearLayout
from tileiras.layout.matrix_descriptor import NoDescriptor, byte_offset, describe, matrix_layout
from tileiras.reasons import Reason
from tileiras.sim.emulator.tensor_core.matrix_descriptor import Operand, _addresses, decode_descriptor
from tileiras.sim.emulator.tensor_core.tcgen05_operands import Matrix, unit_addresses
from tileiras.sim.emulator.tensor_core.tcgen05_operands import decode_descriptor as decode_tcgen05

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
    result = describe(layout, k_axis, bits)
    assert result.major == major
    places = np.arange(rows * k).reshape(shape)
    memory = np.zeros(rows * k, np.int64)
    for offset in range(layout.size):
        memory[offset] = places[layout.coordinates(layout.apply(offset=offset))]
    depth, height = 256 // bits, min(rows, 64)
    for first in range(0, rows, height):
        for step in range(0, k, depth):
            corner = (step, first) if k_axis == 0 else (first, step)
            word = result.constant + (byte_offset(layout, corner, bits) >> 4)
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


@pytest.mark.parametrize("k_axis", [0, 1])
@pytest.mark.parametrize(("major", "depths"), [("k", (32, 64, 128, 256)), ("mn", (32, 64, 128))])
def test_rows_of_a_spread_operand_are_every_second_sixteen(major, depths, k_axis):
    for k in depths:
        shape = (k, 64) if k_axis == 0 else (64, k)
        layout = matrix_layout(shape, k_axis, 8, major, spread=True)
        result = describe(layout, k_axis, 8, spread=True)
        assert result.major == major and describe(layout, k_axis, 8) is None
        # Memory outside the tile stays 0, a number that no element has.
        places = np.arange(1, 64 * k + 1).reshape(shape)
        memory = np.zeros(1 << len(layout.bases("offset")), np.int64)
        for place in np.ndindex(shape):
            memory[byte_offset(layout, place, 8)] = places[place]
        assert np.count_nonzero(memory) == 64 * k
        for step in range(0, k, 32):
            corner = (step, 0) if k_axis == 0 else (0, step)
            word = result.tcgen05_constant + (byte_offset(layout, corner, 8) >> 4)
            lines, units = (128, 2) if major == "k" else (32, 8)
            matrix = Matrix(decode_tcgen05(word), lines, units, major == "mn")
            starts = unit_addresses(matrix).astype(np.int64).reshape(lines, units)
            read = (starts[..., None] + np.arange(16)).reshape(lines, -1)
            rows = memory[np.minimum(read, memory.size - 1)] * (read < memory.size)
            rows = rows if major == "k" else rows.T
            part = places[:, step : step + 32] if k_axis else places[step : step + 32].T
            of_tile = np.arange(128) % 32 < 16
            assert np.array_equal(rows[of_tile], part) and not rows[~of_tile].any()


def test_other_layouts_have_no_descriptor():
    assert describe(LinearLayout.identity("offset", 4096, shape=(64, 64)), 1, 16) is None


@pytest.mark.parametrize("shape", [(4, 64), (64, 4)])
def test_short_operands_have_no_layout(shape):
    with pytest.raises(NoDescriptor) as error:
        matrix_layout(shape, 1, 16, "k")
    assert error.value.reason == Reason("dots.no-descriptor", rows=shape[0], columns=shape[1])


@pytest.mark.parametrize(("shape", "bits", "major"), [((32, 64), 8, "k"), ((64, 8), 8, "k"), ((64, 32), 16, "mn")])
def test_other_operands_are_not_spread(shape, bits, major):
    with pytest.raises(NoDescriptor) as error:
        matrix_layout(shape, 1, bits, major, spread=True)
    assert error.value.reason.code == "dots.no-spread-descriptor"
