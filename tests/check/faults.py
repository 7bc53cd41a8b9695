"""Faults to plant in PTX: one changed statement each, drawn by a seed among all of a kind."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_STATEMENT = re.compile(
    r"^[ \t]+(?:(?P<guard>@!?%p\d+)[ \t]+)?(?P<code>[a-z][^;{}\n]*(?:\{[^;]*)?);", re.MULTILINE
)
_ORDER = re.compile(
    r"bar\.|barrier\.|fence|mbarrier\.|cp\.async\.(?:bulk\.)?(?:commit|wait)|wgmma\.(?:fence|commit|wait)"
    r"|tcgen05\.(?:fence|commit|wait)"
)
_MEMORY = re.compile(r"(?:ld|st|red|atom|ldmatrix|stmatrix|cp|wgmma|mma|tcgen05)\.")
_NUMBER = re.compile(r"(?<![\w%.+$])\d+(?![\w.])")
_COUNTED = re.compile(
    r"mbarrier\.(?:init|arrive.*expect_tx|expect_tx)|cp\.async\.bulk\.(?!wait|commit)\w+(?!.*tensor)|cp\.async\.c[ag]"
)
_LESS = ((".lt.", ".le."), (".gt.", ".ge."), (".le.", ".lt."), (".ge.", ".gt."))


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
    for old, new in _LESS:
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
    return _replaced(code, found[-1], int(found[-1].group()) + 1)


def _replaced(code: str, match: re.Match, number: int) -> str:
    return f"{code[: match.start()]}{number}{code[match.end() :]}"


def _swizzle(code: str, draw: random.Random) -> str | None:
    """A bit of a place that is folded into another no longer is, or at another place."""
    found = list(_NUMBER.finditer(code)) if re.match(r"xor\.b(?:32|64)", code) else []
    if found:
        return _replaced(code, found[-1], int(found[-1].group()) ^ 16)
    return re.sub(r"^xor\.", "or.", code) if re.match(r"xor\.b32", code) else None


def _phase(code: str, draw: random.Random) -> str | None:
    """A wait for one phase of a barrier, whichever comes next."""
    if not re.match(r"mbarrier\.(?:try|test)_wait", code):
        return None
    head, comma, last = code.rpartition(",")
    return f"{head}{comma} {draw.randrange(2) if '%' in last else 1 - int(last) % 2}"


def _bytes(code: str, draw: random.Random) -> str | None:
    """Another count of bytes that a copy has or a barrier expects, or of arrivals."""
    found = list(_NUMBER.finditer(code))
    if not found or not _COUNTED.match(code):
        return None
    step = 1 if code.startswith("mbarrier.init") else 16 if "bulk" in code or "mbar" in code else -8
    return _replaced(code, found[-1], int(found[-1].group()) + step)


def _type(code: str, draw: random.Random) -> str | None:
    for old, new in ((".bf16.bf16", ".f16.f16"), (".f16.f16", ".bf16.bf16")):
        if old in code and "mma" in code:
            return code.replace(old, new, 1)
    if re.match(r"(?:ld|st)\.(?:global|shared)\.(?:b32|b16)\b", code):
        return code.replace(".b32", ".b16", 1) if ".b32" in code else code.replace(".b16", ".b8", 1)
    if re.match(r"(?:setp|min|max|shr|cvt|div|rem|mul\.wide|mad\.wide)\.", code):
        for old, new in ((".s32", ".u32"), (".u32", ".s32"), (".s64", ".u64")):
            if old in code:
                # The last of a conversion's types is its source's.
                return new.join(code.rsplit(old, 1))
    return None


KINDS: dict[str, Callable[[str, random.Random], str | None]] = {
    "order deleted": _deleted, "offset": _offset, "mask bound": _bound, "rounding": _rounding, "number": _number,
    "swizzle": _swizzle, "phase": _phase, "byte count": _bytes, "type": _type,
}  # fmt: skip
"""Changes of one statement, from its code alone."""


def faults(ptx: str, kind: str) -> list[Fault]:
    """All faults of a kind in a text."""
    return list(_WHOLE[kind](ptx)) if kind in _WHOLE else list(_changed(ptx, kind))


def _changed(ptx: str, kind: str) -> Iterator[Fault]:
    draw = random.Random(0)
    for match in _STATEMENT.finditer(ptx):
        code = match["code"]
        changed = KINDS[kind](code, draw)
        if changed is None or changed == code:
            continue
        start, end = match.span("code")
        # A statement without its code is none, guard and semicolon included.
        text = ptx[: match.start()] + ptx[match.end() :] if not changed else ptx[:start] + changed + ptx[end:]
        yield Fault(text, kind, match.group().strip(), changed)


def _moved(ptx: str) -> Iterator[Fault]:
    """A statement that orders comes after the next access of its basic block, or before the last one."""
    statements = list(_STATEMENT.finditer(ptx))
    for number, match in enumerate(statements):
        if not _ORDER.match(match["code"]):
            continue
        for step in (1, -1):
            other = _neighbour(ptx, statements, number, step)
            if other is None:
                continue
            whole = match.group()
            if step > 0:
                text = ptx[: match.start()] + ptx[match.end() : other.end()] + "\n" + whole + ptx[other.end() :]
            else:
                text = ptx[: other.start()] + whole + "\n" + ptx[other.start() : match.start()] + ptx[match.end() :]
            yield Fault(text, "order moved", whole.strip(), f"moved past {other.group().strip()}")


def _is_ordered(code: str, ptx: str) -> bool:
    """Loads of memory that no tile block writes for another are ordered by nothing."""
    if code.startswith("ld.global"):
        return bool(re.search(r"^\s+(?:@!?%p\d+\s+)?(?:atom|red|fence\.acq_rel)\.", ptx, re.MULTILINE))
    return bool(_MEMORY.match(code)) and not code.startswith("ld.param")


def _neighbour(ptx: str, statements: list[re.Match], number: int, step: int) -> re.Match | None:
    at = number + step
    while 0 <= at < len(statements):
        first, last = sorted((statements[at], statements[at - step]), key=re.Match.start)
        between = ptx[first.end() : last.start()]
        if re.search(r"^[$\w]+:", between, re.MULTILINE) or re.match(r"bra|ret|exit", statements[at]["code"]):
            return None
        if _is_ordered(statements[at]["code"], ptx):
            return statements[at]
        at += step
    return None


def _predicates(ptx: str) -> Iterator[Fault]:
    """A guard is negated."""
    for match in _STATEMENT.finditer(ptx):
        guard = match["guard"]
        if guard:
            start, end = match.span("guard")
            changed = guard.replace("@!", "@") if "!" in guard else guard.replace("@", "@!")
            yield Fault(ptx[:start] + changed + ptx[end:], "predicate", match.group().strip(), changed)


def _trips(ptx: str) -> Iterator[Fault]:
    """A loop ends a trip later or earlier: the comparison that its branch back is guarded by, or a step of it."""
    labels = {match[1]: match.start() for match in re.finditer(r"^(\$[\w$]+):", ptx, re.MULTILINE)}
    statements = list(_STATEMENT.finditer(ptx))
    for number, match in enumerate(statements):
        target = re.match(r"bra(?:\.uni)?\s+(\$\S+)", match["code"])
        if target is None or match["guard"] is None or labels.get(target[1], len(ptx)) > match.start():
            continue
        name = match["guard"].lstrip("@!")
        compare = next((s for s in statements[number::-1] if re.match(rf"setp\S+\s+{name}\b", s["code"])), None)
        code = compare["code"] if compare is not None else ""
        changed = _bound(code, random.Random(0))
        if changed is None and (numbers := list(_NUMBER.finditer(code))):
            changed = _replaced(code, numbers[-1], int(numbers[-1].group()) + 1)
        if compare is not None and changed is not None:
            start, end = compare.span("code")
            yield Fault(ptx[:start] + changed + ptx[end:], "trip count", compare.group().strip(), changed)


_WHOLE: dict[str, Callable[[str], Iterator[Fault]]] = {
    "order moved": _moved, "predicate": _predicates, "trip count": _trips,
}  # fmt: skip
"""Changes that need the statements around."""
ALL_KINDS = (*KINDS, *_WHOLE)
