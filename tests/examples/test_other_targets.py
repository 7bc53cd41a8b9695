"""The targets that other tests leave out: examples and kernels compile, are assembled, and give the expected results.

Code is emulated once: most targets get that of a neighbour, but for its header.
"""

from __future__ import annotations

import copy
import functools
import json
import re

import pytest
from example_cases import CASES as EXAMPLES
from example_cases import check
from kernel_cases import CASES as KERNELS
from kernel_cases import TARGETS
from kernel_runs import bytecode, needs_front_end, run_and_check

import tileiras
from tileiras.codegen import ptxas, toolkit
from tileiras.options import GPU_NAMES
from tileiras.sim import emulate

OTHERS = [name for name in GPU_NAMES if name not in TARGETS]
SOURCES = {case.source: case for case in reversed(EXAMPLES)}

# Features that sm_75 lacks are emulated, so it gets every kernel for which types are no obstacle.
ON_SM_75 = [case for case in KERNELS if case.targets == TARGETS]


def body(text: str) -> str:
    return re.sub(r"^\.(version|target).*$", "", text, flags=re.MULTILINE)


def assembled(artifact: tileiras.Artifact, target: str) -> None:
    if toolkit.find_program("ptxas") is not None:
        assert ptxas.assemble(artifact.text, target).cubin.startswith(b"\x7fELF")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_examples_on_every_other_target(source: str) -> None:
    case = SOURCES[source]
    if case.path.suffix == ".py":
        pytest.importorskip("cuda.tile")
    seen = set()
    for target in OTHERS:
        artifact = tileiras.compile(case.path, gpu_name=target, entry=case.entry)
        assembled(artifact, target)
        if body(artifact.text) in seen:
            continue
        seen.add(body(artifact.text))
        arguments = case.make_arguments()
        expected = case.reference(copy.deepcopy(arguments))
        metadata = json.loads(artifact.kernels[0].artifacts[".json"])
        emulate(artifact.text, case.entry, case.grid, arguments, metadata=metadata)
        for position, values in expected.items():
            check(arguments[position], values, case.ulps)


@functools.cache
def on_sm_75(source: str) -> dict[str, tuple[str, dict]]:
    artifact = tileiras.compile(bytecode(source, "sm_80"), gpu_name="sm_75", source_name=source)
    assembled(artifact, "sm_75")
    return {k.name: (k.artifacts[".ptx"].decode(), json.loads(k.artifacts[".json"])) for k in artifact.kernels}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", ON_SM_75, ids=lambda case: case.id)
def test_kernels_on_sm_75(case) -> None:
    needs_front_end(case.source)
    text, metadata = on_sm_75(case.source)[case.entry]
    assert "cp.async" not in text and "m16n8k16" not in text
    run_and_check(case, lambda arguments: emulate(text, case.entry, case.grid, arguments, metadata=metadata))
