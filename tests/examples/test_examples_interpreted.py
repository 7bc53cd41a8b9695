"""Every example behaves in the interpreter as its comment states."""

from __future__ import annotations

import copy

import pytest
from example_cases import CASE_IDS, CASES, Case, check

import tileiras
from tileiras.sim import interpret


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_example_interprets(case: Case) -> None:
    if case.path.suffix == ".py":
        pytest.importorskip("cuda.tile")
    arguments = case.make_arguments()
    expected = case.reference(copy.deepcopy(arguments))
    interpret(tileiras.parse(case.path), case.entry, case.grid, arguments)
    for position, values in expected.items():
        check(arguments[position], values, case.ulps)
