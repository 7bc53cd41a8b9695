"""Every example compiles for every target, is assembled by ptxas, and computes the expected results in the emulator."""

from __future__ import annotations

import copy
import functools
import json

import numpy as np
import pytest
from example_cases import CASE_IDS, CASES, Case, check

import tileiras
from tileiras.codegen import ptxas, toolkit
from tileiras.sim import emulate

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
SOURCES = {case.source: case for case in reversed(CASES)}


@functools.cache
def compiled(source: str, entry: str, target: str) -> tuple[str, dict]:
    """PTX and launch description; a source is compiled once per target for all its cases."""
    artifact = tileiras.compile(SOURCES[source].path, gpu_name=target, entry=entry)
    (kernel,) = artifact.kernels
    return artifact.text, json.loads(kernel.artifacts[".json"])


def needs(case: Case) -> None:
    if case.path.suffix == ".py":
        pytest.importorskip("cuda.tile")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_example_assembles(source: str, target: str) -> None:
    if toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    case = SOURCES[source]
    needs(case)
    text, _ = compiled(source, case.entry, target)
    assert ptxas.assemble(text, target).cubin.startswith(b"\x7fELF")


# One launch of every kernel on every target, every launch on the first: only the code differs between targets, and
# every kernel has one.
LAUNCHES = [
    (case, target)
    for case in CASES
    for target in (TARGETS if case is SOURCES[case.source] else TARGETS[:1])
]


@pytest.mark.sampled(40)
@pytest.mark.parametrize(
    ("case", "target"), LAUNCHES, ids=[f"{CASE_IDS[CASES.index(case)]}-{target}" for case, target in LAUNCHES]
)
def test_example_emulates(case: Case, target: str) -> None:
    needs(case)
    text, metadata = compiled(case.source, case.entry, target)
    arguments = case.make_arguments()
    inputs = copy.deepcopy(arguments)
    expected = case.reference(inputs)
    emulate(text, case.entry, case.grid, arguments, metadata=metadata)
    for position, values in expected.items():
        check(arguments[position], values, case.ulps)
    # Nothing but the outputs has changed.
    for position, (before, after) in enumerate(zip(inputs, arguments)):
        if position not in expected and isinstance(before, np.ndarray):
            assert (before == after).all(), f"argument {position} was written to"
