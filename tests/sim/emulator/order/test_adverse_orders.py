"""Orders in which some warps run ahead, waits that acquire one phase only, and comparisons that a launch reports."""

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

SEEDS = [None, 0, 1]

RELEASED = """
    .shared .align 4 .b8 tile[256]; .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared.b64 [%r3], ARRIVALS;
    READY: bar.sync 0;
    mad.lo.u32 %r4, %r1, 4, %r2; setp.ge.u32 %p2, %r1, 64; @%p2 bra WAIT;
    ld.shared.u32 %r5, [%r4]; mbarrier.arrive.shared.b64 _, [%r3]; bra DONE;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], PARITY; @!%p3 bra WAIT;
    add.u32 %r6, %r1, -64; mad.lo.u32 %r6, %r6, 8, %r2; st.shared.v2.u32 [%r6], {%r1, %r1};
    DONE: bar.sync 0;
"""


def released(kernel, arrivals: int, parity: int = 0, assemble: bool = True) -> str:
    start = "st.shared.u32 [%r4], %r1; bar.sync 0; setp.ge.u32 %p2"
    body = RELEASED.replace("setp.ge.u32 %p2", start).replace("ARRIVALS", str(arrivals)).replace("PARITY", str(parity))
    return kernel(body.replace("tile[256]", "tile[384]"), threads=96, assemble=assemble)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_acquires_the_arrivals_of_its_phase(kernel, seed):
    emulate(released(kernel, 64), "k", 1, [np.zeros(1, np.uint32)], seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arrivals", [48, 63])
def test_a_wait_does_not_acquire_arrivals_of_the_next_phase(kernel, seed, arrivals):
    """Also where they have arrived before the wait."""
    with pytest.raises(EmulationError, match="race on shared address"):
        emulate(released(kernel, arrivals), "k", 1, [np.zeros(1, np.uint32)], seed=seed)


def test_a_parity_is_zero_or_one(kernel):
    with pytest.raises(EmulationError, match="the parity of a phase is 0 or 1, and not 2"):
        emulate(released(kernel, 64, 2, assemble=False), "k", 1, [np.zeros(1, np.uint32)])


TICKETS = """
    mov.u32 %r1, %tid.x; mov.u32 %r5, 0; add.u64 %q1, %a0, 0;
    LOOP: atom.global.add.u32 %r2, [%q1], 1;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 20; @%p1 bra LOOP;
    mad.wide.u32 %q2, %r1, 4, %a1; st.global.u32 [%q2], %r2;
"""


@pytest.mark.parametrize(("ahead", "first"), [(1, 0), (-1, 3)])
def test_warps_of_one_end_run_ahead_of_the_others(kernel, ahead, first):
    last = np.zeros(128, np.uint32)
    emulate(kernel(TICKETS, (".u64", ".u64"), threads=128), "k", 1, [np.zeros(1, np.uint32), last], seed=0, ahead=ahead)
    assert last.reshape(4, 32).max(1).argmin() == first


def test_warps_ahead_wait_for_the_effects_of_others(kernel):
    """Warp 0 spins on a location that the last warp stores."""
    body = """
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 96; @%p1 bra SPIN;
        mov.u32 %r2, 1; st.release.gpu.global.u32 [%a0], %r2; bra DONE;
        SPIN: ld.acquire.gpu.global.u32 %r2, [%a0]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN;
        DONE: bar.sync 0;
    """
    emulate(kernel(body, threads=128), "k", 1, [np.zeros(1, np.uint32)], seed=0, ahead=1, step_limit=1_000_000)


def test_comparisons_tell_how_far_active_threads_are_apart(kernel):
    body = """
        mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 8; @%p1 bra DONE;
        setp.lt.s32 %p2, %r1, 5;
        DONE: setp.eq.u32 %p2, %r1, 5;
    """
    result: dict[int, np.ndarray] = {}
    ptx = kernel(body, threads=32)
    emulate(ptx, "k", 1, [np.zeros(1, np.uint32)], seed=None, compared=result.__setitem__)
    lines = ptx.splitlines()
    (signed,) = [each for line, each in result.items() if "setp.lt.s32" in lines[line - 1]] or [None]
    assert sorted(signed.tolist()) == list(range(-5, 3))
    assert len(result) <= 2, "equalities have no bound"
