"""Races on shared and global memory are found in any order of execution of the warps."""

import numpy as np
import pytest
from handwritten_matmul import matmul_ptx

from tileiras.sim import EmulationError, emulate
from tileiras.sim.emulator.order.happens_before import Clocks

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
    """Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2; warp 2 reads a value of warp 0."""
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


LOCK = """
    .shared .align 4 .b8 cell[8];
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @!%p1 st.shared.u32 [cell], 0; @!%p1 st.shared.u32 [cell+4], 0;
    bar.sync 0; and.b32 %r2, %r1, 31; setp.ne.u32 %p2, %r2, 0; @%p2 bra DONE;
    TRY: atom.shared.acquire.cta.cas.b32 %r3, [cell], 0, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra TRY;
    ld.shared.u32 %r4, [cell+4]; add.u32 %r4, %r4, 1; st.shared.u32 [cell+4], %r4;
    membar.cta; atom.shared.exch.b32 %r5, [cell], 0;
    DONE: bar.sync 0; @!%p1 ld.shared.u32 %r4, [cell+4]; @!%p1 st.global.u32 [%a0], %r4;
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lock_in_shared_memory_orders(kernel, seed):
    out = np.zeros(1, np.uint32)
    emulate(kernel(LOCK, threads=128), "k", 1, [out], seed=seed)
    assert out[0] == 4
    for broken in (LOCK.replace(".acquire.cta", ""), LOCK.replace("membar.cta;", "")):
        with pytest.raises(EmulationError, match=r"race on shared address 0x404: written by warp \d at line"):
            emulate(kernel(broken, threads=128), "k", 1, [out], seed=seed)


# Every block adds up 64 numbers of its own; the last one to finish adds up the sums of the blocks.
LAST_BLOCK = """
    .shared .align 4 .b8 last[4];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1; mad.wide.u32 %q1, %r3, 4, %a0;
    st.global.u32 [%q1], %r3; bar.sync 0;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra MEET;
    BEFORE atom.ORDER.gpu.global.add.u32 %r4, [%a1], 1; AFTER st.shared.u32 [last], %r4;
    MEET: bar.sync 0; ld.shared.u32 %r5, [last]; setp.ne.u32 %p2, %r5, 3; @%p2 bra DONE;
    mov.u32 %r6, 0; mov.u32 %r7, 0;
    LOOP: mad.lo.u32 %r8, %r7, 64, %r1; mad.wide.u32 %q2, %r8, 4, %a0; ld.global.u32 %r9, [%q2];
    add.u32 %r6, %r6, %r9; add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, 4; @%p3 bra LOOP;
    mad.wide.u32 %q3, %r1, 4, %a2; st.global.u32 [%q3], %r6;
    DONE: ret;
"""
FENCE = "fence.acq_rel.gpu;"


def last_block(kernel, order: str, before: str, after: str, seed: int | None, body: str = LAST_BLOCK) -> np.ndarray:
    body = body.replace("ORDER", order).replace("BEFORE", before).replace("AFTER", after)
    out = np.zeros(64, np.uint32)
    ptx = kernel(body, threads=64, parameters=(".u64",) * 3)
    emulate(ptx, "k", 4, [np.zeros(256, np.uint32), np.zeros(1, np.uint32), out], seed=seed)
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_block_acquires_the_releases_of_the_others(kernel, seed):
    expected = 4 * np.arange(64) + 64 * 6
    for order, before, after in (("acq_rel", "", ""), ("relaxed", FENCE, FENCE), ("release", "", "membar.gl;")):
        assert (last_block(kernel, order, before, after, seed) == expected).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("order", "before", "after"),
    [
        ("relaxed", "", ""), ("acquire", "", ""), ("release", "", ""), ("relaxed", FENCE, ""), ("relaxed", "", FENCE),
        ("relaxed", "fence.acq_rel.cta;", "fence.acq_rel.cta;"), ("relaxed", FENCE, "membar.cta;"),
    ],
)  # fmt: skip
def test_the_last_block_without_an_order_is_a_race(kernel, order, before, after, seed):
    with pytest.raises(EmulationError, match=r"race on address .* of argument 0: written by warp [01] of block \("):
        last_block(kernel, order, before, after, seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("barrier", ["%r3; bar.sync 0;", "MEET: bar.sync 0;"])
def test_the_last_block_without_a_barrier_is_a_race(kernel, barrier, seed):
    assert barrier in LAST_BLOCK
    with pytest.raises(EmulationError, match="race on|read before it is written"):
        last_block(kernel, "acq_rel", "", "", seed, LAST_BLOCK.replace(barrier, barrier.replace("bar.sync 0;", "")))


@pytest.mark.parametrize("seed", SEEDS)
def test_scopes_have_to_take_in_both_threads(kernel, seed):
    """Counting at the scope of a block is no race within one block, and one between blocks."""
    body = "atom.relaxed.cta.global.add.u32 %r1, [%a0], 1;"
    out = np.zeros(1, np.uint32)
    emulate(kernel(body, threads=64), "k", 1, [out], seed=seed)
    assert out[0] == 64
    with pytest.raises(EmulationError, match="race on address .* whose scopes take in both"):
        emulate(kernel(body, threads=64), "k", 2, [out], seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_weak_accesses_of_global_memory_by_two_blocks(kernel, seed):
    """A write concurrent with a write or a read of another block; also where blocks run one after the other."""
    write = "mov.u32 %r1, %ctaid.x; add.u32 %r1, %r1, 1; st.global.u32 [%a0], %r1;"
    for body in (write, "ld.global.u32 %r2, [%a0];" + write, "ld.volatile.global.u32 %r2, [%a0];" + write):
        for grid in (2, 9000):
            with pytest.raises(EmulationError, match=r"race on address .* at line \d+ \((ld|st)\."):
                emulate(kernel(body, threads=32), "k", grid, [np.zeros(1, np.uint32)], seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_several_readers_before_a_write(kernel, seed):
    """Both warps read all of the row before either writes: one barrier, or a race whichever reads last."""
    body = """
        mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, 4, %a0; ld.global.u32 %r2, [%q1]; xor.b32 %r3, %r1, 32;
        mad.wide.u32 %q2, %r3, 4, %a0; ld.global.u32 %r4, [%q2]; add.u32 %r5, %r2, %r4; bar.sync 0;
        st.global.u32 [%q1], %r5;
    """
    row = np.arange(64, dtype=np.uint32)
    emulate(kernel(body, threads=64), "k", 1, [row], seed=seed)
    assert (row == np.arange(64) + (np.arange(64) ^ 32)).all()
    with pytest.raises(EmulationError, match="race on address .*, and no barrier between"):
        emulate(kernel(body.replace("bar.sync 0;", ""), threads=64), "k", 1, [row], seed=seed)


@pytest.mark.parametrize("space", ["shared", "global"])
def test_lanes_of_one_warp(kernel, space):
    """Lanes are threads: a value of another lane is visible after bar.warp.sync, and replaceable after the next."""
    body = """
        .shared .align 4 .b8 tile[128];
        mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2; mad.wide.u32 %q1, %r1, 4, %a0;
        xor.b32 %r4, %r1, 1; mad.lo.u32 %r5, %r4, 4, %r2; mad.wide.u32 %q2, %r4, 4, %a0;
        st.SPACE.u32 [HERE], %r1; bar.warp.sync -1; ld.SPACE.u32 %r6, [THERE]; bar.warp.sync 0xffffffff;
        st.SPACE.u32 [HERE], %r6; ld.SPACE.u32 %r7, [HERE]; st.global.u32 [%q1], %r7;
    """
    here, there = ("%r3", "%r5") if space == "shared" else ("%q1", "%q2")
    body = body.replace("SPACE", space).replace("THERE", there).replace("HERE", here)
    out = np.zeros(32, np.uint32)
    emulate(kernel(body), "k", 1, [out])
    assert (out == np.arange(32) ^ 1).all()
    for sync in ("bar.warp.sync -1;", "bar.warp.sync 0xffffffff;"):
        with pytest.raises(EmulationError, match="another lane of the warp at line .*, and no bar.warp.sync between"):
            emulate(kernel(body.replace(sync, "")), "k", 1, [np.zeros(32, np.uint32)])
    with pytest.raises(EmulationError, match="the executing lane is not in the member mask"):
        emulate(kernel(body.replace("bar.warp.sync -1", "bar.warp.sync 65535")), "k", 1, [out])


@pytest.mark.parametrize("seed", SEEDS)
def test_all_threads_acquire_from_one_address(kernel, seed):
    """Block 1 waits until block 0 has released its writes; every one of its threads acquires for itself."""
    body = """
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.wide.u32 %q1, %r1, 4, %a0; setp.ne.u32 %p1, %r2, 0;
        @%p1 bra WAIT; st.global.u32 [%q1], %r1; bar.sync 0; setp.eq.u32 %p2, %r1, 5;
        @%p2 st.release.gpu.global.u32 [%a1], 1; bra DONE;
        WAIT: ld.ORDER.gpu.global.u32 %r3, [%a1]; setp.eq.u32 %p3, %r3, 0; @%p3 bra WAIT;
        ld.global.u32 %r4, [%q1]; mad.wide.u32 %q2, %r1, 4, %a2; st.global.u32 [%q2], %r4;
        DONE: ret;
    """

    def run(order: str) -> np.ndarray:
        ptx = kernel(body.replace("ORDER", order), threads=64, parameters=(".u64",) * 3)
        out = np.zeros(64, np.uint32)
        emulate(ptx, "k", 2, [np.ones(64, np.uint32), np.zeros(1, np.uint32), out], seed=seed)
        return out

    assert (run("acquire") == np.arange(64)).all()
    with pytest.raises(EmulationError, match=r"race on address .* of argument 0: written by warp \d of block \(0,"):
        run("relaxed")


def test_one_lane_rereads_its_own_writes(kernel):
    body = """
        mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; @%p1 st.global.u32 [%a0], 7; @%p1 ld.global.u32 %r2, [%a0];
        @%p1 st.global.u32 [%a0+4], %r2;
    """
    out = np.zeros(2, np.uint32)
    emulate(kernel(body), "k", 1, [out])
    assert out.tolist() == [7, 7]
    with pytest.raises(EmulationError, match="written by another lane of the warp"):
        emulate(kernel(body.replace("@%p1 ld", "ld")), "k", 1, [np.zeros(2, np.uint32)])


def test_reads_of_written_memory_through_the_texture_path(kernel):
    body = "st.global.u32 [%a0], 1; ld.global.nc.u32 %r1, [%a0];"
    with pytest.raises(EmulationError, match="race on address"):
        emulate(kernel(body, threads=32), "k", 1, [np.zeros(1, np.uint32)])


@pytest.mark.parametrize("wait", ["cp.async.wait_all;", "bar.sync 0;"])
def test_an_asynchronous_copy_is_visible_after_wait_and_barrier(kernel, wait):
    body = """
        .shared .align 16 .b8 tile[1024];
        mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2; mad.wide.u32 %q1, %r1, 16, %a0;
        cp.async.ca.shared.global [%r3], [%q1], 16; cp.async.wait_all; bar.sync 0;
        xor.b32 %r4, %r1, 32; mad.lo.u32 %r5, %r4, 16, %r2; ld.shared.u32 %r6, [%r5];
        mad.wide.u32 %q2, %r1, 4, %a1; st.global.u32 [%q2], %r6;
    """
    result, out = np.arange(256, dtype=np.uint32), np.zeros(64, np.uint32)
    emulate(kernel(body, threads=64, parameters=(".u64", ".u64")), "k", 1, [result, out])
    assert (out == 4 * (np.arange(64) ^ 32)).all()
    with pytest.raises(EmulationError, match="race on shared|read before it is written"):
        emulate(kernel(body.replace(wait, ""), threads=64, parameters=(".u64", ".u64")), "k", 1, [result, out])


@pytest.mark.parametrize("barrier", ["READY: bar.sync 0;", "bar.sync 1;"])
def test_matmul_without_a_barrier_fails_even_in_lock_step(barrier):
    ptx = matmul_ptx(128, 128)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 128, 128)).astype(np.float16)
    arguments = [a.copy(), b.copy(), np.zeros((128, 128), np.float32)]
    emulate(ptx, "k", (2, 2), arguments, seed=None)
    with pytest.raises(EmulationError, match="race on shared address|read before it is written"):
        emulate(ptx.replace(barrier, "READY:" if "READY" in barrier else ""), "k", (2, 2), arguments, seed=None)


@pytest.mark.parametrize("order", ["acq_rel", "relaxed"])
def test_releases_of_thousands_of_threads_are_followed(kernel, order):
    """The last thread to count reads the values that the others stored before they counted."""
    body = f"""
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;
        mad.wide.u32 %q1, %r3, 4, %a1; st.global.u32 [%q1], %r3;
        atom.{order}.gpu.global.add.u32 %r4, [%a0], 1;
        setp.ne.u32 %p1, %r4, 8191; @%p1 ret;
        mov.u32 %r5, 0;
        NEXT: mad.wide.u32 %q2, %r5, 4, %a1; ld.global.u32 %r6, [%q2]; add.u32 %r6, %r6, 1; st.global.u32 [%q2], %r6;
        add.u32 %r5, %r5, 64; setp.lt.u32 %p2, %r5, 8192; @%p2 bra NEXT;
    """
    ptx = kernel(body, threads=256, parameters=(".u64", ".u64"))
    left = np.zeros(8192, np.uint32)
    if order == "relaxed":
        with pytest.raises(EmulationError, match="race on address"):
            emulate(ptx, "k", 32, [np.zeros(1, np.uint32), left])
        return
    assert emulate(ptx, "k", 32, [np.zeros(1, np.uint32), left]).searched_races
    assert (left == np.arange(8192) + (np.arange(8192) % 64 == 0)).all()


def test_updates_with_scopes_that_include_each_other_do_not_race(kernel, monkeypatch):
    """A histogram of some thousand elements would be asked of every release that came before, for seconds."""
    items = []
    unordered = Clocks.unordered
    monkeypatch.setattr(Clocks, "unordered", lambda self, *of: items.append(of) or unordered(self, *of))
    body = """
        mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 7; mad.wide.u32 %q1, %r2, 4, %a0;
        atom.acq_rel.gpu.global.add.u32 %r3, [%q1], 1;
    """
    counts = np.zeros(8, np.uint32)
    emulate(kernel(body, threads=128), "k", 4, [counts])
    assert (counts == 64).all() and not any(threads.size for threads, _, _ in items)
