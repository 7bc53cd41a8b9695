"""Statements, basic blocks and reaching definitions of one entry's PTX."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

_STATEMENT = re.compile(
    r"^[ \t]*(?:(?P<label>\$[\w$]+):|(?:@(?P<guard>!?%p\d+)[ \t]+)?(?P<code>[a-z][^;\n]*(?:\{[^;]*)?);)"
    r"|^[ \t]*(?P<other>\{ .*\})",
    re.MULTILINE,
)
_NAME = re.compile(r"%(?:r[sd]?|p)\d+\b")
_NO_RESULT = re.compile(r"st\.|red\.|bra|ret|exit|bar|fence|cp\.|mbarrier\.(?!try|test)|prefetch|membar|trap|stmatrix")


GRID = {
    f"%{name}.{axis}": most - (not name.startswith("n"))
    for name in ("ctaid", "nctaid", "clusterid", "nclusterid")
    for axis, most in (("x", (1 << 31) - 1), ("y", 65535), ("z", 65535))
}
"""The largest values of special registers of a grid (PTX ISA, "Special Registers")."""


@dataclass(frozen=True)
class Statement:
    start: int
    """Its place in the text."""
    guard: str
    opcode: str
    operands: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def reads(self) -> list[str]:
        inputs = self.operands if not self.results else self.operands[1:]
        return _NAME.findall(" ".join((self.guard, *inputs)))


@dataclass
class Block:
    number: int
    statements: list[Statement] = field(default_factory=list)
    target: str = ""
    """The label of its branch."""
    guard: str = ""
    """The guard under which it goes there; without one it always does."""
    falls: bool = True
    next: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)


def split(text: str) -> list[str]:
    """Operands at the commas outside of brackets."""
    return [each.strip() for each in re.split(r",(?![^{\[]*[}\]])", text)]


class Flow:
    """The control flow of the entry that contains a place of a text."""

    def __init__(self, ptx: str, place: int) -> None:
        start = ptx.rfind("\n{\n", 0, place) + 3
        end = ptx.find("\n}\n", place)
        self.blocks = [Block(0)]
        labels: dict[str, int] = {}
        for match in _STATEMENT.finditer(ptx, start, end if end > 0 else len(ptx)):
            block = self.blocks[-1]
            if match["label"]:
                if block.statements or block.target:
                    block = self._begin()
                labels[match["label"]] = block.number
                continue
            statement = _statement(match)
            block.statements.append(statement)
            if statement.opcode.startswith(("bra", "ret", "exit")):
                block.target = statement.operands[-1] if statement.opcode.startswith("bra") else ""
                block.guard, block.falls = statement.guard, bool(statement.guard)
                self._begin()
        for block in self.blocks:
            block.next = [labels[block.target]] if block.target in labels else []
            if block.falls and block.number + 1 < len(self.blocks):
                block.next.append(block.number + 1)
            for number in block.next:
                self.blocks[number].before.append(block.number)

    def _begin(self) -> Block:
        self.blocks.append(Block(len(self.blocks)))
        return self.blocks[-1]

    def at(self, place: int) -> tuple[Block, Statement]:
        """The statement whose code is at a place.  Raises StopIteration."""
        return next((b, s) for b in self.blocks for s in b.statements if s.start == place)

    @cached_property
    def definitions(self) -> dict[str, list[tuple[Block, Statement]]]:
        every: dict[str, list[tuple[Block, Statement]]] = {}
        for block in self.blocks:
            for statement in block.statements:
                for name in statement.results:
                    every.setdefault(name, []).append((block, statement))
        return every

    @cached_property
    def dominators(self) -> list[set[int]]:
        """Of each block, those that every path to it passes."""
        everything = set(range(len(self.blocks)))
        result = [{0}] + [everything] * (len(self.blocks) - 1)
        changed = True
        while changed:
            changed = False
            for block in self.blocks[1:]:
                through = [result[each] for each in block.before]
                new = {block.number} | (set.intersection(*through) if through else set())
                changed |= new != result[block.number]
                result[block.number] = new
        return result

    @cached_property
    def _reaching(self) -> dict[str, list[frozenset[int]]]:
        """Of registers with several definitions, the places of those that reach the begin of each block."""
        result = {}
        for name, every in self.definitions.items():
            if len(every) < 2:
                continue
            last: dict[int, frozenset[int]] = {}
            for block, statement in every:
                entry = last.get(block.number, frozenset()) if statement.guard else frozenset()
                last[block.number] = entry | {statement.start}
            always = {block.number for block, statement in every if not statement.guard}
            begins = [frozenset[int]() for _ in self.blocks]
            changed = True
            while changed:
                changed = False
                for block in self.blocks:
                    ends = (
                        last.get(each, frozenset()) | (begins[each] if each not in always else frozenset())
                        for each in block.before
                    )
                    new = frozenset().union(*ends)
                    changed |= new != begins[block.number]
                    begins[block.number] = new
            result[name] = begins
        return result

    def reaching(self, name: str, block: Block, place: int) -> frozenset[int]:
        """The places of the definitions of a register that reach a place of a block."""
        every = self.definitions.get(name, [])
        own = [s for b, s in every if b is block and s.start < place]
        if own and not own[-1].guard:
            return frozenset({own[-1].start})
        begins = self._reaching[name][block.number] if name in self._reaching else frozenset(s.start for _, s in every)
        return begins | {each.start for each in own}

    def reachable(self, start: int, without: frozenset[int] = frozenset()) -> set[int]:
        """The blocks on paths from a block on, outside of `without`."""
        result, waiting = set(), [start]
        while waiting:
            number = waiting.pop()
            if number not in result and number not in without:
                result.add(number)
                waiting += self.blocks[number].next
        return result

    def loop(self, latch: Block, head: int) -> set[int]:
        """The blocks of the loop that a branch back from `latch` to `head` closes; empty if it closes none."""
        if head not in self.dominators[latch.number]:
            return set()
        result, waiting = {head}, [latch.number]
        while waiting:
            number = waiting.pop()
            if number not in result:
                result.add(number)
                waiting += self.blocks[number].before
        return result


def _statement(match: re.Match) -> Statement:
    if match["other"]:
        # A scope of its own: nothing is known of its results.
        inner = [each.split(None, 1) for each in re.split(r"[{};]", match["other"]) if each.strip()]
        heads = [split(each[1])[0] for each in inner if len(each) == 2 and not _NO_RESULT.match(each[0])]
        results = tuple(dict.fromkeys(_NAME.findall(" ".join(heads))))
        return Statement(match.start("other"), "", "?", ("", match["other"]), results)
    opcode, _, rest = match["code"].replace("\t", " ").partition(" ")
    operands = tuple(split(rest))
    results = () if _NO_RESULT.match(opcode) else tuple(_NAME.findall(operands[0]))
    return Statement(match.start("code"), match["guard"] or "", opcode, operands, results)
