"""In a layout for scans, the elements of a row follow each other through registers, lanes and warps."""

import pytest

from tileiras.layout import blocked
from tileiras.layout.scan import is_scannable, scan_layout


def follow_each_other(layout, axis):
    """Whether (warp, lane, register) are in the order of the axis, for equal coordinates in the other dimensions."""
    places = {}
    for warp in range(layout.warps):
        for lane in range(32):
            for register in range(layout.registers):
                place = list(layout.coordinates(layout.apply(register=register, lane=lane, warp=warp)))
                along = place.pop(axis)
                # The first of several copies: threads with free bits repeat elements of others.
                places.setdefault((tuple(place), along), (warp, lane))
    rows = {}
    for (place, along), thread in sorted(places.items(), key=lambda item: item[0][1]):
        rows.setdefault(place, []).append(thread)
    return all(row == sorted(row) and len(row) == layout.shape[axis] for row in rows.values())


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("shape", [(2,), (64,), (1024,), (16384,), (4, 256), (256, 4), (2, 2), (8, 16, 4), (1, 1, 64)])
def test_the_layout_that_scans_are_brought_to(shape, warps):
    for axis in range(len(shape)):
        layout = scan_layout(shape, axis, warps)
        assert layout.warps == warps and layout.size <= layout.registers * 32 * warps
        assert is_scannable(layout, axis)
        assert follow_each_other(layout, axis)


def test_rows_as_they_are_loaded():
    assert is_scannable(blocked((1024,), (4,), (32,), (8,), (0,)), 0)
    assert is_scannable(blocked((16, 64), (1, 2), (1, 32), (4, 1), (1, 0)), 1)
    # Down the columns of a thread; not down those that several warps have parts of.
    assert is_scannable(blocked((8, 64), (1, 2), (1, 32), (1, 1), (1, 0)), 0)
    assert not is_scannable(blocked((16, 64), (1, 2), (1, 32), (4, 1), (1, 0)), 0)


def test_rows_that_go_through_all_threads_more_than_once():
    assert not is_scannable(blocked((2048,), (4,), (32,), (8,), (0,)), 0)
    assert not is_scannable(blocked((16, 64), (1, 2), (4, 8), (4, 1), (0, 1)), 1)
