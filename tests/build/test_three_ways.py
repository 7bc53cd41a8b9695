"""Command, library and build report the same of a kernel (`three_ways.py` compares all examples on every target)."""

import pytest
import three_ways
from project import CHECKOUT

from tileiras.codegen import toolkit
from tileiras.options import GPU_NAMES

pytestmark = pytest.mark.skipif(toolkit.find_program("ptxas") is None, reason="needs ptxas")

PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_resources_and_remarks_are_the_same_three_ways(part, tmp_path, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    cases = three_ways.some_cases(PARTS)[part]
    assert list(three_ways.differences(cases, str(tmp_path))) == []


def test_the_cases_have_every_target():
    cases = [case for part in three_ways.some_cases(PARTS) for case in part]
    assert {target for _, target in cases} == set(GPU_NAMES)
    assert {target for name, target in cases if name == three_ways.DYNAMIC} == set(GPU_NAMES)


def test_compared_rows_have_shared_memory_and_occupancy(tmp_path, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    case = (three_ways.DYNAMIC, "sm_90")
    (row,) = three_ways.of_builds([case], str(tmp_path / "tree"))[case]["resources"].values()
    assert row["shared"] == row["dynamic_shared"] > 48 * 1024
    assert row["occupancy"]["warps"] > 0
