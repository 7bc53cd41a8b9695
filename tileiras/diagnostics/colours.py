"""Diagnostics in colour: the severity, its message, and the caret, as clang and rustc show them.

Only on a terminal, and not where NO_COLOR is set (to anything but nothing) or TERM is `dumb`.
"""

from __future__ import annotations

import os
import re
from typing import TextIO

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_SEVERITIES = {"error": "\x1b[1;31m", "warning": "\x1b[1;35m", "remark": "\x1b[1;34m", "note": "\x1b[1;36m"}
_CARET = "\x1b[1;32m"

_PREFIX = r"(?:[^\s].*?:\d+(?::\d+)?|loc\(.*?\)|[\w.-]+): "
"""A place, or a program's name."""
_HEADLINE = re.compile(rf"^({_PREFIX})?({'|'.join(_SEVERITIES)}): (.*)$")


def is_enabled(stream: TextIO) -> bool:
    """Whether `stream` shows colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def for_stream(text: str, stream: TextIO) -> str:
    """The text of diagnostics as `stream` shows it."""
    return painted(text) if is_enabled(stream) else text


def painted(text: str) -> str:
    """The text of diagnostics with escape sequences; without these it is the same."""
    return "\n".join(map(_paint, text.split("\n")))


def _paint(line: str) -> str:
    if line.strip() == "^":
        return line.replace("^", f"{_CARET}^{_PLAIN}")
    match = _HEADLINE.match(line)
    if match is None:
        return line
    place, severity, message = match.groups()
    head = f"{_BOLD}{place}{_PLAIN}" if place else ""
    return f"{head}{_SEVERITIES[severity]}{severity}: {_PLAIN}{_BOLD}{message}{_PLAIN}"
