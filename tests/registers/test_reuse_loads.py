"""Elements of loads through pointers that a thread has of another load."""

from __future__ import annotations

import re

import pytest

from tests.kernels.reasons import stated
from tests.kernels.rows import sum_of_neighbours
from tests.kernels.views import Kernel

WARPS = {"num_warps": 2}
"""For 256 elements: a thread has four neighbours."""


def loads(ptx: str) -> list[str]:
    return re.findall(r"ld\.global\.((?:v\d\.)?b32)", ptx)


def shifted(kernel: Kernel) -> list[tuple[str, ...]]:
    """(result, source of its elements, offset) of each shifted value."""
    text = kernel.compiled("sm_90", emit="tileas", **WARPS).text
    return re.findall(r"(%\S+) = nv_tileas.shifted (%\S+), .*by = (-?\d+)", text)


@pytest.mark.parametrize(("distance", "left"), [(1, "b32"), (-1, "b32"), (2, "v2.b32"), (-2, "v2.b32")])
def test_a_thread_loads_missing_elements(distance, left):
    kernel = sum_of_neighbours([distance])
    assert loads(kernel.check("sm_90", **WARPS).text) == ["v4.b32", left]


@pytest.mark.parametrize("distances", [[-1, 1], [1, 2, -3], [5, 6], [3, 4, 128, -128]])
def test_neighbours_of_several_loads(distances):
    sum_of_neighbours(distances).check("sm_80", **WARPS)
    sum_of_neighbours(distances, outside=(0,)).check("sm_120", num_warps=1)


@pytest.mark.parametrize("distance", [3, 4, 64])
def test_less_than_half_is_not_worth_it(distance):
    assert not shifted(sum_of_neighbours([distance]))


def test_other_elements_past_the_ends_are_other_tiles():
    """The values of a load where its mask is not set have to be the same."""
    kernel = sum_of_neighbours([1], outside=(1, 2))
    assert not shifted(kernel)
    kernel.check("sm_90", **WARPS)


def test_a_store_between_is_seen():
    kernel = sum_of_neighbours([1], store_between=True)
    assert not shifted(kernel)
    kernel.check("sm_90", **WARPS)


def test_parts_of_a_load_serve_the_next():
    """Of three tiles one apart the second has elements of the first, and the third those of the second."""
    result = shifted(sum_of_neighbours([1, 3]))
    assert [by for _, _, by in result] == ["1", "2"] and result[1][1] == result[0][0]


def test_remarks_say_how_many_accesses_are_left():
    result = sum_of_neighbours([1]).compiled("sm_90", emit_remarks=True, **WARPS)
    (value,) = stated(result.diagnostics, "access.reused")
    assert value.startswith("access.reused left=1 accesses=4; access.shifted-load ")
