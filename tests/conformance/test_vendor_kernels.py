"""A few of the vendor's warp-specialized kernels are right under every rule that is not waived."""

from __future__ import annotations

import platform
import re

import pytest
from sample_kernels import samples
from tiled_kernels import tiled
from vendor_kernels import attempt, compiled, main
from vendor_ptx import WAIVED

from bench.whole_process import vendor_tool
from tileiras.sim.emulator.rules import RULES

CASES = {case.name: case for case in tiled()}

pytestmark = [
    pytest.mark.skipif(vendor_tool() is None, reason="no vendor's compiler"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the cubin's code for the host is for x86-64"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "target", "uses"),
    [
        ("matmul f16 64x64x64", "sm_90", "wgmma.mma_async"),
        ("matmul f16 128x128x64 num_ctas=2", "sm_90", "multicast::cluster"),
        ("persistent f16 64x128x64 3x2 tiles", "sm_120", "mma.sync"),
        ("grouped 64x64x32", "sm_90", "tensormap.cp_fenceproxy"),
        ("attention 64x64x64", "sm_90", "wgmma.mma_async"),
        ("moe 64x64x64", "sm_90", "cp.async.mbarrier.arrive.noinc"),
        ("matmul f16 64x64x64", "sm_100", "tcgen05.mma"),
        ("attention 64x64x64", "sm_100", "tcgen05.mma"),
    ],
)
def test_results_equal_numpys(name, target, uses):
    case = CASES[name]
    assert uses in compiled(case, target).ptx
    result, steps = attempt(case, target)
    assert result == "" and steps > 100


def test_every_case_has_a_name_of_its_own():
    pytest.importorskip("cuda.tile")
    names = [(case.source, case.name) for case in (*tiled(), *samples())]
    assert len(set(names)) == len(names) >= 100
    assert {source for source, _ in names} == {"examples", "samples", "gym", "own"}


def test_the_table_that_the_runner_prints(capsys, monkeypatch):
    command = ["vendor_kernels.py", "--targets", "sm_90,sm_120", "--match", "f16 32x32x32"]
    monkeypatch.setattr("sys.argv", [*command, "--figures"])
    assert main() == 0
    printed = capsys.readouterr().out
    assert "| matmul f16 32x32x32 | equal (" in printed and "equal: 1 for sm_90, 1 for sm_120" in printed


@pytest.mark.parametrize(
    ("name", "rule", "said"),
    [
        ("attention 64x64x64", "wgmma-fence", "written after the last wgmma.fence"),
        ("moe 64x64x64", "async-proxy", "cp.async.*no fence.proxy.async between"),
    ],
)
def test_only_rules_that_the_vendor_breaks_are_waived(name, rule, said):
    """Attention zeroes accumulators after the fence; gathered rows are multiplied without one."""
    assert set(WAIVED) < set(RULES)
    rest = [each for each in WAIVED if each != rule]
    outcome, _ = attempt(CASES[name], "sm_90", waive=rest)
    assert re.search(f"EmulationError: .*{said}", outcome)
