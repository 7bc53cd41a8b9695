"""Caches of files and environment variables that are cleared between commands.

A command is a process of its own, or one of several requests that a child of the compile service answers in turn
(`service.worker`).  Between two commands, files and environment variables may change, so each such cache registers a
function here that clears it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

_forgetting: list[Callable[[], object]] = []


class _Cache(Protocol):
    def cache_clear(self) -> None: ...


_Cached = TypeVar("_Cached", bound=_Cache)


def remembered(cache: _Cached) -> _Cached:
    """Decorator: clear a `functools` cache between commands."""
    _forgetting.append(cache.cache_clear)
    return cache


def forgotten_by(forget: Callable[[], object]) -> None:
    """Register `forget`, to be called between two commands; it must not raise."""
    _forgetting.append(forget)


def forget() -> None:
    """Clear all caches after a command."""
    for each in _forgetting:
        each()
