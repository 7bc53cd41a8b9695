"""A reduction has one result: all lanes have it, whatever the combiner makes of exchanged operands."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.checked import row_sums, rows
from tileiras.sim import emulate

KEEPS_ONE = """
    %r = reduce %value dim=0 identities=[0 : i32] : tile<256xi32> -> tile<i32> (%a: tile<i32>, %b: tile<i32>) {
      %is_positive = cmpi greater_than %a, %b, signed : tile<i32> -> tile<i1>
      %f = select %is_positive, %a, %a : tile<i1>, tile<i32>
      yield %f : tile<i32>
    }
    %r_1 = reshape %r : tile<i32> -> tile<1xi32>
    %result = broadcast %r_1 : tile<1xi32> -> tile<256xi32>"""
# The greatest element and, of several, the place of the earlier operand.
PLACE = """
    %lane = iota : tile<256xi32>
    %m, %r = reduce %value, %lane dim=0 identities=[0 : i32, 0 : i32] : tile<256xi32>, tile<256xi32>
        -> tile<i32>, tile<i32> (%a: tile<i32>, %b: tile<i32>, %i: tile<i32>, %j: tile<i32>) {
      %is_less = cmpi less_than %a, %b, signed : tile<i32> -> tile<i1>
      %f = select %is_less, %b, %a : tile<i1>, tile<i32>
      %g = select %is_less, %j, %i : tile<i1>, tile<i32>
      yield %f, %g : tile<i32>, tile<i32>
    }
    %r_1 = reshape %r : tile<i32> -> tile<1xi32>
    %result = broadcast %r_1 : tile<1xi32> -> tile<256xi32>"""


@pytest.mark.parametrize("body", [KEEPS_ONE, PLACE])
@pytest.mark.parametrize(("gpu_name", "num_warps"), [("sm_80", 1), ("sm_90", 4), ("sm_100", 2)])
def test_all_lanes_have_one_result(body, gpu_name, num_warps):
    artifact = tileiras.compile(rows(body, element="i32"), gpu_name=gpu_name, num_warps=num_warps)
    x, y = np.arange(256, dtype=np.int32) % 4, np.full(256, -1, np.int32)
    emulate(artifact.text, "k", 1, [x, y, 256], metadata=artifact.kernels[0].metadata)
    assert len(set(y.tolist())) == 1
    assert body is KEEPS_ONE or y[0] % 4 == 3


def test_sums_need_no_further_shuffle():
    assert tileiras.compile(row_sums(), gpu_name="sm_90").text.count("shfl.") == 5
