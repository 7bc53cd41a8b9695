"""Bits and text of floating-point constants."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.ir import bf16, f4E2M1FN, f8E4M3FN, f8E5M2, f8E8M0FNU, f16, f32, f64, tf32
from tileiras.ir.float_format import decode_float, encode_float, format_float, parse_decimal

# Texts as MLIR prints them.
TEXTS = [
    (f32, 0x3F800000, "1.000000e+00"),
    (f32, 0x3DCCCCCD, "1.000000e-01"),
    (f32, 0x40490FD0, "3.141590e+00"),
    (f32, 0x80000000, "-0.000000e+00"),
    (f32, 0x7F800000, "0x7F800000"),
    (f32, 0xFF800000, "0xFF800000"),
    (f32, 0x7FC00000, "0x7FC00000"),
    (f32, 0x4996B438, "0x4996B438"),  # 1234567: seven digits, and the natural form has no point
    (f32, 0x47C35040, "100000.5"),
    (f64, 0x4005BF0A8B145769, "2.7182818284590451"),
    (f64, 0xBFF6A09E667F3BCD, "-1.4142135623730951"),
    (f64, 0x7FF0000000000000, "0x7FF0000000000000"),
    (f16, 0x3E00, "1.500000e+00"),
    (f16, 0xC248, "-3.140630e+00"),  # -3.140625, rounded half up to six digits
    (bf16, 0x3DCD, "1.000980e-01"),
    (f8E4M3FN, 0x7E, "4.480000e+02"),
    (f8E5M2, 0x7C, "0x7C"),
    (f8E8M0FNU, 0x80, "2.000000e+00"),
    (f8E8M0FNU, 0xFF, "0xFF"),
    (f4E2M1FN, 0x1, "5.000000e-01"),
]


@pytest.mark.parametrize(("type", "bits", "text"), TEXTS)
def test_text_is_mlirs(type, bits, text):
    assert format_float(bits, type) == text


@pytest.mark.parametrize(("type", "bits", "text"), TEXTS)
def test_text_reads_back(type, bits, text):
    read = int(text, 16) if text.startswith("0x") else parse_decimal(text, type)
    assert read == bits


@pytest.mark.parametrize("type", [f16, bf16, f8E4M3FN, f8E5M2, f8E8M0FNU, f4E2M1FN], ids=lambda t: t.keyword)
def test_every_pattern_of_a_small_format_survives_text_and_value(type):
    width = {"f4E2M1FN": 4, "f16": 16, "bf16": 16}.get(type.keyword, 8)
    for bits in range(0, 1 << width, 7 if width == 16 else 1):
        value = decode_float(bits, type)
        if value != value:
            continue
        assert encode_float(value, type) == bits
        text = format_float(bits, type)
        assert (int(text, 16) if text.startswith("0x") else parse_decimal(text, type)) == bits


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False))
def test_f32_encodes_as_the_machine_does(value):
    assert encode_float(value, f32) == struct.unpack("<I", struct.pack("<f", value))[0]


@settings(deadline=None)
@given(st.floats(width=16, allow_nan=False))
def test_f16_decodes_as_the_machine_does(value):
    bits = struct.unpack("<H", struct.pack("<e", value))[0]
    assert decode_float(bits, f16) == value
    assert encode_float(value, f16) == bits


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_f64_text_reads_back(value):
    text = format_float(encode_float(value, f64), f64)
    bits = int(text, 16) if text.startswith("0x") else parse_decimal(text, f64)
    assert bits == encode_float(value, f64)


@pytest.mark.parametrize(
    ("type", "value", "bits"),
    [
        (f16, 65520.0, 0x7C00),  # half way to the next power of two: infinity
        (f16, 65519.0, 0x7BFF),
        (f8E4M3FN, 464.0, 0x7E),  # ties to even, which is the largest finite value
        (f8E4M3FN, 480.0, 0x7F),  # no infinity: NaN
        (f4E2M1FN, 100.0, 0x7),  # neither infinity nor NaN: the largest value
        (f16, 2.0**-25, 0x0000),  # half of the smallest subnormal, ties to even
        (f16, 2.0**-25 * 1.0001, 0x0001),
        (bf16, 1.00390625, 0x3F80),  # half an ulp above 1
        (tf32, 1.0, 0x1FC00),
        (f8E8M0FNU, 1.0, 0x7F),
    ],
)
def test_rounding_and_overflow(type, value, bits):
    assert encode_float(value, type) == bits
