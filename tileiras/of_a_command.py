"""What a process finds out of files and environment variables once for a command, and asks again for the next one.

A command is a process of its own, or a request that a child of the compile service answers behind another
(`server.worker`).  Between two of these a user may install, edit or set something else, so each such cache says here
how it is forgotten.
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
    """Has `forget` be called when a command has ended and another one is to come; raises nothing."""
    _forgetting.append(forget)


def forget() -> None:
    """A command has ended."""
    for each in _forgetting:
        each()
