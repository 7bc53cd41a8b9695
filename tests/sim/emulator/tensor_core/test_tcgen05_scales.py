"""Scales of tcgen05.mma: kinds and vectors, and which bytes of tensor memory they are read from."""

import ml_dtypes
import numpy as np
import pytest
from mma_operands import (
    BOTH,
    PAIRED_COMMIT,
    RANDOM,
    SYNCED,
    TYPES,
    bits_of,
    described,
    factors,
    floats,
    matrix,
    place,
    product_of,
    row_bytes,
)
from tensor_kernels import COMMIT, WAIT, dump, fill, run

from tileiras.sim import EmulationError

# kind, type of A and B, .scale_vec, scales along k, their type, the bytes that they may begin at
SCALED = [
    ("mxf8f6f4", "e4m3", "", 1, "ue8m0", 3), ("mxf8f6f4", "e2m1", "block32", 1, "ue8m0", 1),
    ("mxf8f6f4", "e3m2", "scale_vec::1X", 1, "ue8m0", 0), ("mxf4", "packed", "", 2, "ue8m0", 2),
    ("mxf4", "packed", "block32", 2, "ue8m0", 0), ("mxf4nvf4", "packed", "block16", 4, "ue4m3", 0),
    ("mxf4nvf4", "packed", "scale_vec::4X", 4, "ue8m0", 0), ("mxf4nvf4", "packed", "block32", 2, "ue8m0", 2),
]  # fmt: skip


def scale_tile(codes: np.ndarray, first: int) -> np.ndarray:
    """(32 lanes, words of 4 bytes): the scales of row r in lane r % 32 of word r / 32."""
    tile = np.full((32, -(-len(codes) // 32), 4), 0x7F, np.uint8)
    for row, values in enumerate(codes):
        tile[row % 32, row // 32, first : first + len(values)] = values
    return tile


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("kind", "name", "vector", "count", "scale", "first"), SCALED)
def test_scales(kernel, kind, name, vector, count, scale, first, paired):
    """They come to tensor memory by `cp`, which the product follows in one pipeline."""
    k = 64 if name == "packed" else 32
    n, blocks = 64, 1 + paired
    m = 128 * blocks
    dtype = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}[scale]
    (a_codes, left), (b_codes, right) = (matrix(name, rows, k) for rows in (m, n))
    a_scales, b_scales = (RANDOM.integers(0x38, 0x48, (rows, count)).astype(np.uint8) for rows in (m, n))
    images = np.zeros((blocks, 16384), np.uint8)
    for block in range(blocks):
        place(images[block], 0, row_bytes(a_codes[128 * block :][:128], name))
        place(images[block], 8192, row_bytes(b_codes[n // blocks * block :][: n // blocks], name))
        # 32 rows of 16 bytes each: four words of A's scales, and four of B's.
        for at, scales in ((12288, a_scales[128 * block :][:128]), (12800, b_scales)):
            tile, words = scale_tile(scales, first), np.zeros((32, 4, 4), np.uint8)
            words[:, : tile.shape[1]] = tile
            images[block, at : at + 512] = words.reshape(-1)
    word = TYPES[name][3] << 7 | TYPES[name][3] << 10 | n >> 3 << 17 | (scale == "ue8m0") << 23 | m >> 4 << 24
    word |= first << 4 | first << 29
    plain, group = bits_of(0, 128), f"cta_group::{blocks}"
    lead = "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p7, %r9, 0; and.pred %p1, %p1, %p7;" if paired else ""
    suffix = f".{vector}" if vector else ""
    text = f"""{lead} {described(word, 8192)} add.u64 %q5, %q2, {256 + 0}; and.b64 %q5, %q5, 16383;
        or.b64 %q5, %q5, {plain:#x}; add.u64 %q6, %q5, 32; add.u32 %r13, %r10, 64; add.u32 %r14, %r10, 68;
        @%p1 tcgen05.cp.{group}.32x128b.warpx4 [%r13], %q5; @%p1 tcgen05.cp.{group}.32x128b.warpx4 [%r14], %q6;
        @%p1 tcgen05.mma.{group}.kind::{kind}.block_scale{suffix} [%r10], %q3, %q4, %r7, [%r13], [%r14], %p5;"""
    commit = PAIRED_COMMIT if paired else COMMIT
    main = f"{fill(64)} {BOTH if paired else SYNCED} {text} {commit} {WAIT} {dump(64)}"
    out = np.zeros((blocks, 128, 64), np.uint32)
    run(kernel, main, out, images if paired else images[0], columns=128, group=blocks)
    left, right = (
        values * np.repeat(scales.view(dtype).astype(np.float64), k // count, axis=1)
        for values, scales in ((left, a_scales), (right, b_scales))
    )
    np.testing.assert_array_equal(floats(out).reshape(m, 64), (left @ right.T).astype(np.float32))


def test_scales_have_to_be_the_same_everywhere(kernel):
    image, *_ = factors("e4m3", "e4m3", 128, 32, 32)
    word = 32 >> 3 << 17 | 1 << 23 | 128 >> 4 << 24
    text = f"""{described(word, 8192)} add.u32 %r13, %r10, 32; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r11+32],
        {{%r5, %r5, %r5, %r5}}; tcgen05.wait::st.sync.aligned; {SYNCED}
        @%p1 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r10], %q3, %q4, %r7, [%r13], [%r13], %p5;"""
    with pytest.raises(EmulationError, match="the quarters of tensor memory have different scales of A"):
        product_of(kernel, text, image, 32)


@pytest.mark.parametrize(
    ("rows", "byte", "missing"),
    [(16, 2, None), (32, 2, None), (15, 2, "lane 15, column 484"), (32, 1, "lane 0, column 484")],
)
def test_scales_have_to_be_written_where_the_matrix_has_columns(kernel, rows, byte, missing):
    """B has 16 columns: its scales are a byte of as many rows of 16, and nothing else that a copy brings is read."""
    image, left, right = factors("e4m3", "e4m3", 128, 16, 32)
    image[4096 : 4096 + 512] = 0x7F
    word = 16 >> 3 << 17 | 1 << 23 | 128 >> 4 << 24 | 2 << 4
    plain = bits_of(0, 128)
    text = f"""{described(word, 8192)} .shared .align 128 .b8 rest[512]; mov.u32 %r9, rest; mov.u32 %r8, 128;
        setp.lt.u32 %p7, %r1, {rows}; mad.lo.u32 %r14, %r1, 16, %r9; @%p7 st.shared.u8 [%r14+{byte}], %r8;
        fence.proxy.async.shared::cta; bar.sync 0; shr.u32 %r6, %r9, 4; cvt.u64.u32 %q6, %r6;
        or.b64 %q6, %q6, {plain:#x}; shr.u32 %r6, %r12, 4; add.u32 %r6, %r6, 256; cvt.u64.u32 %q5, %r6;
        or.b64 %q5, %q5, {plain:#x}; add.u32 %r13, %r10, 32; add.u32 %r14, %r10, 36;
        @%p1 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r13], %q5;
        @%p1 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r14], %q6;
        @%p1 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r10], %q3, %q4, %r7, [%r13], [%r14], %p5;"""
    if missing is not None:
        with pytest.raises(EmulationError, match=f"{missing} of tensor memory is read before it is written"):
            product_of(kernel, text, image, 16)
        return
    out = floats(product_of(kernel, text, image, 16))
    np.testing.assert_array_equal(out, (2 * left @ right.T).astype(np.float32))
