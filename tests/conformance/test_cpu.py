"""Random programs and conformance kernels on the CPU: a few here, a hundred in the slow run."""

from __future__ import annotations

import pytest
from case_kernels import modules, pairwise_kernels
from cpu_table import failures
from random_programs import Formats, Meaningless, Program, run

from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")


def equal(number: int, kind: type[Program], steps: int) -> None:
    try:
        run(number, steps, kind, target="cpu")
    except Meaningless as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("kind", [Program, Formats])
@pytest.mark.parametrize("number", range(1000, 1006))
def test_program(number, kind):
    equal(number, kind, 6)


def test_kernels():
    kernels = list(pairwise_kernels())[::240]
    assert [reason for module in modules(kernels) for _, reason in failures(module)] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Program, Formats])
@pytest.mark.parametrize("number", range(50))
def test_longer_program(number, kind):
    equal(number, kind, kind.STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_more_kernels(part):
    kernels = list(pairwise_kernels())[part::8]
    assert [reason for module in modules(kernels) for _, reason in failures(module)] == []
