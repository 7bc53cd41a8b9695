"""Clusters of blocks, transaction barriers, bulk copies."""

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

SEEDS = [None, 0, 1, 2]

NEIGHBOUR = """
    .shared .align 4 .b8 cell[4];
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; setp.ne.u32 %p1, %r3, 0;
    mul.lo.u32 %r4, %r2, 10; mov.u32 %r5, cell; @!%p1 st.shared.u32 [%r5], %r4;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    add.u32 %r6, %r1, 1; and.b32 %r6, %r6, 1; mapa.shared::cluster.u32 %r7, %r5, %r6;
    ld.shared::cluster.u32 %r8, [%r7]; mad.lo.u32 %r9, %r2, 64, %r3; mad.wide.u32 %q1, %r9, 4, %a0;
    st.global.u32 [%q1], %r8;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_a_cluster_read_each_other(kernel, seed):
    ptx = kernel(NEIGHBOUR, threads=64)
    out = np.zeros((6, 64), np.uint32)
    emulate(ptx, "k", 6, [out], cluster=(2, 1, 1), seed=seed)
    assert (out == ((np.arange(6) ^ 1) * 10)[:, None]).all()


def test_without_the_cluster_barrier_the_neighbour_is_not_ready(kernel):
    body = NEIGHBOUR.replace("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;", "", 1)
    ptx = kernel(body, threads=64)

    def fails(seed: int) -> bool:
        try:
            emulate(ptx, "k", 2, [np.zeros((2, 64), np.uint32)], cluster=(2, 1, 1), seed=seed)
        except EmulationError as error:
            return "read before it is written" in str(error)
        return False

    assert any(fails(seed) for seed in range(8))


PIPELINE = """
    .shared .align 128 .b8 tile[1024]; .shared .align 8 .b8 full[8]; .shared .align 8 .b8 empty[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, full; mov.u32 %r4, empty; mov.u64 %q2, %a0; mov.u32 %r10, 0;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1; mbarrier.init.shared.b64 [%r4], 32; fence.mbarrier_init.release.cluster;
    READY: bar.sync 0;
    shr.u32 %r5, %r1, 5; setp.ne.u32 %p2, %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; @%p2 bra CONSUME;
    setp.ne.u32 %p3, %r1, 0; @%p3 bra DONE;
    PRODUCE: xor.b32 %r8, %r7, 1;
    P_WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], %r8; @!%p4 bra P_WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%q2], 1024, [%r3];
    add.u64 %q2, %q2, 1024; xor.b32 %r7, %r7, 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p5, %r6, 4; @%p5 bra PRODUCE;
    bra DONE;
    CONSUME: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r3], %r7; @!%p4 bra CONSUME;
    and.b32 %r9, %r1, 31; mad.lo.u32 %r9, %r9, 32, %r2;
    ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r9]; ld.shared.v4.u32 {%r24, %r25, %r26, %r27}, [%r9+16];
    add.u32 %r20, %r20, %r21; add.u32 %r22, %r22, %r23; add.u32 %r24, %r24, %r25; add.u32 %r26, %r26, %r27;
    add.u32 %r20, %r20, %r22; add.u32 %r24, %r24, %r26; add.u32 %r20, %r20, %r24; add.u32 %r10, %r10, %r20;
    fence.proxy.async.shared::cta; mbarrier.arrive.shared.b64 %q5, [%r4];
    xor.b32 %r7, %r7, 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p5, %r6, 4; @%p5 bra CONSUME;
    redux.sync.add.u32 %r10, %r10, -1; st.global.u32 [%a1], %r10;
    DONE:
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_producer_and_consumer(kernel, seed):
    data = np.random.default_rng(0).integers(0, 1000, 1024).astype(np.uint32)
    out = np.zeros(1, np.uint32)
    emulate(kernel(PIPELINE, (".u64", ".u64"), threads=64), "k", 1, [data, out], seed=seed)
    assert out[0] == data.sum()


@pytest.mark.parametrize(
    ("wait", "instead"),
    [
        ("CONSUME: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r3], %r7; @!%p4 bra CONSUME;", "CONSUME:"),
        ("P_WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r4], %r8; @!%p4 bra P_WAIT;", ""),
    ],
)
def test_without_a_wait_the_pipeline_fails(kernel, wait, instead):
    assert wait in PIPELINE
    ptx = kernel(PIPELINE.replace(wait, instead), (".u64", ".u64"), threads=64)
    data = np.random.default_rng(0).integers(0, 1000, 1024).astype(np.uint32)

    def fails(seed) -> bool:
        out = np.zeros(1, np.uint32)
        try:
            emulate(ptx, "k", 1, [data, out], seed=seed)
        except EmulationError:
            return True
        return out[0] != data.sum()

    assert all(fails(seed) for seed in SEEDS)


def test_read_buffers_are_overwritten_after_a_fence(kernel):
    """The consumers have read through the generic proxy, the next copy writes through the asynchronous one."""
    body = PIPELINE.replace("fence.proxy.async.shared::cta; ", "")
    data, out = np.arange(1024, dtype=np.uint32), np.zeros(1, np.uint32)
    with pytest.raises(EmulationError, match=r"read by warp 1 at line 33 .*no fence.proxy.async between"):
        emulate(kernel(body, (".u64", ".u64"), threads=64), "k", 1, [data, out])
    emulate(kernel(body, (".u64", ".u64"), threads=64), "k", 1, [data, out], waive=["async-overwrite"])
    assert out[0] == data.sum()
    # The producer may run the fence as well, after it has acquired the release of the consumers.
    body = body.replace("mbarrier.arrive.expect_tx", "fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx")
    emulate(kernel(body, (".u64", ".u64"), threads=64), "k", 1, [data, out])
    assert out[0] == data.sum()


def test_missing_arrivals(kernel):
    body = PIPELINE.replace("mbarrier.init.shared.b64 [%r4], 32;", "mbarrier.init.shared.b64 [%r4], 33;")
    with pytest.raises(EmulationError, match="lacks 1 of 33 arrivals"):
        emulate(kernel(body, (".u64", ".u64"), threads=64), "k", 1, [np.zeros(1024, np.uint32), np.zeros(1, np.uint32)])


def test_bulk_store_lands_when_it_is_waited_for(kernel):
    body = """
        .shared .align 16 .b8 tile[64];
        mov.u32 %r1, tile; st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async.shared::cta;
        cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r1], 16; cp.async.bulk.commit_group;
        WAIT
        ld.global.u32 %r2, [%a0+12]; st.global.u32 [%a0+16], %r2;
    """
    for wait, expected in (("cp.async.bulk.wait_group 0;", 4), ("cp.async.bulk.wait_group.read 0;", 0)):
        out = np.zeros(5, np.uint32)
        emulate(kernel(body.replace("WAIT", wait), threads=1), "k", 1, [out])
        assert out.tolist() == [1, 2, 3, 4, expected]
    with pytest.raises(EmulationError, match=r"not waited for, .* shared memory of block \(0, 0, 0\), which has ended"):
        emulate(kernel(body.replace("WAIT", ""), threads=1), "k", 1, [np.zeros(5, np.uint32)])


def test_a_block_does_not_end_before_its_incoming_copies(kernel):
    body = PIPELINE.replace("setp.lt.u32 %p5, %r6, 4; @%p5 bra CONSUME;", "setp.lt.u32 %p5, %r6, 3; @%p5 bra CONSUME;")
    ptx = kernel(body, (".u64", ".u64"), threads=64)
    with pytest.raises(EmulationError, match="not waited for, and is in flight"):
        emulate(ptx, "k", 1, [np.zeros(1024, np.uint32), np.zeros(1, np.uint32)])


def test_multicast_reaches_every_block_of_the_mask(kernel):
    body = """
        .shared .align 16 .b8 tile[16]; .shared .align 8 .b8 full[8];
        mov.u32 %r1, tile; mov.u32 %r2, full; mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, %ctaid.x; mov.b16 %h1, 3;
        mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
        barrier.cluster.arrive; barrier.cluster.wait;
        setp.ne.u32 %p1, %r3, 0; @%p1 bra WAIT;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [%r1], [%a0], 16, [%r2], %h1;
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;
        ld.shared.u32 %r5, [%r1+4]; mad.wide.u32 %q1, %r4, 4, %a1; st.global.u32 [%q1], %r5;
    """
    for seed in SEEDS:
        out = np.zeros(4, np.uint32)
        ptx = kernel(body, (".u64", ".u64"), threads=1)
        emulate(ptx, "k", 4, [np.array([5, 6, 7, 8], np.uint32), out], cluster=(2, 1, 1), seed=seed)
        assert out.tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("relaxed", [False, True])
def test_a_cluster_barrier_passes_on_writes(kernel, relaxed, seed):
    """Warp 1 has waited for the copy that warp 0 began, and then met warp 2, which has not."""
    body = """
        .shared .align 16 .b8 tile[16]; .shared .align 8 .b8 full[8];
        mov.u32 %r1, tile; mov.u32 %r2, full; mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x;
        setp.ne.u32 %p1, %r3, 0; @%p1 bra READY;
        mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
        fence.mbarrier_init.release.cluster;
        READY: barrier.cluster.arrive; barrier.cluster.wait;
        @%p1 bra COPIED;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 16, [%r2];
        COPIED: shr.u32 %r5, %r3, 5; setp.ne.u32 %p2, %r5, 1; @%p2 bra MEET;
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0; @!%p3 bra WAIT;
        MEET: barrier.cluster.arrive.release; barrier.cluster.wait;
        setp.ne.u32 %p4, %r3, 64; @%p4 bra DONE;
        ld.shared.u32 %r6, [%r1+4]; mad.wide.u32 %q1, %r4, 4, %a1; st.global.u32 [%q1], %r6;
        DONE:
    """
    ptx = kernel(body.replace("release;", "relaxed;") if relaxed else body, (".u64", ".u64"), threads=96)
    out = np.zeros(2, np.uint32)

    def run():
        emulate(ptx, "k", 2, [np.array([5, 6, 7, 8], np.uint32), out], cluster=(2, 1, 1), seed=seed)

    if relaxed:
        with pytest.raises(EmulationError, match="race on shared address"):
            run()
    else:
        run()
        assert out.tolist() == [6, 6]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arrivals", [32, 31])
def test_lanes_of_a_warp_meet_at_a_transaction_barrier(kernel, arrivals, seed):
    """Each reads a value of another lane; where lane 0 does not arrive, its write is unordered."""
    body = """
        .shared .align 4 .b8 cells[128]; .shared .align 8 .b8 full[8];
        mov.u32 %r1, %tid.x; mov.u32 %r2, cells; mov.u32 %r3, full; setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r3], ARRIVALS; bar.warp.sync -1;
        mad.lo.u32 %r4, %r1, 4, %r2; st.shared.u32 [%r4], %r1; setp.ge.u32 %p2, %r1, FIRST;
        @%p2 mbarrier.arrive.shared.b64 _, [%r3];
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra WAIT;
        xor.b32 %r5, %r1, 1; mad.lo.u32 %r5, %r5, 4, %r2; ld.shared.u32 %r6, [%r5];
        mad.wide.u32 %q1, %r1, 4, %a0; st.global.u32 [%q1], %r6;
    """.replace("ARRIVALS", str(arrivals)).replace("FIRST", str(32 - arrivals))
    ptx, out = kernel(body, threads=32), np.zeros(32, np.uint32)
    if arrivals == 32:
        emulate(ptx, "k", 1, [out], seed=seed)
        assert (out == np.arange(32) ^ 1).all()
    else:
        with pytest.raises(EmulationError, match="another lane of the warp"):
            emulate(ptx, "k", 1, [out], seed=seed)


def test_a_barrier_that_is_not_initialised(kernel):
    body = ".shared .align 8 .b8 full[8]; mov.u32 %r1, full; mbarrier.arrive.shared.b64 %q1, [%r1];"
    with pytest.raises(EmulationError, match="not initialised"):
        emulate(kernel(body, threads=1), "k", 1, [np.zeros(1)])


LANES = """
    .shared .align 16 .b8 cells[128]; .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, cells; mov.u32 %r3, full; setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared.b64 [%r3], 32; bar.sync 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra WAIT;
    mov.u32 %r4, 7; and.b32 %r5, %r1, 7; mad.lo.u32 %r6, %r5, 16, %r2; st.shared.v4.u32 [%r6], {%r4, %r4, %r4, %r4};
    mbarrier.arrive.shared.b64 %q1, [%r3]; bra DONE;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra WAIT;
    and.b32 %r5, %r1, 7; mad.lo.u32 %r6, %r5, 16, %r2; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6];
    mad.wide.u32 %q2, %r1, 4, %a0; st.global.u32 [%q2+-128], %r7;
    DONE:
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_that_arrive_and_wait_one_by_one_do_so_as_a_warp(kernel, seed):
    """Identical writes of several lanes, and joint reads, are ordered when all these lanes are."""
    out = np.zeros(32, np.uint32)
    emulate(kernel(LANES, threads=64), "k", 1, [out], seed=seed)
    assert (out == 7).all()
    with pytest.raises(EmulationError, match="no barrier between|before it is written"):
        half = LANES.replace("[%r3], 32;", "[%r3], 16;").replace(
            "mbarrier.arrive", "setp.lt.u32 %p4, %r1, 16; @%p4 mbarrier.arrive")
        emulate(kernel(half, threads=64), "k", 1, [out], seed=seed)
