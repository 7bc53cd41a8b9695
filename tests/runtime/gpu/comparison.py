"""Allowed and actual difference between the results of a GPU and of the emulator.

The emulator gives the nearest number for an approximate instruction and rounds a matrix product once; the hardware's
last bits are its own.  The allowed difference follows from the instructions of the PTX that ran:

instruction                      | allowed difference
`.approx`, `.full`               | `ULPS` units in the last place, of the value or of a 256th of the array's largest
`tanh.approx`                    | 2^-10 of either in f32, 2^-7 in f16 and bf16 (PTX ISA, tanh: 2^-11 and 2^-8)
`mma` to f32, f16, f64           | 2^-16, 2^-7, 2^-44 of the array's largest: sums of any order, truncated on the way
`mma` of 8-bit floats, but sm_90 | 2^-9 of the largest: sums with few bits (sm_90's are products of f16 in its code)
`atom.add`, `red.add` of floats  | `ULPS` units in the last place of the array's largest: sums of any order

All of them add up.  A kernel without these instructions must give the same bits, integers and truth values always,
8-bit floats the same or a neighbour.
"""

from __future__ import annotations

import math
import re
import struct
from typing import NamedTuple

ULPS = 32

# Bits of the fraction, for a unit in the last place.
FRACTION = {"f16": 10, "bf16": 7, "tf32": 10, "f32": 23, "f64": 52}
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
LETTERS = {"f16": "e", "f32": "f", "tf32": "f", "f64": "d"}
SMALLEST_EXPONENT = {"f16": -14, "f64": -1022}

_APPROXIMATE = re.compile(r"\.approx|\.full\.")
_TANH = re.compile(r"\btanh\.approx\S*\.(f32|f16|bf16)")
_MMA = re.compile(r"\bmma\.sync\S*\.(f32|f16|f64)\.(\w+)\.\w+\.(?:f32|f16|f64)\b")
_NARROW_MMA = ("e4m3", "e5m2", "e2m1", "e3m2", "e2m3")
_SUM = re.compile(r"\b(?:atom|red)\.[\w.:]*add[\w.:]*f(?:16|32|64)")

_OF_TANH = {"f32": 2.0**-10, "f16": 2.0**-7, "bf16": 2.0**-7}
_OF_MMA = {"f32": 2.0**-16, "f16": 2.0**-7, "f64": 2.0**-44}
_OF_NARROW_MMA = 2.0**-9


class Tolerance(NamedTuple):
    """``ulps`` and ``relative`` are of the value or a 256th of the largest, ``largest_ulps`` and ``share`` of the
    largest."""

    ulps: float = 0.0
    relative: float = 0.0
    largest_ulps: float = 0.0
    share: float = 0.0

    @property
    def exact(self) -> bool:
        return not any(self)


def tolerance(ptx: str, device: int) -> Tolerance:
    """For a kernel on a device of this compute capability, as 90."""
    products = set(_MMA.findall(ptx))
    share = max((_OF_MMA[result] for result, _ in products), default=0.0)
    if device != 90 and any(factor in _NARROW_MMA for _, factor in products):
        share = max(share, _OF_NARROW_MMA)
    return Tolerance(
        ULPS if products or _APPROXIMATE.search(ptx) else 0.0,
        max((_OF_TANH[name] for name in _TANH.findall(ptx)), default=0.0),
        ULPS if _SUM.search(ptx) else 0.0,
        share,
    )


def floats(data: bytes, element: str) -> list[float]:
    """The numbers in memory."""
    data = data[: len(data) // SIZES[element] * SIZES[element]]
    if element == "bf16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        data, element = struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves)), "f32"
    return list(struct.unpack(f"<{len(data) // SIZES[element]}{LETTERS[element]}", data))


def _unit(value: float, element: str) -> float:
    """The unit in the last place of a magnitude."""
    exponent = math.frexp(value)[1] - 1 if value else -math.inf
    return math.ldexp(1.0, max(exponent, SMALLEST_EXPONENT.get(element, -126)) - FRACTION[element])


def _first_difference(got: bytes, want: bytes, size: int) -> str:
    first = next(n for n in range(len(want)) if got[n] != want[n]) // size
    at = slice(first * size, (first + 1) * size)
    return f"element {first}: got {got[at].hex()}, expected {want[at].hex()} (bytes)"


def _neighbours(a: int, b: int) -> bool:
    """Whether 8-bit floats are the same or next to each other: sign and magnitude on one line."""
    line = [-(code & 127) if code & 128 else code for code in (a, b)]
    return abs(line[0] - line[1]) <= 1


def merged(got: bytes, want: bytes, undefined: bytes) -> bytes:
    """The result, with the expected bytes where ``undefined`` has ones: any value is allowed there."""
    a, b, mask = (int.from_bytes(data, "little") for data in (got, want, undefined))
    return (a ^ (a ^ b) & mask).to_bytes(len(got), "little")


def distance(got: bytes, want: bytes, element: str, allowed: Tolerance) -> tuple[float, str]:
    """The worst difference as a multiple of the allowed one, and its place; infinite if no difference is allowed."""
    if got == want:
        return 0.0, ""
    if element not in FRACTION:
        if element.startswith("f8") and not allowed.exact and all(map(_neighbours, got, want)):
            return 1.0, ""
        return math.inf, _first_difference(got, want, SIZES.get(element, 1))
    mine, theirs = floats(got, element), floats(want, element)
    largest = max((abs(x) for x in theirs if math.isfinite(x)), default=0.0)
    everywhere = allowed.largest_ulps * _unit(largest, element) + allowed.share * largest
    worst, where = 0.0, ""
    for number, (a, b) in enumerate(zip(mine, theirs)):
        # NaNs with different bits compare equal; zeros of different sign do not.
        if a == b and (a or math.copysign(1.0, a) == math.copysign(1.0, b)) or a != a and b != b:
            continue
        place = f"element {number}: got {a!r}, expected {b!r}"
        if not (math.isfinite(a) and math.isfinite(b)):
            return math.inf, place
        scale = max(abs(b), largest / 256)
        room = allowed.ulps * _unit(scale, element) + allowed.relative * scale + everywhere
        apart = abs(a - b) / room if room else math.inf
        if a == b and not allowed.exact:
            apart = 0.0
        if apart > worst:
            worst, where = apart, place
    return worst, where
