"""Boxes of tensors, their completion mechanisms, and every incorrect wait for them."""

import numpy as np
import pytest
from map_descriptors import described

from tileiras.sim import EmulationError, emulate
from tileiras.sim.emulator import tensor_map
from tileiras.sim.emulator.errors import UnsupportedInstruction
from tileiras.sim.emulator.tensor_map import TensorMap

ROWS, COLUMNS = 40, 72
TENSOR = np.arange(1, ROWS * COLUMNS + 1, dtype=np.uint16).reshape(ROWS, COLUMNS)

LOAD = """
    .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, full; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 %q1, [%r3], BYTES; mov.b32 %r10, COLUMN; mov.b32 %r11, ROW;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%a0, {%r10, %r11}], [%r3];
    READY: bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    mov.u32 %r4, %r1;
    COPY: mad.lo.u32 %r5, %r4, 16, %r2; ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r5];
    mad.wide.u32 %q2, %r4, 16, %a1; st.global.v4.u32 [%q2], {%r20, %r21, %r22, %r23};
    add.u32 %r4, %r4, 32; setp.lt.u32 %p3, %r4, UNITS; @%p3 bra COPY;
"""


def load(kernel, box, at, body: str = LOAD, seed=0, **options) -> np.ndarray:
    """The box as it lies in shared memory, as rows of units of 8 elements."""
    size = box[0] * box[1] * 2
    for name, value in (("BYTES", size), ("UNITS", size // 16), ("COLUMN", at[0]), ("ROW", at[1])):
        body = body.replace(name, str(value))
    raw, _memory = described(TENSOR, box, **options)
    out = np.zeros(size // 2, np.uint16)
    emulate(kernel(body, (".u64", ".u64")), "k", 1, [raw, out], seed=seed)
    return out.reshape(box[1], -1, 8)


def box_of(box, at) -> np.ndarray:
    expected = np.zeros((box[1], box[0]), np.uint16)
    for row in range(box[1]):
        for column in range(box[0]):
            if 0 <= at[1] + row < ROWS and 0 <= at[0] + column < COLUMNS:
                expected[row, column] = TENSOR[at[1] + row, at[0] + column]
    return expected.reshape(box[1], -1, 8)


@pytest.mark.parametrize("at", [(0, 0), (8, 3), (40, 30), (-5, -2), (200, 0)])
def test_a_box_is_filled_outside_of_the_tensor(kernel, at):
    assert (load(kernel, (32, 16), at) == box_of((32, 16), at)).all()


# PTX ISA, "Swizzling Modes": with which unit of a row the first one changes places, by row.
@pytest.mark.parametrize(("width", "moved"), [(32, (0, 0, 0, 0, 1, 1, 1, 1)), (64, (0, 0, 1, 1, 2, 2, 3, 3)),
                                              (128, (0, 1, 2, 3, 4, 5, 6, 7))])  # fmt: skip
def test_swizzles_change_the_places_of_units(kernel, width, moved):
    box = (width // 2, 16)
    result = load(kernel, box, (8, 3), swizzle=width)
    for row, units in enumerate(box_of(box, (8, 3))):
        for number, unit in enumerate(units):
            assert (result[row, number ^ moved[row % 8]] == unit).all()


def test_padding_may_be_a_nan(kernel):
    assert (load(kernel, (32, 16), (200, 0), fill_nan=True) == 0x7FFF).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@!%p2 bra WAIT;", "", "read before it is written"),
        ("[%r3], 0; @!%p2", "[%r3], 1; @!%p2", "read before it is written"),
        ("[%r3], BYTES;", "[%r3], 512;", "512 bytes more have come"),
        ("[%r2], [%a0,", "[%r2+64], [%a0,", "not aligned to 128"),
        ("[%a0, {%r10, %r11}]", "[%a1, {%r10, %r11}]", "no tensor map"),
        ("arrive.expect_tx.shared.b64 %q1, [%r3], BYTES;", "arrive.shared.b64 %q1, [%r3];", "read before it is"),
    ],
)
def test_loads_that_are_wrong(kernel, old, new, said):
    assert old in LOAD
    with pytest.raises(EmulationError, match=said):
        load(kernel, (32, 16), (0, 0), LOAD.replace(old, new))


def test_the_rank_has_to_be_that_of_the_map(kernel):
    body = LOAD.replace("tensor.2d", "tensor.1d").replace("{%r10, %r11}", "{%r10}")
    with pytest.raises(EmulationError, match="has 2 dimensions"):
        load(kernel, (32, 16), (0, 0), body)


STORE = """
    .shared .align 128 .b8 tile[1024];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r6, 0x00070007;
    st.shared.v4.u32 [%r3], {%r6, %r6, %r6, %r6}; fence.proxy.async.shared::cta; bar.sync 0; //MORE
    setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE; mov.b32 %r10, 64; mov.b32 %r11, 38;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%a0, {%r10, %r11}], [%r2];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ld.global.u16 %h1, [%a1]; st.global.u16 [%a2], %h1;
    DONE:
"""


def store(kernel, body: str, seed) -> tuple[np.ndarray, int]:
    tensor, seen = np.zeros((ROWS, COLUMNS), np.uint16), np.zeros(1, np.uint16)
    raw, memory = described(tensor, (16, 4))
    first = memory.allocate(tensor) + (38 * COLUMNS + 64) * 2
    emulate(kernel(body, (".u64", ".u64", ".u64"), threads=64), "k", 1, [raw, first, seen], seed=seed)
    return tensor, int(seen[0])


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("fence", ["writers", "issuer"])
def test_a_store_drops_elements_outside_of_the_tensor(kernel, seed, fence):
    body = STORE
    if fence == "issuer":
        body = STORE.replace("fence.proxy.async.shared::cta; bar.sync 0;", "bar.sync 0; fence.proxy.async.shared::cta;")
    tensor, seen = store(kernel, body, seed)
    assert (tensor[38:, 64:] == 7).all() and tensor.sum() == 7 * 16 and seen == 7


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fence.proxy.async.shared::cta; bar.sync 0; //MORE", "bar.sync 0;", "no fence.proxy.async between"),
        ("bar.sync 0; //MORE", "", "no bar.*sync between|no barrier between"),
        ("fence.proxy.async.shared::cta; bar.sync 0; //MORE",
         "fence.proxy.async.shared::cta; xor.b32 %r6, %r6, 1; st.shared.u32 [%r3], %r6; bar.sync 0;",
         "no fence.proxy.async between"),
    ],
)  # fmt: skip
def test_stores_invisible_to_the_other_proxy(kernel, old, new, said):
    assert old in STORE
    for seed in (None, 0, 1):
        with pytest.raises(EmulationError, match=said):
            store(kernel, STORE.replace(old, new), seed)


def test_a_store_lands_no_sooner_than_it_has_to(kernel):
    body = STORE.replace("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;")
    assert store(kernel, body, 0)[1] == 0
    with pytest.raises(EmulationError, match="not waited for"):
        store(kernel, STORE.replace("cp.async.bulk.wait_group 0;", ""), 0)


def test_hidden_parameters_are_filled_of_the_others(assemble):
    ptx = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_0, .hidden .param .align 64 .b8 k_1[128]) .reqntid 1 {
    .reg .b64 %q<4>; .reg .b32 %r<4>;
    ld.param.u64 %q1, [k_0]; ld.param.u32 %r1, [k_1+4]; st.global.u32 [%q1], %r1; ret;
}
"""
    out = np.zeros(1, np.uint32)

    def fill(values, sizes):
        assert sizes == [128] and [len(value) for value in values] == [8]
        return [bytes(4) + bytes([7, 0, 0, 0]) + bytes(120)]

    emulate(ptx, "k", 1, [out], hidden=fill)
    assert out[0] == 7
    with pytest.raises(EmulationError, match="hidden parameters"):
        emulate(ptx, "k", 1, [out])


GOOD = TensorMap("f16", 0x100000, (192, 128), (512,), (64, 128), 128)


def test_maps_are_those_of_the_vendors_host_code():
    raw = tensor_map.encode(GOOD)
    words = np.frombuffer(raw, np.uint64)
    # As on_arguments_change of a kernel wrote it, but for the bits that ask for caching.
    assert int(words[1]) & ~0xFC0000 == 0x2000006312
    assert [hex(word) for word in words[[0, 4, 6, 7]]] == ["0x100000", "0x7f000000bf", "0x3f00000000000000", "0x7f"]
    assert tensor_map.decode(raw) == GOOD


@pytest.mark.parametrize(
    "change",
    [{"address": 0x100008}, {"strides": (520,)}, {"box": (257, 1)}, {"box": (4, 8)}, {"box": (128, 8)},
     {"dims": (192,)}, {"dims": (0, 128)}],
)  # fmt: skip
def test_maps_that_the_driver_refuses(change):
    with pytest.raises(ValueError):
        tensor_map.encode(GOOD._replace(**change))


COPIES = """
    .shared .align 16 .b8 tile[512]; .shared .align 8 .b8 full[8];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, full; setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared.b64 [%r3], 32; bar.sync 0;
    mad.lo.u32 %r4, %r1, 16, %r2; mad.wide.u32 %q1, %r1, 16, %a0; cp.async.cg.shared.global [%r4], [%q1], 16;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
    xor.b32 %r5, %r1, 1; mad.lo.u32 %r4, %r5, 16, %r2; ld.shared.u32 %r6, [%r4];
    mad.wide.u32 %q2, %r1, 4, %a1; st.global.u32 [%q2], %r6;
"""


def copies(kernel, body: str) -> np.ndarray:
    data, out = np.arange(128, dtype=np.uint32), np.zeros(32, np.uint32)
    emulate(kernel(body, (".u64", ".u64")), "k", 1, [data, out])
    return out


def test_an_arrival_waits_for_the_threads_copies(kernel):
    expected = (np.arange(32) ^ 1) * 4
    assert (copies(kernel, COPIES) == expected).all()
    # Counted in: the phase waits for one arrival more, which comes, and for arrivals that no thread makes.
    counted = COPIES.replace(".noinc", "").replace("WAIT:", "mbarrier.arrive.shared.b64 %q3, [%r3]; WAIT:")
    assert (copies(kernel, counted) == expected).all()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];", "mbarrier.arrive.shared.b64 %q3, [%r3];", "before it is"),
        ("arrive.noinc", "arrive", r"lacks \d+ of \d+ arrivals"),
        ("[%r3], 32;", "[%r3], 31;", "read before it is written"),
        ("[%r3], 0; @!%p2", "[%r3], 1; @!%p2", "before it is written"),
    ],
)
def test_arrivals_that_are_wrong(kernel, old, new, said):
    assert old in COPIES
    with pytest.raises(EmulationError, match=said):
        copies(kernel, COPIES.replace(old, new))


def test_a_swizzle_may_keep_32_bytes_together(kernel):
    """Two units of 16 bytes move as one, by the lowest two bits of the row's number."""
    box = (64, 16)
    result = load(kernel, box, (8, 3), swizzle=128, atom=32)
    for row, units in enumerate(box_of(box, (8, 3))):
        for number, unit in enumerate(units):
            assert (result[row, number ^ row % 4 * 2] == unit).all()
    with pytest.raises(ValueError, match="atoms of 32 bytes"):
        described(TENSOR, (32, 16), swizzle=64, atom=32)


def test_im2col_is_refused_with_its_line(kernel):
    body = """
        .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 full[8]; mov.u32 %r2, tile; mov.u32 %r3, full;
        mov.b32 %r10, 0; mov.b16 %h1, 0;
        cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
            [%r2], [%a0, {%r10, %r10, %r10}], [%r3], {%h1};
    """
    with pytest.raises(UnsupportedInstruction, match=r"ptx:\d+: unsupported instruction.*\n.*im2col"):
        emulate(kernel(body), "k", 1, [np.zeros(128, np.uint8)])
