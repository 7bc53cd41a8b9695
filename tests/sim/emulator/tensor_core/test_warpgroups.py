"""Uniform operations of the warps of a warpgroup, and their registers: each rule, and code that breaks it."""

import numpy as np
import pytest
from wgmma_kernels import END, PRODUCT, START, run, simple

from tileiras.sim import EmulationError, emulate

# Two warpgroups: the second gives registers back, and the first takes some of them.
REGISTERS = """
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 7; setp.ne.u32 %p1, %r2, 0; @%p1 bra SERVICE;
    setmaxnreg.inc.sync.aligned.u32 224; mad.wide.u32 %q1, %r1, 4, %a0; st.global.u32 [%q1], %r1; bra DONE;
    SERVICE: setmaxnreg.dec.sync.aligned.u32 32;
    DONE:
"""


def registers(kernel, body: str, seed=0, **options) -> np.ndarray:
    out = np.zeros(128, np.uint32)
    emulate(kernel(body, threads=256, cpu="sm_90a", **options), "k", 1, [out], seed=seed)
    return out


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_registers_that_one_warpgroup_gives_back_another_takes(kernel, seed):
    assert (registers(kernel, REGISTERS, seed) == np.arange(128)).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # 2 x 128 registers are there: 224 and 40 are more.
        ("dec.sync.aligned.u32 32", "dec.sync.aligned.u32 40",
         r"deadlock(.*\n)*.*96 more registers per thread, 3072 in all; the block's pool has \d+"),
        ("SERVICE: setmaxnreg.dec.sync.aligned.u32 32;", "SERVICE:", "deadlock: no warp can go on"),
        ("SERVICE: setmaxnreg.dec.sync.aligned.u32 32;", "SERVICE: setmaxnreg.dec.sync.aligned.u32 136;",
         "136 registers, more than the 128 of the warp"),
        ("SERVICE: setmaxnreg.dec.sync.aligned.u32 32;",
         "SERVICE: and.b32 %r3, %r1, 32; setp.ne.u32 %p2, %r3, 0; @%p2 bra OTHER; setmaxnreg.dec.sync.aligned.u32 32; "
         "bra DONE; OTHER: setmaxnreg.dec.sync.aligned.u32 24;",
         "warps of a warpgroup set different numbers of registers: another warp ran line"),
        ("SERVICE: setmaxnreg.dec.sync.aligned.u32 32;",
         "SERVICE: setp.ge.u32 %p2, %r1, 224; @%p2 bra DONE; setmaxnreg.dec.sync.aligned.u32 24;",
         "warp 7 of this warpgroup has ended without running this setmaxnreg"),
    ],
)  # fmt: skip
def test_registers_that_are_wrong(kernel, old, new, said):
    assert old in REGISTERS
    for seed in (None, 0, 1):
        with pytest.raises(EmulationError, match=said):
            registers(kernel, REGISTERS.replace(old, new), seed)


@pytest.mark.parametrize("count", [16, 264, 100])
def test_numbers_of_registers_that_do_not_exist(kernel, count):
    with pytest.raises(EmulationError, match="a multiple of 8 from 24 to 256"):
        registers(kernel, f"setmaxnreg.dec.sync.aligned.u32 {count};", assemble=False)


def test_the_report_says_who_holds_registers(kernel):
    with pytest.raises(EmulationError) as info:
        registers(kernel, REGISTERS.replace("dec.sync.aligned.u32 32", "dec.sync.aligned.u32 40"))
    assert "warps 4-7 of the block hold 40 registers per thread: ended" in str(info.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("wgmma.commit_group.sync.aligned;", "$ @%p3 bra LAST; wgmma.commit_group.sync.aligned; bra GO; "
         "LAST: wgmma.commit_group.sync.aligned; GO:", "run different wgmma instruction"),
        (PRODUCT, f"$ @%p3 bra NONE; {PRODUCT} NONE:", "different wgmma instruction|has ended"),
        (PRODUCT, f"$ @%p3 add.u64 %q3, %q3, 2; {PRODUCT}", "different wgmma instruction"),
        (PRODUCT, f"$ @%p3 setp.ne.u32 %p2, %r1, %r1; {PRODUCT}", "different wgmma instruction"),
    ],
)  # fmt: skip
def test_all_warps_of_a_warpgroup_run_the_same_products(kernel, old, new, said):
    text = START + PRODUCT + END
    assert old in text
    *result, _ = simple()
    for seed in (None, 0, 1):
        with pytest.raises(EmulationError, match=said):
            run(kernel, text.replace(old, new.replace("$", "setp.ge.u32 %p3, %r1, 96;")), *result, seed=seed)


def test_an_ended_warp_misses_the_work_of_others(kernel):
    body = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 96; @%p1 bra DONE; wgmma.fence.sync.aligned; DONE:"
    ptx = kernel(body, threads=128, cpu="sm_90a")
    for seed in (None, 0, 1, 2):
        with pytest.raises(EmulationError, match="warp 3 of this warpgroup has ended without running this wgmma"):
            emulate(ptx, "k", 1, [np.zeros(1)], seed=seed)


def test_a_warpgroup_has_four_warps(kernel):
    with pytest.raises(EmulationError, match="warpgroup of fewer than four warps"):
        emulate(kernel("wgmma.fence.sync.aligned;", threads=96, cpu="sm_90a"), "k", 1, [np.zeros(1)])
