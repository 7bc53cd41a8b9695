"""What of a grid's accesses DRAM gives."""

import numpy as np
import pytest
from micro_kernels import OUT, estimate, kernel

from tileiras.codegen import toolkit
from tileiras.sim.estimate.recorder import record
from tileiras.sim.estimate.traffic import traffic
from tileiras.targets.rates import gpu

needs_tools = pytest.mark.skipif(
    toolkit.find_program("nvdisasm") is None or toolkit.find_program("ptxas") is None, reason="needs ptxas and nvdisasm"
)
BLOCK = 256 * 16
"""Bytes of a CTA's part of the array."""


def reader(times: int) -> str:
    """Each CTA reads its part of an array so many times, past L1."""
    loads = "\n".join(
        f"ld.global.cg.v4.u32 {{%r{10 + 4 * n}, %r{11 + 4 * n}, %r{12 + 4 * n}, %r{13 + 4 * n}}}, [%q1];\n"
        f"membar.gl;\nxor.b32 %r9, %r9, %r{10 + 4 * n};"
        for n in range(times)
    )
    return kernel(
        f"""mov.u32 %r9, 0;
        mov.u32 %r2, %ctaid.x;
        mad.lo.u32 %r3, %r2, 256, %r1;
        mad.wide.u32 %q1, %r3, 16, %a0;
        {loads}
        setp.eq.u32 %p1, %r9, 12345;
        @%p1 st.global.u32 [%a1], %r9;""",
        256, parameters=2,
    )  # fmt: skip


@pytest.mark.parametrize("times", [1, 3])
def test_what_a_cluster_reads_again_is_in_l2(times):
    ctas = 32
    array = np.zeros(ctas * BLOCK, np.uint8)
    recording = record(reader(times), "k", ctas, [array, OUT], blocks=[0, ctas - 1])
    moved = traffic(recording, ctas)
    (allocation,) = moved.allocations
    assert allocation.footprint == array.nbytes and allocation.miss == 1
    given = [
        [moved.dram_bytes(event.what) for at in sorted(trace.events) for event in trace.events[at]]
        for trace in recording.clusters[0].warps
    ]
    assert given == [[512.0] + [0.0] * (times - 1)] * 8


def test_what_clusters_share_is_shared_out():
    """All CTAs read the same part: each is the first for an equal share of it."""
    ctas = 32
    array = np.zeros(BLOCK, np.uint8)
    ptx = reader(1).replace("mov.u32 %r2, %ctaid.x;", "mov.u32 %r2, 0;")
    moved = traffic(record(ptx, "k", ctas, [array, OUT], blocks=[0, ctas - 1]), ctas)
    assert moved.allocations[0].footprint == BLOCK
    assert moved.allocations[0].miss == pytest.approx(1 / ctas)


@needs_tools
def test_reading_again_does_not_ask_dram_again():
    ctas = 8192
    array = np.zeros(ctas * BLOCK, np.uint8)
    once, thrice = (estimate(reader(times), [array, OUT], ctas) for times in (1, 3))
    least = array.nbytes / gpu("H200").dram_bytes_per_cycle
    assert least < once.cycles <= thrice.cycles
    assert thrice.utilization["DRAM"] * thrice.cycles == pytest.approx(once.utilization["DRAM"] * once.cycles, rel=0.05)
