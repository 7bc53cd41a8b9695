"""Loops that go through single stages whose loads an agent takes: one stage for tiles that are read first in an
iteration, two for those that are read last, where shared memory has room for that and not for two of each."""

from __future__ import annotations

import random
import re

import pytest

from tests.agents.running import SEEDS, SPECIALIZED, survives
from tests.kernels.deletions import deletions
from tests.kernels.dots import attention_like
from tests.kernels.dots import with_steps_at_run_time as at_run_time
from tests.kernels.reasons import stated
from tests.kernels.views import Kernel
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, parse_module
from tileiras.ir.pass_manager import PassContext, PassManager
from tileiras.schedule.agents.load_agent import MaterializeSchedule

GPU = "sm_100"
UNSPECIALIZED = "agents.loads-stay variant=auto; "


def attention(steps: int = 3, rows: int = 64, columns: int = 256, ctas: int = 1, depth: int = 128) -> Kernel:
    """K and V have 64 KB each, Q 16, and a CTA 227."""
    return attention_like(ctas, rows=rows, columns=columns, depth=depth, steps=steps, gpu_name=GPU, halved=True)


def stages(kernel: Kernel, gpu: str = GPU, **options) -> list[int]:
    """The stages of the pipes of K and of V; that of Q, which does not change, comes behind them."""
    text = kernel.compiled(gpu, emit="tileas", **options).text
    return [int(match) for match in re.findall(r"stages (\d) producer = (?:bulk_load|cp_async)", text)][:2]


def said(kernel: Kernel, **options) -> list[str]:
    return stated(kernel.compiled(GPU, emit="tileas", **options).diagnostics)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [{}, SPECIALIZED], ids=["auto", "warp-specialize"])
@pytest.mark.parametrize("maps", ["none", "host"])
def test_kernels_in_any_order_of_their_agents(options, maps, assemble):
    kernel = attention()
    assert stages(kernel, tensor_maps=maps, **options) == [1, 2]
    assert "agents.pipe-stages stages=2" in said(kernel, tensor_maps=maps, **options)
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps=maps, **options)
    # Threads that copy K and V, 16 bytes each time, have 40 registers for their addresses.
    assert assemble(artifact.text, GPU).stack <= (0 if maps == "host" else 8)
    for seed in SEEDS[: 2 if options else 1]:
        kernel.emulated(artifact, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("steps", [1, 4])
def test_a_number_of_iterations_that_only_the_launch_knows(maps, steps):
    kernel = at_run_time(attention(steps), steps)
    assert stages(kernel, tensor_maps=maps) == [1, 2]
    kernel.emulated(kernel.compiled(GPU, emit="ptx", tensor_maps=maps), 1)


@pytest.mark.slow
def test_synchronization_is_minimal():
    """One deletion in five.  Fences behind the initialisation of mbarriers stay: commits signal mbarriers as well, but
    the emulator requires the fence only for copies."""
    kernel = attention()
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host")
    result = [each for each in deletions(artifact.text) if not each.deleted.startswith("fence.mbarrier_init")]
    assert {"wait for a phase", "mbarrier", "arrival", "barrier", "tensor memory"} <= {each.kind for each in result}

    def judge(code, seed):
        kernel.emulated(artifact, seed, code)

    chosen = random.Random(5).sample(result, len(result) // 5)
    assert [each.deleted for each in chosen if survives(each.text, judge, SEEDS[:3])] == []


KEPT = {
    "agents.no-second-stage": lambda: attention(rows=128, columns=128, depth=256),
    "agents.one-thread-copies-already: few rows": lambda: attention(rows=32),
    "agents.one-thread-copies-already: 320 columns of 256": lambda: attention(columns=128, ctas=2),
}


@pytest.mark.parametrize("reason", KEPT)
def test_where_nothing_is_gained(reason):
    kernel = KEPT[reason]()
    (result,) = (each for each in said(kernel, tensor_maps="host") if each.startswith(UNSPECIALIZED))
    assert reason.partition(":")[0] in result
    assert not is_specialized(kernel)


def is_specialized(kernel: Kernel, **options) -> bool:
    return "agent_switch" in kernel.compiled(GPU, emit="tileas", tensor_maps="host", **options).text


def test_an_agent_that_is_asked_for_loads_without_such_a_gain():
    kernel = attention(columns=128, ctas=2)
    assert is_specialized(kernel, **SPECIALIZED)
    artifact = kernel.compiled(GPU, emit="ptx", tensor_maps="host", **SPECIALIZED)
    for seed in SEEDS[:2]:
        kernel.emulated(artifact, seed)


def scheduled(module: Operation) -> tuple[list[str], list[int]]:
    """The schedules of its loops, and the stages of loads that have their own."""
    schedules = [str(op.attributes[tileas.LOOP_SCHEDULE]) for op in module.walk() if isinstance(op, scf.ForOp)]
    return schedules, [op.attributes[tileas.STAGES].value for op in module.walk() if tileas.STAGES in op.attributes]


def test_the_schedule_can_be_edited_between_passes():
    module = attention().after("tileas-generate-schedule", GPU, tensor_maps="host")
    assert scheduled(module) == (["#nv_tileas.loop_schedule<warp_specialize, 1>"], [2])
    again = parse_module(str(module), "k.mlir")
    PassManager([MaterializeSchedule(compute_capability=GPU)]).run(again, PassContext(None))
    assert "stages 2 producer = bulk_load" in str(again) and scheduled(again)[1] == []
    # The text requests more shared memory than an SM has: single stages without an agent.
    crowded = parse_module(str(module).replace("occupancy = 1", "occupancy = 2"), "k.mlir")
    engine = DiagnosticEngine()
    PassManager([MaterializeSchedule(compute_capability=GPU)]).run(crowded, PassContext(engine))
    assert scheduled(crowded) == (["#nv_tileas.loop_schedule<single_buffer, 1>"], [])
    assert stated(engine.diagnostics) == ["agents.not-split; agents.no-shared-memory stages=1"]
