"""Bulk reductions, gathered rows, arrivals on barriers of other blocks: each right, and with its rule broken."""

import numpy as np
import pytest
from map_descriptors import described

from tileiras.sim import EmulationError, emulate
from tileiras.sim.emulator import tensor_map

BEGIN = """
    .shared .align 1024 .b8 tile[2048]; .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, full; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; READY:
"""
FILL = "mad.lo.u32 %r4, %r1, 4, %r2; mad.wide.u32 %q1, %r1, 4, %a0; ld.global.u32 %r5, [%q1]; st.shared.u32 [%r4], %r5;"

REDUCE = BEGIN + FILL + """
    fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra DONE;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.OP [%a1], [%r2], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    DONE:
"""
REDUCTIONS = {
    "add.u32": np.add, "max.s32": lambda a, b: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    "min.u32": np.minimum, "xor.b32": np.bitwise_xor,
    "add.f32": lambda a, b: (a.view(np.float32) + b.view(np.float32)).view(np.uint32),
    "add.noftz.f16": lambda a, b: (a.view(np.float16) + b.view(np.float16)).view(np.uint32),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_bulk_reductions(kernel, name):
    source = np.arange(1, 33, dtype=np.float32).view(np.uint32)
    target = np.full((3, 32), 7.0, np.float32).view(np.uint32)
    expected = target[0].copy()
    for _ in range(3):
        expected = REDUCTIONS[name](expected, source)
    ptx = kernel(REDUCE.replace("OP", name), (".u64", ".u64"))
    emulate(ptx, "k", 3, [source.copy(), target[0]])  # the blocks' updates do not race
    assert (target[0] == expected).all()


def test_a_reduction_is_not_there_before_its_group(kernel):
    text = REDUCE.replace("cp.async.bulk.wait_group 0;", "ld.global.u32 %r9, [%a1]; st.global.u32 [%a0], %r9; "
                          "cp.async.bulk.wait_group 0;")  # fmt: skip
    ptx = kernel(text.replace("OP", "add.u32"), (".u64", ".u64"))
    source, target = np.ones(32, np.uint32), np.zeros(32, np.uint32)
    emulate(ptx, "k", 1, [source, target])
    assert source[0] == 0 and target[0] == 1


TENSOR = np.arange(40 * 72, dtype=np.uint32).reshape(40, 72)

GATHER = BEGIN + """
    bar.sync 0; @%p1 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 %q2, [%r3], 256;
    mov.b32 %r10, 4; mov.b32 %r11, 3; mov.b32 %r12, 39; mov.b32 %r13, 40; mov.b32 %r14, 0;
    cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
        [%r2], [%a0, {%r10, %r11, %r12, %r13, %r14}], [%r3];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    mad.lo.u32 %r4, %r1, 8, %r2; ld.shared.v2.u32 {%r20, %r21}, [%r4];
    mad.wide.u32 %q1, %r1, 8, %a1; st.global.v2.u32 [%q1], {%r20, %r21};
"""
SCATTER = BEGIN + """
    mad.lo.u32 %r4, %r1, 8, %r2; mad.wide.u32 %q1, %r1, 8, %a1; ld.global.v2.u32 {%r20, %r21}, [%q1];
    st.shared.v2.u32 [%r4], {%r20, %r21}; fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra DONE;
    mov.b32 %r10, 4; mov.b32 %r11, 3; mov.b32 %r12, 39; mov.b32 %r13, 40; mov.b32 %r14, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group
        [%a0, {%r10, %r11, %r12, %r13, %r14}], [%r2];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:
"""


def of_rows(tensor: np.ndarray, box=(16, 1)):
    """A map of 32-bit elements whose boxes are rows of 16."""
    raw, memory = described(tensor.view(np.uint16), (box[0], box[1]))
    result = tensor_map.decode(raw.tobytes())
    result = result._replace(element="u32", dims=tensor.shape[::-1], box=box)
    return np.frombuffer(tensor_map.encode(result), np.uint8).copy(), memory


def test_four_rows_are_gathered(kernel):
    raw, _memory = of_rows(TENSOR)
    out = np.zeros((4, 16), np.uint32)
    emulate(kernel(GATHER, (".u64", ".u64"), cpu="sm_100a"), "k", 1, [raw, out])
    assert (out == [TENSOR[3, 4:20], TENSOR[39, 4:20], np.zeros(16), TENSOR[0, 4:20]]).all()


def test_four_rows_are_scattered(kernel):
    tensor = TENSOR.copy()
    raw, _memory = of_rows(tensor)
    rows = np.arange(64, dtype=np.uint32).reshape(4, 16) + 100_000
    emulate(kernel(SCATTER, (".u64", ".u64"), cpu="sm_100a"), "k", 1, [raw, rows.copy()])
    expected = TENSOR.copy()
    expected[[3, 39, 0], 4:20] = rows[[0, 1, 3]]
    assert (tensor == expected).all()


def test_gathered_rows_are_boxes_of_one_row(kernel):
    raw, _memory = of_rows(TENSOR, (16, 2))
    with pytest.raises(EmulationError, match="a box of 2 rows, where four are named one by one"):
        emulate(kernel(GATHER, (".u64", ".u64"), cpu="sm_100a"), "k", 1, [raw, np.zeros(64, np.uint32)])


def test_a_box_is_added_to_a_tensor(kernel):
    tensor = TENSOR.copy()
    raw, _memory = of_rows(tensor)
    body = BEGIN + FILL + """
        fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra DONE; mov.b32 %r10, 60; mov.b32 %r11, 5;
        cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%a1, {%r10, %r11}], [%r2];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; DONE:
    """
    emulate(kernel(body, (".u64", ".u64")), "k", 2, [np.arange(32, dtype=np.uint32), raw])
    expected = TENSOR.copy()
    expected[5, 60:72] += 2 * np.arange(12, dtype=np.uint32)
    assert (tensor == expected).all()


COPY = BEGIN + """
    bar.sync 0; @%p1 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 %q2, [%r3], 64;
    mov.b32 %r8, LEFT; mov.b32 %r9, RIGHT;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [%r2], [%a0], 64, %r8, %r9, [%r3];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    setp.ge.u32 %p3, %r1, 13; @%p3 bra DONE;
    mad.lo.u32 %r4, %r1, 4, %r2; ld.shared.u32 %r20, [%r4]; mad.wide.u32 %q1, %r1, 4, %a1; st.global.u32 [%q1], %r20;
    DONE:
"""


def ignoring(kernel, left: int, right: int) -> np.ndarray:
    out = np.zeros(13, np.uint32)
    body = COPY.replace("LEFT", str(left)).replace("RIGHT", str(right))
    emulate(kernel(body, (".u64", ".u64"), assemble=False), "k", 1, [np.arange(13, dtype=np.uint32), out])
    return out


def test_a_bulk_copy_may_end_behind_an_allocation(kernel):
    assert (ignoring(kernel, 0, 12) == np.arange(13)).all()


@pytest.mark.parametrize(("left", "right", "said"), [(0, 0, "in no allocation"), (0, 16, "16 bytes to ignore")])
def test_bytes_that_may_not_be_ignored(kernel, left, right, said):
    with pytest.raises(EmulationError, match=said):
        ignoring(kernel, left, right)


# Each block of a pair gives a value to the other.
REMOTE = BEGIN + """
    mov.u32 %r5, %cluster_ctarank; xor.b32 %r6, %r5, 1; mapa.shared::cluster.u32 %r7, %r2, %r6;
    mapa.shared::cluster.u32 %r8, %r3, %r6; PREPARE barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%p1 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 %q2, [%r3], BYTES; add.u32 %r9, %r5, 10;
    SEND
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    @%p1 bra DONE; ld.shared.u32 %r20, [%r2]; mov.u32 %r21, %ctaid.x; mad.wide.u32 %q1, %r21, 4, %a0;
    st.global.u32 [%q1], %r20; DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r9, [%r8];"
ADD = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r7], %r9, [%r8];"


def remote(kernel, send: str, prepare: str = "", count: int = 4, seed=0) -> list[int]:
    out = np.zeros(2, np.uint32)
    body = REMOTE.replace("SEND", send).replace("BYTES", str(count)).replace("PREPARE", prepare)
    emulate(kernel(body), "k", 2, [out], cluster=(2, 1, 1), seed=seed)
    return out.tolist()


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_values_come_to_another_block(kernel, seed):
    assert remote(kernel, STORE, seed=seed) == [11, 10]
    twice = "@%p1 bra SET; st.shared.u32 [%r2], 1000; SET:"
    assert remote(kernel, f"{ADD} {ADD}", twice, 8, seed) == [1022, 1020]


def test_a_bulk_copy_between_blocks(kernel):
    prepare = "@%p1 bra SET; st.shared.v4.u32 [%r2+512], {%r5, %r5, %r5, %r5}; fence.proxy.async.shared::cta; SET:"
    send = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r2+512], 16, [%r8];"
    assert remote(kernel, send, prepare, 16) == [1, 0]
    with pytest.raises(EmulationError, match="within one block"):
        remote(kernel, send.replace("%r7", "%r2").replace("%r8", "%r3"), prepare, 16)
    with pytest.raises(EmulationError, match="barrier of a copy is in another block's"):
        remote(kernel, send.replace("%r8", "%r3"), prepare, 16)


def test_values_that_do_not_come(kernel):
    with pytest.raises(EmulationError, match="the barrier of a copy is in another block's shared memory"):
        remote(kernel, STORE.replace("[%r8]", "[%r3]"))
    with pytest.raises(EmulationError, match=r"lacks 4 bytes of transactions"):
        remote(kernel, STORE, count=8)
    with pytest.raises(EmulationError, match="read before it is written"):
        remote(kernel, ADD)


def test_a_block_that_has_ended_cannot_be_reached(kernel):
    body = BEGIN + """
        mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p4, %r5, 1; barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned; @%p4 bra DONE; mov.u32 %r6, 1; mapa.shared::cluster.u32 %r8, %r3, %r6;
        LOOP: add.u32 %r7, %r7, 1; setp.lt.u32 %p5, %r7, 5000; @%p5 bra LOOP; @%p1 bra DONE;
        mbarrier.arrive.shared::cluster.b64 _, [%r8]; DONE:
    """.replace("LOOP:", "mov.u32 %r7, 0; LOOP:")
    ptx = kernel(body)
    with pytest.raises(EmulationError, match=r"shared memory of block \(1, 0, 0\), which has ended"):
        for seed in range(8):
            emulate(ptx, "k", 2, [np.zeros(1)], cluster=(2, 1, 1), seed=seed)
    for seed in range(8):  # published kernels that do so run on hardware
        emulate(ptx, "k", 2, [np.zeros(1)], cluster=(2, 1, 1), seed=seed, waive=("ended-block",))


def test_zeros_are_stored_in_bulk(kernel):
    body = BEGIN + FILL + """
        bar.sync 0; @%p1 bra READ; st.bulk.weak.shared::cta [%r2], SIZE, 0; READ: bar.sync 0;
        ld.shared.u32 %r5, [%r4]; st.global.u32 [%q1], %r5;
    """
    data = np.arange(1, 33, dtype=np.uint32)
    emulate(kernel(body.replace("SIZE", "64"), cpu="sm_100a"), "k", 1, [data])
    assert (data == [0] * 16 + list(range(17, 33))).all()
    with pytest.raises(EmulationError, match="st.bulk of 60 bytes"):
        emulate(kernel(body.replace("SIZE", "60"), cpu="sm_100a", assemble=False), "k", 1, [data])


def test_an_arrival_without_completion(kernel):
    body = BEGIN + "@%p1 bra DONE; mbarrier.arrive.noComplete.shared.b64 %q2, [%r3], COUNT; DONE:"
    body = body.replace("[%r3], 1;", "[%r3], 2;")
    emulate(kernel(body.replace("COUNT", "1")), "k", 1, [np.zeros(1)])
    with pytest.raises(EmulationError, match="completes the phase"):
        emulate(kernel(body.replace("COUNT", "2")), "k", 1, [np.zeros(1)])
