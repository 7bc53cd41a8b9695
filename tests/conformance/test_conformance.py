"""A pairwise subset of the conformance kernels; `scons conformance` runs all of them on every target."""

from __future__ import annotations

import pytest
import random_programs
from case_kernels import modules, pairwise_kernels
from case_modules import TARGETS, run_module

from tileiras.codegen import toolkit

MODULES = modules(list(pairwise_kernels()))


@pytest.mark.parametrize("number", range(len(MODULES)), ids=lambda n: f"{n}-{MODULES[n][0].family}")
def test_module(number):
    """Targets go round with the modules, so that each meets every family."""
    assembler = toolkit.find_program("ptxas")
    results = list(run_module(MODULES[number], [TARGETS[number % len(TARGETS)]], assembler))
    assert [result.failure for result in results if result.failure] == []
    assert len(results) == len(MODULES[number])


@pytest.mark.parametrize("kind", [random_programs.Program, random_programs.Formats])
@pytest.mark.parametrize("number", range(10))
def test_random_program(number, kind):
    try:
        assert random_programs.run(number, 12, kind) > 4
    except random_programs.Meaningless as reason:
        pytest.skip(str(reason))
