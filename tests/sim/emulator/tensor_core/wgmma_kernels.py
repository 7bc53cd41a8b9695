"""Kernels that multiply by one wgmma for the emulator's tests: the code around the instruction."""

from __future__ import annotations

import numpy as np

from tileiras.sim import emulate
from tileiras.sim.emulator.arithmetic.rounding import encode

START = """
    .shared .align 1024 .b8 image[32768];
    mov.u32 %r1, %tid.x; mov.u32 %r2, image; mov.u32 %r3, %r1;
    FILL: mad.wide.u32 %q1, %r3, 16, %a0; ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%q1];
    mad.lo.u32 %r4, %r3, 16, %r2; st.shared.v4.u32 [%r4], {%r20, %r21, %r22, %r23};
    add.u32 %r3, %r3, 128; setp.lt.u32 %p1, %r3, 2048; @%p1 bra FILL;
    fence.proxy.async.shared::cta; bar.sync 0;
    mov.b32 %r30, 0f3f800000; mov.b32 %r31, %r30; mov.b32 %r32, %r30; mov.b32 %r33, %r30; setp.eq.u32 %p2, %r1, %r1;
    shr.u32 %r5, %r2, 4; cvt.u64.u32 %q2, %r5; or.b64 %q3, %q2, A_BITS; add.u64 %q2, %q2, 1024; or.b64 %q4, %q2, B_BITS;
    wgmma.fence.sync.aligned;
"""
END = """
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    mad.wide.u32 %q5, %r1, 16, %a1; st.global.v4.u32 [%q5], {%r30, %r31, %r32, %r33};
"""
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r30, %r31, %r32, %r33}, %q3, %q4, %p2, 1, 1, 0, 0;"


def descriptor(leading: int, stride: int, swizzle: int) -> int:
    return leading >> 4 << 16 | stride >> 4 << 32 | {0: 0, 128: 1, 64: 2, 32: 3}[swizzle] << 62


def place(image: np.ndarray, base: int, matrix: np.ndarray, swizzle: int, offset) -> None:
    """Write a matrix of numbers whose element (i, k) has its unswizzled place at ``offset(i, k)``."""
    bits = {32: 1, 64: 3, 128: 7}.get(swizzle, 0)
    size = matrix.dtype.itemsize
    for i in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            at = base + offset(i, k)
            at ^= (at // 128 & bits) * 16
            image[at : at + size] = matrix[i : i + 1, k].copy().view(np.uint8)


def run(kernel, body: str, image: np.ndarray, a_bits: int, b_bits: int, seed=0) -> np.ndarray:
    """The 64 x 8 elements of D, 32 bits each."""
    body = body.replace("A_BITS", f"{a_bits:#x}").replace("B_BITS", f"{b_bits:#x}")
    out = np.zeros(128 * 4, np.uint32)
    ptx = kernel(body, (".u64", ".u64"), threads=128, cpu="sm_90a")
    emulate(ptx, "k", 1, [image, out], seed=seed)
    array = np.zeros((64, 8), np.uint32)
    for thread in range(128):
        for i in range(4):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2)
            array[row, thread % 4 * 2 + i % 2] = out[thread * 4 + i]
    return array


def factors(name: str, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers and their bits: A as (64, k), B as (8, k), and their product."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, (rows, k)).astype(np.float64) for rows in (64, 8))
    if name[0] == "s":
        return a.astype(np.int8), b.astype(np.int8), a @ b.T
    return encode(a, name), encode(b, name), a @ b.T


def simple(name: str = "f16"):
    """(image, A's descriptor, B's, D without its initial value): K-major with rows of 128 bytes."""
    bytes_ = {"tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1}.get(name, 2)
    a, b, product = factors(name, 32 // bytes_)
    image = np.zeros(32768, np.uint8)
    for base, matrix in ((0, a), (16384, b)):
        place(image, base, matrix, 128, lambda i, k: i * 128 + k * bytes_)
    return image, descriptor(16, 1024, 128), descriptor(16, 1024, 128), product
