"""Facts of a launch that select a variant of a kernel in NAME.json.

    p1 128 ceildiv grid below 512 div 8 mul sub 8 min positive

Postfix notation: `pN` is parameter N, `grid` the number of blocks along x, `below` any number from 0 to its operand
minus one. Numbers are intervals. A fact does not hold if a number may exceed 32 bits, a divisor may not be positive, or
a dividend may be negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def hold(facts: Sequence[str], grid: int, parameters: Sequence[Mapping[str, Any]], args: Sequence[Any] | None) -> bool:
    """Whether all facts hold; a fact about an argument does not hold if the arguments are unknown."""
    return all(_holds(fact.split(), grid, parameters, args) for fact in facts)


def _holds(words: list[str], grid: int, parameters: Sequence[Mapping[str, Any]], args: Sequence[Any] | None) -> bool:
    stack: list[range] = []  # from the least to the largest number, which is its last element
    for word in words[:-1]:
        if word == "below":
            result = 0, stack.pop()[-1] - 1
        elif word == "grid":
            result = grid, grid
        elif word[0] == "p":
            number = None if args is None else _integer(args[int(word[1:])], parameters[int(word[1:])]["size"])
            if number is None:
                return False
            result = number, number
        elif word.lstrip("-").isdigit():
            result = int(word), int(word)
        else:
            other = stack.pop()
            ends = _ends(word, stack.pop(), other)
            if not ends:
                return False
            result = min(ends), max(ends)
        if result[0] > result[1] or result[0] < -(2**31) or result[1] >= 2**31:
            return False
        stack.append(range(result[0], result[1] + 1))
    (top,) = stack
    if words[-1] == "even":
        return len(top) == 1 and top[0] % 2 == 0
    return words[-1] == "positive" and top[0] > 0


def _ends(word: str, one: range, other: range) -> list[int]:
    """Bounds of a word's result, from the bounds of two numbers; empty if it is undefined."""
    if word in ("div", "ceildiv") and (one[0] < 0 or other[0] <= 0):
        return []
    entry = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "div": lambda a, b: a // b, "ceildiv": lambda a, b: (a + b - 1) // b, "min": min, "max": max,
    }.get(word)  # fmt: skip
    return [] if entry is None else [entry(a, b) for a in (one[0], one[-1]) for b in (other[0], other[-1])]


def _integer(value: Any, size: int) -> int | None:
    """An argument as a signed number of `size` bytes; None if it is not an integer."""
    if isinstance(value, bytes | bytearray):
        return int.from_bytes(value, "little", signed=True)
    if not isinstance(value, int | np.integer):
        return None
    half = 1 << 8 * size - 1
    return (int(value) + half) % (2 * half) - half
