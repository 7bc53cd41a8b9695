"""Memory of a block that another block's copies overwrite: an arrival at the scope of the own block frees it, orders
nothing else, and has to be waited for before the other block ends."""

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

SEEDS = [None, 0, 1]
# Thread 0 of rank 1, and of rank TARGET, reads its cell; rank 1 arrives at the barrier of rank 0, which then acts on
# the cell of rank TARGET.
FREED = """
    .shared .align 16 .b8 cell[16]; .shared .align 8 .b8 bars[16];
    mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, bars; mov.u32 %r4, %cluster_ctarank; mov.u32 %r5, 7;
    setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p3, %r4, 1; setp.eq.u32 %p4, %r4, TARGET; setp.eq.u32 %p5, %r4, 0;
    @%p1 bra READY; mbarrier.init.shared.b64 [%r3], 1; mbarrier.init.shared.b64 [%r3+8], 1;
    fence.mbarrier_init.release.cluster;
    READY: bar.sync 0; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
    @%p1 bra DONE; @%p5 bra LOOK; @%p3 bra READ; @%p4 bra READ; bra DONE;
    READ: st.shared.u32 [%r2], %r5; ld.shared.u32 %r6, [%r2]; FENCE
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+8], 16;
    mapa.shared::cluster.u32 %r7, %r3, 0; @!%p3 bra AGAIN; ARRIVE
    AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], 0; @!%p2 bra AGAIN;
    ld.shared.u32 %r8, [%r2]; st.global.u32 [%a0+16], %r8; bra DONE;
    LOOK: mapa.shared::cluster.u32 %r7, %r2, TARGET; mapa.shared::cluster.u32 %r8, %r3, TARGET; add.u32 %r8, %r8, 8;
    WAIT ACT
    DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
FENCE, ARRIVE = "fence.proxy.async.shared::cta;", "mbarrier.arrive.shared::cluster.b64 _, [%r7];"
WAIT = "AGAIN0: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra AGAIN0;"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%a0], 16, [%r8];"


def copied(kernel, seed, fence=FENCE, arrive=ARRIVE, wait=WAIT, act=COPY, target=1) -> np.ndarray:
    """The values that were copied, and the one that was read behind the copy."""
    parts = {"FENCE": fence, "ARRIVE": arrive, "WAIT": wait, "ACT": act, "TARGET": str(target)}
    body = FREED
    for name, part in parts.items():
        body = body.replace(f" {name}" if name != "TARGET" else name, f" {part}" if name != "TARGET" else part)
    out = np.arange(1, 9, dtype=np.uint32)
    emulate(kernel(body, threads=32), "k", 4, [out], cluster=(4, 1, 1), seed=seed)
    return out


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["", ".release.cta", ".release.cluster"])
def test_an_arrival_frees_memory_for_copies(kernel, form, seed):
    out = copied(kernel, seed, arrive=ARRIVE.replace(".shared", f"{form}.shared"))
    assert out[4] == out[0] == 1


RACE, UNFENCED = r"race on shared address 0x\w+ of block \([123], 0, 0\): ", "no fence.proxy.async between"
WRONG = {
    "no release": ({"arrive": ARRIVE.replace(".shared", ".relaxed.cluster.shared")}, RACE),
    "no acquire": ({"wait": WAIT.replace(".shared", ".relaxed.cluster.shared")}, RACE),
    "no wait": ({"wait": ""}, RACE),
    "reads by the generic proxy": ({"fence": ""}, UNFENCED),
    "a store": ({"act": "st.shared::cluster.u32 [%r7], %r4;"}, RACE),
    "a load": ({"act": "ld.shared::cluster.u32 %r4, [%r7];"}, RACE),
    "a copy to a third block": ({"target": 2}, RACE),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WRONG)
def test_the_arrival_orders_nothing_else(kernel, name, seed):
    change, message = WRONG[name]
    with pytest.raises(EmulationError, match=message):
        copied(kernel, seed, **change)


# Rank 1 arrives at the barrier of rank 0, which ends.
ENDS = """
    .shared .align 8 .b8 bars[8];
    mov.u32 %r1, %tid.x; mov.u32 %r3, bars; mov.u32 %r4, %cluster_ctarank;
    setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p3, %r4, 1;
    @%p1 bra READY; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    READY: bar.sync 0; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
    @%p1 bra DONE; mapa.shared::cluster.u32 %r7, %r3, 0; @!%p3 bra LOOK;
    mbarrier.arrive.shared::cluster.b64 _, [%r7]; bra DONE;
    LOOK: WAIT
    DONE: END
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_ends_behind_the_arrivals_of_others(kernel, seed):
    def run(wait: str, end: str) -> None:
        body = ENDS.replace("WAIT", wait).replace("END", end)
        emulate(kernel(body, threads=32), "k", 2, [np.zeros(1, np.uint32)], cluster=(2, 1, 1), seed=seed)

    run(WAIT, "")
    run("", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;")
    with pytest.raises(EmulationError, match=r"block \(0, 0, 0\).*has ended|block \(0, 0, 0\) may have ended before"):
        run("", "")
