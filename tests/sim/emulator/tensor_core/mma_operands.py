"""Operands of tcgen05.mma: matrices in shared memory, their descriptors, and where rows of D are in tensor memory."""

import ml_dtypes
import numpy as np
from tensor_kernels import COMMIT, WAIT, dump, fill, run

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
    """(codes, their values in binary64), of finite numbers."""
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
    """(lanes, columns) of the first columns after a commit of thread 0's operations in ``main`` and a wait for it."""
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


PAIRED_COMMIT = """
    mov.b16 %h1, 3; mov.u32 %r9, %ctaid.x; setp.eq.u32 %p6, %r9, 0; and.pred %p6, %p6, %p1;
    @%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], %h1;
"""
BOTH = "tcgen05.fence::before_thread_sync; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; " \
       "tcgen05.fence::after_thread_sync;"  # fmt: skip
