"""The generic, the asynchronous and the tensormap proxy: their visibility to each other, in code that follows the rules
and in code that does not."""

import numpy as np
import pytest
from map_descriptors import described

from tileiras.sim import EmulationError, emulate
from tileiras.sim.emulator import tensor_map
from tileiras.sim.emulator.rules import RULES

# One thread writes 64 bytes of global memory, copies them to shared memory and reads them there.
WRITE_AND_COPY = """
    .shared .align 16 .b8 tile[64]; .shared .align 8 .b8 full[8]; mov.u32 %r2, tile; mov.u32 %r3, full;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; READY: bar.sync 0;
    @%p1 bra DONE;
    st.global.u32 [%a0], 7; FENCE
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a0], 64, [%r3];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    ld.shared.u32 %r4, [%r2]; st.global.u32 [%a1], %r4;
    DONE:
"""


@pytest.mark.parametrize("fence", ["fence.proxy.async;", "fence.proxy.async.global;"])
def test_a_bulk_copy_reads_values_written_before_a_fence(kernel, fence):
    out = np.zeros(1, np.uint32)
    emulate(kernel(WRITE_AND_COPY.replace("FENCE", fence), (".u64", ".u64")), "k", 1, [np.zeros(16, np.uint32), out])
    assert out[0] == 7


@pytest.mark.parametrize("fence", ["", "fence.proxy.async.shared::cta;", "fence.acq_rel.gpu;"])
def test_a_bulk_copy_needs_the_fence_for_global_memory(kernel, fence):
    ptx = kernel(WRITE_AND_COPY.replace("FENCE", fence), (".u64", ".u64"))
    with pytest.raises(EmulationError, match=r"argument 0: written by .*st.global.u32.*no fence.proxy.async between"):
        emulate(ptx, "k", 1, [np.zeros(16, np.uint32), np.zeros(1, np.uint32)])


# One thread stores a tile by a bulk copy, and the block reads the result.
STORE_AND_READ = """
    .shared .align 16 .b8 tile[64]; mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 2, %r2;
    cvt.u16.u32 %h1, %r1; st.shared.u16 [%r3], %h1; fence.proxy.async.shared::cta; bar.sync 0;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra READ;
    cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r2], 64; cp.async.bulk.commit_group;
    WAIT
    READ: bar.sync 0;
    mad.wide.u32 %q1, %r1, 2, %a0; ld.global.u16 %h2, [%q1]; mad.wide.u32 %q2, %r1, 2, %a1; st.global.u16 [%q2], %h2;
"""


def test_writes_of_a_bulk_copy_are_read_after_its_group(kernel):
    out = np.zeros(32, np.uint16)
    ptx = kernel(STORE_AND_READ.replace("WAIT", "cp.async.bulk.wait_group 0;"), (".u64", ".u64"))
    emulate(ptx, "k", 1, [np.zeros(32, np.uint16), out])
    assert (out == np.arange(32)).all()


def test_writes_of_a_bulk_copy_are_not_visible_early(kernel):
    """To wait for the reading of its source alone is not enough."""
    ptx = kernel(STORE_AND_READ.replace("WAIT", "cp.async.bulk.wait_group.read 0;"), (".u64", ".u64"))
    with pytest.raises(EmulationError, match=r"argument 0: read by warp 0 at line \d+ \(ld.global.u16.*no wait in"):
        emulate(ptx, "k", 1, [np.full(32, 99, np.uint16), np.zeros(32, np.uint16)])


def test_writes_of_threads_are_overwritten_after_a_fence(kernel):
    body = WRITE_AND_COPY.replace("st.global.u32 [%a0], 7; FENCE", "st.shared.u32 [%r2], 1; FENCE")
    with pytest.raises(EmulationError, match="written by .*st.shared.u32.*no fence.proxy.async between"):
        emulate(kernel(body.replace("FENCE", ""), (".u64", ".u64")), "k", 1, list(np.zeros((2, 16), np.uint32)))
    fenced = body.replace("FENCE", "fence.proxy.async.shared::cta;")
    emulate(kernel(fenced, (".u64", ".u64")), "k", 1, list(np.zeros((2, 16), np.uint32)))


# All lanes of a warp use each word of a tile together, and half of them at a time run the fence; then one thread copies
# over it.
USE_AND_OVERWRITE = """
    .shared .align 16 .b8 tile[128]; .shared .align 8 .b8 full[8]; mov.u32 %r2, tile; mov.u32 %r3, full;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; setp.lt.u32 %p3, %r1, 16; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; READY:
    shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r2; st.shared.u32 [%r5], %r1; fence.proxy.async.shared::cta; bar.sync 0;
    USE
    @%p3 bra HALF; REST bra.uni MET; HALF: fence.proxy.async.shared::cta; MET: bar.warp.sync -1;
    @%p1 bra DONE;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a0], 64, [%r3];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    DONE:
"""


@pytest.mark.parametrize("use", [
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r4}, [%r2];", "ld.shared.u32 %r4, [%r2];",
    "shl.b32 %r5, %r1, 1; add.u32 %r5, %r5, %r2; cvt.u16.u32 %h1, %r1; st.shared.u16 [%r5], %h1;",
])  # fmt: skip
def test_lanes_of_a_warp_fence_one_after_the_other(kernel, use):
    body = USE_AND_OVERWRITE.replace("USE", use)
    whole = kernel(body.replace("REST", "fence.proxy.async.shared::cta;"), (".u64",))
    emulate(whole, "k", 1, [np.zeros(16, np.uint32)])
    with pytest.raises(EmulationError, match="no fence.proxy.async between"):
        emulate(kernel(body.replace("REST", ""), (".u64",)), "k", 1, [np.zeros(16, np.uint32)])


# Warp 1 writes a tile and releases it to warp 0, which copies it to global memory.
RELEASE_AND_COPY = """
    .shared .align 16 .b8 tile[128]; .shared .align 8 .b8 full[8]; mov.u32 %r2, tile; mov.u32 %r3, full;
    mov.u32 %r1, %tid.x; setp.lt.u32 %p3, %r1, 32; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 32; fence.mbarrier_init.release.cluster; READY: bar.sync 0;
    @%p3 bra COPY;
    and.b32 %r5, %r1, 31; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r2; st.shared.u32 [%r5], %r1;
    BEFORE mbarrier.arrive.shared.b64 _, [%r3]; BEHIND bra.uni DONE;
    COPY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra COPY;
    HERE @%p1 bra DONE;
    cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r2], 128; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    DONE:
"""
FENCE = "fence.proxy.async.shared::cta;"


@pytest.mark.parametrize("place", ["BEFORE", "HERE"])
def test_a_fence_on_either_side_orders_the_proxies(kernel, place):
    out = np.zeros(32, np.uint32)
    body = RELEASE_AND_COPY.replace(place, FENCE)
    for other in ("BEFORE", "BEHIND", "HERE"):
        body = body.replace(other, "")
    for seed in (None, 0, 1):
        emulate(kernel(body, (".u64",), threads=64), "k", 1, [out], seed=seed)
    assert (out == np.arange(32, 64)).all()


def test_a_fence_behind_the_release_orders_nothing(kernel):
    """Neither the writer's own, nor one by another thread that the copying thread does not come behind."""
    body = RELEASE_AND_COPY.replace("BEFORE", "").replace("HERE", "bar.warp.sync -1; bar.warp.sync -1;")
    for late in (body.replace("BEHIND", FENCE), body.replace("BEHIND", f"{FENCE} bar.warp.sync -1;")):
        with pytest.raises(EmulationError, match="no fence.proxy.async between"):
            emulate(kernel(late, (".u64",), threads=64), "k", 1, [np.zeros(32, np.uint32)])


def test_rules_are_waived_by_name(kernel):
    ptx = kernel(".shared .align 8 .b8 full[8]; mov.u32 %r3, full; mbarrier.inval.shared.b64 [%r3];")
    with pytest.raises(EmulationError, match="a transaction barrier that is not initialised"):
        emulate(ptx, "k", 1, [np.zeros(1)])
    emulate(ptx, "k", 1, [np.zeros(1)], waive=["mbarrier-inval"])
    with pytest.raises(ValueError, match="no rule 'speed'"):
        emulate(ptx, "k", 1, [np.zeros(1)], waive=["speed"])
    assert all("PTX ISA" in rule.isa and rule.practice for rule in RULES.values())


# -- tensor maps that the kernel makes -------------------------------------------------------------------------------

# %a0 is a map, %a1 where another is made of it, %a2 the box that a copy by that one brings.
MAKE = """
    .shared .align 128 .b8 map[128]; .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, map; mov.u32 %r3, tile; mov.u32 %r4, full;
    mad.lo.u32 %r5, %r1, 4, %r2; mad.wide.u32 %q1, %r1, 4, %a0; ld.global.u32 %r6, [%q1]; st.shared.u32 [%r5], %r6;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
    READY: bar.sync 0;
    @%p1 bra MADE; REPLACE MADE: bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a1], [%r2], 128;
    ACQUIRE
    @%p1 bra ARRIVED; mbarrier.arrive.expect_tx.shared.b64 %q2, [%r4], 1024; mov.b32 %r10, 0;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r3], [%a1, {%r10, %r10}], [%r4];
    ARRIVED: WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra WAIT;
    mad.lo.u32 %r7, %r1, 32, %r3; ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r7];
    ld.shared.v4.u32 {%r24, %r25, %r26, %r27}, [%r7+16]; mad.wide.u32 %q3, %r1, 32, %a2;
    st.global.v4.u32 [%q3], {%r20, %r21, %r22, %r23}; st.global.v4.u32 [%q3+16], {%r24, %r25, %r26, %r27};
"""
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%a1], 128;"
TENSOR = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)


def made(kernel, replace: str = "", acquire: str = ACQUIRE, body: str = MAKE, tensor=TENSOR) -> np.ndarray:
    raw, memory = described(tensor, (32, 16))
    place = np.zeros(128, np.uint8)
    out = np.zeros((16, 32), np.uint16)
    memory.allocate(place, alignment=128)
    body = body.replace("REPLACE", replace).replace("ACQUIRE", acquire)
    ptx = kernel(body, (".u64", ".u64", ".u64"), cpu="sm_90a")
    emulate(ptx, "k", 1, [raw, memory.allocate(place), out])
    return out


def test_a_map_that_was_released_and_acquired(kernel):
    assert (made(kernel) == TENSOR[:16, :32]).all()


def test_a_map_that_was_not_acquired(kernel):
    with pytest.raises(EmulationError, match=r"written at line \d+ \(tensormap.cp_fenceproxy.*generic.acquire since"):
        made(kernel, acquire="")


def test_a_map_written_by_stores_has_to_be_released(kernel):
    copy = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a1], [%r2], 128;"
    store = "mad.wide.u32 %q4, %r1, 4, %a1; st.global.u32 [%q4], %r6; RELEASE bar.warp.sync -1;"
    body = MAKE.replace(copy, store)
    with pytest.raises(EmulationError, match="tensormap::generic.release since"):
        made(kernel, body=body.replace("RELEASE", ""))
    released = body.replace("RELEASE", "fence.proxy.tensormap::generic.release.gpu;")
    assert (made(kernel, body=released) == TENSOR[:16, :32]).all()


MAKE_AND_STORE = MAKE + """
    bar.warp.sync -1; @%p1 bra STORED; mov.b32 %r10, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%a1, {%r10, %r10}], [%r3];
    cp.async.bulk.commit_group; BEFORE
    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 0, 8; STORED: bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a1], [%r2], 128;
    BEHIND
"""


def test_a_map_changes_after_the_wait_of_copies_that_read_it(kernel):
    wait = "cp.async.bulk.wait_group.read 0;"
    early = MAKE_AND_STORE.replace("BEFORE", wait).replace("BEHIND", "cp.async.bulk.wait_group 0;")
    assert (made(kernel, body=early, tensor=TENSOR.copy()) == TENSOR[:16, :32]).all()
    late = MAKE_AND_STORE.replace("BEFORE", "").replace("BEHIND", "cp.async.bulk.wait_group 0;")
    with pytest.raises(EmulationError, match=r"written at line \d+ \(tensormap.cp_fenceproxy.* before a wait"):
        made(kernel, body=late, tensor=TENSOR.copy())


REPLACED = {
    "global_dim.shared::cta.b1024.b32 [%r2], 0, 8": lambda box: np.where(np.arange(32) < 8, box, 0),
    "global_dim.shared::cta.b1024.b32 [%r2], 1, 5": lambda box: np.where(np.arange(16)[:, None] < 5, box, 0),
    "global_stride.shared::cta.b1024.b64 [%r2], 0, 256": lambda box: TENSOR[:32:2, :32],
    "swizzle_mode.shared::cta.b1024.b32 [%r2], 2": lambda box: np.stack([
        row.reshape(-1, 8)[np.arange(4) ^ number // 2 % 4].reshape(-1) for number, row in enumerate(box)
    ]),
}  # fmt: skip


@pytest.mark.parametrize("field", REPLACED)
def test_fields_of_a_map_are_replaced(kernel, field):
    result = made(kernel, f"tensormap.replace.tile.{field};")
    assert (result == REPLACED[field](TENSOR[:16, :32])).all()


def test_the_place_of_a_tensor_is_replaced(kernel):
    other = np.full(TENSOR.shape, 5, np.uint16)
    pair = np.stack([TENSOR, other])
    result = made(kernel, "ld.shared.u64 %q6, [%r2]; add.u64 %q6, %q6, 8192; "
                 "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r2], %q6;", tensor=pair[0])  # fmt: skip
    assert (result == 5).all()


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("global_stride.shared::cta.b1024.b64 [%r2], 0, 24", "a stride of 24 bytes"),
        ("box_dim.shared::cta.b1024.b32 [%r2], 1, 257", "box_dim 1 cannot be 257"),
        ("element_stride.shared::cta.b1024.b32 [%r2], 0, 2", "element strides other than 1"),
        ("swizzle_mode.shared::cta.b1024.b32 [%r2], 1", "wider than the swizzle"),
    ],
)
def test_fields_that_make_no_map(kernel, field, said):
    with pytest.raises(EmulationError, match=said):
        made(kernel, f"tensormap.replace.tile.{field};")


def test_each_block_has_memory_of_its_own(kernel):
    body = """
        mov.u64 %q1, %perctamemoryoffset; mov.u32 %r1, %ctaid.x; st.global.u32 [%q1+256], %r1;
        ld.global.u32 %r2, [%q1+256]; mad.wide.u32 %q2, %r1, 4, %a0; st.global.u32 [%q2], %r2;
    """
    ptx = kernel(body, threads=1, assemble=False)
    with pytest.raises(EmulationError, match="needs the directive .minperctamemory"):
        emulate(ptx, "k", 4, [np.zeros(4, np.uint32)])
    out = np.zeros(4, np.uint32)
    emulate(ptx.replace(".reqntid 1\n", ".reqntid 1\n.minperctamemory 384\n"), "k", 4, [out])
    assert (out == np.arange(4)).all()
    small = ptx.replace(".reqntid 1\n", ".reqntid 1\n.minperctamemory 128\n")
    with pytest.raises(EmulationError, match="in no allocation|race"):
        emulate(small, "k", 2, [np.zeros(4, np.uint32)])


def test_the_layout_of_a_map_has_nothing_behind_its_fields():
    raw, _ = described(TENSOR, (32, 16))
    assert tensor_map.decode(raw[:64].tobytes() + bytes(range(64))) == tensor_map.decode(raw.tobytes())


# A warp reads a word together, runs a fence in two parts, and one thread has the word overwritten.
READ_AND_OVERWRITE = """
    .shared .align 16 .b8 tile[64]; .shared .align 8 .b8 full[8]; mov.u32 %r2, tile; mov.u32 %r3, full;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; st.shared.u32 [%r2], 1; READY: bar.sync 0;
    ld.shared.u32 %r4, [%r2];
    @%p1 bra OTHERS;
    FIRST bra JOIN;
    OTHERS: fence.proxy.async.shared::cta; AGAIN
    JOIN: bar.warp.sync -1;
    @%p1 bra DONE;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%a0], 64, [%r3];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    ld.shared.u32 %r5, [%r2]; add.u32 %r4, %r4, %r5; st.global.u32 [%a1], %r4;
    DONE:
"""


def test_lanes_run_a_fence_at_different_times(kernel):
    out = np.zeros(1, np.uint32)
    body = READ_AND_OVERWRITE.replace("FIRST", "fence.proxy.async.shared::cta;").replace("AGAIN", "")
    emulate(kernel(body, (".u64", ".u64")), "k", 1, [np.full(16, 5, np.uint32), out])
    assert out[0] == 6


@pytest.mark.parametrize("first", ["", "fence.proxy.async.shared::cta;"])
def test_lanes_that_read_behind_their_fence_need_another(kernel, first):
    """Without one of its own, the first lane's read counts as well."""
    body = READ_AND_OVERWRITE.replace("FIRST", first).replace("AGAIN", "ld.shared.u32 %r4, [%r2];" if first else "")
    with pytest.raises(EmulationError, match=r"read by .*ld.shared.u32.*no fence.proxy.async between"):
        emulate(kernel(body, (".u64", ".u64")), "k", 1, [np.zeros(16, np.uint32), np.zeros(1, np.uint32)])
