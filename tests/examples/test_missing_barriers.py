"""Without any one of its barriers or waits, an example fails in the emulator: none is there for nothing, and a lowering
that forgot one would be found out."""

from __future__ import annotations

import copy
import functools
import json
import re

import pytest
from example_cases import CASES, check

import tileiras
from tileiras.sim import EmulationError, emulate

SOURCES = {case.source: case for case in reversed(CASES)}
_WAIT = re.compile(r"\t(bar|barrier)\.|\tcp\.async\.wait|\tmbarrier\.(try|test)_wait")


@functools.cache
def compiled(source: str) -> tuple[str, dict]:
    case = SOURCES[source]
    artifact = tileiras.compile(case.path, gpu_name="sm_90", entry=case.entry)
    (kernel,) = artifact.kernels
    return artifact.text, json.loads(kernel.artifacts[".json"])


@pytest.mark.parametrize("seed", [None, 0], ids=["lock-step", "seed-0"])
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_no_barrier_is_superfluous(source: str, seed: int | None) -> None:
    case = SOURCES[source]
    if case.path.suffix == ".py":
        pytest.importorskip("cuda.tile")
    text, metadata = compiled(source)
    lines = text.splitlines()
    waits = [number for number, line in enumerate(lines) if _WAIT.match(line)]
    if not waits:
        pytest.skip("the kernel has no barriers")
    arguments = case.make_arguments()
    expected = case.reference(copy.deepcopy(arguments))
    for number in waits:
        broken = "\n".join(lines[:number] + lines[number + 1 :])
        given = copy.deepcopy(arguments)
        with pytest.raises((EmulationError, AssertionError)):
            emulate(broken, case.entry, case.grid, given, metadata=metadata, seed=seed)
            for position, values in expected.items():
                check(given[position], values, case.ulps)
