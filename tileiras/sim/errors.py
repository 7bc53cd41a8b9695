"""The base of everything that a simulated kernel can do wrong; imports no simulator, so that it can be caught."""

from __future__ import annotations

import operator
from collections.abc import Sequence


class SimulationError(Exception):
    """A run that cannot start or go on: arguments that do not fit, an invalid access, a broken rule."""


class ArgumentMismatch(SimulationError, TypeError, ValueError):
    """Entry, grid or arguments of a run do not fit the kernel."""


def sizes_of(given: int | Sequence[int]) -> tuple[int, ...]:
    """One number or a sequence of them, as they give a grid; empty for what is neither."""
    try:
        return tuple(map(operator.index, given)) if hasattr(given, "__iter__") else (operator.index(given),)
    except TypeError:
        return ()
