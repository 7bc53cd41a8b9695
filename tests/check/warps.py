"""Proofs that the threads of another warp store the same: registers that do not depend on a bit of the thread's number.

Two threads whose numbers differ in that bit alone have equal registers, by induction over their execution: their
branches are equal, pure operations have equal inputs, and loads of arrays that the entry never writes equal addresses.
"""

from __future__ import annotations

import re

import z3

from tests.check.access_rules import pointers_of
from tests.check.flow import Block, Statement
from tests.check.lanes import free_constants, threads_of
from tests.check.terms import Terms, Unknown

_PURE = re.compile(
    r"(?:mov|cvt|add|sub|mul|mad|fma|div|rem|min|max|and|or|xor|not|neg|abs|selp|setp|shl|shr|shf|bfe|bfi|prmt|lop3"
    r"|ld\.param|shfl\.sync\.\w+\.b32)\b"
)
_UNIFORM = ("%ctaid", "%nctaid", "%ntid", "%laneid")
"""Special registers that are the same for threads of two warps with the same lane."""


def another_warp(terms: Terms, block: Block, statement: Statement) -> str:
    """Why a store under the negated guard is the same; empty if it may be another one."""
    if not statement.opcode.startswith("st.") or not statement.guard:
        return ""
    chosen = threads_of(terms, [terms.predicate(statement.guard, block, statement.start)])
    if chosen is None:
        return ""
    for bit in (32, 64, 128, 256, 512):
        if {each ^ bit for each in chosen} == set(range(terms.threads)) - chosen:
            names = re.findall(r"%r[sd]?\d+", " ".join(statement.operands))
            if _Twins(terms, bit).have(names, block, statement.start):
                return f"threads whose numbers differ by {bit} have the stored value and its place: one of two stores"
    return ""


class _Twins:
    """Registers that are equal in threads whose numbers differ in one bit: the most of which that follows from the
    others."""

    def __init__(self, terms: Terms, bit: int) -> None:
        self.terms, self.bit = terms, bit
        self._different: set[str] = set()
        self._equal: set[str] = set()
        """Registers that are equal if those of this set are."""
        self._reached: set[int] = set()

    def have(self, names: list[str], block: Block, place: int) -> bool:
        """Whether registers are equal at a place, and threads reach it alike."""
        while True:
            self._equal, self._reached, before = set(), set(), len(self._different)
            if not all(self.has(each, block, place) for each in names) or not self.reach(block):
                return False
            if len(self._different) == before:
                return True

    def has(self, name: str, block: Block, place: int) -> bool:
        if not name.startswith("%") or name.startswith(_UNIFORM):
            return True
        if not re.fullmatch(r"%(?:r[sd]?|p)\d+", name):
            return False
        if name not in self._equal | self._different:
            self._equal.add(name)
            if not (self._is_solved(name, block, place) or self._is_computed(name)):
                self._equal.discard(name)
                self._different.add(name)
        return name in self._equal

    def _is_solved(self, name: str, block: Block, place: int) -> bool:
        if not re.fullmatch(r"%rd?\d+", name):
            return False
        try:
            term = self.terms.value(name, block, place, 64 if name.startswith("%rd") else 32)
        except (Unknown, KeyError, IndexError, z3.Z3Exception):
            return False
        constants = {str(each) for each in free_constants(term)} - {"%tid.x"}
        if any("@" in each or each.startswith("%") and not each.startswith(_UNIFORM) for each in constants):
            return False
        number = z3.BitVec("%tid.x", 32)
        return self.terms.never(term != z3.substitute(term, (number, number ^ self.bit)))

    def _is_computed(self, name: str) -> bool:
        every = self.terms.flow.definitions.get(name, [])
        return bool(every) and all(self._is_same(home, each) and self.reach(home) for home, each in every)

    def _is_same(self, home: Block, statement: Statement) -> bool:
        if statement.opcode.startswith("ld.global"):
            if not self._is_read_only(statement.operands[-1]):
                return False
        elif not _PURE.match(statement.opcode):
            return False
        inputs = re.findall(r"%\w+(?:\.[xyz])?", " ".join((statement.guard, *statement.operands[1:])))
        return all(self.has(each, home, statement.start) for each in inputs)

    def _is_read_only(self, address: str) -> bool:
        places = {each.position for each in self.terms.facts.parameters if each.kind == "pointer"}
        numbers = pointers_of(_Opcodes(self.terms), address)
        return None not in numbers and bool(numbers & places) and numbers & places <= self.terms.undefined.read_only

    def reach(self, home: Block) -> bool:
        """Whether branches on the way to a block are equal."""
        flow = self.terms.flow
        if home.number in self._reached:
            return True
        self._reached.add(home.number)
        return all(
            self.has(each.guard.lstrip("!"), each, each.statements[-1].start)
            for each in flow.blocks if each.guard and home.number in flow.reachable(each.number)
        )  # fmt: skip


class _Opcodes:
    """The opcodes and inputs of the definitions of registers."""

    def __init__(self, terms: Terms) -> None:
        every = terms.flow.definitions.items()
        self.definitions = {name: [(each.opcode, list(each.operands[1:])) for _, each in rows] for name, rows in every}
