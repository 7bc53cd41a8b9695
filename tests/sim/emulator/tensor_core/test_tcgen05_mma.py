"""Products of tensor cores: types, places of operands and results, and valid descriptors."""

import numpy as np
import pytest
from mma_operands import (
    BOTH,
    PAIRED_COMMIT,
    PATHS,
    RANDOM,
    ROWS_OF_32,
    SYNCED,
    TYPES,
    bits_of,
    described,
    factors,
    floats,
    gather,
    instruction,
    multiply,
    place,
    product_of,
    row_bytes,
)
from tensor_kernels import WAIT, dump, fill, registers, run

from tileiras.sim import EmulationError

SEEDS = [None, 0, 1]

COMBINATIONS = [
    ("f16", "f16", "f16", "f32"), ("f16", "bf16", "bf16", "f32"), ("f16", "f16", "bf16", "f32"),
    ("f16", "f16", "f16", "f16"), ("tf32", "tf32", "tf32", "f32"), ("f8f6f4", "e4m3", "e5m2", "f32"),
    ("f8f6f4", "e5m2", "e4m3", "f16"), ("f8f6f4", "e2m3", "e3m2", "f32"), ("f8f6f4", "e3m2", "e2m1", "f32"),
    ("f8f6f4", "e2m1", "e2m3", "f32"), ("i8", "s8", "u8", "s32"), ("i8", "u8", "s8", "s32"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "a", "b", "d"), COMBINATIONS)
def test_types(kernel, kind, a, b, d):
    k = 256 // {16: 16, 32: 32}.get(TYPES[a][1], 8)
    image, left, right = factors(a, b, 128, 32, k)
    text = described(instruction(a, b, 128, 32, d), 8192) + multiply(kind) * 2
    product = product_of(kernel, text, image, 32)
    expected = 2 * left @ right.T
    if d == "s32":
        assert (product.view(np.int32) == expected).all()
    elif d == "f16":
        once = (left @ right.T).astype(np.float16)
        expected = (once.astype(np.float64) + left @ right.T).astype(np.float16)
        assert (product == expected.view(np.uint16)).all()
    else:
        once = (left @ right.T).astype(np.float32)
        assert (floats(product) == (once + left @ right.T).astype(np.float32)).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("word", "text", "expected"),
    [
        ({}, multiply(), lambda p: p + 2),
        ({}, "setp.ne.u32 %p5, %r1, %r1; " + multiply(), lambda p: p),
        ({"negate_a": 1}, multiply(), lambda p: 2 - p),
        ({"negate_b": 1}, multiply(), lambda p: 2 - p),
        ({}, multiply(end=", 3"), lambda p: p + 0.25),
        ({}, multiply() + multiply(end=", 1"), lambda p: p + (p + 2) / 2),
        ({}, "mov.b32 %r8, 3; mov.b32 %r9, 0; mov.b32 %r14, -2147483648; " + multiply(mask="{%r8, %r9, %r9, %r14}, "),
         lambda p: np.where(np.isin(np.arange(128), (0, 1, 127))[:, None], 2, p + 2)),
    ],
)  # fmt: skip
def test_features_of_the_instruction(kernel, word, text, expected, seed):
    image, left, right = factors("f16", "f16", 128, 32, 16)
    text = described(instruction("f16", "f16", 128, 32, **word), 8192) + text
    product = product_of(kernel, text, image, 32, start="0f40000000", seed=seed)
    assert (floats(product) == expected(left @ right.T)).all()


@pytest.mark.parametrize("saturate", [0, 1])
def test_integers_saturate_or_wrap(kernel, saturate):
    image, left, right = factors("s8", "s8", 128, 32, 32)
    text = described(instruction("s8", "s8", 128, 32, "s32", saturate=saturate), 8192) + multiply("i8")
    view = product_of(kernel, text, image, 32, start="0x7ffffff0").view(np.int32)
    exact = (left @ right.T).astype(np.int64) + 0x7FFFFFF0
    assert (view == (np.minimum(exact, 2**31 - 1) if saturate else exact.astype(np.int32))).all()
    assert (exact > 2**31).any()


# -- where D and A are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_tensor_memory", [False, True])
@pytest.mark.parametrize(("m", "weights", "lane"), [*((*path, 0) for path in PATHS), (64, False, 16)])
def test_lanes_of_rows(kernel, m, weights, lane, in_tensor_memory):
    n = 64
    path = PATHS[m, weights]
    image, left, right = factors("f16", "f16", m, n, 16)
    columns = n // len(path)
    text, a = "", "%q3"
    if in_tensor_memory:
        # A is read of global memory by its lanes, into the columns behind D.
        rows = np.zeros((128, 32), np.uint8)
        for lanes in path:
            rows[lanes + lane] = left.astype(np.float16).view(np.uint8)
        image = np.concatenate([image, rows.reshape(-1)])
        loads = " ".join(f"ld.global.u32 %v{n}, [%q9+{16384 + 4 * n}];" for n in range(8))
        text = f"""mad.wide.u32 %q9, %r1, 32, %a0; {loads}
            tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11+{columns}], {registers(8)}; tcgen05.wait::st.sync.aligned;
            {SYNCED} add.u32 %r13, %r10, {(lane << 16) + columns};"""
        a = "[%r13]"
    text += f"add.u32 %r14, %r10, {lane << 16};" + described(instruction("f16", "f16", m, n), 8192)
    text += multiply(a=a, end="@%r14", form="mma.ws" if weights else "mma")
    result = floats(product_of(kernel, text, image, columns, columns=128))
    assert (gather(result, path, n, lane) == left @ right.T).all()
    rest = np.ones(128, bool)
    rest[np.concatenate(path) + lane] = False
    assert (result[rest] == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("in_tensor_memory", [False, True])
@pytest.mark.parametrize("m", [128, 256])
def test_pairs_of_blocks(kernel, m, in_tensor_memory, seed):
    """Each block has half of A's and D's rows and half of B's columns."""
    n, k, rows = 64, 16, m // 2
    path = PATHS[rows, rows == 64]
    left, right = (RANDOM.integers(-8, 9, (count, k)).astype(np.float16) for count in (m, n))
    images = np.zeros((2, 16384 + 4096), np.uint8)
    for block in range(2):
        own = left[block * rows :][:rows]
        place(images[block], 0, row_bytes(own.view(np.uint16), "f16"))
        place(images[block], 8192, row_bytes(right[block * 32 :][:32].view(np.uint16), "f16"))
        for lanes in path:
            images[block, 16384:].reshape(128, 32)[lanes] = own.view(np.uint8)
    columns = n // len(path)
    text, a = "", "%q3"
    if in_tensor_memory:
        loads = " ".join(f"ld.global.u32 %v{n}, [%q9+{16384 + 4 * n}];" for n in range(8))
        text = f"""mad.wide.u32 %q9, %r1, 32, %a0; {loads}
            tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11+{columns}], {registers(8)}; tcgen05.wait::st.sync.aligned;
            {BOTH} add.u32 %r13, %r10, {columns};"""
        a = "[%r13]"
    text += described(instruction("f16", "f16", m, n), 8192) + PAIRED_COMMIT.split("@%p6")[0]
    text += f"@%p6 tcgen05.mma.cta_group::2.kind::f16 [%r10], {a}, %q4, %r7, %p5;" + PAIRED_COMMIT
    main = f"{fill(columns)} {BOTH} {text} {WAIT} {dump(columns)}"
    out = np.zeros((2, 128, columns), np.uint32)
    run(kernel, main, out, images, columns=128, group=2, seed=seed)
    expected = left.astype(np.float64) @ right.T.astype(np.float64)
    for block in range(2):
        assert (gather(floats(out[block]), path, n) == expected[block * rows :][:rows]).all()


@pytest.mark.parametrize(("rows", "missing"), [(128, None), (96, "lane 96, column 4")])
def test_rows_of_a_without_a_value_have_no_result(kernel, rows, missing):
    """The product takes place; who loads such a row is at fault."""
    image, left, right = factors("f16", "f16", 128, 32, 16)
    text = f"""{described(instruction("f16", "f16", 128, 32), 8192)} .shared .align 1024 .b8 rest[4096];
        mov.u32 %r9, rest; setp.lt.u32 %p7, %r1, {rows}; mad.lo.u32 %r14, %r1, 32, %r9; mad.lo.u32 %r13, %r1, 32, %r12;
        @%p7 ld.shared.v4.u32 {{%r20, %r21, %r22, %r23}}, [%r13];
        @%p7 st.shared.v4.u32 [%r14], {{%r20, %r21, %r22, %r23}};
        @%p7 ld.shared.v4.u32 {{%r20, %r21, %r22, %r23}}, [%r13+16];
        @%p7 st.shared.v4.u32 [%r14+16], {{%r20, %r21, %r22, %r23}}; fence.proxy.async.shared::cta; bar.sync 0;
        sub.u32 %r14, %r9, %r12; shr.u32 %r14, %r14, 4; cvt.u64.u32 %q5, %r14; add.u64 %q3, %q3, %q5;
        {multiply()}"""
    if missing is not None:
        with pytest.raises(EmulationError, match=f"{missing}[0-9]* of tensor memory is read before it is written"):
            product_of(kernel, text, image, 32)
        return
    np.testing.assert_array_equal(floats(product_of(kernel, text, image, 32)), (left @ right.T).astype(np.float32))


# -- weights ---------------------------------------------------------------------------------------------------------


def mask_bits(starts, firsts, skip: int, use: int, shift: int, on: int = 1) -> int:
    word = on << 39 | skip << 40 | use << 48 | shift << 56
    return word | sum(s << 8 * i for i, s in enumerate(starts)) | sum(f << 32 + i for i, f in enumerate(firsts))


# The examples of the PTX ISA, "Zero-Column Mask Descriptor": rows, mask, and every part's first columns, 1 for zero.
MASKS = [
    (128, mask_bits((0,), (0,), 4, 3, 0, on=0), ["0" * 16]),
    (128, mask_bits((0,), (0,), 2, 3, 0), ["0000111000011100"]),
    (64, mask_bits((0, 0), (1, 0), 2, 3, 0), ["1110000111000011", "0000111000011100"]),
    (32, mask_bits((0, 1, 2, 1), (1, 1, 0, 0), 2, 3, 2), ["11100001110000", "11000011100001", "00111000011100",
                                                          "00011100001110"]),
]  # fmt: skip


@pytest.mark.parametrize(("m", "mask", "zeros"), MASKS)
def test_columns_of_zeros(kernel, m, mask, zeros):
    n = 64
    image, left, right = factors("f16", "f16", m, n + 32, 16)
    path = PATHS[m, True]
    text = described(instruction("f16", "f16", m, n, most_shift=1), 8192) + f"mov.u64 %q7, {mask:#x};"
    text += multiply(end=", %q7", form="mma.ws")
    result = gather(floats(product_of(kernel, text, image, n // len(path))), path, n)
    shift = mask >> 56
    expected = left @ right[shift : n + shift].T
    for part, pattern in enumerate(zeros):
        for column, zero in enumerate(pattern):
            where = part * (n // len(path)) + column
            assert (result[:, where] == (0 if zero == "1" else expected[:, where])).all()


# -- collectors and shifts -------------------------------------------------------------------------------------------


def test_a_matrix_may_stay_in_the_collector(kernel):
    image, left, right = factors("f16", "f16", 128, 32, 16)
    text = described(instruction("f16", "f16", 128, 32), 8192)
    for use in ("fill", "use", "lastuse"):
        text += multiply().replace("kind::f16", f"kind::f16.collector::a::{use}")
    assert (floats(product_of(kernel, text, image, 32)) == 3 * (left @ right.T)).all()


@pytest.mark.parametrize(
    ("uses", "said"),
    [(("use",), "nothing has been filled in"), (("fill", "discard", "use"), "nothing has been filled in"),
     (("fill", "lastuse", "use"), "nothing has been filled in"), (("fill", "moved", "use"), "another matrix")],
)  # fmt: skip
def test_operands_missing_in_the_collector(kernel, uses, said):
    image, *_ = factors("f16", "f16", 128, 32, 16)
    text = described(instruction("f16", "f16", 128, 32), 8192)
    for use in uses:
        moved = use == "moved"
        text += "add.u64 %q3, %q3, 64;" if moved else multiply().replace("kind::f16", f"kind::f16.collector::a::{use}")
    with pytest.raises(EmulationError, match=said):
        product_of(kernel, text, image, 32)


def test_shifted_rows(kernel):
    """A shift moves the lanes of every quarter down by one; with .ashift the product does it to its A."""
    image, left, right = factors("f16", "f16", 128, 32, 16)
    image = np.concatenate([image, left.astype(np.float16).view(np.uint8).reshape(-1)])
    loads = " ".join(f"ld.global.u32 %v{n}, [%q9+{16384 + 4 * n}];" for n in range(8))
    text = f"""mad.wide.u32 %q9, %r1, 32, %a0; {loads}
        tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11+32], {registers(8)}; tcgen05.wait::st.sync.aligned; {SYNCED}
        add.u32 %r13, %r10, 32; {described(instruction("f16", "f16", 128, 32), 8192)}"""
    row = np.arange(128)
    once = left[np.where(row % 32 < 31, row + 1, row)]
    shift = "@%p1 tcgen05.shift.cta_group::1.down [%r13];"
    result = floats(product_of(kernel, text + shift + multiply(a="[%r13]"), image, 32))
    assert (result == once @ right.T).all()
    own = multiply(a="[%r13]").replace("kind::f16", "kind::f16.ashift")
    result = floats(product_of(kernel, text + own, image, 40)).view(np.uint32)
    assert (result[:, 32:].view(np.float16) == once).all()


# -- invalid products ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "word", "a_bits", "said"),
    [
        ("f16", instruction("f16", "f16", 128, 24), ROWS_OF_32, "128 rows and 24 columns"),
        ("f16", instruction("f16", "f16", 64, 4), ROWS_OF_32, "64 rows and 0 columns"),
        ("f16", instruction("f16", "f16", 32, 64), ROWS_OF_32, "32 rows"),
        ("f16", instruction("tf32", "f16", 128, 32), ROWS_OF_32, "types 2 and 0"),
        ("f16", instruction("bf16", "bf16", 128, 32, "f16"), ROWS_OF_32, "bf16 with D in f16"),
        ("f16", instruction("f16", "f16", 128, 32) | 4, ROWS_OF_32, "a sparse product"),
        ("f16", instruction("f16", "f16", 128, 32) | 1 << 23, ROWS_OF_32, "have to be zero"),
        ("f16", instruction("f16", "f16", 128, 32, saturate=1), ROWS_OF_32, "only integers saturate"),
        ("i8", instruction("s8", "s8", 128, 32, "s32", negate_a=1), ROWS_OF_32, "integers are not negated"),
        ("f8f6f4", instruction("e2m1", "e4m3", 128, 32, turn_a=1), ROWS_OF_32, "a transposed matrix of e2m1"),
        ("f16", instruction("f16", "f16", 128, 32), ROWS_OF_32 & ~(7 << 46), "bits 46 to 48"),
        ("f16", instruction("f16", "f16", 128, 32), ROWS_OF_32 | 1 << 61, "swizzling mode 7"),
        ("f16", instruction("f16", "f16", 128, 32), ROWS_OF_32 | 1 << 52, "absolute leading dimension"),
        ("f16", instruction("f16", "f16", 128, 32, turn_a=1), bits_of(1, 512, 1024), "with swizzling by 32 bytes"),
        ("tf32", instruction("tf32", "tf32", 128, 32, turn_a=1), bits_of(2, 1024), "without swizzling by 32 bytes"),
    ],
)  # fmt: skip
def test_invalid_fields_of_descriptors(kernel, kind, word, a_bits, said):
    with pytest.raises(EmulationError, match=said):
        product_of(kernel, described(word, 8192, a_bits) + multiply(kind), np.zeros(16384, np.uint8), 32)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("add.u32 %r10, %r10, 524288;", "D is at lane 8"),
        ("add.u32 %r10, %r10, 1048576;", "D is at lane 16"),
        ("add.u32 %r10, %r10, 40;", "column 512 is outside|column 519 is outside"),
        ("add.u32 %r10, %r10, -40;", "is not allocated"),
        ("add.u64 %q4, %q4, 1024;", "outside the block's shared memory|read before it is written"),
    ],
)
def test_missing_data_is_an_error(kernel, change, said):
    text = described(instruction("f16", "f16", 128, 32), 8192) + change + multiply()
    with pytest.raises(EmulationError, match=said):
        product_of(kernel, text, np.zeros(16384, np.uint8), 32)
