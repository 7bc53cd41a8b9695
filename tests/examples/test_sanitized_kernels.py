"""Whole kernels with `--sanitize=memcheck`: correct kernels give no reports, and results are the same."""

import json

import pytest
from kernel_cases import CASES, KernelCase
from kernel_runs import bytecode, needs_front_end, run_and_check

import tileiras
from tileiras.sim import emulate

SOURCES = ("embedding.py", "rope.py", "top_k.py", "quantize.py", "prefix_sum.mlir", "cross_entropy.py")
SANITIZED = [next(case for case in CASES if case.source == source) for source in SOURCES]


@pytest.mark.parametrize("case", SANITIZED, ids=lambda case: case.id)
def test_nothing_is_reported_of_a_right_kernel(case: KernelCase) -> None:
    needs_front_end(case.source)
    artifact = tileiras.compile(
        bytecode(case.source, "sm_90"), gpu_name="sm_90", sanitize="memcheck", entry=case.entry,
        source_name=case.source,
    )  # fmt: skip
    if case.source.endswith(".py"):
        assert "__assertfail" in artifact.text
    metadata = json.loads(artifact.kernels[0].artifacts[".json"])
    run_and_check(case, lambda arguments: emulate(artifact.text, case.entry, case.grid, arguments, metadata=metadata))
