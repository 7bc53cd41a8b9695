"""Estimates of two compilers' code for one launch: the jobs, the check of what is computed, the table."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tileiras  # noqa: E402
from bench import code, estimates  # noqa: E402
from bench.code import Compared  # noqa: E402
from bench.estimates import GPUS, Job, Timed  # noqa: E402
from tileiras.codegen import toolkit  # noqa: E402
from tileiras.targets import rates  # noqa: E402

pytestmark = pytest.mark.skipif(
    toolkit.find_program("nvdisasm") is None or toolkit.find_program("ptxas") is None, reason="needs ptxas and nvdisasm"
)

ROW = code.Measured("saxpy.mlir", "saxpy", None, (2,), (("f32", (2048,)),) * 2,
                    (b"\0\0\0\x40", (2048).to_bytes(4, "little")), views=False)  # fmt: skip


def changed(job: Job) -> Job:
    """The same launch of a kernel that adds the other operand."""
    text = Path("examples/saxpy.mlir").read_text()
    source = text.replace("fma %a_tile, %xs, %ys", "fma %a_tile, %ys, %xs")
    assert source != text
    return job._replace(bytecode=tileiras.compile(source, gpu_name="sm_90", emit="bytecode").data)


def test_a_launch_is_estimated_and_what_it_computes_is_compared():
    gpu = rates.gpu(GPUS["sm_90"])
    job = code.job_of_example(ROW, "sm_90")
    assert job.name == "saxpy 2048" and len(job.parameters) == 4
    image = estimates.ours(job, gpu)
    found = estimates.timed(image, job, gpu)
    assert found.estimate.entry == "saxpy" and found.microseconds > 0 and found.refusal == ""
    other = tileiras.compile(job.bytecode, gpu_name="sm_90", emit="cubin", entry="saxpy", num_warps=1)
    assert estimates.difference(image, other, job, gpu) == ""
    assert "parameter 1 differs by " in estimates.difference(image, estimates.ours(changed(job), gpu), job, gpu)


def test_an_image_that_cannot_be_estimated_is_a_row_without_a_time():
    gpu = rates.gpu("H200")
    job = code.job_of_example(ROW, "sm_90")
    found = estimates.timed(estimates.ours(job, gpu).data, job, gpu)
    assert found.microseconds is None and "does not have its PTX" in found.refusal


def test_the_summary_has_the_geometric_mean_of_each_target():
    def row(target: str, ours: float, theirs: float, wrong: str = "") -> Compared:
        found = [type("Found", (), {"microseconds": time, "bound": "DRAM"})() for time in (ours, theirs)]
        return Compared("kernel", target, *(Timed(each, "", 0.0) for each in found), wrong)

    rows = [row("sm_80", 10, 20), row("sm_80", 40, 10), row("sm_90", 30, 10, "parameter 0 differs")]
    first, second, third = code.summary(rows)
    assert f"{math.sqrt(2):.2f}" in first and first.startswith("sm_80") and "geometric mean of 2" in first
    assert second.startswith("sm_90: ours takes 3.00") and third == "results that differ: 1"
    assert code.line(rows[0]) == "| kernel | sm_80 | 10.0 | DRAM | 20.0 | DRAM | 0.50 |  |"
    missing = Compared("kernel", "sm_90", Timed(None, "refused", 0.0), None, "")
    assert missing.ratio is None and code.line(missing).startswith("| kernel | sm_90 | - | refused | - |")


def test_targets_take_their_tuned_configurations_and_others_one_cta():
    assert dict(code.configurations("sm_100"))["persistent_matmul"]["num_ctas"] == 2
    assert dict(code.configurations("sm_80"))["matmul"]["num_ctas"] == 1
    assert "batch_matmul" not in dict(code.configurations("sm_80"))  # no products of f8
    names = [task for task in code.tasks(["sm_90"], True) if task.benchmark]
    assert len(names) == len(code.configurations("sm_90"))
