"""Reasons as text for terminals, YAML and IR: `agents.loads-stay variant=auto; agents.few-iterations iterations=2`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN = re.compile(r"[\w.+:*/$'@%-]+")
"""Values that are spelled without quotes."""

_WORD = re.compile(r'(?:^|; )([a-z]+\.[a-z0-9-]+)| (\w+)=("(?:[^"\\]|\\.)*"|[^ ;"]+)')


def spell(code: str, arguments: Mapping[str, int | str]) -> str:
    return " ".join((code, *(f"{name}={_quote(value)}" for name, value in arguments.items())))


def parse(spelled: str) -> list[Any]:
    """Codes with arguments, outermost first, as `Reason.restored` takes them; raises ValueError if malformed."""
    rows: list[Any] = []
    end = 0
    for match in _WORD.finditer(spelled):
        if match.start() != end:
            break
        end = match.end()
        code, name, value = match.groups()
        if code is not None:
            rows.append([code, {}])
        elif rows:
            rows[-1][1][name] = _value(value)
        else:
            break
    if not rows or end != len(spelled):
        raise ValueError(f"malformed reason: {spelled!r}")
    return rows


def _quote(value: int | str) -> str:
    # Digits alone would be parsed as a number.
    is_plain = isinstance(value, int) or _PLAIN.fullmatch(value) and not _is_number(value)
    return str(value) if is_plain else json.dumps(value)


def _value(spelled: str) -> int | str:
    if spelled.startswith('"'):
        return json.loads(spelled)
    return int(spelled) if _is_number(spelled) else spelled


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None
