"""Block-scaled dots by `mma.sync`, which threads feed with their scales in registers."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import scaled
from tests.kernels.packed_scales import packed_matmul
from tests.machine_code import assemble
from tileiras.codegen import toolkit

GPU = "sm_120"
MMA = re.compile(r"mma\.sync\S*block_scale")
PLANS = [
    {"pipeline_strategy": "none"},
    {"pipeline_strategy": "unspecialize"},
    {"pipeline_strategy": "unspecialize", "tensor_maps": "host"},
    {"pipeline_strategy": "warp-specialize"},
    {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"},
    {"opt_level": 0},
]


def checked(kernel, **options) -> str:
    kernel.interpreted()
    artifact = kernel.compiled(GPU, **options)
    for seed in (None, 0):
        kernel.emulated(artifact, seed)
    if toolkit.find_program("ptxas") is not None:
        assemble(artifact.text, GPU)
    assert MMA.search(artifact.text)
    return artifact.text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", PLANS, ids=lambda value: " ".join(map(str, value.values())))
@pytest.mark.parametrize("make", [packed_matmul, scaled])
def test_every_plan(make, options):
    checked(make((128, 128, 128), steps=4, **({"gpu": GPU} if make is packed_matmul else {})), **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("operand", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("make", [packed_matmul, scaled])
def test_scales_run_ahead_with_their_operands(make, operand):
    """A thread has two bytes of the tile of scales, a copy brings four: half of the threads make one."""
    ptx = checked(make((128, 128, 128), operand, 4), pipeline_strategy="unspecialize", num_warps=8)
    assert "ld.global" not in ptx and ptx.count("bar.sync") == ptx.count("cp.async.wait_group")
    assert "cp.async.ca.shared.global [" in ptx


def test_scales_come_in_boxes_with_their_operands():
    """Where one tile of scales lay better for its readers as threads put it, it would take a pipe of its own."""
    ptx = checked(packed_matmul((128, 128, 128), steps=4, gpu=GPU), tensor_maps="host", num_warps=8)
    assert "cp.async.bulk.tensor" in ptx and "cp.async.ca" not in ptx and "ld.global" not in ptx


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(
    ("tiles", "scale", "block"),
    [
        ((128, 64, 64), "f8E4M3FN", 16), ((64, 64, 128), "f8E4M3FN", 16), ((64, 32, 256), "f8E8M0FNU", 32),
    ],
)  # fmt: skip
def test_elements_of_four_bits_take_no_stack(tiles, scale, block, level):
    """They are packed in registers; a slot of the stack stays reserved even where nothing accesses it."""
    ptx = checked(scaled(tiles, "f4E2M1FN", scale=scale, block=block, from_bytes=True), opt_level=level)
    assert ".local" not in ptx
