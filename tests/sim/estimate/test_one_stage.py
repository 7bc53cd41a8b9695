"""Loops of one stage, which wait for their own copies, in a group or not."""

import pytest
from micro_kernels import OUT, STORE, estimate, kernel, loop, per_iteration

from tests.machine_code import needs_tools
from tileiras.targets.rates import gpu

pytestmark = needs_tools


def copied(wait: str, stride: int = 16) -> str:
    """A copy by each thread, the wait for it, a barrier, and a load of the copied data."""
    body = f"cp.async.cg.shared.global [%r3], [%q1], 16;\n{wait}\nbar.sync 0;\nld.volatile.shared.f32 %f0, [%r3];"
    return kernel(
        f"""mad.wide.u32 %q1, %r1, 16, %a0;
        mov.u32 %r2, data;
        mad.lo.u32 %r3, %r1, {stride}, %r2;
        {loop(body, 60)}{STORE}""",
        128, "sm_80", 4096,
    )  # fmt: skip


def test_a_wait_for_all_copies_needs_no_group():
    """`cp.async.wait_all` waits for copies in no group as well (PTX ISA, "cp.async.wait_all")."""
    grouped = per_iteration(estimate(copied("cp.async.commit_group;\ncp.async.wait_group 0;"), [OUT], on="A100"))
    assert per_iteration(estimate(copied("cp.async.wait_all;"), [OUT], on="A100")) == pytest.approx(grouped, rel=0.02)
    assert grouped > gpu("A100").latency["l2"]


def test_a_wait_for_groups_leaves_copies_in_no_group():
    assert per_iteration(estimate(copied("cp.async.wait_group 0;"), [OUT], on="A100")) < gpu("A100").latency["l2"]


@pytest.mark.parametrize(("stride", "cycles"), [(16, 16 + 4 * 4), (32, 32 + 4 * 8)])
def test_copies_pass_the_port_once(stride, cycles):
    """16 wavefronts of four warps, twice as many where two lanes of eight meet in a bank, beside those of the loads."""
    found = estimate(copied("cp.async.wait_all;", stride), [OUT], on="A100")
    busy = found.utilization["shared memory"] * per_iteration(found)
    assert busy == pytest.approx(cycles, rel=0.05)
