"""cvt between all types, against exact rationals, ml_dtypes and Python's integers."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from exact import FORMATS, check, exactly, nearest, numbers

from tileiras.sim import emulate

N = 500
FLOATS = ["f16", "bf16", "f32", "f64"]


def raw(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint16) if values.dtype == ml_dtypes.bfloat16 else values


def converted(values: np.ndarray, name: str, mode: str) -> np.ndarray:
    dtype = FORMATS[name][0]
    out = []
    for v in values:
        v = float(v)
        out.append(nearest(exactly(v), name, mode, zero=v) if np.isfinite(v) else dtype(v))
    return np.array(out, dtype)


NARROWING = [("f64", "f32"), ("f32", "f16"), ("f64", "f16"), ("f32", "bf16"), ("f64", "bf16")]


@pytest.mark.parametrize(("source", "to"), NARROWING)
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_narrowing(apply, source, to, mode):
    values = numbers(source, N, 1)
    near = numbers(to, N, 2).astype(FORMATS[source][0])  # around the narrow format's range
    values = np.concatenate([values, near, near * FORMATS[source][0](1 + 2.0 ** -FORMATS[to][1])])
    values = values[~np.isnan(values)]
    expected = converted(values, to, mode)
    computed = apply(f"cvt.{mode}.{to}.{source} $d, $0;", raw(expected).dtype, values)
    check(computed.view(expected.dtype), expected, values)


@pytest.mark.parametrize(
    ("source", "to"), [("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("f32", "f64"), ("bf16", "f64")]
)
def test_widening_is_exact(apply, source, to):
    values = numbers(source, N, 3)
    expected = values.astype(FORMATS[to][0])
    check(apply(f"cvt.{to}.{source} $d, $0;", expected.dtype, raw(values)), expected, values)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_float_to_integer(apply, source, to):
    bits, is_signed = int(to[1:]), to[0] == "s"
    if bits == 8 and source == "bf16":
        pytest.skip("PTX has no such conversion")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    dtype = np.dtype(f"{'i' if is_signed else 'u'}{max(bits, 16) // 8}")
    values = numbers(source, N, 4)
    edges = np.array([low, high, high / 2, -0.5, 0.5, 1.5, 2.5, -1.5, 0.49999997, 255.5, 65535.5]).astype(values.dtype)
    values = np.concatenate([values, edges, np.random.default_rng(0).uniform(-300, 300, 200).astype(values.dtype)])
    rounders = {"rzi": int, "rni": round, "rmi": lambda v: v.__floor__(), "rpi": lambda v: v.__ceil__()}
    for mode in rounders if (source, to) == ("f32", "s32") else ("rzi", "rni"):
        rounder = rounders[mode]
        expected = []
        for v in values:
            v = float(v)
            whole = rounder(Fraction(v)) if np.isfinite(v) else (high if v > 0 else low)
            expected.append(min(max(whole, low), high))
        computed = apply(f"cvt.{mode}.{to}.{source} $d, $0;", dtype, raw(values))
        wrong = [(v, c, e) for v, c, e in zip(values, computed.tolist(), expected) if c != e]
        assert not wrong, (mode, wrong[:4])


def test_nan_to_integer(apply):
    """PTX ISA, cvt: zero, but 2**(bits-1) when the source is f64 or the result has 64 bits."""
    assert apply("cvt.rzi.s32.f32 $d, $0;", np.int32, np.full(1, np.nan, np.float32))[0] == 0
    assert apply("cvt.rzi.s64.f32 $d, $0;", np.int64, np.full(1, np.nan, np.float32))[0] == -(2**63)
    assert apply("cvt.rzi.u64.f64 $d, $0;", np.uint64, np.full(1, np.nan))[0] == 2**63
    assert apply("cvt.rzi.s32.f64 $d, $0;", np.int32, np.full(1, np.nan))[0] == -(2**31)
    # F2I of f64 has no NTZ ("NaN to zero") in any width, F2I of f32 has it below 64 bits.
    assert apply("cvt.rzi.s16.f64 $d, $0;", np.int16, np.full(1, np.nan))[0] == -(2**15)
    assert apply("cvt.rzi.u16.f64 $d, $0;", np.uint16, np.full(1, np.nan))[0] == 2**15
    assert apply("cvt.rzi.u16.f32 $d, $0;", np.uint16, np.full(1, np.nan, np.float32))[0] == 0


@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("source", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_to_float(apply, source, to):
    dtype = np.dtype(f"{'i' if source[0] == 's' else 'u'}{int(source[1:]) // 8}")
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(5)
    values = rng.integers(limits.min, limits.max, N, dtype=dtype, endpoint=True)
    values >>= rng.integers(0, dtype.itemsize * 8, N).astype(dtype)
    values = np.concatenate(
        [values, np.array([0, 1, limits.max, limits.min, limits.max - 1, limits.max // 2 + 1], dtype)]
    )
    big = [2**24 + 1, 2**24 + 3, 2**53 + 1, 2**54 + 2, 2**62 + 2**38 + 1, 2**62 + 2**38]
    values = np.concatenate([values, np.array([b for b in big if b <= limits.max], dtype)])
    for mode in ("rn", "rz", "rm", "rp") if to == "f32" else ("rn", "rp"):
        expected = np.array([nearest(Fraction(int(v)), to, mode) for v in values], FORMATS[to][0])
        computed = apply(f"cvt.{mode}.{to}.{source} $d, $0;", raw(expected).dtype, values)
        check(computed.view(expected.dtype), expected, values)


def test_integer_to_integer(apply):
    values = np.random.default_rng(6).integers(-(2**31), 2**31, 300).astype(np.int32)
    assert (apply("cvt.s64.s32 $d, $0;", np.int64, values) == values).all()
    assert (apply("cvt.u64.u32 $d, $0;", np.uint64, values) == values.view(np.uint32)).all()
    assert (apply("cvt.u16.u32 $d, $0;", np.uint16, values) == values.astype(np.uint16)).all()
    assert (apply("cvt.s32.s8 $d, $0;", np.int32, values) == values.astype(np.int8)).all()
    assert (apply("cvt.s32.s16 $d, $0;", np.int32, values.astype(np.int16)) == values.astype(np.int16)).all()
    assert (apply("cvt.sat.s16.s32 $d, $0;", np.int16, values) == np.clip(values, -(2**15), 2**15 - 1)).all()
    assert (apply("cvt.sat.u8.s32 $d, $0;", np.uint16, values) == np.clip(values, 0, 255)).all()
    assert (apply("cvt.sat.u32.s32 $d, $0;", np.uint32, values) == np.clip(values, 0, None)).all()
    wide = values.astype(np.int64) << 20
    assert (apply("cvt.sat.u32.s64 $d, $0;", np.uint32, wide) == np.clip(wide, 0, 2**32 - 1)).all()
    assert (apply("cvt.sat.s64.u64 $d, $0;", np.int64, wide) == np.where(wide < 0, 2**63 - 1, wide)).all()


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_rounding_to_integral_floats(apply, name):
    values = np.concatenate([numbers(name, 300, 7), np.array([-0.5, 0.5, 1.5, -0.2, 0.49999997], FORMATS[name][0])])
    for mode, function in {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.items():
        check(apply(f"cvt.{mode}.{name}.{name} $d, $0;", values.dtype, values), function(values), values)


@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_pairs(apply, to, mode):
    high, low = numbers("f32", N, 8), numbers("f32", N, 9)
    dtype = FORMATS[to][0]
    computed = apply(f"cvt.{mode}.{to}x2.f32 $d, $0, $1;", np.uint32, high, low).view(dtype).reshape(-1, 2)
    check(computed[:, 1].copy(), converted(high, to, mode), high)
    check(computed[:, 0].copy(), converted(low, to, mode), low)


def test_relu_and_satfinite(apply):
    values = np.array([-2, -0.0, 3, np.inf, -np.inf, np.nan, 1e9], np.float32)
    computed = apply("cvt.rn.relu.f16x2.f32 $d, $0, $0;", np.uint32, values).view(np.float16)[::2].copy()
    check(computed, np.array([0, 0, 3, np.inf, 0, np.nan, np.inf], np.float16))
    computed = apply("cvt.rn.satfinite.f16x2.f32 $d, $0, $0;", np.uint32, values).view(np.float16)[::2].copy()
    check(computed, np.array([-2, -0.0, 3, 65504, -65504, np.nan, 65504], np.float16))


EIGHT = {"e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "e5m2": (ml_dtypes.float8_e5m2, 57344.0)}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", EIGHT)
def test_eight_bit_floats(apply, name):
    dtype, limit = EIGHT[name]
    every = np.arange(256, dtype=np.uint8)
    pairs = every.astype(np.uint16) | every.astype(np.uint16) << 8
    decoded = apply(f"cvt.rn.f16x2.{name}x2 $d, $0;", np.uint32, pairs).view(np.float16).reshape(-1, 2)
    for half in (0, 1):
        check(decoded[:, half].copy(), every.view(dtype).astype(np.float16))
    rng = np.random.default_rng(10)
    values = np.concatenate(
        [
            rng.uniform(-500, 500, 500),
            rng.uniform(-1, 1, 500) * 2.0 ** rng.integers(-20, 17, 500),
            np.array([np.inf, -np.inf, 0, -0.0, 464, 1e9, -1e9]),
            every.view(dtype).astype(np.float64) * (1 + 2.0**-4),
        ]
    ).astype(np.float32)
    values = values[~np.isnan(values)]
    expected = np.clip(values, -limit, limit).astype(dtype)
    computed = apply(f"cvt.rn.satfinite.{name}x2.f32 $d, $0, $0;", np.uint16, values)
    assert (computed >> 8 == computed & 255).all()
    low = (computed & 255).astype(np.uint8)
    wrong = np.flatnonzero(low != expected.view(np.uint8))
    assert not wrong.size, [(values[i], hex(low[i]), expected[i]) for i in wrong[:4]]
    halves = values.astype(np.float16)
    words = halves.view(np.uint16).astype(np.uint32)
    computed = apply(f"cvt.rn.satfinite.{name}x2.f16x2 $d, $0;", np.uint16, words) & 255
    assert (computed == np.clip(halves, -limit, limit).astype(dtype).view(np.uint8)).all()
    assert apply(f"cvt.rn.satfinite.{name}x2.f32 $d, $0, $0;", np.uint16, np.full(1, np.nan, np.float32))[0] == 0x7F7F


def test_four_bit_floats(kernel):
    """The pairs are bytes, for which `apply` has no registers."""
    numbers_ = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    every = np.concatenate([numbers_, -numbers_])
    codes = np.arange(16, dtype=np.uint8)
    pairs = codes | codes[::-1] << 4
    unpack = """ld.global.b8 %h1, [%a0];
      { .reg .b8 %x; cvt.u8.u16 %x, %h1; cvt.rn.f16x2.e2m1x2 %r1, %x; }
      st.global.b32 [%a1], %r1;"""
    step = "mov.u32 %r0, %tid.x; mad.wide.u32 %q0, %r0, {}, %a0; mov.u64 %a0, %q0;"
    step += "mad.wide.u32 %q0, %r0, {}, %a1; mov.u64 %a1, %q0;"
    decoded = np.zeros((16, 2), np.float16)
    ptx = kernel(step.format(1, 4) + unpack, (".u64",) * 2, threads=16, cpu="sm_100a")
    emulate(ptx, "k", 1, [pairs, decoded])
    assert (decoded[:, 0] == every).all() and (decoded[:, 1] == every[::-1]).all()
    middles = (numbers_[:-1] + numbers_[1:]) / 2
    values = np.concatenate([every, middles, -middles, middles * (1 + 2.0**-20), [7, -1e9, np.inf, -np.inf, np.nan]])
    values = np.resize(values, 64).astype(np.float32)
    # The limit also for NaN (CUDA math API, __nv_cvt_float_to_fp4).
    expected = np.clip(np.nan_to_num(values, nan=6), -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    pack = """ld.global.b32 %r1, [%a0];
      { .reg .b8 %x; cvt.rn.satfinite.e2m1x2.f32 %x, %r1, 0f3F800000; cvt.u16.u8 %h1, %x; }
      st.global.b8 [%a1], %h1;"""
    packed = np.zeros(64, np.uint8)
    emulate(kernel(step.format(4, 1) + pack, (".u64",) * 2, threads=64, cpu="sm_100a"), "k", 1, [values, packed])
    assert (packed & 15 == 2).all() and (packed >> 4 == expected).all()


def test_exponents(apply):
    """ue8m0 (CUDA math API, __nv_cvt_bfloat16raw_to_e8m0): magnitudes, clipped at 2^-127 and 2^127."""
    values = np.array(
        [0.0, -0.0, 1.0, -1.5, 3.0, 2.0**-126, 1.5 * 2.0**-127, 2.0**-127, 2.0**-140, 2.0**127, 3e38, -np.inf, np.nan],
        np.float32,
    )
    expected = {
        "rz": [0, 0, 127, 127, 128, 1, 0, 0, 0, 254, 254, 254, 255],
        "rp": [0, 0, 127, 128, 129, 1, 1, 0, 0, 254, 254, 254, 255],
    }
    for mode, codes in expected.items():
        one = np.full(len(values), 1, np.float32)
        computed = apply(f"cvt.{mode}.satfinite.ue8m0x2.f32 $d, $0, $1;", np.uint16, values, one, cpu="sm_100a")
        assert (computed >> 8).tolist() == codes and (computed & 255 == 127).all(), mode
    assert apply("cvt.rp.ue8m0x2.f32 $d, $0, $0;", np.uint16, values[-3:], cpu="sm_100a").tolist() == [0xFFFF] * 3
    every = np.arange(256, dtype=np.uint16)
    wide = apply("cvt.rn.bf16x2.ue8m0x2 $d, $0;", np.uint32, every << 8 | 127, cpu="sm_100a").view(ml_dtypes.bfloat16)
    check(wide[1::2].copy(), every.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(ml_dtypes.bfloat16))
    assert (wide[::2] == 1).all()


def test_tf32(apply):
    values = numbers("f32", N, 11)
    values = values[np.isfinite(values)]
    computed = apply("cvt.rna.tf32.f32 $d, $0;", np.float32, values)
    for v, c in zip(values, computed):
        bits = int(np.float32(v).view(np.uint32))
        # Ties away from zero on the magnitude's bits.
        rounded = (bits & 0x7FFFFFFF) + 0x1000 & ~0x1FFF | bits & 0x80000000
        assert int(c.view(np.uint32)) == rounded, (v, c)
    truncated = apply("cvt.rz.tf32.f32 $d, $0;", np.uint32, values)
    assert (truncated == values.view(np.uint32) & np.uint32(0xFFFFE000)).all()


def test_ftz(apply):
    values = np.array([2.0**-127, -(2.0**-140), 1.5], np.float32)
    check(apply("cvt.ftz.f64.f32 $d, $0;", np.float64, values), np.array([0.0, -0.0, 1.5]))
    check(
        apply("cvt.rn.ftz.f32.f64 $d, $0;", np.float32, values.astype(np.float64)),
        np.array([0.0, -0.0, 1.5], np.float32),
    )


def test_pack(apply):
    a = np.array([1, -1, 40000, -40000], np.int32)
    b = np.array([-7, 32767, 2**31 - 1, 0], np.int32)
    expected = np.stack([np.clip(b, -(2**15), 2**15 - 1), np.clip(a, -(2**15), 2**15 - 1)], axis=1).astype(np.int16)
    computed = apply("cvt.pack.sat.s16.s32 $d, $0, $1;", np.uint32, a, b).view(np.int16).reshape(-1, 2)
    assert (computed == expected).all()


def test_comparisons_and_selection(apply):
    import operator

    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan], np.float32)
    a, b = np.repeat(values, 7), np.tile(values, 7)
    nan = np.isnan(a) | np.isnan(b)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        with np.errstate(all="ignore"):
            plain = getattr(operator, name)(a, b)
        assert (apply(f"setp.{name}.f32 $d, $0, $1;", bool, a, b) == (plain & ~nan)).all(), name
        assert (apply(f"setp.{name}u.f32 $d, $0, $1;", bool, a, b) == (plain | nan)).all(), name
    assert (apply("setp.num.f32 $d, $0, $1;", bool, a, b) == ~nan).all()
    x, y = np.random.default_rng(0).integers(0, 2**32, (2, 200), dtype=np.uint64).astype(np.uint32)
    flag = (x & 1).astype(bool)
    assert (apply("setp.lt.s32 $d, $0, $1;", bool, x, y) == (x.view(np.int32) < y.view(np.int32))).all()
    assert (apply("setp.hs.u32 $d, $0, $1;", bool, x, y) == (x >= y)).all()
    assert (apply("setp.lt.and.u32 $d, $0, $1, !$2;", bool, x, y, flag) == ((x < y) & ~flag)).all()
    assert (apply("setp.lt.xor.u32 $d, $0, $1, $2;", bool, x, y, flag) == ((x < y) ^ flag)).all()
    assert (apply("selp.b32 $d, $0, $1, $2;", np.uint32, x, y, flag) == np.where(flag, x, y)).all()
    assert (
        apply("set.gt.u32.s32 $d, $0, $1;", np.uint32, x, y)
        == np.where(x.view(np.int32) > y.view(np.int32), 0xFFFFFFFF, 0)
    ).all()
    assert (apply("set.lt.f32.u32 $d, $0, $1;", np.float32, x, y) == (x < y)).all()
    assert (
        apply("slct.b32.s32 $d, $0, $1, $2;", np.uint32, x, y, x ^ y) == np.where((x ^ y).view(np.int32) >= 0, x, y)
    ).all()
    both = apply("{ .reg .pred q; setp.lt.u32 $d|q, $0, $1; @q xor.b32 $0, $0, 0; }", bool, x, y)
    assert (both == (x < y)).all()


def test_packed_comparisons(apply):
    x, y = numbers("f16", 200, 12), numbers("f16", 200, 13)
    words = [v.view(np.uint32) for v in (x, y)]
    computed = apply("set.lt.f16x2.f16x2 $d, $0, $1;", np.uint32, *words).view(np.float16)
    assert (computed == (x < y)).all()
    text = "{ .reg .pred u, v; setp.gt.f16x2 u|v, $0, $1; xor.pred $d, u, v; }"
    pairs = (x > y).reshape(-1, 2)
    assert (apply(text, bool, *words) == (pairs[:, 0] ^ pairs[:, 1])).all()
