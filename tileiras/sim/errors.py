"""Base class of the errors of a simulated kernel; imports no simulator, so that a handler need not load one."""

from __future__ import annotations

import operator
from collections.abc import Sequence


class SimulationError(Exception):
    """A simulation that cannot start or continue: arguments that do not fit, an invalid access, a broken rule."""


class ArgumentMismatch(SimulationError, TypeError, ValueError):
    """Entry, grid or arguments of a run do not fit the kernel."""


def sizes_of(grid: int | Sequence[int]) -> tuple[int, ...]:
    """The sizes of a grid, given as one number or a sequence; empty for any other value."""
    try:
        return tuple(map(operator.index, grid)) if hasattr(grid, "__iter__") else (operator.index(grid),)
    except TypeError:
        return ()
