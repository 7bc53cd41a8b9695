"""The calibrating and the judging half of published ladders, fixed by their names before any constant is fitted."""

from __future__ import annotations

_PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MASK = (1 << 64) - 1


def calibrates(ladder: str) -> bool:
    """Whether constants may be set by a ladder; the others judge them."""
    return xxh64(ladder.encode()) % 2 == 0


def xxh64(data: bytes, seed: int = 0) -> int:
    """XXH64 (xxHash specification 0.1.1)."""
    one, two, three, four, five = _PRIMES
    at, end = 0, len(data)
    if end >= 32:
        lanes = [seed + one + two, seed + two, seed, seed - one]
        while at + 32 <= end:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane] & _MASK, _word(data, at + 8 * lane, 8))
            at += 32
        result = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & _MASK
        for lane in lanes:
            result = ((result ^ _round(0, lane)) * one + four) & _MASK
    else:
        result = (seed + five) & _MASK
    result = (result + end) & _MASK
    while at + 8 <= end:
        result = (_rotated(result ^ _round(0, _word(data, at, 8)), 27) * one + four) & _MASK
        at += 8
    if at + 4 <= end:
        result = (_rotated(result ^ _word(data, at, 4) * one & _MASK, 23) * two + three) & _MASK
        at += 4
    for byte in data[at:]:
        result = _rotated(result ^ byte * five & _MASK, 11) * one & _MASK
    result = (result ^ result >> 33) * two & _MASK
    result = (result ^ result >> 29) * three & _MASK
    return result ^ result >> 32


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK
