"""Conversions between number formats on the emulator, by instructions and by arithmetic."""

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.tileaa import elementwise
from tests.tileas_stage import ptx
from tileiras.codegen import ptxas, toolkit
from tileiras.sim import emulate

CAST = "%y = nv_tileaa.fp_to_fp %x : SOURCE to TARGET"
FP8 = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", FP8)
def test_8_bit_floats_widen_exactly(element, gpu):
    patterns = np.arange(256, dtype=np.uint8)
    out = np.zeros(256, np.float32)
    emulate(ptx(elementwise(element, "f32", CAST), gpu), "kernel", 1, [patterns, out])
    assert np.array_equal(out, patterns.view(FP8[element]).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", FP8)
def test_8_bit_floats_round_to_nearest_even_and_saturate(element, gpu):
    rng = np.random.default_rng(0)
    exact = np.arange(256, dtype=np.uint8).view(FP8[element]).astype(np.float32)
    exact = exact[np.isfinite(exact)]
    middles = (exact[:-1] + exact[1:]) / 2
    values = np.concatenate([exact, middles, middles * np.float32(1 + 2**-20), rng.standard_normal(300) * 1e-3])
    values = np.resize(np.concatenate([[1e9, -1e9, np.inf, -np.inf, np.nan], values]), 1024).astype(np.float32)
    out = np.zeros(1024, np.uint8)
    emulate(ptx(elementwise("f32", element, CAST, 1024), gpu), "kernel", 1, [values, out])
    largest = float(ml_dtypes.finfo(FP8[element]).max)
    expected = np.clip(values, -largest, largest).astype(FP8[element])
    assert np.array_equal(out.view(FP8[element]).astype(np.float32), expected.astype(np.float32), equal_nan=True)


def run(text: str, gpu: str, values, out, **options) -> np.ndarray:
    """The values that the kernel stores in `out`; ptxas, where it is installed, has accepted the code."""
    code = ptx(text, gpu, **options)
    assembler = toolkit.find_program("ptxas")
    if assembler is not None:
        ptxas.assemble(code, gpu, ptxas=assembler)
    emulate(code, "kernel", 1, [values, out])
    return out


# The a-suffixed targets have instructions for 4-bit floats and exponents, the others do not.
GPUS = ["sm_80", "sm_90", "sm_100a", "sm_120a"]


def floats(count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    corners = [0.0, -0.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0, 7.0, 1e30, -1e30, np.inf, -np.inf, np.nan]
    corners += [2.0**-126, 1.25 * 2.0**-127, 2.0**-127, 2.0**-128, 2.0**127, 1.5 * 2.0**127, 1.0, -1.5]
    wild = rng.standard_normal(200) * np.exp2(rng.uniform(-130, 127, 200))
    return np.resize(np.concatenate([corners, rng.standard_normal(100) * 4, wild]), count).astype(np.float32)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("flush_to_zero", [False, True])
def test_4_bit_floats_round_to_nearest_even_and_saturate(gpu, flush_to_zero):
    values = floats(512)
    body = "%n = nv_tileaa.fp_to_fp %x : SOURCE to tensor<512xf4E2M1FN>\n"
    body += "%y = nv_tileaa.fp_to_fp %n : tensor<512xf4E2M1FN> to TARGET"
    text = elementwise("f32", "f32", body, 512)
    out = run(text, gpu, values, np.zeros(512, np.float32), flush_to_zero=flush_to_zero)
    clipped = np.clip(np.where(np.isnan(values), 6, values), -6, 6)
    expected = clipped.astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
    assert np.array_equal(out.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_exponents_are_powers_of_two_of_the_magnitude(source, gpu):
    values = floats(512).astype({"f32": np.float32, "f64": np.float64}[source])
    if source == "f64":
        values[::7] *= 1 + 2.0**-40  # which f32 does not tell from the power of two
    mantissas, exponents = np.frexp(np.abs(values))
    for mode, up in (("zero", 0), ("positive_inf", 1)):
        rounding = f"{{rounding_mode = #nv_tileaa.rounding_mode<{mode}>}}"
        body = f"%y = nv_tileaa.fp_to_fp %x {rounding} : SOURCE to TARGET"
        out = run(elementwise(source, "f8E8M0FNU", body, 512), gpu, values, np.zeros(512, np.uint8))
        powers = np.where(np.abs(values) <= 2.0**-127, -127, exponents - 1 + up * (mantissas != 0.5))
        powers = np.where(np.isinf(values), 127, np.clip(powers, -127, 127))
        assert np.array_equal(out, np.where(np.isnan(values), 255, powers + 127)), mode


@pytest.mark.parametrize("gpu", GPUS)
def test_every_exponent_widens_exactly(gpu):
    codes = np.arange(256, dtype=np.uint8)
    out = run(elementwise("f8E8M0FNU", "f32", CAST), gpu, codes, np.zeros(256, np.float32))
    assert np.array_equal(out, np.append(np.exp2(np.arange(255) - 127.0), np.nan), equal_nan=True)


def test_subnormal_8_bit_floats_survive_a_kernel_that_flushes():
    patterns = np.arange(256, dtype=np.uint8)
    for element, dtype in FP8.items():
        text = elementwise(element, "f32", CAST)
        out = run(text, "sm_80", patterns, np.zeros(256, np.float32), flush_to_zero=True)
        assert np.array_equal(out, patterns.view(dtype).astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("element", "digits"), [("tf32", 11), ("bf16", 8)])
@pytest.mark.parametrize("signed", [True, False])
def test_wide_integers_round_once(element, digits, signed, gpu):
    """Next to the middle between two results, closer than f32 or f64 can tell."""
    rng = np.random.default_rng(5)
    tops = rng.integers(26, 62, 256)
    whole = (1 << tops) + rng.integers(0, 16, 256) * (1 << tops - digits + 1) + (1 << tops - digits)
    values = (whole + rng.integers(-1, 2, 256)) * (rng.choice([-1, 1], 256) if signed else 1)
    body = f"%y = arith.{'si' if signed else 'ui'}tofp %x : SOURCE to TARGET"
    held = np.uint16 if element == "bf16" else np.uint32
    out = run(elementwise("i64", element, body), gpu, values, np.zeros(256, held))

    def rounded(value: int) -> float:
        unit = 1 << max(abs(value).bit_length() - digits, 0)
        low, rest = divmod(value, unit)
        return float((low + (2 * rest > unit or 2 * rest == unit and low & 1)) * unit)

    view = (out.astype(np.uint32) << (16 if element == "bf16" else 0)).view(np.float32)
    assert view.tolist() == [rounded(value) for value in values.tolist()]


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["zero", "negative_inf", "positive_inf"])
def test_half_precision_arithmetic_rounds_in_the_named_direction(element, mode):
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[element]
    rng = np.random.default_rng(7)
    values = (rng.standard_normal(256) * np.exp2(rng.uniform(-20, 15, 256))).astype(dtype)
    values[:6] = [np.inf, -np.inf, np.nan, 0.0, -0.0, ml_dtypes.finfo(dtype).max]
    rounding = f"{{rounding_mode = #nv_tileaa.rounding_mode<{mode}>}}"
    body = f"%three = arith.constant dense<3.0> : SOURCE\n%y = nv_tileaa.divf %x, %three {rounding} : SOURCE"
    text = elementwise(element, element, body)
    out = run(text, "sm_80", values.view(np.uint16), np.zeros(256, np.uint16)).view(dtype)
    exact = values.astype(np.float64) / 3
    near = exact.astype(dtype)
    with np.errstate(invalid="ignore"):
        error = near.astype(np.float64) - exact
    beyond = {"zero": error * exact > 0, "negative_inf": error > 0, "positive_inf": error < 0}[mode]
    towards = {"zero": 0.0, "negative_inf": -np.inf, "positive_inf": np.inf}[mode]
    expected = np.where(beyond, np.nextafter(near, dtype(towards)), near)
    assert np.array_equal(out.astype(np.float64), expected.astype(np.float64), equal_nan=True)


@pytest.mark.parametrize("signed", [True, False])
def test_4_bit_integers_keep_the_low_bits(signed):
    values = np.arange(256, dtype=np.uint8)
    body = "%n = arith.trunci %x : SOURCE to tensor<256xi4>\n"
    body += f"%y = arith.ext{'s' if signed else 'u'}i %n : tensor<256xi4> to TARGET"
    out = run(elementwise("i8", "i32", body), "sm_90", values, np.zeros(256, np.int32))
    low = values.astype(np.int32) & 15
    assert np.array_equal(out, np.where(signed & (low > 7), low - 16, low))


HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("gpu", ["sm_75", *GPUS])
@pytest.mark.parametrize("element", HALVES)
@pytest.mark.parametrize("signed", [True, False])
def test_every_byte_becomes_a_half_exactly(element, signed, gpu):
    patterns = np.arange(256, dtype=np.uint8)
    body = f"%y = arith.{'si' if signed else 'ui'}tofp %x : SOURCE to TARGET"
    out = run(elementwise("i8", element, body), gpu, patterns, np.zeros(256, np.uint16))
    numbers = patterns.view(np.int8) if signed else patterns
    assert np.array_equal(out.view(HALVES[element]).astype(np.float32), numbers.astype(np.float32))
    assert not (out[numbers == 0] & 0x8000).any(), "zero has no sign"


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100a"])
@pytest.mark.parametrize("element", HALVES)
@pytest.mark.parametrize("signed", [True, False])
def test_every_half_byte_becomes_a_half_exactly(element, signed, gpu):
    patterns = np.arange(256, dtype=np.uint8)
    kind = "si" if signed else "ui"
    body = "%n = arith.trunci %x : SOURCE to tensor<256xi4>\n"
    body += f"%y = arith.{kind}tofp %n : tensor<256xi4> to TARGET"
    out = run(elementwise("i8", element, body), gpu, patterns, np.zeros(256, np.uint16))
    numbers = patterns.astype(np.int32) & 15
    numbers = (numbers ^ 8) - 8 if signed else numbers
    assert np.array_equal(out.view(HALVES[element]).astype(np.float32), numbers.astype(np.float32))


@pytest.mark.parametrize("amount", range(8))
def test_bytes_are_shifted_in_words(amount):
    patterns = np.arange(256, dtype=np.uint8)
    for name, expected in (
        ("shli", patterns << amount), ("shrui", patterns >> amount), ("shrsi", patterns.view(np.int8) >> amount),
    ):  # fmt: skip
        body = f"%n = arith.constant dense<{amount}> : SOURCE\n%y = arith.{name} %x, %n : SOURCE"
        out = run(elementwise("i8", "i8", body), "sm_80", patterns, np.zeros(256, np.uint8))
        assert np.array_equal(out, expected.astype(np.int64).astype(np.uint8)), name


@pytest.mark.parametrize("gpu", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("element", HALVES)
def test_every_4_bit_float_widens_exactly(element, gpu):
    patterns = np.arange(256, dtype=np.uint8)
    body = "%i = arith.trunci %x : SOURCE to tensor<256xi4>\n%n = arith.bitcast %i : tensor<256xi4> to "
    body += "tensor<256xf4E2M1FN>\n%y = nv_tileaa.fp_to_fp %n : tensor<256xf4E2M1FN> to TARGET"
    out = run(elementwise("i8", element, body), gpu, patterns, np.zeros(256, np.uint16))
    expected = (patterns & 15).view(ml_dtypes.float4_e2m1fn).astype(HALVES[element])
    assert np.array_equal(out, expected.view(np.uint16))
