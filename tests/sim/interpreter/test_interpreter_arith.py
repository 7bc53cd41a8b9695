"""Arithmetic, comparisons and conversions follow the specification."""

import ml_dtypes
import numpy as np
import pytest

F32 = np.float32


def f32(*values):
    return np.array(values, F32)


def i32(*values):
    return np.array(values, np.int32)


def test_maximum_and_nan(evaluate):
    a, b = f32(1, np.nan, -0.0, np.nan), f32(2, 3, 0.0, np.nan)
    out = f32(0, 0, 0, 0)
    evaluate("%r = maxf %a, %b : tile<4xf32>", ("f32", a), ("f32", b), result=("f32", out))
    assert out[:3].tolist() == [2, 3, 0] and not np.signbit(out[2]) and np.isnan(out[3])
    evaluate("%r = minf %a, %b propagate_nan : tile<4xf32>", ("f32", a), ("f32", b), result=("f32", out))
    assert out[0] == 1 and np.isnan(out[[1, 3]]).all() and np.signbit(out[2])


def test_comparison_ordering(evaluate):
    a, b = f32(1, np.nan, 2, 2), f32(1, 1, np.nan, 3)
    for ordering, expected in (("ordered", [0, 0, 0, 1]), ("unordered", [0, 1, 1, 1])):
        out = np.zeros(4, np.int8)
        body = f"""%c = cmpf not_equal {ordering} %a, %b : tile<4xf32> -> tile<4xi1>
                   %r = exti %c unsigned : tile<4xi1> -> tile<4xi8>"""
        evaluate(body, ("f32", a), ("f32", b), result=("i8", out))
        assert out.tolist() == expected


def test_flush_to_zero_on_inputs_and_results(evaluate):
    out = f32(9, 9)
    evaluate("%r = addf %a, %b flush_to_zero : tile<2xf32>", ("f32", f32(1e-40, 2.0**-126)),
             ("f32", f32(1, -(2.0**-126) * 1.5)), result=("f32", out))  # fmt: skip
    assert out.tolist() == [1, 0] and np.signbit(out[1])


def test_directed_rounding_of_addition(evaluate):
    out = f32(0, 0)
    operands = ("f32", f32(1, -1)), ("f32", f32(2.0**-30, -(2.0**-30)))
    evaluate("%r = addf %a, %b rounding<positive_inf> : tile<2xf32>", *operands, result=("f32", out))
    assert out.tolist() == [np.nextafter(F32(1), F32(2)), -1]


def test_approximate_division_by_huge_numbers_vanishes(evaluate):
    out = np.full(8, 9, F32)
    evaluate("%r = divf %a, %b rounding<approx> : tile<8xf32>", ("f32", f32(1, 0, 8, -1, 3, np.inf, np.nan, np.nan)),
             ("f32", f32(2.0**127, -(2.0**127), 2, 3e38, np.inf, 2.0**127, -(2.0**127), 1)),
             result=("f32", out))  # fmt: skip
    assert out[:5].tolist() == [0, 0, 4, 0, 0] and np.isnan(out[5:]).all()


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("signed", [2, -2, -2, 2]),
        ("signed rounding<negative_inf>", [2, -3, -3, 2]),
        ("signed rounding<positive_inf>", [3, -2, -2, 3]),
    ],
)
def test_signed_division_rounds(evaluate, attributes, expected):
    out = i32(0, 0, 0, 0)
    evaluate(f"%r = divi %a, %b {attributes} : tile<4xi32>", ("i32", i32(7, -7, 7, -7)), ("i32", i32(3, 3, -3, -3)),
             result=("i32", out))  # fmt: skip
    assert out.tolist() == expected


def test_remainder_has_the_sign_of_the_dividend(evaluate):
    out = i32(0, 0, 0, 0)
    evaluate("%r = remi %a, %b signed : tile<4xi32>", ("i32", i32(7, 7, -7, -7)), ("i32", i32(3, -3, 3, -3)),
             result=("i32", out))  # fmt: skip
    assert out.tolist() == [1, 1, -1, -1]


def test_unsigned_division_of_64_bit_numbers(evaluate):
    out = np.zeros(2, np.int64)
    evaluate("%r = divi %a, %b unsigned : tile<2xi64>", ("i64", np.array([-1, -8], np.int64)),
             ("i64", np.array([2, -8], np.int64)), result=("i64", out))  # fmt: skip
    assert out.tolist() == [2**63 - 1, 1]


def test_division_by_zero_is_recognisably_undefined(evaluate):
    out = i32(0, 0)
    evaluate("%r = divi %a, %b signed : tile<2xi32>", ("i32", i32(6, 6)), ("i32", i32(3, 0)), result=("i32", out))
    assert out.view(np.uint32).tolist() == [2, 0x32323232]


def test_overflow_wraps_unless_promised_not_to(evaluate):
    out = np.zeros(2, np.int8)
    a, b = np.array([127, 1], np.int8), np.array([1, 1], np.int8)
    evaluate("%r = addi %a, %b : tile<2xi8>", ("i8", a), ("i8", b), result=("i8", out))
    assert out.tolist() == [-128, 2]
    evaluate("%r = addi %a, %b overflow<no_signed_wrap> : tile<2xi8>", ("i8", a), ("i8", b), result=("i8", out))
    assert out.view(np.uint8).tolist() == [0xCD, 2]
    evaluate("%r = addi %a, %b overflow<no_unsigned_wrap> : tile<2xi8>", ("i8", a), ("i8", b), result=("i8", out))
    assert out.tolist() == [-128, 2]


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_high_half_of_unsigned_products(evaluate, width):
    generator = np.random.default_rng(width)
    a, b = generator.integers(0, 1 << width, (2, 16), dtype=np.uint64).astype(f"uint{width}")
    out = np.zeros(16, f"int{width}")
    element = f"i{width}"
    evaluate(f"%r = mulhii %a, %b : tile<16x{element}>", (element, a.view(out.dtype)), (element, b.view(out.dtype)),
             result=(element, out))  # fmt: skip
    assert out.view(a.dtype).tolist() == [int(x) * int(y) >> width for x, y in zip(a, b)]


def test_shifts_up_to_the_width(evaluate):
    a, amount = i32(-8, -8, -8, 5), i32(1, 31, 32, 40)
    expected = {"shri %a, %b signed": [-4, -1], "shri %a, %b unsigned": [0x7FFFFFFC, 1], "shli %a, %b": [-16, 0]}
    for text, values in expected.items():
        out = i32(9, 9, 9, 9)
        evaluate(f"%r = {text} : tile<4xi32>", ("i32", a), ("i32", amount), result=("i32", out))
        assert out[:2].tolist() == values
        assert out[2:].view(np.uint32).tolist() == [0xCDCDCDCD] * 2


def test_half_precision_is_rounded_once(evaluate):
    a, b = np.array([2048, 1], np.float16), np.array([1, 2.0**-11], np.float16)
    out = np.zeros(2, np.float16)
    evaluate("%r = addf %a, %b : tile<2xf16>", ("f16", a), ("f16", b), result=("f16", out))
    assert out.tolist() == [2048, 1]


def test_float_to_integer_truncates_and_marks_overflow(evaluate):
    out = i32(0, 0, 0, 0)
    evaluate("%r = ftoi %a signed : tile<4xf32> -> tile<4xi32>", ("f32", f32(-2.7, 2.7, 3e9, np.nan)),
             result=("i32", out))  # fmt: skip
    assert out[:2].tolist() == [-2, 2] and out[2:].view(np.uint32).tolist() == [0xCDCDCDCD] * 2


def test_large_integers_round_once_to_half_formats(evaluate):
    # Through f32 these would round twice: 2**62 + 2**54 + 1 is just above the tie between two bf16 numbers.
    values = np.array([2**62 + 2**54 + 1, 2**62 + 2**54], np.int64)
    out = np.zeros(2, ml_dtypes.bfloat16)
    evaluate("%r = itof %a signed : tile<2xi64> -> tile<2xbf16>", ("i64", values), result=("bf16", out))
    assert out.astype(np.float64).tolist() == [2.0**62 + 2.0**55, 2.0**62]


def test_narrow_floats_saturate(evaluate):
    out = np.zeros(4, ml_dtypes.float8_e4m3fn)
    evaluate("%r = ftof %a : tile<4xf32> -> tile<4xf8E4M3FN>", ("f32", f32(1.0625, 1.1875, 1000, -1000)),
             result=("f8E4M3FN", out))  # fmt: skip
    assert out.astype(F32).tolist() == [1, 1.25, 448, -448]


def test_bitcast_and_pack_keep_the_bits(evaluate):
    out = i32(0, 0)
    evaluate("%r = bitcast %a : tile<2xf32> -> tile<2xi32>", ("f32", f32(1, -0.0)), result=("i32", out))
    assert out.view(np.uint32).tolist() == [0x3F800000, 0x80000000]
    halves = np.zeros(4, np.int8)
    evaluate("%r = pack %a : tile<2xf16> -> tile<4xi8>", ("f16", np.array([1, 2], np.float16)), result=("i8", halves))
    assert halves.view(np.uint8).tolist() == [0x00, 0x3C, 0x00, 0x40]


@pytest.mark.parametrize(
    ("name", "reference"),
    [("exp", np.exp), ("exp2", np.exp2), ("log", np.log), ("log2", np.log2), ("sin", np.sin), ("cos", np.cos),
     ("tanh", np.tanh), ("sinh", np.sinh), ("cosh", np.cosh), ("tan", np.tan), ("rsqrt", lambda x: 1 / np.sqrt(x)),
     ("sqrt", np.sqrt), ("ceil", np.ceil), ("floor", np.floor), ("absf", np.abs), ("negf", np.negative)],
)  # fmt: skip
def test_functions_round_to_nearest(evaluate, name, reference):
    a = np.random.default_rng(1).uniform(0.1, 5, 64).astype(F32)
    out = np.zeros(64, F32)
    evaluate(f"%r = {name} %a : tile<64xf32>", ("f32", a), result=("f32", out))
    assert (out == reference(a.astype(np.float64)).astype(F32)).all()


def test_float_remainder_truncates(evaluate):
    out = f32(0, 0, 0, 0)
    evaluate("%r = remf %a, %b : tile<4xf32>", ("f32", f32(7, -7, 1, 3)), ("f32", f32(3, 3, 0, np.inf)),
             result=("f32", out))  # fmt: skip
    assert out[[0, 1, 3]].tolist() == [1, -1, 3] and np.isnan(out[2])
