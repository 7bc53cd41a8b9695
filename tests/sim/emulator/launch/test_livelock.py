"""Warps that poll memory which no warp changes any more are in a deadlock; those that a warp will serve are not."""

from __future__ import annotations

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

SEEDS = pytest.mark.parametrize("seed", [None, 0, 1])

FLAG = """
    POLL: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra POLL;
"""
# A thread polls and tells the others through shared memory, as for a scalar of a tile.
TOLD = """
    .shared .align 4 .b8 word[4];
    mov.u32 %r9, %tid.x; setp.ne.u32 %p2, %r9, 0;
    POLL: @%p2 bra MEET;
    atom.acquire.gpu.global.cas.b32 %r1, [%a0], 0, 1; st.shared.u32 [word], %r1;
    MEET: bar.sync 0; ld.shared.u32 %r2, [word]; bar.sync 0;
    setp.ne.u32 %p1, %r2, 0; @%p1 bra POLL;
"""
# Of the lanes of a warp one polls, and the others wait for it.
LANE = """
    mov.u32 %r9, %laneid; setp.ne.u32 %p2, %r9, 3; @%p2 bra MEET;
    POLL: nanosleep.u32 100; ld.relaxed.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra POLL;
    MEET: bar.warp.sync 0xffffffff;
"""


@SEEDS
@pytest.mark.parametrize("body, line", [(FLAG, "ld.acquire"), (TOLD, "atom.acquire"), (LANE, "ld.relaxed")])
def test_a_poll_without_end_is_a_deadlock(kernel, seed, body, line):
    data = np.array([body is TOLD], np.uint32)
    with pytest.raises(EmulationError, match="deadlock: no warp changes the memory that others poll") as info:
        emulate(kernel(body, threads=64), "k", 2, [data], seed=seed, step_limit=10**6)
    assert info.value.text.startswith(line) and info.value.block is not None


# Block 0 counts in registers alone for a long time before it sets the flag.
SLOW = f"""
    mov.u32 %r5, %ctaid.x; setp.ne.u32 %p3, %r5, 0; @%p3 bra POLL;
    mov.u32 %r6, 0;
    COUNT: add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 30000; @%p3 bra COUNT;
    st.release.gpu.global.u32 [%a0], %r6;
    {FLAG}
"""


@SEEDS
def test_a_flag_that_is_set_late_is_no_deadlock(kernel, seed):
    data = np.zeros(1, np.uint32)
    emulate(kernel(SLOW, threads=32), "k", 2, [data], seed=seed, step_limit=10**7)
    assert data[0] == 30000


# Each warp changes memory for a moment only: another order of warps lets the poll see it.
TRANSIENT = f"""
    mov.u32 %r5, %ctaid.x; setp.ne.u32 %p3, %r5, 0; @%p3 bra POLL;
    BLINK: atom.relaxed.gpu.global.exch.b32 %r6, [%a0], 1; atom.relaxed.gpu.global.exch.b32 %r6, [%a0], 0;
    ld.relaxed.gpu.global.u32 %r7, [%a0+4]; setp.eq.u32 %p3, %r7, 0; @%p3 bra BLINK;
    bra DONE;
    {FLAG}
    st.relaxed.gpu.global.u32 [%a0+4], %r1;
    DONE:
"""


def test_changes_that_are_undone_are_no_deadlock(kernel):
    with pytest.raises(EmulationError, match="step limit"):
        emulate(kernel(TRANSIENT, threads=32), "k", 2, [np.zeros(2, np.uint32)], seed=None, step_limit=80_000)


def test_a_loop_that_the_clock_ends_is_no_deadlock(kernel):
    body = "mov.u32 %r5, %clock; WAIT: mov.u32 %r6, %clock; sub.u32 %r6, %r6, %r5; setp.lt.u32 %p1, %r6, 90000; " \
        "@%p1 bra WAIT; st.global.u32 [%a0], 7;"  # fmt: skip
    data = np.zeros(1, np.uint32)
    emulate(kernel(body), "k", 1, [data], seed=0)
    assert data[0] == 7


def test_a_loop_without_exit_is_a_deadlock(kernel):
    with pytest.raises(EmulationError, match="deadlock"):
        emulate(kernel("L: bra L;"), "k", 1, [np.zeros(1)], step_limit=10**6)


def test_blocks_that_have_not_started_may_set_the_flag(kernel):
    body = f"mov.u32 %r5, %ctaid.x; setp.eq.u32 %p3, %r5, 0; @!%p3 st.release.gpu.global.u32 [%a0], 1; {FLAG}"
    with pytest.raises(EmulationError, match="step limit"):
        emulate(kernel(body, threads=1024), "k", 2000, [np.zeros(1, np.uint32)], seed=None, step_limit=100_000)


def test_copies_and_products_in_flight_may_end_a_poll(kernel):
    """Units change memory behind the instructions of warps: their launches are not searched, and meet the limit."""
    copy = ".shared .align 4 .b8 word[4]; cp.async.ca.shared.global [word], [%a0], 4; cp.async.wait_all;"
    with pytest.raises(EmulationError, match="100000"):
        emulate(kernel(copy + FLAG, threads=32), "k", 1, [np.zeros(4, np.uint32)], step_limit=10**5)
