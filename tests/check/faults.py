"""Faults to plant in PTX: one changed statement each, drawn by a seed among all of a kind."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_STATEMENT = re.compile(
    r"^[ \t]+(?:(?P<guard>@!?%p\d+)[ \t]+)?(?P<code>[a-z][^;{}\n]*(?:\n?[ \t]*\{[^;]*)?);", re.MULTILINE
)
ORDERS = re.compile(
    r"bar\.|barrier\.|fence|mbarrier\.|cp\.async\.(?:bulk\.)?(?:commit|wait|mbarrier)|wgmma\.(?:fence|commit|wait)"
    r"|tcgen05\.(?:fence|commit|wait)|tensormap\.cp_fenceproxy"
)
"""Statements that order others."""
_MEMORY = re.compile(r"(?:ld|st|red|atom|ldmatrix|stmatrix|cp|wgmma|tcgen05)\.")
_NUMBER = re.compile(r"(?<![\w%.+$])\d+(?![\w.])")
_COUNTED = re.compile(
    r"mbarrier\.(?:init|arrive.*expect_tx|expect_tx)|cp\.async\.bulk\.(?!wait|commit|tensor)|cp\.async\.c[ag]"
)
_REGISTER = "%fault"
"""A register of the changed text for an operand that it computes."""
_LESS = ((".lt.", ".le."), (".gt.", ".ge."), (".le.", ".lt."), (".ge.", ".gt."))


class Fault(NamedTuple):
    """A changed text, and the change."""

    ptx: str
    kind: str
    line: str
    changed: str


def _deleted(code: str, draw: random.Random) -> str | None:
    return "" if ORDERS.match(code) else None


_STEPS = (
    (r"ldmatrix|stmatrix|cp\.async", 16), (r"mbarrier\.(?:init|inval)", 8), (r"tcgen05\.ld", 1),
    (r"(?:ld|st)\.(?:global|shared|local|acquire|release)|atom\.|red\.", 4),
)  # fmt: skip
"""Statements with an address, and the distance to another place that they may access."""


def _offset(code: str, draw: random.Random) -> str | None:
    """Another place: one of the addresses of an access, or a coordinate of the box that a copy takes."""
    step = next((step for head, step in _STEPS if re.match(head, code)), None)
    places = list(re.finditer(r"\[(%?\w+)(?:\+(\d+))?\]", code)) if step is not None else []
    if code.startswith("cp.async.bulk.tensor") and draw.randrange(2):
        coordinates = re.search(r"\[%\w+, \{([^}]*)\}", code)
        if coordinates is None:
            return None
        names = list(re.finditer(r"%r\d+", coordinates[1]))
        if not names:
            return None
        name, start = draw.choice(names), coordinates.start(1)
        changed = f"{code[: start + name.start()]}{_REGISTER}{code[start + name.end() :]}"
        return f"add.u32 {_REGISTER}, {name.group()}, 1; {changed}"
    if not places:
        return None
    place = draw.choice(places)
    return f"{code[: place.start()]}[{place[1]}+{int(place[2] or 0) + step}]{code[place.end() :]}"


def _bound(code: str, draw: random.Random) -> str | None:
    for old, new in _LESS:
        if code.startswith("setp") and old in code:
            return code.replace(old, new, 1)
    return None


def _rounding(code: str, draw: random.Random) -> str | None:
    if re.match(r"(?:div|sqrt|rcp)\.rn\.(?:ftz\.)?f32", code) and draw.randrange(2):
        return code.replace(".rn.", ".approx.", 1)
    match = re.match(r"(?:add|sub|mul|fma|div|sqrt|cvt)\.rn\.(?:f32|f16|bf16)", code)
    return code.replace(".rn.", ".rz.", 1) if match else None


def _number(code: str, draw: random.Random) -> str | None:
    """A constant of address arithmetic one larger; bits that `and` keeps may be known to be zero."""
    if not re.match(r"(?:add|sub|shl|or|mad|mul|min|max|selp)\.[a-z.]*[usb](?:32|64)\b", code):
        return None
    result = list(_NUMBER.finditer(code))
    return _replaced(code, result[-1], int(result[-1].group()) + 1) if result else None


def _replaced(code: str, match: re.Match, number: int) -> str:
    return f"{code[: match.start()]}{number}{code[match.end() :]}"


def _swizzle(code: str, draw: random.Random) -> str | None:
    """A bit of a place that is folded into another no longer is, or at another place."""
    matches = list(_NUMBER.finditer(code)) if re.match(r"xor\.b(?:32|64)", code) else []
    if matches:
        return _replaced(code, matches[-1], int(matches[-1].group()) ^ 16)
    return re.sub(r"^xor\.", "or.", code) if re.match(r"xor\.b32", code) else None


def _phase(code: str, draw: random.Random) -> str | None:
    """A wait for the other phase of a barrier each time, or for one and the same phase."""
    if not re.match(r"mbarrier\.(?:try|test)_wait", code):
        return None
    head, _, last = code.rpartition(", ")
    if "%" not in last:
        return f"{head}, {1 - int(last) % 2}"
    other = draw.randrange(3)
    return f"{head}, {other}" if other < 2 else f"xor.b32 {_REGISTER}, {last}, 1; {head}, {_REGISTER}"


def _bytes(code: str, draw: random.Random) -> str | None:
    """Another count of bytes that a copy has or a barrier expects."""
    if not _COUNTED.match(code) or code.startswith("mbarrier.init"):
        return None
    is_copy = code.startswith("cp.async.c")
    operands = list(re.finditer(r"(?<=, )(?:%r\d+|\d+)(?=,|$)", code))
    if not operands:
        return None
    operand = operands[-1] if is_copy or "mbarrier.arrive" in code else operands[0]
    if operand.group().isdigit():
        return _replaced(code, operand, int(operand.group()) + (-8 if is_copy else 16))
    changed = f"{code[: operand.start()]}{_REGISTER}{code[operand.end() :]}"
    if is_copy:
        return f"shr.u32 {_REGISTER}, {operand.group()}, 1; {changed}"
    return f"add.u32 {_REGISTER}, {operand.group()}, {draw.choice((16, -16))}; {changed}"


def _arrivals(code: str, draw: random.Random) -> str | None:
    """A barrier expects an arrival more or less, or copies of cp.async count as arrivals that it does not expect."""
    if code.startswith("cp.async.mbarrier.arrive.noinc"):
        return code.replace(".noinc", "", 1)
    if not code.startswith("mbarrier.init"):
        return None
    head, _, last = code.rpartition(", ")
    if last.isdigit():
        return f"{head}, {int(last) + 1}"
    return f"add.u32 {_REGISTER}, {last}, {draw.choice((1, -1))}; {head}, {_REGISTER}"


_SIGNS = tuple((f".{a}{bits}", f".{b}{bits}") for bits in (16, 32, 64) for a, b in ("su", "us"))


def _type(code: str, draw: random.Random) -> str | None:
    for old, new in ((".bf16.bf16", ".f16.f16"), (".f16.f16", ".bf16.bf16")):
        if old in code and "mma" in code:
            return code.replace(old, new, 1)
    if re.match(r"(?:ld|st)\.(?:global|shared)\.(?:b32|b16)\b", code):
        return code.replace(".b32", ".b16", 1) if ".b32" in code else code.replace(".b16", ".b8", 1)
    if re.match(r"(?:setp|min|max|shr|bfe|cvt|div|rem|mul\.wide|mad\.wide)\.", code):
        for old, new in _SIGNS:
            if old in code:
                # The last of a conversion's types is its source's.
                return new.join(code.rsplit(old, 1))
    if code.startswith("ld.global.b8"):
        return code.replace(".b8", ".s8", 1)  # extended by its sign
    return None


_SCOPE = re.compile(r"^[ \t]+\{ (?P<code>\.reg [^\n]*)\}$", re.MULTILINE)
"""Statements in a scope of their own, such as products with their descriptors."""
_WORDS = (
    (r"mov\.b32 h, (?P<number>\d+)", (1, 1 << 30)), (r"mov\.b32 i, (?P<number>\d+)", (1 << 7, 1 << 15, 1 << 17)),
    (r"add\.u32 w, %r\d+, (?P<number>\d+)", (1, 2)), (r"(?P<number>[01]), [01];", (1,)),
    (r"(?P<number>[01]);(?= add| \}| *$)", (1,)), (r"\[%r\d+\+(?P<number>\d+)\]", (1, 4)),
)  # fmt: skip
"""Numbers of a matrix descriptor (a stride, the swizzle), an instruction descriptor (types, transposition, shape), its
places and its transpositions, with the bits to flip."""


_MAPS = re.compile(r"tensormap\.replace\.tile\.(?P<field>\w+)\S*\s+\[%r\d+\](?:, \d+)?, (?P<value>%rd?\d+|\d+)$")


def _map_field(code: str, draw: random.Random) -> str | None:
    """Another value of a field of a tensor map."""
    match = _MAPS.match(code)
    if match is None or match["field"] == "rank":
        return None
    start, end = match.span("value")
    if match["value"].isdigit():
        return f"{code[:start]}{int(match['value']) ^ 1}"
    if match["value"].startswith("%rd"):
        return None
    return f"add.u32 {_REGISTER}, {match['value']}, {draw.choice((1, -1))}; {code[:start]}{_REGISTER}"


_WEAKER = (
    (r"^(atom\.)acq_rel", r"\1relaxed"), (r"^(atom\.)acq_rel", r"\1release"), (r"^(atom\.)acq_rel", r"\1acquire"),
    (r"^((?:ld|st|atom|red|mbarrier\.\w+(?:\.parity)?)\.)(?:acquire|release)", r"\1relaxed"),
    (r"^(mbarrier\.(?:arrive(?:\.expect_tx)?|try_wait\.parity))(\.shared)", r"\1.relaxed.cta\2"),
    (r"^(barrier\.cluster\.arrive)(?!\.relaxed)", r"\1.relaxed"),
    (r"((?:acquire|release|acq_rel|relaxed|sc)\.)(?:gpu|cluster|sys)", r"\1cta"),
    (r"^(fence\.proxy\.async)\.shared::cta", r"\1.global"), (r"^(cp\.async\.bulk\.wait_group) ", r"\1.read "),
    (r"^bar\.sync\s.*", "bar.warp.sync -1"), (r"^bar\.warp\.sync\s.*", "bar.warp.sync 65535"),
)  # fmt: skip
"""Forms that order less, in the place of those that order more."""


def _weakened(code: str, draw: random.Random) -> str | None:
    """Another order, scope or proxy, a barrier of fewer threads, or a wait that leaves a group more in flight."""
    if "wait_group" in code and draw.randrange(2):
        last = list(_NUMBER.finditer(code))[-1]
        return _replaced(code, last, int(last.group()) + 1)
    every = [re.sub(old, new, code, count=1) for old, new in _WEAKER if re.search(old, code)]
    # The fence for the initialisation of barriers has no other form.
    every = [each for each in every if not re.match(r"fence\.mbarrier_init", each)]
    return draw.choice(every) if every else None


KINDS: dict[str, Callable[[str, random.Random], str | None]] = {
    "order deleted": _deleted, "offset": _offset, "mask bound": _bound, "rounding": _rounding, "number": _number,
    "swizzle": _swizzle, "phase": _phase, "byte count": _bytes, "arrive count": _arrivals, "type": _type,
    "order weakened": _weakened, "map field": _map_field,
}  # fmt: skip
"""Changes of one statement, from its code alone."""


def faults(ptx: str, kind: str) -> list[Fault]:
    """All faults of a kind in a text."""
    every = list(_WHOLE[kind](ptx)) if kind in _WHOLE else list(_changed(ptx, kind))
    return every + list(_scoped_orders(ptx)) if kind == "order deleted" else every


def _changed(ptx: str, kind: str) -> Iterator[Fault]:
    draw = random.Random(0)
    for match in _STATEMENT.finditer(ptx):
        code = match["code"]
        changed = KINDS[kind](code, draw)
        if changed is None or changed == code:
            continue
        yield _with(ptx, match, kind, changed)


def _with(ptx: str, match: re.Match, kind: str, changed: str) -> Fault:
    """The fault of a statement whose code is `changed`, which may begin with one that computes an operand."""
    start, end = match.span("code")
    # A statement is deleted whole, with its guard and semicolon.
    before, _, changed = changed.rpartition("; ")
    text = ptx[: match.start()] + ptx[match.end() :] if not changed else ptx[:start] + changed + ptx[end:]
    if before:
        body = ptx.rindex("\n{\n", 0, start) + 3
        head = f"{ptx[:body]}\t.reg .b32 {_REGISTER};\n{ptx[body : match.start()]}"
        text = f"{head}\t{before};\n{text[match.start() :]}"
    return Fault(text, kind, match.group().strip(), f"{before} {changed}".strip())


def _moved(ptx: str) -> Iterator[Fault]:
    """A statement that orders comes after the next access of its basic block, or before the last one."""
    statements = list(_STATEMENT.finditer(ptx))
    for number, match in enumerate(statements):
        if not ORDERS.match(match["code"]):
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


_LOGIC = (
    (r"^and\.pred", "or.pred"), (r"^or\.pred", "and.pred"), (r"^not\.pred", "mov.pred"), (r"^setp\.eq\.", "setp.ne."),
    (r"^setp\.ne\.", "setp.eq."), (r"^vote\.sync\.all", "vote.sync.any"),
    (r"^(selp\.\w+\s+%\w+), ([^,]+), ([^,]+),", r"\1, \3, \2,"),
)  # fmt: skip


def _predicates(ptx: str) -> Iterator[Fault]:
    """A guard is negated, or a predicate is computed or used another way."""
    for match in _STATEMENT.finditer(ptx):
        start, end = match.span("code")
        for old, new in _LOGIC:
            changed = re.sub(old, new, match["code"])
            if changed != match["code"]:
                yield Fault(ptx[:start] + changed + ptx[end:], "predicate", match.group().strip(), changed)
        guard = match["guard"]
        if guard:
            start, end = match.span("guard")
            changed = guard.replace("@!", "@") if "!" in guard else guard.replace("@", "@!")
            yield Fault(ptx[:start] + changed + ptx[end:], "predicate", match.group().strip(), changed)


def _descriptors(ptx: str) -> Iterator[Fault]:
    """Another number in a scope with products: of a descriptor, a place or a transposition."""
    draw = random.Random(0)
    for match in _SCOPE.finditer(ptx):
        if "mma" not in match["code"] and "tcgen05.cp" not in match["code"]:
            continue
        for pattern, bits in _WORDS:
            every = list(re.finditer(pattern, match["code"]))
            for word in draw.sample(every, min(len(every), 2)):
                start, end = (match.start("code") + each for each in word.span("number"))
                number = int(word["number"]) ^ draw.choice(bits)
                yield Fault(f"{ptx[:start]}{number}{ptx[end:]}", "descriptor", word.group(), str(number))


def _scoped_orders(ptx: str) -> Iterator[Fault]:
    """A statement that orders is deleted in a scope, or behind another one of its line."""
    for match in re.finditer(r"(?<=; )(?P<code>[a-z][^;\n]*);", ptx):
        if ORDERS.match(match["code"]):
            yield Fault(ptx[: match.start()] + ptx[match.end() :], "order deleted", match.group(), "")


def _trips(ptx: str) -> Iterator[Fault]:
    """A loop ends a trip later or earlier: the comparison behind a branch with one way that stays in the loop."""
    statements, draw = list(_STATEMENT.finditer(ptx)), random.Random(0)
    for number, match in enumerate(statements):
        if match["guard"] is None or not match["code"].startswith("bra"):
            continue
        target = match["code"].split()[-1]
        ways = [_reached(ptx, ptx.find(f"\n{target}:")), _reached(ptx, match.end())]
        if ptx.find(f"\n{target}:") < 0 or sum(match.start() in way for way in ways) != 1:
            continue
        name = match["guard"].lstrip("@!")
        compare = next((s for s in statements[number::-1] if re.match(rf"setp\S+\s+{name}\b", s["code"])), None)
        code = compare["code"] if compare is not None else ""
        changed = _bound(code, draw)
        if changed is None and (numbers := list(_NUMBER.finditer(code))):
            changed = _replaced(code, numbers[-1], int(numbers[-1].group()) + 1)
        elif changed is None and (last := re.search(r"%r\d+$", code)):
            changed = f"add.u32 {_REGISTER}, {last.group()}, {draw.choice((1, -1))}; {code[: last.start()]}{_REGISTER}"
        if compare is not None and changed is not None:
            yield _with(ptx, compare, "trip count", changed)


def _reached(ptx: str, start: int) -> set[int]:
    """The branches that may be executed behind a place."""
    branches, labels = _flow(ptx)
    reached: set[int] = set()
    waiting, seen = [start], set()
    while waiting:
        at = waiting.pop()
        follows = next((each for each in branches if each[0] >= at), None)
        if follows is None or follows[0] in seen:
            continue
        seen.add(follows[0])
        reached.add(follows[0])
        place, end, target, falls = follows
        if target in labels:
            waiting.append(labels[target])
        if falls:
            waiting.append(end)
    return reached


@functools.lru_cache(maxsize=2)
def _flow(ptx: str) -> tuple[list[tuple[int, int, str, bool]], dict[str, int]]:
    """(start, end, label, whether it may fall through) of each branch, and the labels."""
    labels = {match[1]: match.start() for match in re.finditer(r"^(\$[\w$]+):", ptx, re.MULTILINE)}
    branches = [
        (match.start(), match.end(), [*match["code"].split(), ""][1], match["guard"] is not None)
        for match in _STATEMENT.finditer(ptx) if re.match(r"bra\b|ret\b|exit\b", match["code"])
    ]  # fmt: skip
    return branches, labels


_WHOLE: dict[str, Callable[[str], Iterator[Fault]]] = {
    "order moved": _moved, "predicate": _predicates, "trip count": _trips, "descriptor": _descriptors,
}  # fmt: skip
"""Changes that need the statements around."""
ALL_KINDS = (*KINDS, *_WHOLE)
