"""Arguments of launches whose effects are discarded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


def roots(arguments: Sequence[Any]) -> list[np.ndarray]:
    """Distinct writable arrays that the arguments are views of."""
    result: dict[int, np.ndarray] = {}
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            while isinstance(argument.base, np.ndarray):
                argument = argument.base
            if argument.flags.writeable:
                result[id(argument)] = argument
    return list(result.values())


@contextmanager
def preserved(arguments: Sequence[Any]) -> Iterator[None]:
    """Undo changes of the arrays at the end of the block."""
    arrays = roots(arguments)
    before = [array.copy() for array in arrays]
    try:
        yield
    finally:
        for array, content in zip(arrays, before):
            array[...] = content
