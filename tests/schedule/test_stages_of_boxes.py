"""Loops whose operations have stages and whose tiles come in boxes of tensor maps: pipes of one agent continue through
the operations before and behind the rotated loop."""

import random

import pytest

import tileiras
from tests.agents.running import sites, survives, verify
from tests.kernels import tensor_maps
from tests.kernels.dots import attention_like, with_steps_at_run_time
from tests.kernels.loop_stages import loop_of, random_slots, slot
from tests.kernels.reasons import stated
from tests.kernels.tensor_maps import Arrays
from tests.tileas_stage import compiled_and_described, through
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import parse_module, print_op
from tileiras.sim import emulate

SCHEDULED = "tileas-generate-schedule"
REST = "tileas-materialize-schedule"
BOXES = {"tensor_maps": "host", "pipeline_strategy": "unspecialize"}
BOX_LOAD = "mbarrier::complete_tx::bytes"
"""In each instruction that copies boxes to shared memory."""
SEEDS = (None, 0, 1)


def in_random_stages(module, gpu, rng, most):
    """PTX of a module with schedules, its loop's operations in up to `most` stages, and its description."""
    loop = loop_of(module)
    loop.attributes.pop(tileas.DOTS_IN_FLIGHT, None)
    slots = random_slots(loop, rng, most)
    slot(loop, slots, rng.choice((2, 3)) + max(stage for stage, _ in slots))
    through(module, gpu=gpu, from_=REST, **BOXES)
    verify(print_op(module), gpu)
    code, metadata = compiled_and_described(module, gpu)
    assert BOX_LOAD in code
    return code, metadata


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu, size", [("sm_90", 64), ("sm_100", 64), ("sm_120", 32)])
@pytest.mark.parametrize("seed", range(4))
def test_any_stages_of_attention(gpu, size, seed):
    kernel = attention_like(1, rows=size, columns=size, depth=size, steps=4, gpu_name=gpu, halved=seed % 2 == 0)
    kernel = with_steps_at_run_time(kernel, 4) if seed > 1 else kernel
    module = kernel.after(SCHEDULED, gpu, v2_opt_level=2, **BOXES)
    code, metadata = in_random_stages(module, gpu, random.Random(seed), 3)
    inputs = [array.view("u2") if array.dtype.kind == "V" else array for array in kernel.inputs]
    for order in (None, seed):
        result = [array.copy() for array in kernel.outputs]
        emulate(code, "k", kernel.grid, [*inputs, *result], metadata, seed=order)
        kernel._compare(result)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("seed", range(4))
def test_any_stages_of_a_product_and_any_number_of_iterations(gpu, seed):
    text = tileiras.compile(tensor_maps.matmul(), gpu_name=gpu, emit="tileaa").text
    module = through(parse_module(text, "k.mlir"), SCHEDULED, gpu, v2_opt_level=2, **BOXES)
    code, metadata = in_random_stages(module, gpu, random.Random(seed), 3)
    for steps in (0, 1, 2, 3, 5):
        Arrays(64, 71, max(1, steps) * 32).launch(code, metadata, seed, steps)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("at_run_time", [False, True])
def test_attention_overlaps_and_is_right(gpu, at_run_time, ptxas):
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4, gpu_name=gpu, halved=at_run_time)
    kernel = with_steps_at_run_time(kernel, 4) if at_run_time else kernel
    artifact = kernel.check(gpu, v2_opt_level=2, **BOXES)
    for seed in (None, 1, 2):
        kernel.emulated(artifact, seed)
    assert BOX_LOAD in artifact.text
    assert any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics))


def test_synchronization_of_the_rings_is_required():
    """All but one wait: that of the thread that fills for an empty stage of the second ring.  Warps give back stages of
    both rings in one place, which the wait for the first one has seen them pass."""
    kernel = attention_like(1, rows=64, columns=64, depth=32, steps=8)
    artifact = kernel.compiled("sm_90", v2_opt_level=2, **BOXES)
    assert any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics))

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    result = [(line, broken) for line, broken in sites(artifact.text) if "mbarrier" in line or "fence" in line]
    assert len(result) >= 10 and survives(artifact.text, judge, SEEDS)
    survivors = [line for line, broken in result if survives(broken, judge, SEEDS)]
    assert len(survivors) <= 1 and all("try_wait" in line for line in survivors)


@pytest.mark.parametrize("gpu, overlaps", [("sm_90", True), ("sm_120", False)])
def test_level_1_overlaps_boxes_that_warpgroups_multiply(gpu, overlaps):
    """Of boxes that threads read, by the clock no round is shorter (docs/scheduling.md)."""
    kernel = attention_like(1, rows=64, columns=128, depth=128, steps=4, gpu_name=gpu)
    artifact = kernel.compiled(gpu, v2_opt_level=1, **BOXES)
    assert any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics)) == overlaps
