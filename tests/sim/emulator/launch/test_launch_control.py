"""Clusters that take over the work of clusters that have not started."""

import numpy as np
import pytest

from tileiras.sim import EmulationError, emulate

# Each block works on its own item and then on those of blocks that it cancels; it counts how many that were.
STEAL = """
    .reg .b128 %w; .shared .align 16 .b8 answer[16]; .shared .align 8 .b8 full[8];
    mov.u32 %r2, answer; mov.u32 %r3, full; mov.u32 %r6, 0; mov.u32 %r7, %ctaid.x; mov.u32 %r8, 0;
    mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    WORK: mad.wide.u32 %q1, %r7, 4, %a0; add.u32 %r9, %r7, 100; st.global.u32 [%q1], %r9; add.u32 %r8, %r8, 1;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r3];
    mbarrier.arrive.expect_tx.shared::cta.b64 %q2, [%r3], 16;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r6; @!%p2 bra WAIT; xor.b32 %r6, %r6, 1;
    ld.shared.b128 %w, [%r2]; FENCE
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %w;
    @%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r7, %r10, %r11, _}, %w;
    @%p3 bra WORK;
    atom.global.max.u32 %r12, [%a1], %r8;
"""


def steal(kernel, body: str = STEAL, fence: str = "fence.proxy.async.shared::cta;", **options):
    items, most = np.zeros(7, np.uint32), np.zeros(1, np.uint32)
    ptx = kernel(body.replace("FENCE", fence), (".u64", ".u64"), threads=1, cpu="sm_100a")
    emulate(ptx, "k", 7, [items, most], **options)
    return items, most[0]


def test_every_item_is_worked_on_once(kernel):
    items, most = steal(kernel)
    assert (items == np.arange(7) + 100).all() and most == 7


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@%p3 clusterlaunchcontrol", "clusterlaunchcontrol", "the block of a launch that was not cancelled"),
        ("@%p3 bra WORK;", "setp.lt.u32 %p4, %r8, 20; @%p4 bra WORK;", "after one of this block was refused"),
        ("ld.shared.b128 %w, [%r2];", "mov.b128 %w, {%q1, %q2};", "no answer to a request"),
        ("[%r3], 16;", "[%r3], 32;", "lacks 16 bytes of transactions"),
        ("FENCE", "", "read by .*no fence.proxy.async between"),
    ],
)
def test_requests_that_are_wrong(kernel, old, new, said):
    assert old in STEAL
    with pytest.raises(EmulationError, match=said):
        steal(kernel, STEAL.replace(old, new))


def test_registers_of_128_bits(kernel):
    body = """
        .reg .b128 %w; .reg .b128 %v; mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, 16, %a0; ld.global.b128 %w, [%q1];
        mov.b128 {%q2, %q3}, %w; add.u64 %q2, %q2, 1; setp.lt.u32 %p1, %r1, 8; @%p1 mov.b128 %w, {%q3, %q2};
        st.global.b128 [%q1], %w;
    """
    data = np.arange(64, dtype=np.uint64).reshape(32, 2)
    expected = data.copy()
    expected[:8] = expected[:8, ::-1] + [0, 1]
    emulate(kernel(body), "k", 1, [data])
    assert (data == expected).all()


# Half of the threads let dependents start, the others have ended by then; all wait for the grids before.
DEPENDENT = """
    mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, 4, %a0; setp.lt.u32 %p1, %r1, 48;
    griddepcontrol.wait; @!%p1 exit; griddepcontrol.launch_dependents;
    ld.global.u32 %r2, [%q1]; add.u32 %r2, %r2, %r1; st.global.u32 [%q1], %r2;
"""


@pytest.mark.parametrize("seed", [None, 3])
def test_grids_that_nothing_depends_on(kernel, seed):
    """One grid alone: those that it depends on have ended and flushed (PTX ISA, griddepcontrol), no thread waits."""
    data = np.full(96, 5, np.uint32)
    run = emulate(kernel(DEPENDENT, threads=96, cpu="sm_90"), "k", 1, [data], seed=seed)
    assert (data == 5 + np.arange(96) * (np.arange(96) < 48)).all()
    assert run.instruction_counts["griddepcontrol.wait"] == 3
    assert run.instruction_counts["griddepcontrol.launch_dependents"] == 2


@pytest.mark.parametrize("wrong", ["griddepcontrol;", "griddepcontrol.launch;", "griddepcontrol.wait %r1;"])
def test_actions_on_missing_dependents(kernel, wrong):
    ptx = kernel(DEPENDENT, threads=96, cpu="sm_90").replace("griddepcontrol.wait;", wrong)
    with pytest.raises(EmulationError, match="griddepcontrol"):
        emulate(ptx, "k", 1, [np.zeros(96, np.uint32)])
