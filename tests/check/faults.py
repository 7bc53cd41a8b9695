"""Faults to plant in PTX: one changed statement each, drawn by a seed among all of a kind."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

_STATEMENT = re.compile(r"^[ \t]+(?:@!?%p\d+[ \t]+)?(?P<code>[a-z][^;{}\n]*(?:\{[^;]*)?);", re.MULTILINE)
_ORDER = re.compile(
    r"bar\.|barrier\.|fence|mbarrier\.|cp\.async\.(?:bulk\.)?(?:commit|wait)|wgmma\.(?:fence|commit|wait)"
)
_NUMBER = re.compile(r"(?<![\w%.+$])\d+(?![\w.])")


class Fault(NamedTuple):
    """A changed text, and what was changed."""

    ptx: str
    kind: str
    line: str
    changed: str


def _deleted(code: str, draw: random.Random) -> str | None:
    return "" if _ORDER.match(code) else None


def _offset(code: str, draw: random.Random) -> str | None:
    """Another place in memory: the address of an access, or a number on the way to it."""
    if re.match(r"(?:ld|st)\.(?:global|shared)", code):
        return re.sub(r"\[(%\w+)(?:\+(\d+))?\]", lambda m: f"[{m[1]}+{int(m[2] or 0) + 4}]", code, count=1)
    return None


def _bound(code: str, draw: random.Random) -> str | None:
    for old, new in ((".lt.", ".le."), (".gt.", ".ge."), (".le.", ".lt."), (".ge.", ".gt.")):
        if code.startswith("setp") and old in code:
            return code.replace(old, new, 1)
    return None


def _rounding(code: str, draw: random.Random) -> str | None:
    match = re.match(r"(?:add|sub|mul|fma|div|sqrt|cvt)\.rn\.(?:f32|f16|bf16)", code)
    return code.replace(".rn.", ".rz.", 1) if match else None


def _number(code: str, draw: random.Random) -> str | None:
    """A constant of address arithmetic one larger; bits that `and` keeps may be known to be zero."""
    if not re.match(r"(?:add|shl|or|mad|mul)\.[a-z.]*[us b](?:32|64)\b", code):
        return None
    found = list(_NUMBER.finditer(code))
    if not found:
        return None
    match = found[-1]
    return f"{code[: match.start()]}{int(match.group()) + 1}{code[match.end() :]}"


KINDS: dict[str, Callable[[str, random.Random], str | None]] = {
    "order deleted": _deleted, "offset": _offset, "mask bound": _bound, "rounding": _rounding, "number": _number,
}  # fmt: skip


def faults(ptx: str, kind: str) -> list[Fault]:
    """All faults of a kind in a text."""
    found = []
    draw = random.Random(0)
    for match in _STATEMENT.finditer(ptx):
        code = match["code"]
        changed = KINDS[kind](code, draw)
        if changed is None or changed == code:
            continue
        start, end = match.span("code")
        # A statement without its code is none, guard and semicolon included.
        text = ptx[: match.start()] + ptx[match.end() :] if not changed else ptx[:start] + changed + ptx[end:]
        found.append(Fault(text, kind, match.group().strip(), changed))
    return found

