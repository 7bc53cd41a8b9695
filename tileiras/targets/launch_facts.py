"""Preconditions on a launch under which a kernel is correct: the language of `where` in NAME.json.

    p1 128 ceildiv even                                          the number of tiles of 128 in parameter 1 is even
    p1 128 ceildiv grid below 512 div 8 mul sub 8 min positive   every tile block has a row of tiles in its group

A fact is an expression in postfix notation, and its last word is a predicate of the result.  `pN` is the value of
parameter N, counted without the hidden ones, `grid` the number of tile blocks along x; `below` is any number from 0 to
one less than its operand, and the predicate has to hold for all of them.  Launchers evaluate facts over intervals.  A
fact does not hold where a number may exceed 32 bits, in which a kernel's own numbers would wrap, where a divisor may
not be positive, or where a dividend may be negative: a launcher that cannot prove it launches the kernel that is right
under every launch.
"""

from __future__ import annotations

import re

OPERATIONS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "ceildiv": 2, "min": 2, "max": 2, "below": 1}
"""Word -> the number of its operands; each has one result.  `div` rounds down, `ceildiv` up."""

PREDICATES = ("even", "positive")

GRID = "grid"

MOST_WORDS = 64
"""Limit on the words of a fact, since each launch evaluates it."""

MOST_NUMBERS = 16
"""Limit on the depth of a launcher's stack."""

_NUMBER, _PARAMETER = re.compile(r"-?\d{1,18}"), re.compile(r"p(\d{1,4})")


def fact_error(fact: str, parameters: int) -> str:
    """The error in a fact about a launch of a kernel with that number of parameters; empty if it is valid."""
    *words, predicate = fact.split() or [""]
    if predicate not in PREDICATES:
        return f"ends in '{predicate}', and expects {' or '.join(PREDICATES)}"
    if len(words) >= MOST_WORDS:
        return f"has more than {MOST_WORDS} words"
    waiting = 0
    for word in words:
        parameter = _PARAMETER.fullmatch(word)
        if parameter is not None and int(parameter.group(1)) >= parameters:
            return f"names parameter {parameter.group(1)} of {parameters}"
        if parameter is None and word not in OPERATIONS and word != GRID and _NUMBER.fullmatch(word) is None:
            return f"has the word '{word}', which says nothing"
        arity = OPERATIONS.get(word, 0)
        if arity > waiting:
            return f"has too few numbers before '{word}'"
        waiting += 1 - arity
        if waiting > MOST_NUMBERS:
            return f"has more than {MOST_NUMBERS} numbers waiting for their operations"
    return "" if waiting == 1 else f"leaves {waiting} numbers, and expects one"
