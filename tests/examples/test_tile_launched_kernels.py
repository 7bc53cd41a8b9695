"""Whole kernels in the form that the driver's tile launch wants: the same results, ids of clusters, static memory."""

import json

import pytest
from kernel_cases import CASES, KernelCase
from kernel_runs import bytecode, needs_front_end, run_and_check

import tileiras
from tileiras.codegen import ptxas as assembler
from tileiras.sim import emulate

SOURCES = ("matmul.py", "long_softmax.py", "fft.py", "moe_matmul.py", "spin_lock.mlir")
LAUNCHED = [next(case for case in CASES if case.source == source) for source in SOURCES]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["sm_80", "sm_100"])
@pytest.mark.parametrize("case", LAUNCHED, ids=lambda case: case.id)
def test_a_tile_launched_kernel_computes_the_same(ptxas, case: KernelCase, target: str) -> None:
    needs_front_end(case.source)
    artifact = tileiras.compile(
        bytecode(case.source, target), gpu_name=target, tile_launch=True, entry=case.entry, source_name=case.source
    )
    (kernel,) = artifact.kernels
    metadata = json.loads(kernel.artifacts[".json"])
    assert metadata["kernels"][0]["tile_launch"] is True
    assert ".extern .shared" not in artifact.text
    run_and_check(case, lambda arguments: emulate(artifact.text, case.entry, case.grid, arguments, metadata=metadata))
    assembler.assemble(artifact.text, target, options=["--enable-extended-smem", "true"])
