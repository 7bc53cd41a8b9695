"""Element types in memory, the inputs of operations, and integer arithmetic of any width."""

from __future__ import annotations

import zlib

import ml_dtypes
import numpy as np

DTYPES = {
    "i1": np.dtype(np.bool_),
    **{f"i{width}": np.dtype(f"int{width}") for width in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    # 4-bit elements are not addressable: memory holds these types, and kernels convert them.
    "i4": np.dtype(np.int8),
    "f4E2M1FN": np.dtype(np.float32),
}
F4_VALUES = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
NARROW = ("f8E4M3FN", "f8E5M2")
_WIDTHS = {"i1": 1, "i4": 4, "f4E2M1FN": 4}


def width(element: str) -> int:
    return _WIDTHS.get(element) or 8 * DTYPES[element].itemsize


def is_integer(element: str) -> bool:
    return element[0] == "i"


# ---- integers of any width, as Python numbers ------------------------------------------------------------------------


def unsigned(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.bool_:
        return values.astype(np.int64).astype(object)
    return values.view(f"uint{8 * values.dtype.itemsize}").astype(object)


def signed(values: np.ndarray) -> np.ndarray:
    return -unsigned(values) if values.dtype == np.bool_ else values.astype(object)


def wrap(values: np.ndarray, element: str) -> np.ndarray:
    """The low bits of Python numbers, in the element's type."""
    if element == "i1":
        return (values % 2).astype(np.int64).astype(np.bool_)
    if element == "i4":
        return (((values + 8) % 16) - 8).astype(np.int64).astype(np.int8)
    bits = width(element)
    low = np.asarray(values, object) & ((1 << bits) - 1)
    return low.astype(np.uint64).astype(f"uint{bits}").view(DTYPES[element])


# ---- values ----------------------------------------------------------------------------------------------------------


def _corners(element: str) -> np.ndarray:
    if element == "i1":
        return np.array([False, True])
    dtype = DTYPES[element]
    if is_integer(element):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        return np.array([0, 1, -1, low, high], dtype)
    limits = ml_dtypes.finfo(dtype)
    values = [0.0, 1.0, np.nan, float(limits.smallest_subnormal), -float(limits.max)]
    if element != "f8E8M0FNU":
        values += [-0.0, float(limits.smallest_normal)]
    if element not in ("f8E4M3FN", "f8E8M0FNU"):
        values += [np.inf, -np.inf]
    return np.array(values).astype(dtype)


def _any(element: str, count: int, generator: np.random.Generator) -> np.ndarray:
    """Ordinary numbers of several magnitudes, and every special value of the format, in random order."""
    dtype = DTYPES[element]
    if element == "i1":
        return generator.integers(0, 2, count).astype(np.bool_)
    if element in ("i4", "f4E2M1FN"):
        return generator.choice(F4_VALUES if element[0] == "f" else np.arange(-8, 8, dtype=dtype), count)
    if is_integer(element):
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        values = generator.integers(low, high, count, dtype=np.int64, endpoint=True)
        values = np.where(generator.random(count) < 0.3, generator.integers(-9, 10, count), values).astype(dtype)
    else:
        scale = np.where(generator.random(count) < 0.2, 300.0, 4.0)
        values = scale * generator.standard_normal(count)
        values = (np.abs(values) if element == "f8E8M0FNU" else values).astype(dtype)
    corners = generator.permutation(_corners(element))
    values = np.where(generator.random(count) < 0.4, np.resize(corners, count), values).astype(dtype)
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(dtype) if element == "tf32" else values


def values(domain: str, element: str, shape: tuple[int, ...], seed: str) -> np.ndarray:
    """An array of `element`s; `domain` is one of those below, `seed` any text.

    any: the whole range.  digits: small integers, also as floats.  tiny: -1, 0, 1.  signs: -1, 1.
    positive, unit, angles: floats above 0, in [-1, 1], in [-100, 100].  divisors: not 0, not -1.
    shifts: below the width.  fits:TYPE, ufits:TYPE: floats whose integer part is representable.
    exponents: integers in [-9, 9].  halves: halfway between numbers of narrower formats, or nearly.
    normals: f32 from 2^-126 on.  scales: 1/8, 1/4, ... 8.
    """
    generator = np.random.default_rng(zlib.crc32(f"{seed} {domain} {element} {shape}".encode()))
    count, dtype = int(np.prod(shape)), DTYPES[element]
    domain, _, target = domain.partition(":")
    if domain == "any":
        flat = _any(element, count, generator)
    elif domain == "divisors":
        flat = _any(element, count, generator)
        flat = np.where((flat == 0) | (flat == -1), dtype.type(3), flat)
    elif domain == "shifts":
        flat = generator.integers(0, width(element), count)
    elif domain in ("digits", "tiny", "exponents"):
        bound = {"digits": 3, "tiny": 1, "exponents": 9}[domain]
        flat = generator.integers(-bound, bound + 1, count)
    elif domain == "signs":
        flat = generator.choice([-1, 1], count)
    elif domain == "positive":
        flat = np.exp2(generator.uniform(-9, 9, count))
    elif domain in ("unit", "angles"):
        bound = 1 if domain == "unit" else 100
        flat = generator.uniform(-bound, bound, count)
    elif domain == "halves" and is_integer(element):
        tops = generator.integers(24, width(element) - 1, count)
        halves = (1 << tops) + (1 << tops - generator.choice([8, 9, 11, 12, 24, 25], count).clip(max=tops - 1))
        flat = (halves + generator.integers(-1, 2, count)) * generator.choice([-1, 1], count)
    elif domain == "halves":
        digits = generator.choice([3, 4, 8, 11, 12], count)
        halves = 1 + generator.integers(0, 8, count) / 8 + np.exp2(-digits)
        flat = halves * generator.choice([-16, -1, 1, 2], count) * (1 + generator.integers(-1, 2, count) * 2.0**-40)
    elif domain == "normals":
        flat = np.exp2(generator.uniform(-126, 127.99, count)) * generator.choice([-1, 1], count)
    elif domain == "scales":
        flat = np.exp2(generator.integers(-3, 4, count))
    elif domain in ("fits", "ufits") and element == "f4E2M1FN":
        flat = generator.choice(F4_VALUES if domain == "fits" else F4_VALUES[:8], count)
    elif domain in ("fits", "ufits"):
        bits = min(width(target), 15 if element in ("f16", "bf16", *NARROW) else 62)
        top = 2.0 ** (bits - (domain == "fits")) * 0.9  # rounding to a significand of three bits must not overflow
        if element in NARROW:
            top = min(top, 200.0)
        flat = generator.uniform(-top if domain == "fits" else 0, top, count)
        flat[::2] = generator.uniform(-1 if domain == "fits" else 0, 1, len(flat[::2])) * min(top, 100)
    else:
        raise ValueError(domain)
    return flat.astype(dtype).reshape(shape)
