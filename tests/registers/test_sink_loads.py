"""Tiles are loaded where they are used when a thread has no registers for them until then."""

from __future__ import annotations

import re

import pytest

from tests.kernels.rows import sum_of_parts

INPUTS = "abcdef"


def order(kernel, **options):
    """Loads, stores and arithmetic in the order of the program."""
    return re.findall(r"tiled_load|tiled_store|exp2|addf", kernel.compiled("sm_90", emit="tileas", **options).text)


@pytest.mark.parametrize(("warps", "late"), [(2, True), (8, False)])
def test_only_where_registers_lack(warps, late):
    load, others = "tiled_load", len(INPUTS) - 1
    body = ["exp2", *[load, "addf"] * others] if late else [*[load] * others, "exp2", *["addf"] * others]
    assert order(sum_of_parts(INPUTS), num_warps=warps) == [load, *body, "tiled_store"]


def test_no_load_moves_behind_a_store():
    result = order(sum_of_parts(INPUTS, stores_first=True), num_warps=2)
    assert result.index("exp2") == 1
    assert "tiled_load" not in result[result.index("tiled_store") :]


@pytest.mark.parametrize("stores_first", [False, True])
def test_the_result_is_the_same(stores_first):
    sum_of_parts(INPUTS, stores_first=stores_first).check("sm_90", num_warps=2)
