"""A kernel's wish for several CTAs on an SM yields where its tiles would not fit in their share of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras
from tests.rewrites.test_smem_operands import powers
from tileiras.sim import emulate, interpret


def asking(text: str, occupancy: int) -> str:
    hints = f"optimization_hints=<sm_80 = {{occupancy = {occupancy}}}>"
    return text.replace("tile<ptr<f32>>) {", f"tile<ptr<f32>>) {hints} {{", 1)


def compiled(text, **options):
    artifact = tileiras.compile(text, gpu_name="sm_80", **options)
    ctas = re.search(r"\.minnctapersm (\d+)", artifact.text)
    said = [d.message for d in artifact.diagnostics if "CTAs to an SM" in d.message]
    return artifact, int(ctas[1]) if ctas else 1, said


@pytest.mark.parametrize(("asked", "given"), [(2, 2), (8, 8), (16, 13), (32, 13)])
def test_tiles_get_the_registers_that_they_need(asked, given):
    # One warp holds 128 elements of C in each thread; 64 Ki registers are 2048 for each lane of a warp.  A loop that
    # runs once has nothing to load ahead.
    _, ctas, said = compiled(asking(powers(64, 1), asked), num_warps=1)
    assert (ctas, bool(said)) == (given, given < asked), said


def test_loads_that_run_ahead_get_the_shared_memory_that_they_need():
    # Two stages of B are 64 KiB; three CTAs leave 53 each.
    _, ctas, said = compiled(asking(powers(256, 3), 3), num_warps=4)
    assert ctas == 2
    assert said == ["2 CTAs to an SM instead of 3: loads that run ahead need 65536 bytes of shared memory"]


def test_a_loop_that_makes_its_addresses_again_computes_the_same():
    depth, steps = 128, 3
    text = asking(powers(depth, steps), 16)
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((64, depth), (depth * steps, 64)))
    expected, actual = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    interpret(text, "k", 1, [a, b, expected])
    artifact, _, _ = compiled(text, num_warps=1)
    assert len(re.findall(r"mul\.lo\.s32 n, n", artifact.text)) >= 2  # in the loop and behind it
    emulate(artifact.text, "k", 1, [a, b, actual], metadata=artifact.kernels[0].metadata)
    np.testing.assert_array_equal(actual, expected)
