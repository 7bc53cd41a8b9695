"""Matrix multiplications of NumPy on one thread.

Tiles are small: threads of BLAS cost more than they save, many times more where other processes use the cores, since
they wait for each other in a loop.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator

_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
"""OpenBLAS's functions in NumPy's wheels (64-bit and 32-bit integers), and as systems package it."""


@functools.cache
def _threads() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """OpenBLAS's functions that get and set the number of threads; None where NumPy has another BLAS."""
    try:
        from numpy._core import _multiarray_umath

        library = ctypes.CDLL(_multiarray_umath.__file__)
    except (ImportError, OSError):
        return None
    for name in _NAMES:
        with contextlib.suppress(AttributeError):
            return getattr(library, name.format("get_num_threads")), getattr(library, name.format("set_num_threads"))
    return None


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Products within the block use one thread; the number is restored afterwards."""
    functions = _threads()
    before = functions[0]() if functions is not None else 1
    if functions is None or before == 1:
        yield
        return
    functions[1](1)
    try:
        yield
    finally:
        functions[1](before)
