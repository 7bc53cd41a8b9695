"""LLVM's code for less common IR, at its lowest and highest level, computes the results of the IR."""

import numpy as np
import pytest

from tileiras.sim import emulate

PROLOGUE = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare {i32, i1} @llvm.sadd.with.overflow.i32(i32, i32)
declare i32 @llvm.usub.sat.i32(i32, i32)
"""

RNG = np.random.default_rng(0)
A, B = RNG.integers(-(2**31), 2**31, (2, 64)).astype(np.int32)
LONG = RNG.integers(-(2**62), 2**62, 128).astype(np.int64)


def map_kernel(body: str, type_: str = "i32") -> str:
    """Parameters a, b, out; %x = a[tid], %y = b[tid]; ``body`` defines %r, stored to out[tid]."""
    return f"""{PROLOGUE}
define ptx_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %pa = getelementptr {type_}, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr {type_}, ptr addrspace(1) %b, i32 %t
  %x = load {type_}, ptr addrspace(1) %pa
  %y = load {type_}, ptr addrspace(1) %pb
{body}
  %po = getelementptr {type_}, ptr addrspace(1) %out, i32 %t
  store {type_} %r, ptr addrspace(1) %po
  ret void
}}
"""


def run(compile_ir, body, cpu, opt, a=A, b=B, type_="i32", threads=64):
    out = np.zeros_like(a)
    emulate(compile_ir(map_kernel(body, type_), cpu, opt), "k", 1, [a.copy(), b.copy(), out], block=threads)
    return out


LEVELS = pytest.mark.parametrize(("cpu", "opt"), [("sm_75", 0), ("sm_80", 3), ("sm_90", 3)])


@LEVELS
def test_dynamic_index_into_a_vector(compile_ir, cpu, opt):
    body = """
      %v0 = insertelement <4 x i32> <i32 10, i32 20, i32 30, i32 40>, i32 %y, i32 1
      %i = and i32 %x, 3
      %v1 = insertelement <4 x i32> %v0, i32 7, i32 %t
      %small = icmp ult i32 %t, 4
      %v = select i1 %small, <4 x i32> %v1, <4 x i32> %v0
      %r = extractelement <4 x i32> %v, i32 %i
    """
    rows = np.tile(np.array([10, 0, 30, 40], np.int32), (64, 1))
    rows[:, 1] = B
    rows[np.arange(4), np.arange(4)] = 7
    assert (run(compile_ir, body, cpu, opt) == rows[np.arange(64), A & 3]).all()


@LEVELS
def test_switch(compile_ir, cpu, opt):
    cases = " ".join(f"i32 {i}, label %c{i}" for i in range(8))
    blocks = "\n".join(f"c{i}: %v{i} = mul i32 %y, {3 * i + 1}\n br label %end" for i in range(8))
    phis = ", ".join(f"[%v{i}, %c{i}]" for i in range(8))
    body = f"""
      %i = and i32 %x, 15
      switch i32 %i, label %other [ {cases} ]
    {blocks}
    other: %vo = add i32 %y, 5
      br label %end
    end: %r = phi i32 {phis}, [%vo, %other]
    """
    index = A & 15
    with np.errstate(over="ignore"):
        expected = np.where(index < 8, B * (3 * index + 1), B + 5)
    assert (run(compile_ir, body, cpu, opt) == expected).all()


@LEVELS
def test_wide_integers(compile_ir, cpu, opt):
    body = """
      %xs = sext i64 %x to i128
      %ys = sext i64 %y to i128
      %p = mul i128 %xs, %ys
      %s = ashr i128 %p, 61
      %q = add i128 %s, %xs
      %d = sdiv i128 %p, 1000003
      %e = xor i128 %q, %d
      %r = trunc i128 %e to i64
    """
    a, b = LONG[:64], LONG[64:]
    out = run(compile_ir, body, cpu, opt, a, b, "i64")

    def expected(x: int, y: int) -> int:
        p = x * y
        quotient = abs(p) // 1000003 * (1 if p >= 0 else -1)
        return (p >> 61) + x ^ quotient

    assert [int(v) for v in out.view(np.uint64)] == [expected(int(x), int(y)) % 2**64 for x, y in zip(a, b)]


@LEVELS
def test_bit_intrinsics_and_overflow(compile_ir, cpu, opt):
    body = """
      %c = call i32 @llvm.ctpop.i32(i32 %x)
      %f = call i32 @llvm.fshl.i32(i32 %x, i32 %y, i32 %c)
      %o = call {i32, i1} @llvm.sadd.with.overflow.i32(i32 %x, i32 %y)
      %s = extractvalue {i32, i1} %o, 0
      %w = extractvalue {i32, i1} %o, 1
      %z = call i32 @llvm.usub.sat.i32(i32 %f, i32 %s)
      %r = select i1 %w, i32 %z, i32 %f
    """
    out = run(compile_ir, body, cpu, opt)

    def expected(x: int, y: int) -> int:
        ux, uy = x % 2**32, y % 2**32
        n = ux.bit_count() % 32
        f = (ux << 32 | uy) << n >> 32 & 2**32 - 1
        overflow = not -(2**31) <= x + y < 2**31
        return max(0, f - (x + y) % 2**32) if overflow else f

    assert [int(v) for v in out.view(np.uint32)] == [expected(int(x), int(y)) for x, y in zip(A, B)]


@LEVELS
def test_bytes_in_vectors(compile_ir, cpu, opt):
    body = """
      %m = mul <8 x i8> %x, %y
      %c = icmp slt <8 x i8> %x, %y
      %s = sub <8 x i8> %x, %y
      %r = select <8 x i1> %c, <8 x i8> %m, <8 x i8> %s
    """
    a, b = RNG.integers(0, 256, (2, 512)).astype(np.uint8).view(np.int8)
    out = run(compile_ir, body, cpu, opt, a, b, "<8 x i8>")
    with np.errstate(over="ignore"):
        assert (out == np.where(a < b, a * b, a - b)).all()


@LEVELS
def test_bfloat_arithmetic_on_every_target(compile_ir, cpu, opt):
    import ml_dtypes

    body = """
      %m = fmul bfloat %x, %y
      %s = fadd bfloat %m, %x
      %c = fcmp olt bfloat %x, %y
      %r = select i1 %c, bfloat %s, bfloat %m
    """
    a, b = RNG.standard_normal((2, 64)).astype(ml_dtypes.bfloat16)
    out = run(compile_ir, body, cpu, opt, a.view(np.uint16), b.view(np.uint16), "bfloat").view(ml_dtypes.bfloat16)
    product = a * b
    assert (out == np.where(a < b, product + a, product)).all()
