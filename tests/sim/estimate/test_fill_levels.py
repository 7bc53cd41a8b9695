"""How many stages of pipes are full, in kernels whose waits are known."""

from itertools import pairwise

import numpy as np
import pytest
from boxes_in_time import estimated
from micro_kernels import OUT, STAGES, estimate, fma_chain, kernel, loop, ring

from tests.kernels.agents import TILE, copy_kernel, taking_turns
from tests.machine_code import needs_tools
from tests.tileas_stage import described
from tileiras.sim import estimate as clock
from tileiras.sim.estimate.result import Pipe

pytestmark = needs_tools


def of_ring(work: int, slow: int, **given: int) -> Pipe:
    (pipe,) = estimate(ring(work, slow, **given), [OUT]).pipes
    check(pipe)
    return pipe


def check(pipe: Pipe) -> None:
    """Levels are those of a ring that ends as empty as it begins, and its numbers follow from them."""
    times = [at for at, _ in pipe.levels]
    levels = [level for _, level in pipe.levels]
    assert times == sorted(times)
    assert levels[0] == levels[-1] == 0 and min(levels) == 0 and 0 < max(levels) <= pipe.stages
    lasting = [0.0] * (pipe.stages + 1)
    for (start, level), (end, _) in pairwise(pipe.levels):
        lasting[level] += end - start
    total = times[-1] - times[0]
    assert pipe.full == pytest.approx(sum(level * time for level, time in enumerate(lasting)) / total)
    assert pipe.empty_share == pytest.approx(lasting[0] / total)
    assert pipe.full_share == pytest.approx(lasting[-1] / total)


@pytest.mark.parametrize("stages", [1, 2, STAGES])
def test_a_producer_that_is_ahead_fills_all_stages(stages):
    pipe = of_ring(128, 4, stages=stages)
    assert pipe.stages == stages
    assert max(level for _, level in pipe.levels) == stages
    assert pipe.full_share > 0.5 > pipe.empty_share


def test_a_producer_that_is_behind_never_fills_a_second_stage():
    pipe = of_ring(4, 128)
    assert pipe.stages == STAGES
    assert max(level for _, level in pipe.levels) == 1
    assert pipe.empty_share > 0.5 and pipe.full_share == 0


def test_each_iteration_fills_one_stage():
    """Each way of a change takes FMAs, so that no two of one kind are at one time."""
    pipe = of_ring(16, 64, trips=7)
    assert sum(after - before for (_, before), (_, after) in pairwise(pipe.levels) if after > before) == 7


def test_a_loop_that_does_not_reach_all_stages():
    pipe = of_ring(128, 4, trips=STAGES - 1)
    assert (pipe.stages, max(level for _, level in pipe.levels)) == (STAGES, STAGES - 1)


def test_the_counter_of_the_trace_has_the_levels():
    result = estimate(ring(16, 64), [OUT])
    counted = [event for event in result.trace["traceEvents"] if event["ph"] == "C"]
    (pipe,) = result.pipes
    assert [(event["ts"], event["args"]["full stages"]) for event in counted] == list(pipe.levels)
    assert {(event["pid"], event["name"]) for event in counted} == {(0, f"pipe at byte {pipe.offset}, CTA 0.0")}


@pytest.mark.parametrize("grid", [2 * 132])
def test_every_cta_has_its_own(grid):
    pipes = estimate(ring(16, 64), [OUT], grid=grid).pipes
    assert len(pipes) >= 2 and len({(pipe.cluster, pipe.cta, pipe.offset) for pipe in pipes}) == len(pipes)
    for pipe in pipes:
        check(pipe)


def test_boxes_that_threads_ask_for_ahead_of_their_own_products():
    """The first acquisitions wait for nothing."""
    result = estimated((64, 64, 64), 16, "sm_90", "H200", "host", unspecialized_pipeline_num_stages=4)
    (pipe,) = result.pipes
    assert pipe.stages > 1
    assert max(level for _, level in pipe.levels) >= pipe.stages - 1


def test_pipes_next_to_each_other():
    """A mutex of two agents is two pipes of one stage; the one that begins leaves its token with the other."""
    text, metadata = described(taking_turns("sm_90"), "sm_90")
    arrays = [np.zeros(64 * TILE, np.float32) for _ in range(3)]
    pipes = clock(text, "k", 1, [*arrays, 7], gpu="H200", metadata=metadata).pipes
    assert [pipe.stages for pipe in pipes] == [1, 1]
    for pipe in pipes:
        assert {level for _, level in pipe.levels} == {0, 1}


@pytest.mark.parametrize("kind", ["cp_async", "st_shared"])
def test_rings_of_the_compiler(kind):
    text, metadata = described(copy_kernel(kind, "ld_shared", 3, "sm_90"), "sm_90")
    arrays = [np.zeros(64 * TILE, np.float32) for _ in range(3)]
    (pipe,) = clock(text, "k", 1, [*arrays, 20], gpu="H200", metadata=metadata).pipes
    assert pipe.stages == 3
    check(pipe)


@pytest.mark.parametrize("arrivals", [1, 2])
def test_barriers_at_which_warps_meet_are_no_pipe(arrivals):
    """Two barriers next to each other, whose phases end in turn."""
    meet = "\n".join(
        "\n".join(["mbarrier.arrive.shared.b64 _, [%r10+" + f"{8 * number}];"] * each)
        + f"""
        MEET{number}:
        mbarrier.try_wait.parity.shared.b64 %p4, [%r10+{8 * number}], %r13;
        @!%p4 bra MEET{number};"""
        for number, each in enumerate((1, arrivals))
    )
    inits = "\n".join(
        f"@%p1 mbarrier.init.shared.b64 [%r10+{8 * number}], {32 * each};" for number, each in enumerate((1, arrivals))
    )
    body = f"""mov.u32 %r10, data;\nmov.u32 %r13, 0;\nsetp.eq.u32 %p1, %r1, 0;\n{inits}\nbar.sync 0;
        {loop(meet + chr(10) + "xor.b32 %r13, %r13, 1;", 6)}"""
    result = estimate(kernel(body, shared=64), [OUT])
    assert result.pipes == () and "mbarrier" in {stall.reason for stall in result.stalls}


def test_a_kernel_without_mbarriers_has_no_pipes():
    assert estimate(fma_chain(16), [OUT]).pipes == ()
