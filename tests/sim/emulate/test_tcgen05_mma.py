"""Products of tensor cores: types, where operands and results are, and what their descriptors may say."""

import ml_dtypes
import numpy as np
import pytest
from tensor_kernels import COMMIT, WAIT, dump, fill, registers, run

from tileiras.sim import EmulationError

SEEDS = [None, 0, 1]
SYNCED = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
#: `%q3` and `%q4` describe the matrices at the image's start and at B_AT, `%r7` is the instruction descriptor.
DESCRIBE = """
    shr.u32 %r6, %r12, 4; and.b32 %r6, %r6, 16383; cvt.u64.u32 %q2, %r6; or.b64 %q3, %q2, A_BITS;
    add.u64 %q2, %q2, B_UNITS; or.b64 %q4, %q2, B_BITS; mov.b32 %r7, INSTRUCTION; setp.eq.u32 %p5, %r1, %r1;
"""

# name -> (NumPy's type, bits, of how many elements 16 bytes are, code in the instruction descriptor)
TYPES = {
    "f16": (np.float16, 16, 8, 0), "bf16": (ml_dtypes.bfloat16, 16, 8, 1), "tf32": (np.float32, 32, 4, 2),
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 16, 0), "e5m2": (ml_dtypes.float8_e5m2, 8, 16, 1),
    "e2m3": (ml_dtypes.float6_e2m3fn, 6, 16, 3), "e3m2": (ml_dtypes.float6_e3m2fn, 6, 16, 4),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 16, 5), "u8": (np.uint8, 8, 16, 0), "s8": (np.int8, 8, 16, 1),
    "packed": (ml_dtypes.float4_e2m1fn, 4, 32, 1),
}  # fmt: skip
RANDOM = np.random.default_rng(0)


def matrix(name: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(codes, what they mean in binary64), of finite numbers."""
    dtype, bits, *_ = TYPES[name]
    if bits >= 16:
        values = RANDOM.integers(-8, 9, (rows, k)).astype(dtype)
        return values.view(f"u{bits // 8}"), values.astype(np.float64)
    codes = RANDOM.integers(0, 1 << bits, (rows, k)).astype(np.uint8)
    if name in ("e4m3", "e5m2"):
        codes &= 0xBF if name == "e4m3" else 0xBB  # neither infinite nor too far apart
    return codes, codes.view(dtype).astype(np.float64)


def row_bytes(codes: np.ndarray, name: str) -> np.ndarray:
    """(rows, 32): the elements as they lie in memory, narrow ones in groups that are padded to 16 bytes."""
    _, bits, group, _ = TYPES[name]
    if bits >= 8:
        return np.ascontiguousarray(codes).view(np.uint8)
    rows = np.zeros((len(codes), 2, 128), np.uint8)
    spread = (codes.reshape(len(codes), 2, group, 1) >> np.arange(bits)) & 1
    rows[..., : group * bits] = spread.reshape(len(codes), 2, -1)
    return np.packbits(rows, axis=-1, bitorder="little").reshape(len(codes), 32)


def place(image: np.ndarray, at: int, rows: np.ndarray) -> None:
    """Rows of 32 bytes, swizzled: K-major."""
    for number, row in enumerate(rows):
        for unit in (0, 1):
            where = at + number * 32 + (unit ^ number // 4 % 2) * 16
            image[where : where + 16] = row[16 * unit : 16 * unit + 16]


def bits_of(swizzle: int, stride: int, leading: int = 16, base: int = 0) -> int:
    return leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | base << 49 | swizzle << 61


ROWS_OF_32 = bits_of(6, 256)


def instruction(a: str, b: str, m: int, n: int, d: str = "f32", **fields: int) -> int:
    word = {"f16": 0, "f32": 1, "s32": 2}[d] << 4 | TYPES[a][3] << 7 | TYPES[b][3] << 10 | n >> 3 << 17 | m >> 4 << 24
    places = {"saturate": 3, "negate_a": 13, "negate_b": 14, "turn_a": 15, "turn_b": 16, "most_shift": 30}
    return word | sum(value << places[name] for name, value in fields.items())


def multiply(kind: str = "f16", mask: str = "", a: str = "%q3", end: str = "", form: str = "mma") -> str:
    d = "%r10" if not end.startswith("@") else end[1:]
    tail = end if not end.startswith("@") else ""
    return f"@%p1 tcgen05.{form}.cta_group::1.kind::{kind} [{d}], {a}, %q4, %r7, {mask}%p5{tail};"


def described(word: int, b_at: int, a_bits: int = ROWS_OF_32, b_bits: int = ROWS_OF_32) -> str:
    text = DESCRIBE
    for name, value in (("A_BITS", a_bits), ("B_BITS", b_bits), ("B_UNITS", b_at >> 4), ("INSTRUCTION", word)):
        text = text.replace(name, f"{value:#x}")
    return text


def product_of(kernel, main: str, image: np.ndarray, count: int, start: str = "0", **options) -> np.ndarray:
    """(lanes, columns) of the first columns when what ``main`` has thread 0 do is committed and waited for."""
    before = f"{fill(count, start)} {SYNCED}"
    out = np.zeros((128, count), np.uint32)
    run(kernel, f"{before} {main} {COMMIT} {WAIT} {dump(count)}", out, image, **options)
    return out


def factors(a: str, b: str, m: int, n: int, k: int, size: int = 16384, b_at: int = 8192):
    """(image, A and B in binary64) with rows of 32 bytes."""
    image = np.zeros(size, np.uint8)
    codes, left = matrix(a, m, k)
    place(image, 0, row_bytes(codes, a))
    codes, right = matrix(b, n, k)
    place(image, b_at, row_bytes(codes, b))
    return image, left, right


def floats(words: np.ndarray) -> np.ndarray:
    return words.view(np.float32)


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
    found = product_of(kernel, text, image, 32)
    expected = 2 * left @ right.T
    if d == "s32":
        assert (found.view(np.int32) == expected).all()
    elif d == "f16":
        once = (left @ right.T).astype(np.float16)
        expected = (once.astype(np.float64) + left @ right.T).astype(np.float16)
        assert (found == expected.view(np.uint16)).all()
    else:
        once = (left @ right.T).astype(np.float32)
        assert (floats(found) == (once + left @ right.T).astype(np.float32)).all()


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
def test_what_the_instruction_adds(kernel, word, text, expected, seed):
    image, left, right = factors("f16", "f16", 128, 32, 16)
    text = described(instruction("f16", "f16", 128, 32, **word), 8192) + text
    found = product_of(kernel, text, image, 32, start="0f40000000", seed=seed)
    assert (floats(found) == expected(left @ right.T)).all()


@pytest.mark.parametrize("saturate", [0, 1])
def test_integers_saturate_or_wrap(kernel, saturate):
    image, left, right = factors("s8", "s8", 128, 32, 32)
    text = described(instruction("s8", "s8", 128, 32, "s32", saturate=saturate), 8192) + multiply("i8")
    found = product_of(kernel, text, image, 32, start="0x7ffffff0").view(np.int32)
    exact = (left @ right.T).astype(np.int64) + 0x7FFFFFF0
    assert (found == (np.minimum(exact, 2**31 - 1) if saturate else exact.astype(np.int32))).all()
    assert (exact > 2**31).any()


# -- where D and A are -----------------------------------------------------------------------------------------------

# (rows, .ws) -> lanes of the rows in each group of columns (PTX ISA, "Data Path Layout Organization": D, F, E, G)
PATHS = {
    (128, False): [np.arange(128)],
    (64, False): [np.arange(64) % 16 + np.arange(64) // 16 * 32],
    (128, True): [np.arange(128)],
    (64, True): [np.arange(64), np.arange(64) + 64],
    (32, True): [np.arange(32) + 32 * group for group in range(4)],
}


def gather(found: np.ndarray, path: list[np.ndarray], n: int, lane: int = 0) -> np.ndarray:
    count = n // len(path)
    return np.concatenate([found[lanes + lane, :count] for lanes in path], axis=1)


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
    found = floats(product_of(kernel, text, image, columns, columns=128))
    assert (gather(found, path, n, lane) == left @ right.T).all()
    rest = np.ones(128, bool)
    rest[np.concatenate(path) + lane] = False
    assert (found[rest] == 0).all()


PAIRED_COMMIT = """
    mov.b16 %h1, 3; mov.u32 %r9, %ctaid.x; setp.eq.u32 %p6, %r9, 0; and.pred %p6, %p6, %p1;
    @%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], %h1;
"""
BOTH = "tcgen05.fence::before_thread_sync; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; " \
       "tcgen05.fence::after_thread_sync;"  # fmt: skip


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


# -- matrices in shared memory ---------------------------------------------------------------------------------------

# name -> (MN-major, swizzling mode, leading and stride offset, place of element (i, k) of two bytes before swizzling)
LAYOUTS = {
    "k, none": (0, 0, (4096, 128), lambda i, k: k // 8 * 4096 + i // 8 * 128 + i % 8 * 16 + k % 8 * 2),
    "k, 32": (0, 6, (16, 256), lambda i, k: i * 32 + k * 2),
    "k, 64": (0, 4, (16, 512), lambda i, k: i * 64 + k * 2),
    "k, 128": (0, 2, (16, 1024), lambda i, k: i * 128 + k * 2),
    "k, 128 by 32": (0, 1, (16, 1024), lambda i, k: i * 128 + k * 2),
    "mn, none": (1, 0, (4096, 128), lambda i, k: k // 8 * 4096 + i // 8 * 128 + k % 8 * 16 + i % 8 * 2),
    "mn, 32": (1, 6, (512, 256), lambda i, k: i // 16 * 512 + k * 32 + i % 16 * 2),
    "mn, 64": (1, 4, (1024, 512), lambda i, k: i // 32 * 1024 + k * 64 + i % 32 * 2),
    "mn, 128": (1, 2, (2048, 1024), lambda i, k: i // 64 * 2048 + k * 128 + i % 64 * 2),
}
# Swizzling mode -> (bits that change, so many bits above them the ones that change them)
CHANGED = {0: (0, 0), 6: (0x10, 3), 4: (0x30, 3), 2: (0x70, 3), 1: (0x60, 2)}


def spread(image: np.ndarray, at: int, values: np.ndarray, mode: int, offset, base: int = 0) -> None:
    """Write a matrix whose element (i, k) is at ``offset(i, k)`` before swizzling."""
    mask, shift = CHANGED[mode]
    size = values.dtype.itemsize
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            where = at + offset(i, k)
            where ^= (where - base) >> shift & mask
            image[where : where + size] = values[i : i + 1, k].copy().view(np.uint8)


#: Each with itself, and with one other on either side.
TOGETHER = {pair for name in LAYOUTS for pair in ((name, name), (name, "k, 32"), ("k, 32", name))}


@pytest.mark.parametrize(("a_layout", "b_layout"), sorted(TOGETHER))
def test_layouts_of_both_matrices(kernel, a_layout, b_layout):
    image = np.zeros(40960, np.uint8)
    left, right = (RANDOM.integers(-8, 9, (rows, 16)).astype(np.float16) for rows in (128, 32))
    words, turned = [], []
    for at, values, layout in ((0, left, a_layout), (20480, right, b_layout)):
        turn, mode, strides, offset = LAYOUTS[layout]
        spread(image, at, values, mode, offset)
        words.append(bits_of(mode, strides[1], strides[0]))
        turned.append(turn)
    word = instruction("f16", "f16", 128, 32, turn_a=turned[0], turn_b=turned[1])
    found = product_of(kernel, described(word, 20480, *words) + multiply(), image, 32)
    assert (floats(found) == left.astype(np.float64) @ right.T.astype(np.float64)).all()


def test_transposed_tf32_has_atoms_of_32_bytes(kernel):
    """MN-major: 4 rows of k make a pattern of 128 bytes by 4."""
    image = np.zeros(16384, np.uint8)
    left, right = (RANDOM.integers(-8, 9, (rows, 8)).astype(np.float32) for rows in (128, 32))

    def offset(i: int, k: int) -> int:
        return i // 32 * 1024 + k // 4 * 512 + k % 4 * 128 + i % 32 * 4

    spread(image, 0, left, 1, offset)
    spread(image, 8192, right, 1, offset)
    word = instruction("tf32", "tf32", 128, 32, turn_a=1, turn_b=1)
    bits = bits_of(1, 512, 1024)
    found = product_of(kernel, described(word, 8192, bits, bits) + multiply("tf32"), image, 32)
    assert (floats(found) == left.astype(np.float64) @ right.T.astype(np.float64)).all()


def test_a_pattern_may_begin_at_another_row(kernel):
    """The base offset is the row of eight at which the pattern begins."""
    image = np.zeros(40960, np.uint8)
    left, right = (RANDOM.integers(-8, 9, (rows, 16)).astype(np.float16) for rows in (128, 32))
    spread(image, 384, left, 2, lambda i, k: i * 128 + k * 2, base=384)
    spread(image, 20480, right, 2, lambda i, k: i * 128 + k * 2)
    text = described(instruction("f16", "f16", 128, 32), 20480, bits_of(2, 1024, base=3), bits_of(2, 1024))
    found = product_of(kernel, text + "add.u64 %q3, %q3, 24;" + multiply(), image, 32)
    assert (floats(found) == left.astype(np.float64) @ right.T.astype(np.float64)).all()


def test_bytes_may_be_transposed(kernel):
    image = np.zeros(16384, np.uint8)
    (left_codes, left), (right_codes, right) = (matrix("e4m3", rows, 32) for rows in (128, 32))
    spread(image, 0, left_codes, 2, lambda i, k: k * 128 + i)
    spread(image, 8192, right_codes, 6, lambda i, k: k * 32 + i)
    word = instruction("e4m3", "e4m3", 128, 32, turn_a=1, turn_b=1)
    text = described(word, 8192, bits_of(2, 1024, 4096), bits_of(6, 256, 1024))
    found = product_of(kernel, text + multiply("f8f6f4"), image, 32)
    assert (floats(found) == (left @ right.T)).all()


# -- scales ----------------------------------------------------------------------------------------------------------

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
    found = gather(floats(product_of(kernel, text, image, n // len(path))), path, n)
    shift = mask >> 56
    expected = left @ right[shift : n + shift].T
    for part, pattern in enumerate(zeros):
        for column, zero in enumerate(pattern):
            where = part * (n // len(path)) + column
            assert (found[:, where] == (0 if zero == "1" else expected[:, where])).all()


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
def test_what_is_not_in_the_collector(kernel, uses, said):
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
    found = floats(product_of(kernel, text + shift + multiply(a="[%r13]"), image, 32))
    assert (found == once @ right.T).all()
    own = multiply(a="[%r13]").replace("kind::f16", "kind::f16.ashift")
    found = floats(product_of(kernel, text + own, image, 40)).view(np.uint32)
    assert (found[:, 32:].view(np.float16) == once).all()


# -- what there is no product for ------------------------------------------------------------------------------------


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
def test_what_descriptors_may_not_say(kernel, kind, word, a_bits, said):
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
def test_what_is_not_there(kernel, change, said):
    text = described(instruction("f16", "f16", 128, 32), 8192) + change + multiply()
    with pytest.raises(EmulationError, match=said):
        product_of(kernel, text, np.zeros(16384, np.uint8), 32)


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
