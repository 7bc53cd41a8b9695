"""Random programs and conformance kernels on the CPU: a few here, a hundred in the slow run."""

from __future__ import annotations

import random

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


PARTS = 5


@pytest.fixture(scope="module")
def hundred() -> list:
    """Kernels of the table, the same in every run."""
    return random.Random(42).sample(list(pairwise_kernels()), 100)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_kernels(part, hundred):
    assert [(kernel.name, reason) for kernel, reason in failures(hundred[part::PARTS])] == []


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
