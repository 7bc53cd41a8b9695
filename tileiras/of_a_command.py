"""Caches of files and environment variables that are cleared between commands.

A command is a process of its own, or a request that a child of the compile service answers behind another
(`server.worker`).  Between two of these a user may install, edit or set something else, so each such cache registers
here how it is cleared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

_forgetting: list[Callable[[], object]] = []


class _Cache(Protocol):
    def cache_clear(self) -> None: ...


_Cached = TypeVar("_Cached", bound=_Cache)


def remembered(cache: _Cached) -> _Cached:
    """A function with a cache (`functools`) that lasts as long as a command."""
    _forgetting.append(cache.cache_clear)
    return cache


def forgotten_by(forget: Callable[[], object]) -> None:
    """Register `forget`, to be called between two commands; it must not raise."""
    _forgetting.append(forget)


def forget() -> None:
    """Clear all caches after a command."""
    for each in _forgetting:
        each()
