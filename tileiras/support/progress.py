"""Terminal progress line; no output if the stream is not a terminal.

    with Progress("compiling", total=len(kernels)) as progress:
        for kernel in kernels:
            progress.step(kernel)
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TextIO, TypeVar

Item = TypeVar("Item")

EVERY = 0.1
"""Minimum seconds between two updates of the line."""

_ERASE = "\r\x1b[K"


class Progress:
    """Progress of `total` steps, or of an unknown number.

    Draws on standard error if that is a terminal with escape sequences; the line is erased at the end.
    """

    def __init__(self, label: str, total: int | None = None, stream: TextIO | None = None) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._stream = sys.stderr if stream is None else stream
        self._shown = _is_terminal(self._stream)
        self._drawn: float | None = None
        """Time of the last update; None before the first, not 0: the monotonic clock may have started just now."""
        self._started = time.monotonic()

    def step(self, description: str = "") -> None:
        """Start the next step."""
        self._done += 1
        self.say(description)

    def say(self, description: str) -> None:
        """Update the description of the current step."""
        now = time.monotonic()
        if not self._shown or self._drawn is not None and now < self._drawn + EVERY:
            return
        self._drawn = now
        count = f"[{self._done}/{self._total}] " if self._total else ""
        text = f"{count}{self._label}{': ' if description else ''}{description}  {now - self._started:.0f} s"
        width = _width() - 1
        self._stream.write(_ERASE + text.replace("\n", " ")[:width])
        self._stream.flush()

    def close(self) -> None:
        """Erase the line."""
        if self._drawn is not None:
            self._stream.write(_ERASE)
            self._stream.flush()
        self._drawn = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def over(label: str, items: Sequence[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """Yield the items; a progress line names the current one."""
    with Progress(label, total=len(items)) as progress:
        for item in items:
            progress.step(name(item))
            yield item


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns
