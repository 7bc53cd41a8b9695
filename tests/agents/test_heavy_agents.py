"""The heavy variant of warp specialization: operations of the agent that computes overlap, and it waits for stages of
pipes and releases them around the operations that are split."""

import random

import pytest

import tileiras
from tests.agents.running import LIGHT, SEEDS, SPECIALIZED, is_specialized, sites, survives, verify
from tests.kernels import tensor_maps
from tests.kernels.dots import attention_like, converted, matmul, with_steps_at_run_time
from tests.kernels.loop_stages import loop_of, random_slots, slot
from tests.kernels.reasons import stated
from tests.kernels.tensor_maps import Arrays
from tests.tileas_stage import compiled_and_described, through
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import parse_module, print_op
from tileiras.sim import emulate

SCHEDULED = "tileas-generate-schedule"
REST = "tileas-materialize-schedule"
HEAVY = SPECIALIZED


def overlaps(artifact) -> bool:
    return any("loops.overlap stages=2 " in item for item in stated(artifact.diagnostics))


def in_random_stages(module, gpu, maps, rng, most):
    """PTX of a module whose loop leaves its loads to an agent, its operations in up to `most` stages, and its
    description."""
    loop = loop_of(module)
    stages = loop.attributes[tileas.LOOP_SCHEDULE].stages
    loop.attributes.pop(tileas.DOTS_IN_FLIGHT, None)
    slot(loop, random_slots(loop, rng, most), 2)
    loop.attributes[tileas.LOOP_SCHEDULE] = tileas.LoopScheduleAttr(tileas.WARP_SPECIALIZE, min(3, stages))
    through(module, gpu=gpu, from_=REST, tensor_maps=maps, **HEAVY)
    verify(print_op(module), gpu)
    code, metadata = compiled_and_described(module, gpu)
    assert is_specialized(code)
    return code, metadata


@pytest.mark.sampled(2)
@pytest.mark.pairwise(gpu=["sm_90", "sm_100", "sm_120"], maps=["none", "host"], seed=range(3))
def test_any_stages_of_attention(gpu, maps, seed):
    size = 32 if gpu == "sm_120" else 64
    kernel = attention_like(1, rows=size, columns=size, depth=size, steps=4, gpu_name=gpu, halved=seed % 2 == 0)
    kernel = with_steps_at_run_time(kernel, 4) if seed > 0 else kernel
    module = kernel.after(SCHEDULED, gpu, tensor_maps=maps, **LIGHT)
    code, metadata = in_random_stages(module, gpu, maps, random.Random(seed), 3)
    inputs = [array.view("u2") if array.dtype.kind == "V" else array for array in kernel.inputs]
    for order in (None, seed):
        result = [array.copy() for array in kernel.outputs]
        emulate(code, "k", kernel.grid, [*inputs, *result], metadata, seed=order)
        kernel._compare(result)


@pytest.mark.pairwise(gpu=["sm_90", "sm_100", "sm_120"], maps=["none", "host"], seed=range(2))
def test_any_stages_of_a_product_and_any_number_of_iterations(gpu, maps, seed):
    text = tileiras.compile(tensor_maps.matmul(), gpu_name=gpu, emit="tileaa").text
    module = through(parse_module(text, "k.mlir"), SCHEDULED, gpu, tensor_maps=maps, **LIGHT)
    code, metadata = in_random_stages(module, gpu, maps, random.Random(seed), 3)
    for steps in (0, 1, 2, 3, 5):
        Arrays(64, 71, max(1, steps) * 32).launch(code, metadata, seed, steps)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu, which", [("sm_90", "a"), ("sm_120", "b")])
@pytest.mark.parametrize("seed", range(2))
def test_computations_on_a_tile_run_in_the_stage_of_their_use(gpu, which, seed):
    kernel = converted((64, 64, 32), which, "f16", "tf32", steps=5)
    module = kernel.after(SCHEDULED, gpu, **LIGHT)
    code, metadata = in_random_stages(module, gpu, "none", random.Random(seed), 3)
    result = [array.copy() for array in kernel.outputs]
    emulate(code, "k", kernel.grid, [*kernel.inputs, *result], metadata, seed=seed)
    kernel._compare(result)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("maps", ["none", "host"])
def test_attention_overlaps_and_is_right(gpu, maps, assemble):
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4, gpu_name=gpu, halved=True)
    kernel = with_steps_at_run_time(kernel, 4) if maps == "host" else kernel
    artifact = kernel.check(gpu, v2_opt_level=2, tensor_maps=maps, **HEAVY)
    assert overlaps(artifact) and is_specialized(artifact.text)
    assert assemble(artifact.text, gpu).stack == 0
    for seed in (None, 1, 2):
        kernel.emulated(artifact, seed)


def test_tensor_memory_dots_use_the_light_variant():
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4, gpu_name="sm_100", halved=True)
    heavy, light = (kernel.compiled("sm_100", tensor_maps="host", **variant) for variant in (HEAVY, LIGHT))
    assert is_specialized(heavy.text) and heavy.text == light.text


def test_a_product_is_under_way_while_another_iteration_computes():
    """On sm_90 the maxima of an iteration are computed while a product is in flight; not with the light variant."""
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=4)
    under_way = []
    for variant in (LIGHT, HEAVY):
        module = kernel.after("tileas-materialize-async", "sm_90", v2_opt_level=2, **variant)
        loop = next(op for op in module.walk() if isinstance(op, scf.ForOp))
        issued = waited = most = 0
        for op in loop.body.block.operations:
            issued += op.name == "nv_tileas.async.dot"
            if op.name == "nv_tileas.async.future_wait":
                waited = issued - op.attributes["pending"].value
            if op.name == "nv_tileas.reduce":
                most = max(most, issued - waited)
        under_way.append(most)
    assert under_way == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("counted", [True, False])
def test_synchronization_of_agents_is_minimal(counted):
    """A release behind the split loop is required as well, although its stages are not filled again: it is in a branch
    if the number of iterations is not known."""
    kernel = attention_like(1, rows=64, columns=64, depth=32, steps=6)
    kernel = kernel if counted else with_steps_at_run_time(kernel, 6)
    artifact = kernel.compiled("sm_90", v2_opt_level=2, tensor_maps="host", **HEAVY)
    assert overlaps(artifact)

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    result = [(line, broken) for line, broken in sites(artifact.text) if "mbarrier" in line or "fence" in line]
    assert len(result) >= 10 and survives(artifact.text, judge, SEEDS[:3])
    assert [line for line, broken in result if survives(broken, judge, SEEDS[:3])] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("warps", [4, 8])
def test_one_warpgroup_overlaps_iterations_several_alternate(gpu, warps):
    kernel = attention_like(1, rows=128, columns=64, depth=64, steps=4, gpu_name=gpu)
    artifact = kernel.check(gpu, tensor_maps="host", num_warps=warps, **HEAVY)
    assert overlaps(artifact) == (warps == 4)


@pytest.mark.parametrize("tiles", [(64, 128, 16), (64, 64, 32)])
@pytest.mark.parametrize("variant", [LIGHT, HEAVY], ids=["light", "heavy"])
def test_pipes_are_as_deep_as_the_latency_of_loads_asks_for(tiles, variant):
    """Of both products an iteration is shorter than a load's way: there is a stage for each."""
    steps = 7
    kernel = matmul(tiles, steps=steps)
    module = kernel.after(REST, "sm_90", tensor_maps="host", **variant)
    assert [op.result.type.stages for op in module.walk() if isinstance(op, tileas.AllocTensorOp)] == [steps] * 2
    kernel.check("sm_90", tensor_maps="host", **variant)
