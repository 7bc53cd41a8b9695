"""Kernels whose loads go to an agent of their own: right whichever agent is ahead, and without superfluous
synchronization."""

from __future__ import annotations

import re

import pytest

from tests.agents.running import LIGHT, SEEDS, SPECIALIZED, is_specialized, sites, survives
from tests.kernels.dots import attention_like, converted, matmul
from tests.kernels.pipelined import K, check, through_pointers
from tests.kernels.pipelined import matmul as with_run_time_bounds
from tests.kernels.reasons import stated
from tests.kernels.tensor_maps import Arrays, twice
from tests.kernels.tile_rounds import after_a_store, rounds
from tests.kernels.views import Kernel, names
from tests.tileas_stage import ptx
from tileiras import compile
from tileiras.codegen import machine_code
from tileiras.codegen import ptxas as assembler

BOX_LOAD = "mbarrier::complete_tx::bytes"
"""In each instruction that copies boxes to shared memory; stores of boxes have no mbarrier."""
STAGE_OF_AN_OPERAND = 64 * 32 * 2
"""Bytes, in `twice`."""

KERNELS = {
    "warpgroups": lambda: matmul((64, 32, 64), steps=7),
    "two warpgroups": lambda: matmul((128, 32, 64), steps=3, hints="sm_90 = {num_worker_warps_per_cta = 8}"),
    "warps": lambda: matmul((32, 32, 32), steps=6),
    "edges": lambda: matmul((64, 32, 64), steps=3, sizes=(60, 24, 168)),
    "tf32": lambda: matmul((64, 32, 32), "tf32", steps=3),
    "eight bits": lambda: matmul((64, 32, 64), "i8", steps=3, b_by_columns=True),
    "A outside": lambda: matmul((64, 32, 32), steps=5, a_outside=True),
    "attention": lambda: attention_like(1, rows=64, columns=64, depth=32, steps=3),
    "rounds": rounds,
    "rounds of warps": lambda: rounds((32, 32, 32)),
    "guarded rounds": lambda: rounds(count=6, guarded=True),
    "once": lambda: matmul((64, 32, 64), steps=2),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "gpu"),
    [*((name, "sm_90") for name in KERNELS), ("warps", "sm_100"), ("rounds", "sm_120"), ("attention", "sm_120")],
)
def test_kernels_in_any_order_of_their_agents(name, gpu, assemble):
    kernel: Kernel = KERNELS[name]()
    artifact = kernel.compiled(gpu, emit="ptx", **SPECIALIZED)
    assert is_specialized(artifact.text)
    assert assemble(artifact.text, gpu).stack == 0
    for seed in SEEDS[:2] if gpu == "sm_90" else SEEDS[1:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("maps", ["none", "host"])
def test_a_loop_around_large_accumulators_spills_nothing(maps, assemble):
    """128 accumulators, and the values that a loop over tiles keeps beside them."""
    artifact = rounds((128, 256, 64), count=3).compiled("sm_90", emit="ptx", tensor_maps=maps, **SPECIALIZED)
    assert is_specialized(artifact.text) and "setmaxnreg.inc" in artifact.text
    assert assemble(artifact.text, "sm_90").stack == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("through", [with_run_time_bounds, through_pointers])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_any_number_of_iterations(stages, through, assemble):
    code = ptx(through(), "sm_90", stages=stages, strategy="warp-specialize")
    assert is_specialized(code)
    assemble(code, "sm_90", "matmul")
    for steps in (-1, 0, 1, 2, 3, 7):
        for seed in SEEDS[:2]:
            check(code, 32, max(1, steps) * K, max(1, steps) * K, steps, seed)
    check(code, 9, 64, 64, 2)


@pytest.mark.parametrize("name", ["warpgroups", "two warpgroups", "edges", "A outside", "attention", "guarded rounds"])
def test_one_thread_copies_in_boxes(name, assemble):
    """The agent that loads has one warp."""
    kernel: Kernel = KERNELS[name]()
    artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps="host", **SPECIALIZED)
    assert "cp.async.bulk.tensor" in artifact.text
    compute = artifact.kernels[0].metadata["block"][0] - 32
    assert compute == (256 if name == "two warpgroups" else 128)
    assert assemble(artifact.text, "sm_90").stack == 0
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


@pytest.mark.parametrize("strategy", ["warp-specialize", "unspecialize"])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
def test_machine_code_copies_a_box_without_a_loop_over_threads(gpu, strategy, ptxas):
    """ptxas puts a copy whose operands it takes to differ between threads into a loop around `BRA.U.ANY`."""
    artifact = matmul((64, 64, 64), steps=5).compiled(gpu, emit="cubin", tensor_maps="host", pipeline_strategy=strategy)
    code = machine_code.read(artifact.data, "k").instructions
    assert sum(each.name.startswith("UTMALDG") for each in code) >= 2
    assert not any(each.name.startswith("BRA.U.ANY") for each in code)


@pytest.mark.parametrize("gpu", ["sm_100", "sm_120"])
def test_boxes_that_warps_read(gpu, assemble):
    kernel = rounds((32, 64, 32), count=3)
    artifact = kernel.compiled(gpu, emit="ptx", tensor_maps="host", **SPECIALIZED)
    assert is_specialized(artifact.text)
    assemble(artifact.text, gpu)
    kernel.emulated(artifact, 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("name", ["warpgroups", "warps", "rounds", "guarded rounds"])
def test_synchronization_of_agents_is_minimal(name, maps):
    kernel = KERNELS[name]()
    # Of deeper rings not all stages are used again.
    artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps=maps, unspecialized_pipeline_num_stages=4, **LIGHT)
    result = sites(artifact.text)
    assert len(result) >= 10

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    assert [line for line, broken in result if survives(broken, judge)] == []


def test_stores_of_threads_for_dots_are_fenced_once():
    """All threads fence behind their wait for the copies of A, which is after they have stored B."""
    kernel = converted((64, 16, 32), "b", "f32", "f16", steps=6)
    artifact = kernel.compiled("sm_90", emit="ptx", **LIGHT)
    fences = [(line, broken) for line, broken in sites(artifact.text) if line.startswith("fence.proxy")]
    assert is_specialized(artifact.text) and len(fences) == 1

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    assert survives(artifact.text, judge) and not survives(fences[0][1], judge)


def test_a_dot_is_under_way_when_the_next_one_begins():
    code = KERNELS["warpgroups"]().compiled("sm_90", emit="ptx", **SPECIALIZED).text
    assert re.findall(r"wgmma\.wait_group\.sync\.aligned (\d)", code) == ["1", "0"]


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
def test_boxes_come_to_no_place_that_threads_have_used(gpu, assemble):
    """A pipe keeps its place until its consumer has drained it, and no access to shared memory precedes the agents:
    boxes are copied only to places that no other proxy has accessed, except stages that threads fence before they
    release them.  One more fence precedes boxes that copy elements stored to memory by threads.  A ring of the plain
    schedule takes the place of the one before."""
    artifact = compile(twice(), gpu_name=gpu, emit="ptx", tensor_maps="host", **SPECIALIZED)
    code, metadata = artifact.text, artifact.kernels[0].metadata
    assert is_specialized(code) and code.count(BOX_LOAD) == 4
    assemble(code, gpu)
    stages = code.count("mbarrier.init") // 2
    assert metadata["shared_memory"] >= stages * 2 * STAGE_OF_AN_OPERAND
    plain = compile(twice(), gpu_name=gpu, emit="ptx", tensor_maps="host").kernels[0].metadata
    assert plain["shared_memory"] < 2 * (2 * stages * STAGE_OF_AN_OPERAND)
    arrays = Arrays(64, 64, 224)

    def judge(code, seed):
        arrays.launch(code, metadata, seed, times=2)

    assert survives(code, judge)
    fences = [(line, broken) for line, broken in sites(code) if line.startswith("fence.proxy")]
    assert len(fences) == (1 if gpu == "sm_90" else 3)
    assert [line for line, broken in fences if survives(broken, judge)] == []


@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize(
    ("depth", "columns", "given"), [(64, 64, []), (128, 128, ["dec 40", "inc 232"]), (256, 64, ["dec 40", "inc 232"])]
)
def test_registers_follow_from_values_in_flight(depth, columns, given, maps, assemble):
    """Three warpgroups start with 168 registers a thread, too few for 128 accumulators and 32 scores; so do nine warps,
    to which ptxas gives the registers of three warpgroups."""
    kernel = attention_like(1, rows=128, columns=columns, depth=depth)
    code = kernel.compiled("sm_90", emit="ptx", tensor_maps=maps, **SPECIALIZED).text
    assert sorted({" ".join(match) for match in re.findall(r"setmaxnreg\.(\w+)\S* (\d+);", code)}) == given
    assert assemble(code, "sm_90").stack == 0
    without = code.replace("setmaxnreg.inc", "// ").replace("setmaxnreg.dec", "// ")
    complaints = str(assembler.assemble(without, "sm_90").messages)
    assert ("serialized due to insufficient register resources" in complaints) == bool(given)


def test_every_warp_that_gives_registers_back_is_waited_for():
    """Those of no agent as well, which fill up the warpgroup of the one that loads."""
    kernel = matmul((128, 256, 64), steps=3)
    artifact = kernel.compiled("sm_90", emit="ptx", tensor_maps="host", **SPECIALIZED)
    result = [(line, broken) for line, broken in sites(artifact.text) if line.startswith("setmaxnreg.dec")]
    assert len(result) == 2

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    assert survives(artifact.text, judge, SEEDS[:1])
    assert [line for line, broken in result if survives(broken, judge, SEEDS[:1])] == []


def test_loads_behind_a_store_stay_with_it():
    """Of A, or of C, which may be the same memory."""
    for aliased in (True, False):
        kernel = after_a_store(aliased=aliased)
        artifact = kernel.compiled("sm_90", emit="ptx", **SPECIALIZED)
        assert not is_specialized(artifact.text)
        assert "agents.ordered-after op=nv_tileas.tiled_store" in said(artifact)
        kernel.emulated(artifact)


def test_a_nested_loop_has_boxes_with_and_without_agents():
    """Agents' pipes stay from round to round; a ring of the loop's own has its mbarriers initialised in each."""
    inits = []
    for strategy in ("warp-specialize", "unspecialize"):
        code = rounds().compiled("sm_90", emit="ptx", tensor_maps="host", pipeline_strategy=strategy).text
        assert BOX_LOAD in code
        inits.append("mbarrier.inval" in code)
    assert inits == [False, True]


def test_a_loop_with_too_many_warps_for_agents_has_its_own_ring():
    kernel = rounds(guarded=True)
    code = kernel.compiled("sm_90", emit="ptx", tensor_maps="host", num_warps=32, **SPECIALIZED)
    assert "agents.too-many-warps warps=64" in said(code) and code.kernels[0].metadata["block"][0] == 32 * 32
    assert BOX_LOAD in code.text
    kernel.emulated(code)


@pytest.mark.parametrize(
    ("kernel", "gpu", "reason"),
    [
        (KERNELS["warps"], "sm_80", "agents.no-registers-by-agent target=sm_80"),
        (lambda: matmul((64, 64, 64)), "sm_90", "agents.no-loads-ahead"),
        (lambda: matmul((128, 128, 64), steps=4, hints="sm_90 = {occupancy = 2}"), "sm_90",
         "agents.too-few-registers "),
    ],
)
def test_loops_that_cannot_be_split_get_the_plain_schedule(kernel, gpu, reason):
    result = kernel()
    artifact = result.compiled(gpu, emit="ptx", **SPECIALIZED)
    assert reason in said(artifact)
    assert artifact.text == result.compiled(gpu, emit="ptx").text
    result.emulated(artifact)


@pytest.mark.parametrize(
    ("kernel", "maps", "reason"),
    [
        (lambda: matmul((64, 64, 64), steps=4), "host", ""),
        (lambda: matmul((64, 64, 64), steps=4), "none", "agents.copies-dominate copies=8 "),
        (lambda: matmul((64, 64, 64), steps=2), "host", "agents.few-iterations iterations=2"),
        (lambda: matmul((64, 32, 32), steps=4), "host", "agents.few-bytes bytes=6144 least=8192"),
    ],
)
def test_where_agents_pay(kernel, maps, reason):
    result = kernel()
    artifact = result.compiled("sm_90", emit="ptx", tensor_maps=maps, pipeline_strategy="auto")
    chosen = "unspecialize" if reason else "warp-specialize"
    assert artifact.text == result.compiled("sm_90", emit="ptx", tensor_maps=maps, pipeline_strategy=chosen).text
    assert (reason or "agents.loads-specialized ") in said(artifact)
    result.emulated(artifact, 1)


def test_without_optimization_all_warps_do_the_same():
    kernel = KERNELS["warps"]()
    artifact = kernel.compiled("sm_90", emit="ptx", opt_level=0, **SPECIALIZED)
    assert not is_specialized(artifact.text)
    kernel.emulated(artifact)


def said(artifact) -> str:
    return "\n".join(stated(artifact.diagnostics))


def test_the_copies_are_in_the_agent_that_loads_only():
    module = KERNELS["rounds"]().tileas("sm_90", **SPECIALIZED)
    (switch,) = (op for op in module.walk() if op.name.endswith("agent_switch"))
    computing, loading = ({inner.name for op in region.operations for inner in op.walk()} for region in switch.agents)
    assert "nv_tileas.async.tiled_load" in loading - computing
    assert {"nv_tileas.async.dot", "nv_tileas.tiled_store"} <= computing - loading
    assert "nv_tileas.async.wait" not in names(module)
