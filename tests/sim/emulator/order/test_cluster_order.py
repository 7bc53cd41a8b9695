"""The order by a cluster barrier at the start of a kernel: blocks start together, but only the barrier orders their
progress."""

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

SEEDS = [None, 0, 1]
FENCE = "fence.mbarrier_init.release.cluster;"
ARRIVE, RELAXED, WAIT = "barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;", \
    "barrier.cluster.wait.aligned;"  # fmt: skip
NOT_YET = "was initialised at line|transaction barrier that is not initialised"

# Thread 0 of each block initialises a barrier; then rank 1 signals that of rank 0, which waits for it.  One of the two
# comes late to its part.
SIGNAL = """
    .shared .align 16 .b8 cell[16]; .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, full; mov.u32 %r4, %cluster_ctarank; mov.b16 %h1, 1;
    mov.u32 %r10, 0; setp.eq.u32 %p3, %r4, 1; setp.ne.u32 %p1, %r1, 0;
    setp.eq.u32 %p4, %r4, LATE; @!%p4 bra BEGIN;
    LATER: add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 1500; @%p5 bra LATER;
    BEGIN: @%p1 bra READY; mbarrier.init.shared.b64 [%r3], 1; BEHIND
    READY: bar.sync 0; MEET
    @%p1 bra DONE; mapa.shared::cluster.u32 %r7, %r2, 0; mapa.shared::cluster.u32 %r8, %r3, 0; @!%p3 bra LOOK;
    SEND
    bra DONE;
    LOOK: EXPECT
    AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra AGAIN;
    st.global.u32 [%a0], %r4;
    DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;"
SIGNALS = {
    "an arrival": ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];", ""),
    "a multicast copy": (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%r7], [%a0], 16, [%r8], %h1;", EXPECT),
    "a value": ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r7], {%r4, %r4, %r4, %r4}, [%r8];",
                EXPECT),
}  # fmt: skip


def signalling(kernel, name: str, behind: str, meet: str, late: int) -> str:
    send, expect = SIGNALS[name]
    body = SIGNAL.replace("SEND", send).replace("EXPECT", expect).replace("BEHIND", behind).replace("MEET", meet)
    return kernel(body.replace("LATE", str(late), 1), threads=64)


def arrives(ptx: str, seed: int | None) -> bool:
    """Whether rank 0 has gone on."""
    out = np.ones(4, np.uint32)
    emulate(ptx, "k", 2, [out], cluster=(2, 1, 1), seed=seed)
    return int(out[0]) == 0


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("arrive", [ARRIVE, RELAXED])
def test_barriers_of_another_block_are_there_behind_the_wait(kernel, name, arrive, late):
    ptx = signalling(kernel, name, FENCE, arrive + WAIT, late)
    assert all(arrives(ptx, seed) for seed in SEEDS)


BROKEN = {
    "nothing": (FENCE, ""),
    "no wait": (FENCE, RELAXED),
    "no wait, a release": (FENCE, ARRIVE),
    "a wait for the phase before": ("", f"{RELAXED} {WAIT} @!%p1 {FENCE} {RELAXED}"),
    "the fence is another thread's": ("", f"@%p1 {FENCE} {RELAXED} {WAIT}"),
    "the fence is behind the arrival": ("", f"{RELAXED} @!%p1 {FENCE} {WAIT}"),
    "a fence of the block": ("fence.acq_rel.cta; fence.proxy.async;", f"{RELAXED} {WAIT}"),
}


@pytest.mark.sampled(14)
@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("broken", BROKEN)
def test_barriers_of_another_block_that_may_not_be_there(kernel, broken, name, late):
    """In any order of the blocks."""
    ptx = signalling(kernel, name, *BROKEN[broken], late)
    for seed in SEEDS:
        with pytest.raises(EmulationError, match=NOT_YET):
            arrives(ptx, seed)


def test_a_fence_or_a_release_does_it_for_arrivals(kernel):
    for behind, arrive in (("fence.acq_rel.cluster;", RELAXED), ("", ARRIVE)):
        ptx = signalling(kernel, "an arrival", behind, arrive + WAIT, 0)
        assert all(arrives(ptx, seed) for seed in SEEDS)


# Each block stores a value that the other one loads.
LOADED = """
    .shared .align 4 .b8 cell[4];
    mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, 7;
    setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r4; FENCE MEET
    xor.b32 %r5, %r3, 1; mapa.shared::cluster.u32 %r6, %r2, %r5; ld.shared::cluster.u32 %r7, [%r6];
    mad.lo.u32 %r8, %r3, 64, %r1; mad.wide.u32 %q1, %r8, 4, %a0; st.global.u32 [%q1], %r7;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("fence", "right"),
    [("fence.acq_rel.cluster;", True), ("fence.sc.gpu;", True), ("@%p1 fence.acq_rel.cluster;", True),
     ("fence.acq_rel.cta;", False), ("@!%p1 fence.acq_rel.cluster;", False), (FENCE, False), ("", False)],
)  # fmt: skip
def test_a_relaxed_arrival_passes_on_a_fences_release(kernel, fence, right, seed):
    ptx = kernel(LOADED.replace("FENCE", fence).replace("MEET", RELAXED + WAIT), threads=64)
    out = np.zeros(128, np.uint32)
    if right:
        emulate(ptx, "k", 2, [out], cluster=(2, 1, 1), seed=seed)
        assert (out == 7).all()
    else:
        with pytest.raises(EmulationError, match=r"race on shared address 0x\w+ of block \([01], 0, 0\): "):
            emulate(ptx, "k", 2, [out], cluster=(2, 1, 1), seed=seed)
