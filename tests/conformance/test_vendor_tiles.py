"""A few of the vendor's kernels with roles for warps: right, with every rule that is not waived."""

from __future__ import annotations

import platform

import pytest
from vendor_ptx import WAIVED
from vendor_tiles import TARGETS, attempt, compiled, tiled

from bench.whole_process import vendor_tool
from tileiras.sim import EmulationError, emulate
from tileiras.sim.emulator.rules import RULES

CASES = {case.name: case for case in tiled()}

pytestmark = [
    pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the cubin's code for the host is for x86-64"),
]


@pytest.mark.parametrize(
    ("name", "target", "uses"),
    [
        ("matmul f16 64x64x64", "sm_90", "wgmma.mma_async"),
        ("matmul f16 128x128x64 num_ctas=2", "sm_90", "multicast::cluster"),
        ("persistent f16 64x128x64 3x2 tiles", "sm_120", "mma.sync"),
        ("grouped 64x64x32", "sm_90", "tensormap.cp_fenceproxy"),
        ("attention 64x64x64", "sm_90", "wgmma.mma_async"),
        ("moe 64x64x64", "sm_90", "cp.async.mbarrier.arrive.noinc"),
    ],
)
def test_it_gives_what_numpy_does(name, target, uses):
    case = CASES[name]
    assert uses in compiled(case.source(), target).ptx
    assert attempt(case, target) == ""


def test_every_case_has_a_name_of_its_own():
    assert len(CASES) == len(tiled()) >= 40
    assert all(case.targets == TARGETS for case in tiled())


@pytest.mark.parametrize(
    ("name", "rule", "said"),
    [
        ("attention 64x64x64", "wgmma-fence", "written after the last wgmma.fence"),
        ("moe 64x64x64", "async-proxy", "cp.async.*no fence.proxy.async between"),
    ],
)
def test_only_rules_that_the_vendor_breaks_are_waived(name, rule, said):
    """Attention moves zeros into accumulators behind the fence; gathered rows get to the product without one."""
    assert set(WAIVED) < set(RULES)
    case = CASES[name]
    code = compiled(case.source(), "sm_90")
    rest = [each for each in WAIVED if each != rule]

    def launch(given):
        emulate(code.ptx, case.kernel, case.grid, given, hidden=code.hidden(case.kernel), waive=rest)

    with pytest.raises(EmulationError, match=said):
        case.run(launch)
