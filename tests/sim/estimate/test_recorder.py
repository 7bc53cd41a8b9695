"""Events that a launch reports while it runs; the reports change no result."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tileiras
from tests.kernels.dots import matmul
from tests.machine_code import needs_tools
from tileiras.sim import ArgumentMismatch, emulate
from tileiras.sim.emulator.errors import EmulationError
from tileiras.sim.emulator.launch.recording import (
    Arrive,
    BlockBarrier,
    Commit,
    Copy,
    Multiply,
    PhaseWait,
    SetRegisters,
    WaitGroup,
)
from tileiras.sim.estimate import model
from tileiras.sim.estimate.events import Access
from tileiras.sim.estimate.images import load
from tileiras.sim.estimate.recorder import TraceRecorder, record
from tileiras.sim.memory import Journal
from tileiras.targets.rates import gpu

sys.path.append(str(Path(__file__).parent.parent / "emulator"))
import warp_specialised  # noqa: E402

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, threads: int = 64) -> str:
    return (
        f"{HEADER}.visible .entry k(.param .u64 k_0)\n.reqntid {threads}\n{{\n.reg .pred %p<9>; .reg .b32 %r<40>; "
        f".reg .b64 %q<20>;\n.shared .align 128 .b8 data[4096];\nld.param.u64 %q0, [k_0];\n{body}\nret;\n}}\n"
    )


LOOP = kernel("""
mov.u32 %r1, %tid.x; mov.u32 %r2, data; mov.u32 %r3, 0; shl.b32 %r4, %r1, 5; add.u32 %r4, %r4, %r2;
shr.u32 %r5, %r1, 5; add.u32 %r5, %r5, 2;
AGAIN:
st.shared.u32 [%r4], %r3;
add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r5;
@%p1 bra AGAIN;
bar.sync 0;
mad.wide.u32 %q1, %r1, 4, %q0; st.global.u32 [%q1], %r3;
""")


def line_of(ptx: str, text: str) -> int:
    return next(number for number, line in enumerate(ptx.splitlines(), 1) if text in line)


def accesses(trace, line: int) -> list[Access]:
    return [event.operation for events in trace.events.values() for event in events
            if event.line == line and isinstance(event.operation, Access)]  # fmt: skip


def test_every_warp_has_the_path_it_took():
    out = np.zeros(64, np.uint32)
    recording = record(LOOP, "k", 1, [out], blocks=[0])
    (cluster,) = recording.clusters
    store = line_of(LOOP, "st.shared")
    (body,) = (block.number for block in recording.blocks.values() if store in block.lines)
    assert [trace.visits.count(body) for trace in cluster.warps] == [2, 3]
    assert out.tolist() == [2] * 32 + [3] * 32


#: Two loops, in which thread 0 goes a way of its own, and which threads leave one after the other; where the threads of
#: a warp meet again comes first in the text.
APART = kernel("""
mov.u32 %r1, %tid.x; mov.u32 %r3, 0; mov.u32 %r5, 0; setp.ne.u32 %p2, %r1, 0; and.b32 %r4, %r1, 31;
bra TOP;
JOIN:
add.u32 %r3, %r3, 1; setp.eq.u32 %p1, %r3, 3;
@%p1 bra LEAVING;
TOP:
@%p2 bra JOIN;
add.u32 %r5, %r5, 1;
bra JOIN;
AFTER:
mad.wide.u32 %q1, %r1, 4, %q0; st.global.u32 [%q1], %r5;
bra END;
LEAVING:
add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4;
@%p1 bra LEAVING;
bra AFTER;
END:
""")


def test_threads_that_part_go_on_together_where_their_paths_join():
    out = np.zeros(64, np.uint32)
    recording = record(APART, "k", 1, [out], blocks=[0])
    assert out.tolist() == [4, *(max(1, lane % 32) for lane in range(1, 64))]
    for text, times in (("setp.eq.u32 %p1, %r3, 3", 3), ("st.global", 1)):
        line = line_of(APART, text)
        (number,) = (block.number for block in recording.blocks.values() if line in block.lines)
        for trace in recording.clusters[0].warps:
            assert [lanes for visit, lanes in zip(trace.visits, trace.lanes) if visit == number] == [32] * times


def test_shared_accesses_have_their_conflicts():
    recording = record(LOOP, "k", 1, [np.zeros(64, np.uint32)], blocks=[0])
    first, _ = recording.clusters[0].warps
    (store, _) = accesses(first, line_of(LOOP, "st.shared"))
    assert store.space == "shared" and store.write and store.bytes == 128
    assert store.wavefronts == 8  # words 8 apart: 4 lanes of a bank out of 8 distinct words each
    (written,) = accesses(first, line_of(LOOP, "st.global"))
    assert written.space == "global" and written.sectors.size == 4


@pytest.mark.parametrize(
    "stride, size, wavefronts", [(4, 4, 1), (8, 4, 2), (128, 4, 32), (16, 16, 4), (8, 8, 2), (0, 4, 1)]
)
def test_wavefronts(stride, size, wavefronts):
    lanes = np.arange(32)
    assert Access("shared", lanes * stride, lanes, size, False, False).wavefronts == wavefronts


def test_atomic_operations_on_one_address_take_turns():
    lanes = np.arange(32)
    assert Access("shared", lanes * 0, lanes, 4, True, True).wavefronts == 32


def operations(recording) -> dict[int, Counter]:
    """warp -> kinds of its operations."""
    return {
        trace.warp: Counter(type(event.operation) for events in trace.events.values() for event in events)
        for trace in recording.clusters[0].warps
    }


def test_asynchronous_operations_are_reported():
    ptx = warp_specialised.matmul_ptx()
    result, _, _memory = warp_specialised.arguments()
    recording = record(ptx, "k", 1, result, blocks=[0])
    steps = warp_specialised.STEPS
    by_warp = operations(recording)
    assert by_warp[4][Copy] == 2 * steps and by_warp[4][PhaseWait] == steps
    for warp in range(4):
        assert by_warp[warp][Multiply] == by_warp[warp][PhaseWait] == by_warp[warp][Arrive] == steps
        assert by_warp[warp][Commit] == steps + (warp == 0)  # the bulk store is one warp's
        assert by_warp[warp][WaitGroup] == steps + (warp == 0)
        assert by_warp[warp][SetRegisters] == 1 and by_warp[warp][BlockBarrier] == 2
    producer = recording.clusters[0].warps[4]
    events = [event.operation for visit in sorted(producer.events) for event in producer.events[visit]]
    copies = [what for what in events if isinstance(what, Copy)]
    assert [copy.bytes for copy in copies[:2]] == [warp_specialised.A_BYTES, warp_specialised.B_BYTES]
    assert all(copy.direction == "load" and len(copy.barriers) == 1 for copy in copies)
    assert [what.parity for what in events if isinstance(what, PhaseWait)] == [1, 1, 0, 0, 1]
    (product,) = {what for visit in recording.clusters[0].warps[0].events.values() for _, what in visit
                  if isinstance(what, Multiply)}  # fmt: skip
    assert product[:6] == ("wgmma", 64, 8, 16, "f16", "f32")
    assert (product.a_bytes, product.b_bytes) == (warp_specialised.A_BYTES, warp_specialised.B_BYTES)


def test_the_path_does_not_depend_on_the_products():
    ptx = warp_specialised.matmul_ptx()
    items = []
    for multiply in (True, False):
        result, _, _memory = warp_specialised.arguments()
        recording = record(ptx, "k", 1, result, blocks=[0], multiply=multiply)
        items.append([(trace.visits, trace.lanes) for trace in recording.clusters[0].warps])
    assert items[0] == items[1]


def test_telling_changes_no_result():
    result, product, _memory = warp_specialised.arguments()
    emulate(warp_specialised.matmul_ptx(), "k", 1, result, recorder=TraceRecorder())
    assert (result[2] == product).all()


def test_only_the_chosen_blocks_run():
    out = np.zeros(64, np.uint32)
    ptx = kernel("mov.u32 %r1, %ctaid.x; mad.wide.u32 %q1, %r1, 4, %q0; mov.u32 %r2, 7; st.global.u32 [%q1], %r2;", 32)
    recording = record(ptx, "k", (8, 2), [out], blocks=[3, 9])
    assert [cluster.ctaids for cluster in recording.clusters] == [((3, 0, 0),), ((1, 1, 0),)]
    assert np.flatnonzero(out).tolist() == [1, 3]


@pytest.mark.parametrize("blocks", [[], [16], [-1]])
def test_blocks_that_the_grid_does_not_have(blocks):
    with pytest.raises(ArgumentMismatch, match="blocks to run"):
        record(LOOP, "k", 16, [np.zeros(64, np.uint32)], blocks=blocks)


@pytest.mark.parametrize(
    "store",
    [
        "st.global.u32 [%rd1], 7;",
        "st.u32 [%rd1], 7;",
        "st.global.v4.u32 [%rd2], {7, 7, 7, 7};",
        "atom.global.add.u32 %r2, [%rd1], 7;",
        "red.global.add.u32 [%rd1], 7;",
        "setp.lt.u32 %p1, %r1, 3; @%p1 st.global.u32 [%rd1+8192], 7;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [scratch], 16;"
        " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [scratch], 64;"
        " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    ],
)
def test_memory_overwritten_by_a_launch_is_restored(store):
    ptx = HEADER + f"""
.visible .entry k(.param .u64 out)
.reqntid 64
{{
.reg .u32 %r<4>; .reg .u64 %rd<4>; .reg .pred %p<2>;
.shared .align 128 .b8 scratch[1024];
ld.param.u64 %rd0, [out];
mov.u32 %r1, %tid.x;
shl.b32 %r3, %r1, 4;
mad.wide.u32 %rd1, %r1, 4, %rd0;
mad.wide.u32 %rd2, %r1, 16, %rd0;
mov.u32 %r2, scratch;
add.u32 %r3, %r3, %r2;
st.shared.v4.u32 [%r3], {{7, 8, 9, 10}};
fence.proxy.async.shared::cta;
bar.sync 0;
{store}
ret;
}}
"""
    whole = np.arange(1, 8193, dtype=np.uint32)
    before = whole.copy()
    journal = Journal()
    part = whole[1000:]  # a page boundary lies inside the written range, and the array starts inside of a page
    record(ptx, "k", (1,), [part], blocks=[0], multiply=True, journal=journal)
    assert (whole != before).any()
    journal.undo()
    assert (whole == before).all()


def test_stores_of_two_launches_are_undone_in_one():
    ptx = HEADER + """
.visible .entry k(.param .u64 out, .param .u32 what)
.reqntid 32
{
.reg .u32 %r<3>; .reg .u64 %rd<2>;
ld.param.u64 %rd0, [out];
ld.param.u32 %r0, [what];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd1, %r1, 4, %rd0;
st.global.u32 [%rd1], %r0;
ret;
}
"""
    values = np.arange(64, dtype=np.uint32)
    journal = Journal()
    for what in (100, 200):
        record(ptx, "k", (1,), [values, what], blocks=[0], journal=journal)
    assert (values[:32] == 200).all()
    journal.undo()
    assert (values == np.arange(64)).all()


@needs_tools
@pytest.mark.parametrize("warps", [4, 8])
def test_blocks_in_lock_step_leave_the_same_recording(warps):
    product = matmul((128, 64, 64), "f16", steps=4)
    artifact = tileiras.compile(product.text, gpu_name="sm_90", emit="ptx", num_warps=warps)
    arguments = [*product.inputs, *(each.copy() for each in product.outputs)]
    metadata = artifact.kernels[0].metadata
    apart, together = (
        record(artifact.text, "k", 3, arguments, metadata, blocks=range(3), apart=each) for each in (True, False)
    )
    assert "wgmma" in artifact.text and apart.steps == together.steps
    for one, other in zip(apart.clusters, together.clusters, strict=True):
        assert [(each.visits, each.lanes, of_events(each)) for each in one.warps] == [
            (each.visits, each.lanes, of_events(each)) for each in other.warps
        ]


def of_events(trace) -> list:
    return [
        (at, event.line, *(part.tolist() if isinstance(part, np.ndarray) else part for part in fields(event.operation)))
        for at, events in trace.events.items() for event in events
    ]  # fmt: skip


def fields(event) -> tuple:
    if isinstance(event, tuple):
        return event
    return event.space, event.addresses, event.lanes, event.size, event.write


DOTS = LOOP.replace(".reqntid 64", ".reqntid 128").replace("AGAIN:\n", "wgmma.fence.sync.aligned;\nAGAIN:\n")


@needs_tools
@pytest.mark.parametrize(("code", "attempts"), [(DOTS, [False, True]), (LOOP, [False])], ids=["wgmma", "none"])
def test_blocks_that_cannot_run_in_lock_step_run_apart(code, attempts, monkeypatch):
    chosen, out, tried = gpu("H200"), np.zeros(128, np.uint32), []

    def recorded(*given, apart, **others):
        tried.append(apart)
        if not apart:
            raise EmulationError("an accumulator of this product is used before wgmma.wait_group")
        return record(*given, apart=apart, **others)

    monkeypatch.setattr(model, "record", recorded)
    estimated = model.Model(load(code, "k", chosen), (2,), chosen, [out])
    if True not in attempts:
        with pytest.raises(EmulationError):
            estimated.prepare()
    else:
        estimated.prepare()
        assert estimated.estimate().microseconds > 0
    assert tried == attempts
