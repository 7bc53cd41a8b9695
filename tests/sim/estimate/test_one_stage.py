"""Loops of one stage, which wait for their own copies: with and without groups, and with CTAs of an SM in phase."""

import numpy as np
import pytest
from micro_kernels import OUT, STORE, estimate, independent_fma, kernel, loop, per_iteration

from tests.machine_code import needs_tools
from tileiras.sim.estimate.barriers import Cause
from tileiras.sim.estimate.in_step import InStep
from tileiras.sim.estimate.uncertainty import NEUTRAL
from tileiras.targets.rates import gpu

TRIPS, LOADS = 24, 8
CAUSE = Cause("warp", 0, 0, 0.0, 0.0, 0.0)


class Freed:
    """Records which clusters go on, and when."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def __call__(self, waiting, at, latency, reason, cause) -> None:
        self.told.append((waiting, at))


def test_a_barrier_waits_for_the_other_clusters_of_its_generation():
    freed = Freed()
    step = InStep(2, 3, freed)
    step.complete(0, (0, 0), "first", 10.0, CAUSE)
    assert not freed.told
    step.complete(1, (0, 0), "second", 25.0, CAUSE)
    assert freed.told == [("first", 25.0), ("second", 25.0)]
    step.complete(2, (0, 0), "alone in its generation", 30.0, CAUSE)
    assert freed.told[2:] == [("alone in its generation", 30.0)]


def test_no_cluster_waits_for_one_that_has_ended():
    freed = Freed()
    step = InStep(2, 2, freed)
    step.complete(0, (0, 1), "first", 10.0, CAUSE)
    step.end(1, 40.0)
    assert freed.told == [("first", 40.0)]
    step.complete(0, (0, 1), "next", 50.0, CAUSE)
    assert freed.told[1:] == [("next", 50.0)]


def one_stage(work: int, barriers: bool = True) -> str:
    """16 KiB of loads by 128 threads, a barrier, dependent FMAs and a barrier, each iteration."""
    meet = "bar.sync 0;" if barriers else ""
    loads = "\n".join(
        f"ld.global.v4.f32 {{%f{10 + 4 * n}, %f{11 + 4 * n}, %f{12 + 4 * n}, %f{13 + 4 * n}}}, [%q1+{2048 * n}];"
        for n in range(LOADS)
    )
    stores = "\n".join(f"st.shared.f32 [%r3+{512 * n}], %f{10 + 4 * n};" for n in range(LOADS))
    chain = "\n".join(["fma.rn.f32 %f0, %f0, %f1, %f2;"] * work)
    body = f"{loads}\n{stores}\n{meet}\nld.shared.f32 %f2, [%r3];\n{chain}\n{meet}\nadd.s64 %q1, %q1, {2048 * LOADS};"
    return kernel(
        f"""mov.f32 %f0, 0f3F800000;
        mov.f32 %f1, 0f3F000000;
        mad.wide.u32 %q1, %r1, 16, %a1;
        mov.u32 %r2, data;
        mad.lo.u32 %r3, %r1, 4, %r2;
        {loop(body, TRIPS)}{STORE}""",
        128, "sm_80", 40_000, 2,
    )  # fmt: skip


@needs_tools
@pytest.mark.parametrize("work", [128, 256])
def test_loops_of_one_stage_are_slower_in_phase(work):
    """In phase, an SM loads for both CTAs before any of them computes."""
    a100 = gpu("A100")
    source = np.zeros(TRIPS * 2048 * LOADS // 4, np.float32)
    found = estimate(one_stage(work), [OUT, source], grid=2 * a100.sms, on="A100")
    assert found.occupancy.ctas == 2
    # At most the loads of the other CTA, at an SM's share of L2.
    most = TRIPS * 2048 * LOADS / (a100.l2_bytes_per_cycle / a100.sms) / a100.sustained_mhz
    assert 0.1 * most < found.needs.apart < 1.3 * most
    assert found.microseconds == pytest.approx(found.needs.under(NEUTRAL))
    assert found.low < found.needs.under({**NEUTRAL, "phase": 0.0})
    assert found.high > found.needs.under({**NEUTRAL, "phase": 1.0})


@needs_tools
def test_warps_that_never_meet_have_no_phase():
    assert estimate(independent_fma(128, trips=100), [OUT], grid=gpu("H200").sms * 4).needs.apart == 0.0


def copied(wait: str) -> str:
    """A copy by each thread, the wait for it, a barrier, and a load of the copied data."""
    body = f"cp.async.cg.shared.global [%r3], [%q1], 16;\n{wait}\nbar.sync 0;\nld.volatile.shared.f32 %f0, [%r3];"
    return kernel(
        f"""mad.wide.u32 %q1, %r1, 16, %a0;
        mov.u32 %r2, data;
        mad.lo.u32 %r3, %r1, 16, %r2;
        {loop(body, 60)}{STORE}""",
        128, "sm_80", 4096,
    )  # fmt: skip


@needs_tools
def test_a_wait_for_all_copies_needs_no_group():
    """`cp.async.wait_all` waits for copies in no group as well (PTX ISA, "cp.async.wait_all")."""
    grouped = per_iteration(estimate(copied("cp.async.commit_group;\ncp.async.wait_group 0;"), [OUT], on="A100"))
    assert per_iteration(estimate(copied("cp.async.wait_all;"), [OUT], on="A100")) == pytest.approx(grouped, rel=0.02)
    assert grouped > gpu("A100").latency["l2"]


@needs_tools
def test_a_wait_for_groups_leaves_copies_in_no_group():
    assert per_iteration(estimate(copied("cp.async.wait_group 0;"), [OUT], on="A100")) < gpu("A100").latency["l2"]
