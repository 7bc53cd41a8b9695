"""Races on shared memory are found whatever the order the warps happen to run in."""

import numpy as np
import pytest
from matmul import matmul_ptx

from tileiras.sim import EmulationError, emulate

SEEDS = [None, 0, 1, 2]

ROUNDS = """
    .shared .align 4 .b8 tile[256];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2; xor.b32 %r4, %r1, 32;
    mad.lo.u32 %r4, %r4, 4, %r2;
    mov.u32 %r5, 0; mov.u32 %r6, %r1;
    LOOP: st.shared.u32 [%r3], %r6; bar.sync 0; ld.shared.u32 %r7, [%r4]; add.u32 %r6, %r7, 1; bar.sync 0;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 3; @%p1 bra LOOP;
    mad.wide.u32 %q1, %r1, 4, %a0; st.global.u32 [%q1], %r6;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_with_both_barriers(kernel, seed):
    out = np.zeros(64, np.uint32)
    emulate(kernel(ROUNDS, threads=64), "k", 1, [out], seed=seed)
    assert (out == (np.arange(64) ^ 32) + 3).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_reading_and_then_overwriting_without_a_barrier(kernel, seed):
    ptx = kernel(ROUNDS.replace("add.u32 %r6, %r7, 1; bar.sync 0;", "add.u32 %r6, %r7, 1;"), threads=64)
    with pytest.raises(
        EmulationError, match=r"race on shared address 0x4.*: (read|written) by warp [01] at line \d+ \("
    ):
        emulate(ptx, "k", 1, [np.zeros(64, np.uint32)], seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_of_other_warps_orders_nothing(kernel, seed):
    """Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2; warp 2 reads what warp 0 wrote."""
    body = """
        .shared .align 4 .b8 tile[512];
        mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2;
        shr.u32 %r5, %r1, 6; add.u32 %r5, %r5, 1;
        st.shared.u32 [%r3], %r1; bar.sync 0; add.u32 %r6, %r1, 7; st.shared.u32 [%r3], %r6; bar.sync %r5, 64;
        xor.b32 %r4, %r1, MASK; mad.lo.u32 %r4, %r4, 4, %r2; ld.shared.u32 %r7, [%r4];
        mad.wide.u32 %q1, %r1, 4, %a0; st.global.u32 [%q1], %r7;
    """
    out = np.zeros(128, np.uint32)
    emulate(kernel(body.replace("MASK", "32"), threads=128), "k", 1, [out], seed=seed)
    assert (out == (np.arange(128) ^ 32) + 7).all()
    with pytest.raises(EmulationError, match="race on shared address"):
        emulate(kernel(body.replace("MASK", "64"), threads=128), "k", 1, [out], seed=seed)
    emulate(kernel(body.replace("MASK", "64"), threads=128), "k", 1, [out], seed=seed, check_races=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_of_one_value_are_no_race(kernel, seed):
    body = """
        .shared .align 4 .b8 tile[4];
        mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, SHIFT; st.shared.u32 [tile], %r2; bar.sync 0; ld.shared.u32 %r3, [tile];
        mad.wide.u32 %q1, %r1, 4, %a0; st.global.u32 [%q1], %r3;
    """
    out = np.ones(64, np.uint32)
    emulate(kernel(body.replace("SHIFT", "6"), threads=64), "k", 1, [out], seed=seed)
    assert not out.any()
    with pytest.raises(EmulationError, match="written by warp"):
        emulate(kernel(body.replace("SHIFT", "5"), threads=64), "k", 1, [out], seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lock_in_shared_memory_orders(kernel, seed):
    body = """
        .shared .align 4 .b8 cell[8];
        mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @!%p1 st.shared.u32 [cell], 0; @!%p1 st.shared.u32 [cell+4], 0;
        bar.sync 0; and.b32 %r2, %r1, 31; setp.ne.u32 %p2, %r2, 0; @%p2 bra DONE;
        TRY: atom.shared.cas.b32 %r3, [cell], 0, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra TRY;
        ld.shared.u32 %r4, [cell+4]; add.u32 %r4, %r4, 1; st.shared.u32 [cell+4], %r4; membar.cta;
        atom.shared.exch.b32 %r5, [cell], 0;
        DONE: bar.sync 0; @!%p1 ld.shared.u32 %r4, [cell+4]; @!%p1 st.global.u32 [%a0], %r4;
    """
    out = np.zeros(1, np.uint32)
    emulate(kernel(body, threads=128), "k", 1, [out], seed=seed)
    assert out[0] == 4


@pytest.mark.parametrize("barrier", ["READY: bar.sync 0;", "bar.sync 1;"])
def test_matmul_without_a_barrier_fails_even_in_lock_step(barrier):
    ptx = matmul_ptx(128, 128)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 128, 128)).astype(np.float16)
    arguments = [a.copy(), b.copy(), np.zeros((128, 128), np.float32)]
    emulate(ptx, "k", (2, 2), arguments, seed=None)
    with pytest.raises(EmulationError, match="race on shared address|read before it is written"):
        emulate(ptx.replace(barrier, "READY:" if "READY" in barrier else ""), "k", (2, 2), arguments, seed=None)
