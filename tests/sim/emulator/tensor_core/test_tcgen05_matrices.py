"""Matrices of tcgen05.mma in shared memory: major dimensions, swizzling, patterns that begin at another row."""

import numpy as np
import pytest
from mma_operands import RANDOM, bits_of, described, floats, instruction, matrix, multiply, product_of

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
    product = product_of(kernel, described(word, 20480, *words) + multiply(), image, 32)
    assert (floats(product) == left.astype(np.float64) @ right.T.astype(np.float64)).all()


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
    product = product_of(kernel, described(word, 8192, bits, bits) + multiply("tf32"), image, 32)
    assert (floats(product) == left.astype(np.float64) @ right.T.astype(np.float64)).all()


def test_a_pattern_may_begin_at_another_row(kernel):
    """The base offset is the row of eight at which the pattern begins."""
    image = np.zeros(40960, np.uint8)
    left, right = (RANDOM.integers(-8, 9, (rows, 16)).astype(np.float16) for rows in (128, 32))
    spread(image, 384, left, 2, lambda i, k: i * 128 + k * 2, base=384)
    spread(image, 20480, right, 2, lambda i, k: i * 128 + k * 2)
    text = described(instruction("f16", "f16", 128, 32), 20480, bits_of(2, 1024, base=3), bits_of(2, 1024))
    product = product_of(kernel, text + "add.u64 %q3, %q3, 24;" + multiply(), image, 32)
    assert (floats(product) == left.astype(np.float64) @ right.T.astype(np.float64)).all()


def test_bytes_may_be_transposed(kernel):
    image = np.zeros(16384, np.uint8)
    (left_codes, left), (right_codes, right) = (matrix("e4m3", rows, 32) for rows in (128, 32))
    spread(image, 0, left_codes, 2, lambda i, k: k * 128 + i)
    spread(image, 8192, right_codes, 6, lambda i, k: k * 32 + i)
    word = instruction("e4m3", "e4m3", 128, 32, turn_a=1, turn_b=1)
    text = described(word, 8192, bits_of(2, 1024, 4096), bits_of(6, 256, 1024))
    product = product_of(kernel, text + multiply("f8f6f4"), image, 32)
    assert (floats(product) == (left @ right.T)).all()
