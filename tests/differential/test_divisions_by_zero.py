"""A division by zero leaves its own element undefined; branches, loads and other results are as they were."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.tiles import Tile, assert_same, run_both

ROWS = np.arange(32, dtype=np.int32) - 9


@pytest.mark.parametrize("operation", [
    f"{name} {sign}{rounding}" for name in ("divi", "remi") for sign in ("signed", "unsigned")
    for rounding in (("", " rounding<positive_inf>", " rounding<negative_inf>") if name == "divi" else ("",))
    if (sign, rounding) != ("unsigned", " rounding<negative_inf>")
])  # fmt: skip
@pytest.mark.parametrize("first", [1, -1])
def test_a_branch_that_yields_zero_divisors_is_taken(operation, first):
    name, attributes = operation.split(" ", 1)
    body = f"""
    %e = extract %a[%zero] : tile<32xi32> -> tile<1xi32>
    %s = reshape %e : tile<1xi32> -> tile<i32>
    %p = cmpi less_than %s, %zero, signed : tile<i32> -> tile<i1>
    %d = if %p -> (tile<32xi32>) {{
      %zeros = xori %a, %a : tile<32xi32>
      yield %zeros : tile<32xi32>
    }} else {{
      %squares = muli %a, %a : tile<32xi32>
      yield %squares : tile<32xi32>
    }}
    %q = {name} %a, %d {attributes} : tile<32xi32>"""
    rows = ROWS.copy()
    rows[0] = first
    outputs = [Tile(name, "i32", np.zeros(32, np.int32)) for name in ("d", "q")]
    expected, actual = run_both([Tile("a", "i32", rows)], body, outputs, "sm_80", random_runs=2)
    for tile, want, got in zip(outputs, expected, actual):
        assert_same(tile.name, got, want, [])
