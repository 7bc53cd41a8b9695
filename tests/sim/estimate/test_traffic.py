"""The part of a grid's accesses that DRAM serves."""

import numpy as np
import pytest
from micro_kernels import OUT, STORE, copy_kernel, estimate, kernel, loop, per_iteration

import tileiras.sim
from tests.machine_code import needs_tools
from tileiras.sim.estimate import sampling
from tileiras.sim.estimate.recorder import record
from tileiras.sim.estimate.traffic import Cache, traffic
from tileiras.targets.rates import gpu

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
def test_rereads_of_a_cluster_hit_l2(times):
    ctas = 32
    array = np.zeros(ctas * BLOCK, np.uint8)
    recording = record(reader(times), "k", ctas, [array, OUT], blocks=[0, ctas - 1])
    moved = traffic(recording, ctas)
    (allocation,) = moved.allocations
    assert allocation.footprint == array.nbytes and allocation.miss == 1
    result = [
        [moved.dram_bytes(event.operation) for at in sorted(trace.events) for event in trace.events[at]]
        for trace in recording.clusters[0].warps
    ]
    assert result == [[512.0] + [0.0] * (times - 1)] * 8


def test_shared_work_of_clusters_is_distributed():
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
    # Both are bound by DRAM, whose traffic is the same up to the share of each sector that misses.
    assert least < once.cycles and thrice.cycles > 0.97 * once.cycles
    assert thrice.utilization["DRAM"] * thrice.cycles == pytest.approx(once.utilization["DRAM"] * once.cycles, rel=0.05)


# ---- data larger than L2 -------------------------------------------------------------------------------------------

ALONG, TIMES = 2048, 5
"""Clusters with a part of the array each, and how often all of them are gone through: 8 MiB, five times."""


def gone_through(cache: Cache):
    array = np.zeros(ALONG * BLOCK, np.uint8)
    shape = (ALONG, TIMES, 1)
    places = sampling.ends(shape)
    recording = record(reader(1), "k", shape, [array, OUT], blocks=places)
    visits = [[trace.visits for trace in cluster.warps] for cluster in recording.clusters]
    return traffic(recording, ALONG * TIMES, sampling.sampled(shape, places, visits), places, cache).allocations[0]


def test_data_held_by_l2_is_fetched_once():
    result = gone_through(Cache(ALONG * BLOCK, resident=132))
    assert result.again == 0 and result.miss == pytest.approx(1 / TIMES)


def test_data_larger_than_l2_is_fetched_again():
    """Of data twice its size, a cache with random replacement hits a fifth: h = exp(-2 (1 - h))."""
    half = gone_through(Cache(ALONG * BLOCK / 2, resident=132))
    assert half.again == pytest.approx((TIMES - 1) * ALONG * BLOCK * (1 - 0.2032), rel=1e-3)
    tenth = gone_through(Cache(ALONG * BLOCK / 10, resident=132))
    assert half.again < tenth.again < (TIMES - 1) * ALONG * BLOCK
    assert tenth.miss == pytest.approx(1, rel=1e-3)


def test_simultaneous_accesses_of_clusters_count_once():
    assert gone_through(Cache(1024, resident=ALONG + 1)).again == 0


@needs_tools
def test_a_larger_l2_is_never_slower():
    array = np.zeros(ALONG * BLOCK, np.uint8)
    chosen = gpu("A100")
    ptx = reader(1).replace("sm_90a", "sm_80")
    small, enough, large = (
        estimate(ptx, [array, OUT], (ALONG, TIMES), on=chosen._replace(l2_bytes=size << 20)) for size in (1, 8, 80)
    )
    assert small.cycles > 1.2 * enough.cycles and enough.cycles == large.cycles


def copied(size: int, cache: Cache):
    """A launch that copies so many bytes."""
    source, to = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    ctas = size // 16384
    places = sampling.ends((ctas, 1, 1))
    recording = record(copy_kernel(), "k", ctas, [source, to], blocks=places)
    visits = [[trace.visits for trace in cluster.warps] for cluster in recording.clusters]
    return traffic(recording, ctas, sampling.sampled((ctas, 1, 1), places, visits), places, cache)


def test_dirty_lines_of_a_full_l2_are_written_back_first():
    size = 1 << 24
    assert copied(size, Cache(1 << 30, 132)).displacing == 1
    # All that is read and written displaces something: once more than is read.
    assert copied(size, Cache(1 << 30, 132, dirty=True)).displacing == pytest.approx(1.5)
    # Of a launch that moves eight times the size of L2: the old contents, then half of its own data that it displaces.
    moved = copied(size, Cache(2 * size / 8, 132, dirty=True))
    assert moved.displacing == pytest.approx(0.5 + 1 / 8 + 7 / 8 / 2)


@needs_tools
def test_a_copy_behind_a_fill_takes_longer():
    size = 1 << 24
    ctas = size // 16384
    source, to = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    clean, dirty = (
        tileiras.sim.estimate(copy_kernel("sm_120"), "k", ctas, [source, to], gpu="RTX PRO 6000", dirty_l2=dirty)
        for dirty in (False, True)
    )
    assert dirty.cycles == pytest.approx(1.5 * clean.cycles, rel=0.1)


@needs_tools
def test_a_fence_for_the_gpu_waits_for_l2():
    """One that is for the CTA alone does not."""

    def fenced(scope: str) -> str:
        return kernel(f"mov.f32 %f0, 0f3F800000;\n{STORE}\n" + loop(f"st.global.f32 [%q30], %f0;\nmembar.{scope};", 40))

    cta, whole = (per_iteration(estimate(fenced(scope), [OUT])) for scope in ("cta", "gl"))
    assert whole - cta > 0.9 * gpu("H200").latency["l2"]


# ---- what the clusters of a simulation do not show ------------------------------------------------------------------


def crossing(late: int) -> str:
    """Two warps; each has half of every sector of 256 bytes; the one of this number loads after the other."""
    return kernel(
        f"""mov.u32 %r2, %ctaid.x;
        and.b32 %r3, %r1, 31;
        shr.u32 %r4, %r1, 5;
        mad.lo.u32 %r5, %r3, 2, %r4;
        mad.lo.u32 %r5, %r2, 64, %r5;
        mad.wide.u32 %q1, %r5, 4, %a0;
        setp.eq.u32 %p1, %r4, {late};
        @%p1 bar.sync 1, 64;
        ld.global.u32 %r6, [%q1];
        @!%p1 bar.arrive 1, 64;
        setp.eq.u32 %p2, %r6, 12345;
        @%p2 st.global.u32 [%a1], %r6;""",
        64, parameters=2,
    )  # fmt: skip


@needs_tools
@pytest.mark.parametrize("late", [0, 1])
def test_the_first_warp_fetches_lines_that_both_read(late):
    ctas = 1 << 16
    array = np.zeros(ctas * 64, np.float32)
    result = estimate(crossing(late), [array, OUT], ctas)
    least = array.nbytes / gpu("H200").dram_bytes_per_cycle
    assert result.utilization["DRAM"] * result.cycles == pytest.approx(least, rel=0.15)


@needs_tools
def test_no_grid_takes_less_than_dram_does():
    """Each CTA ends with stores for which nothing in it waits: what the next ones bring is not all that DRAM has to
    do."""
    ctas = 1 << 16
    arrays = [np.zeros(ctas * 256, np.float32) for _ in range(2)]
    ptx = kernel(
        """mov.u32 %r2, %ctaid.x;
        mad.lo.u32 %r3, %r2, 256, %r1;
        mad.wide.u32 %q1, %r3, 4, %a0;
        mad.wide.u32 %q2, %r3, 4, %a1;
        ld.global.u32 %r10, [%q1];
        st.global.u32 [%q2], %r10;""",
        256, parameters=2,
    )  # fmt: skip
    result = estimate(ptx, arrays, ctas)
    assert result.cycles >= 2 * arrays[0].nbytes / gpu("H200").dram_bytes_per_cycle
    assert result.bound == "DRAM"
