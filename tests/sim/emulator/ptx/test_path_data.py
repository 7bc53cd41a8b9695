"""Recordings do without values that decide neither a path nor an address."""

import numpy as np
import pytest

from tileiras.sim.emulator.ptx.parser import parse
from tileiras.sim.emulator.ptx.path_data import without_effect
from tileiras.sim.estimate.events import Access
from tileiras.sim.estimate.recorder import record

HEADER = (
    ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 k_0, .param .u64 k_1)\n"
    ".reqntid 64\n{\n.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %q<20>; .reg .f32 %f<9>;\n"
    ".shared .align 128 .b8 data[1024];\nld.param.u64 %q0, [k_0]; ld.param.u64 %q9, [k_1];\n"
    "mov.u32 %r1, %tid.x; mad.wide.u32 %q1, %r1, 4, %q0; mad.wide.u32 %q2, %r1, 4, %q9;\n"
    "mov.u32 %r2, data; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3;\n"
)
DATA = "fma.rn.f32 %f2, %f1, %f1, %f1;"
BODIES = {
    "stored": (f"ld.global.f32 %f1, [%q1]; {DATA} st.global.f32 [%q2], %f2;", False),
    "exchanged": (f"ld.global.f32 %f1, [%q1]; {DATA} mov.b32 %r5, %f2; shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;"
                  "st.global.b32 [%q2], %r6;", False),
    "through shared memory": (f"ld.global.f32 %f1, [%q1]; {DATA} st.shared.f32 [%r4], %f2; bar.sync 0;"
                              "ld.shared.f32 %f3, [data+64]; add.f32 %f4, %f3, %f3; st.global.f32 [%q2], %f4;", False),
    "a guard": (f"ld.global.f32 %f1, [%q1]; {DATA} setp.gt.f32 %p1, %f2, 0f00000000; @%p1 st.global.f32 [%q2], %f1;",
                True),
    "an address": (f"ld.global.f32 %f1, [%q1]; {DATA} cvt.rzi.s32.f32 %r5, %f2; mul.wide.u32 %q3, %r5, 4;"
                   "add.u64 %q3, %q3, %q9; st.global.f32 [%q3], %f1;", True),
    "an address behind shared memory": (
        f"ld.global.f32 %f1, [%q1]; {DATA} cvt.rzi.u32.f32 %r5, %f2; st.shared.u32 [%r4], %r5; bar.sync 0;"
        "ld.shared.u32 %r6, [data]; mul.wide.u32 %q3, %r6, 4; add.u64 %q3, %q3, %q9; st.global.f32 [%q3], %f1;", True),
    "a branch behind a shuffle": (
        f"ld.global.f32 %f1, [%q1]; {DATA} mov.b32 %r5, %f2; shfl.sync.idx.b32 %r6, %r5, 0, 31, -1;"
        "setp.eq.u32 %p1, %r6, 0; @%p1 bra OUT; st.global.b32 [%q2], %r6; OUT:", True),
    "a carry": ("add.cc.u32 %r5, %r1, %r1; addc.u32 %r6, %r1, 0; mul.wide.u32 %q3, %r6, 4; add.u64 %q3, %q3, %q9;"
                f"mov.f32 %f1, 0f00000000; {DATA} st.global.f32 [%q3], %f1;", False),
    "copied": ("cp.async.ca.shared.global [%r4], [%q1], 4; cp.async.wait_all; bar.sync 0; ld.shared.f32 %f1, [data+64];"
               f"{DATA} st.global.f32 [%q2], %f2;", False),
    "an address behind a copy": (
        "cp.async.ca.shared.global [%r4], [%q1], 4; cp.async.wait_all; bar.sync 0; ld.shared.f32 %f1, [data];"
        f"{DATA} cvt.rzi.u32.f32 %r5, %f2; mul.wide.u32 %q3, %r5, 4; add.u64 %q3, %q3, %q9; st.global.f32 [%q3], %f1;",
        True),
    "the address of tensor memory": (
        f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32; ld.global.f32 %f1, [%q1]; {DATA}"
        "st.shared.f32 [%r4], %f2; bar.sync 0; ld.shared.u32 %r9, [data];"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;", False),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_data_decides_where_an_effect_depends_on_it(name):
    body, decides = BODIES[name]
    entry = parse(f"{HEADER}{body}\nret;\n}}\n").functions["k"]
    skipped = without_effect(entry)
    assert [id(item) in skipped for item in entry.body if item.opcode == "fma"] == [not decides]
    assert not any(id(item) in skipped for item in entry.body if item.opcode in ("st", "bar", "shfl", "addc"))
    loads = [id(item) in skipped for item in entry.body if "f32" in item.modifiers and item.opcode == "ld"]
    assert all(loads) != decides


@pytest.mark.parametrize("name", [name for name in BODIES if "tensor" not in name])
def test_recordings_without_data_have_all_events(name):
    code = f"{HEADER}{BODIES[name][0]}\nret;\n}}\n"
    arguments = [np.arange(4096, dtype=np.float32) % 7, np.zeros(4096, np.float32)]
    ours, whole = (record(code, "k", 1, [each.copy() for each in arguments], blocks=[0], multiply=multiply)
                   for multiply in (False, True))  # fmt: skip
    assert [_events(each) for each in ours.clusters[0].warps] == [_events(each) for each in whole.clusters[0].warps]


def _events(trace):
    every = ((at, event) for at, events in trace.events.items() for event in events)
    every = ((at, event) for at, event in every if isinstance(event.operation, Access))
    accesses = [(at, event.line, event.operation.space, event.operation.addresses.tolist()) for at, event in every]
    return trace.visits, trace.lanes, accesses
