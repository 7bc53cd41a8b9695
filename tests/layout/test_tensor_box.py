"""Boxes of tensor maps against the hardware's swizzle, as the emulator has it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tileiras.layout import LinearLayout
from tileiras.layout.constructors import swizzled_shared
from tileiras.layout.matrix_descriptor import byte_offset, matrix_layout
from tileiras.layout.tensor_box import LONGEST, box_layout, tensor_boxes
from tileiras.sim.emulator.tensor_map import swizzled

OPERANDS = [
    (shape, k_axis, bits, major)
    for shape in ((64, 64), (128, 128), (512, 32), (16, 256), (64, 8))
    for k_axis, major in itertools.product((0, 1), ("k", "mn"))
    for bits in (8, 16, 32)
]

def placed(layout: LinearLayout, contiguous: int, bits: int) -> dict[tuple[int, ...], int]:
    """The byte at which each element of a tile is when the boxes have been copied one after the other."""
    boxes = tensor_boxes(layout, contiguous, bits)
    assert boxes is not None
    result = {}
    for piece in boxes.pieces:
        assert piece.offset % boxes.alignment == 0 or len(boxes.pieces) == 1
        extents = [range(boxes.box[dim]) for dim in reversed(boxes.order)]
        for number, place in enumerate(itertools.product(*extents)):
            at = list(piece.corner)
            for dim, step in zip(reversed(boxes.order), place):
                at[dim] += step
            linear = piece.offset + number * bits // 8
            unit = int(swizzled(np.array([linear & ~15], np.int64), boxes.swizzle, boxes.atom)[0])
            result[tuple(at)] = unit | linear & 15
    return result


@pytest.mark.parametrize("shape, k_axis, bits, major", OPERANDS)
def test_boxes_match_the_layout_of_warpgroup_operands(shape, k_axis, bits, major):
    try:
        layout = matrix_layout(shape, k_axis, bits, major)
    except ValueError:
        pytest.skip("no operand of a matrix descriptor")
    contiguous = k_axis if major == "k" else 1 - k_axis
    boxes = tensor_boxes(layout, contiguous, bits)
    assert boxes is not None and max(boxes.box) <= LONGEST
    assert boxes.atom == (32 if (bits, major) == (32, "mn") else 16)
    assert not boxes.swizzle or boxes.box[contiguous] * bits // 8 <= boxes.swizzle
    result = placed(layout, contiguous, bits)
    assert len(result) == shape[0] * shape[1]
    for offset, position in enumerate(map(layout.coordinates, positions(layout))):
        assert result[tuple(position)] == offset * bits // 8


@pytest.mark.parametrize(("major", "box"), [("k", (16, 128)), ("mn", (16, 128))])
def test_boxes_skip_the_gaps_of_a_spread_operand(major, box):
    layout = matrix_layout((64, 128), 1, 8, major, spread=True)
    contiguous = 1 if major == "k" else 0
    boxes = tensor_boxes(layout, contiguous, 8)
    assert boxes.box == box and [piece.offset for piece in boxes.pieces] == [0, 4096, 8192, 12288]
    result = placed(layout, contiguous, 8)
    assert len(result) == 64 * 128
    assert all(byte_offset(layout, place, 8) == at for place, at in result.items())
    assert len(tensor_boxes(layout, contiguous, 8, 4).pieces) == 4
    assert len(tensor_boxes(layout, contiguous, 8, 8).pieces) == 8


def positions(layout: LinearLayout) -> list[int]:
    """The flattened position of each offset."""
    result = [0]
    for basis in layout.bases("offset"):
        result += [position ^ basis for position in result]
    return result


def test_rows_wider_than_the_swizzle_are_several_boxes():
    boxes = tensor_boxes(swizzled_shared((64, 256), 16, 128), 1, 16)
    assert boxes.box == (64, 64) and boxes.swizzle == 128
    assert [piece.corner for piece in boxes.pieces] == [(0, 0), (0, 64), (0, 128), (0, 192)]
    assert [piece.offset for piece in boxes.pieces] == [0, 8192, 16384, 24576]


@pytest.mark.parametrize("shape, contiguous", [((64, 64), 1), ((64, 64), 0), ((1, 2, 32, 64), 3), ((4, 64, 16), 1)])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_tile_of_any_view_has_a_layout_of_boxes(shape, contiguous, bits):
    layout = box_layout(shape, contiguous, bits)
    result = placed(layout, contiguous, bits)
    assert len(result) == layout.size
    for offset, position in enumerate(map(layout.coordinates, positions(layout))):
        assert result[tuple(position)] == offset * bits // 8
    assert box_layout((64, 8), 1, 8) is None


@pytest.mark.parametrize("span", [128, 64, 32, 16])
def test_the_swizzle_is_that_of_the_layout(span):
    boxes = tensor_boxes(swizzled_shared((64, span // 2), 16, span), 1, 16)
    assert boxes.swizzle == (span if span > 16 else 0) and boxes.alignment == max(128, 8 * boxes.swizzle)


def test_a_run_without_a_swizzle():
    boxes = tensor_boxes(LinearLayout({"offset": [1 << bit for bit in range(10)]}, (1024,)), 0, 32)
    assert boxes.box == (256,) and [piece.offset for piece in boxes.pieces] == [0, 1024, 2048, 3072]


@pytest.mark.parametrize(
    "offset, shape, contiguous, bits",
    [
        ([1 << bit for bit in range(6)], (8, 8), 0, 16),  # rows of the tile are not contiguous in memory
        ([2, 1, *(1 << bit for bit in range(2, 8))], (16, 16), 1, 16),
        ([1, 2, 4, 8, 48, 16, 64, 128], (16, 16), 1, 16),  # a swizzle that the hardware does not have
        ([1, 2, 4, 8, 16], (8, 4), 1, 16),  # rows of 8 bytes
    ],
)  # fmt: skip
def test_layouts_that_no_boxes_have(offset, shape, contiguous, bits):
    assert tensor_boxes(LinearLayout({"offset": offset}, shape), contiguous, bits) is None
