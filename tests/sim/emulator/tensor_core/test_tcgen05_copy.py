"""Copies from shared to tensor memory: the lanes of rows, and the conversion of narrow elements."""

import numpy as np
import pytest
from tensor_kernels import COMMIT, WAIT, dump, fill, run

from tileiras.sim import EmulationError

SYNCED = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
# Rows of 16 bytes, 8 after each other; a second column of units 4096 bytes further: no swizzle.
PLAIN = 1 << 46 | 128 >> 4 << 32 | 4096 >> 4 << 16
DESCRIBE = f"""
    shr.u32 %r6, %r12, 4; and.b32 %r6, %r6, 16383; cvt.u64.u32 %q2, %r6; or.b64 %q3, %q2, {PLAIN:#x};
    add.u32 %r13, %r10, 2;
"""
IMAGE = np.random.default_rng(0).integers(0, 256, 8192).astype(np.uint8)
UNITS = IMAGE.reshape(2, 256, 16)  # by column of units, and row

#: shape -> (lanes of row r, units of a row, rows)
LANES = {
    "128x256b": (lambda r: [r], 2, 128),
    "128x128b": (lambda r: [r], 1, 128),
    "4x256b": (lambda r: [32 * r], 2, 4),
    "64x128b.warpx2::02_13": (lambda r: [r, r + 64], 1, 64),
    "64x128b.warpx2::01_23": (lambda r: [r + r // 32 * 32, r + r // 32 * 32 + 32], 1, 64),
    "32x128b.warpx4": (lambda r: [r, r + 32, r + 64, r + 96], 1, 32),
}


def copied(kernel, text: str, image: np.ndarray = IMAGE, **options) -> np.ndarray:
    out = np.zeros((128, 16), np.uint32)
    run(kernel, f"{fill(16)} {SYNCED} {DESCRIBE} {text} {COMMIT} {WAIT} {dump(16)}", out, image, **options)
    return out


@pytest.mark.parametrize("shape", LANES)
def test_shapes(kernel, shape):
    lanes, units, rows = LANES[shape]
    out = copied(kernel, f"@%p1 tcgen05.cp.cta_group::1.{shape} [%r13], %q3;")
    expected = np.zeros((128, 16), np.uint32)
    for row in range(rows):
        for lane in lanes(row):
            expected[lane, 2 : 2 + 4 * units] = UNITS[:units, row].reshape(-1).view(np.uint32)
    assert (out == expected).all()


def test_four_rows_from_a_lane_on(kernel):
    text = f"add.u32 %r13, %r13, {31 << 16}; @%p1 tcgen05.cp.cta_group::1.4x256b [%r13], %q3;"
    out = copied(kernel, text)
    for row in range(4):
        assert (out[31 + 32 * row, 2:10] == UNITS[:, row].reshape(-1).view(np.uint32)).all()


@pytest.mark.parametrize(("source", "bits", "below"), [("b6x16_p32", 6, 0), ("b4x16_p64", 4, 2)])
def test_decompression(kernel, source, bits, below):
    """16 elements and padding become 16 bytes, the elements of 4 bits in their middle."""
    out = copied(kernel, f"@%p1 tcgen05.cp.cta_group::1.128x128b.b8x16.{source} [%r13], %q3;")
    for lane in range(128):
        spread = np.unpackbits(UNITS[0, lane], bitorder="little")[: 16 * bits].reshape(16, bits)
        expected = (spread << np.arange(bits)).sum(1).astype(np.uint8) << below
        assert (out[lane, 2:6].view(np.uint8) == expected).all()


def test_a_swizzled_source(kernel):
    """128 bytes wide: the units of row r are at their place XOR r % 8."""
    image = np.zeros((128, 8, 16), np.uint8)
    image[:] = np.arange(128)[:, None, None] + 16 * np.arange(8)[:, None]
    stored = np.stack([image[row][np.arange(8) ^ row % 8] for row in range(128)])
    word = 1 << 46 | 1024 >> 4 << 32 | 2 << 61
    text = f"or.b64 %q3, %q2, {word:#x}; add.u64 %q3, %q3, 4; @%p1 tcgen05.cp.cta_group::1.128x256b [%r13], %q3;"
    out = copied(kernel, text, stored.reshape(-1))
    assert (out[:, 2:10].view(np.uint8).reshape(128, 2, 16) == image[:, 4:6]).all()


@pytest.mark.parametrize("seed", [None, 0])
def test_a_pair_copies_from_both_blocks(kernel, seed):
    both = "tcgen05.fence::before_thread_sync; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; " \
           "tcgen05.fence::after_thread_sync;"  # fmt: skip
    main = f"""{fill(16)} {both} {DESCRIBE} mov.b16 %h1, 3; mov.u32 %r9, %ctaid.x; setp.eq.u32 %p6, %r9, 1;
        and.pred %p6, %p6, %p1; @%p6 tcgen05.cp.cta_group::2.128x128b [%r13], %q3;
        @%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], %h1;
        {WAIT} {dump(16)}"""
    images = np.random.default_rng(1).integers(0, 256, (2, 4096)).astype(np.uint8)
    out = np.zeros((2, 128, 16), np.uint32)
    run(kernel, main, out, images, group=2, seed=seed)
    for block in range(2):
        assert (out[block, :, 2:6].view(np.uint8) == images[block, :2048].reshape(128, 16)).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"add.u32 %r13, %r13, {1 << 16}; @%p1 tcgen05.cp.cta_group::1.128x128b [%r13], %q3;", "lane 128 is outside"),
        (f"add.u32 %r13, %r13, {16 << 16}; @%p1 tcgen05.shift.cta_group::1.down [%r13];", "not a multiple of 32"),
        ("add.u32 %r13, %r13, 64; @%p1 tcgen05.cp.cta_group::1.128x128b [%r13], %q3;", "column 514 is outside|51[0-9]"),
        ("mov.u64 %q3, 0; @%p1 tcgen05.cp.cta_group::1.128x128b [%r13], %q3;", "bits 46 to 48"),
    ],
)
def test_missing_data_is_an_error(kernel, text, said):
    with pytest.raises(EmulationError, match=said):
        copied(kernel, text)


HALF_WRITTEN = f"""
    .shared .align 128 .b8 rest[2048]; mov.u32 %r12, rest; setp.lt.u32 %p7, %r1, 64; mad.lo.u32 %r9, %r1, 16, %r12;
    @%p7 st.shared.v4.u32 [%r9], {{%r1, %r1, %r1, %r1}}; fence.proxy.async.shared::cta; {SYNCED} {DESCRIBE}
"""


def test_unwritten_bytes_are_copied_as_such(kernel):
    """The read is the error, not the copy: rows 64 to 127 have no value, lanes 0 to 63 do."""
    text = f"{HALF_WRITTEN} @%p1 tcgen05.cp.cta_group::1.128x128b [%r13], %q3;"
    with pytest.raises(EmulationError, match="lane 64, column 450 of tensor memory is read before it is written"):
        copied(kernel, text)
    out = copied(kernel, text.replace("128x128b", "64x128b.warpx2::02_13"))
    assert (out[:, 2:6] == np.arange(128)[:, None] % 64).all()


def test_narrow_elements_have_to_be_written(kernel):
    text = f"{HALF_WRITTEN} @%p1 tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [%r13], %q3;"
    with pytest.raises(EmulationError, match="shared address 0x[0-9a-f]+ is read before it is written"):
        copied(kernel, text)
