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

SOURCES: dict[str, list] = {}
for each in CASES:
    SOURCES.setdefault(each.source, []).append(each)
_WAIT = re.compile(r"\t(bar|barrier)\.|\tcp\.async\.wait|\tmbarrier\.(try|test)_wait")


@functools.cache
def compiled(source: str) -> tuple[str, dict]:
    case = SOURCES[source][0]
    artifact = tileiras.compile(case.path, gpu_name="sm_90", entry=case.entry)
    (kernel,) = artifact.kernels
    return artifact.text, json.loads(kernel.artifacts[".json"])


def fails(text: str, metadata: dict, case, seed: int | None) -> bool:
    arguments = case.make_arguments()
    expected = case.reference(copy.deepcopy(arguments))
    try:
        emulate(text, case.entry, case.grid, arguments, metadata=metadata, seed=seed)
        for position, values in expected.items():
            check(arguments[position], values, case.ulps)
    except (EmulationError, AssertionError):
        return True
    return False


@pytest.mark.parametrize("seed", [None, 0], ids=["lock-step", "seed-0"])
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_no_barrier_is_superfluous(source: str, seed: int | None) -> None:
    cases = SOURCES[source]
    if cases[0].path.suffix == ".py":
        pytest.importorskip("cuda.tile")
    text, metadata = compiled(source)
    lines = text.splitlines()
    waits = [number for number, line in enumerate(lines) if _WAIT.match(line)]
    if not waits:
        pytest.skip("the kernel has no barriers")
    for number in waits:
        broken = "\n".join(lines[:number] + lines[number + 1 :])
        # Which stage of a pipelined loop is read last, and with that what comes too close, depends on the sizes.
        assert any(fails(broken, metadata, case, seed) for case in cases), lines[number]
