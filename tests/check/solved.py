"""Proofs by a solver that a changed statement makes no difference: its result, the results of its users, or a
further trip of a loop whose accesses are all masked.

Without z3 (`pip install z3-solver`) no proof is given.  Values are those of the original code, so that a proof about
every execution of the statement is one about the changed code, too.
"""

from __future__ import annotations

import re
from typing import Any

from tests.check.faults import Fault
from tests.check.undefined import NOTHING, Undefined
from tileiras.check.facts import Facts

try:
    import z3

    from tests.check.flow import Block, Statement
    from tests.check.lanes import free_constants, proof_of_lanes
    from tests.check.terms import Terms, Unknown
    from tests.check.versions import same_versions
    from tests.check.warps import another_warp
except ImportError:  # pragma: no cover
    z3 = None

_SIGNED = re.compile(r"(?:cvt(?:\.r[nz])?\.[fus]\d+|setp\.\w+|min|max|shr|div|rem|mul\.wide)\.[su](16|32|64)$")
"""Operations that take a signed and an unsigned number alike if its sign is zero."""
_BYTE = "byte"
"""A byte that is loaded."""
_DEPTH = 3
"""Statements between a changed result and one that is the same."""
_HARMLESS = re.compile(
    r"mov|cvt|add|sub|mul|mad|fma|shl|shr|shf|and|or|xor|not|neg|min|max|selp|setp|div|rem|bra|bar\.(?:sync|warp)|shfl"
    r"|ld\.(?:shared|local|param)|st\.(?:shared|local)|ldmatrix|stmatrix|mma|wgmma|ex2|lg2|rcp|sqrt|rsqrt|abs|sin|cos|tanh"
    r"|cp\.async\.(?:commit_group|wait_group|wait_all)|prmt|lop3|copysign|testp|elect|vote|redux|bfe|bfi|clz|popc|brev"
)
"""Statements that touch neither global memory nor objects that another agent or a later trip sees."""

_PURE = re.compile(r"add|sub|mul|mad|shl|shr|and|or|min|max|mov|cvt|selp|setp|div|rem")


def solved(fault: Fault, original: str, place: int, facts: Facts, undefined: Undefined = NOTHING) -> str:
    """The proof that the changed statement, with code at `place`, has the effect of the original, or an empty text."""
    if z3 is None:
        return ""
    try:
        terms = Terms(original, place, facts, undefined)
        block, statement = terms.flow.at(place)
    except StopIteration:
        return ""
    why = proof_of_lanes(fault, terms, block, statement) or _without_signs(fault, terms, block, statement)
    if not why and fault.kind == "predicate":
        why = another_warp(terms, block, statement)
    if why or len(statement.results) != 1:
        return why
    try:
        old, new = _of_byte(statement, fault.changed) or (
            terms.result(statement, block), terms.result(statement, block, fault.changed)
        )
    except (Unknown, KeyError, IndexError, z3.Z3Exception):
        return ""
    reached = terms.path(block, place)
    if terms.never(*reached, old != new):
        return "z3: the result is the same, by the PTX ISA and the program's assumptions"
    if _same_uses(original, place, facts, statement.results[0], (old, new), reached, terms.holds, _DEPTH):
        return "z3: the users of the result drop the difference"
    if z3.is_bool(old) and _dead_trip(terms, block, statement, old, new):
        return "z3: all accesses of the further trip are masked"
    is_branch = z3.is_bool(old) and block.guard.lstrip("!") == statement.results[0]
    return same_versions(terms, block, old, new) if is_branch else ""


def _of_byte(statement: Statement, changed: str) -> tuple[Any, Any] | None:
    """The result of a load of a byte without and with its sign."""
    if not re.match(r"ld\.\w+\.b8$", statement.opcode) or not re.match(r"ld\.\w+\.s8 ", changed):
        return None
    width, byte = {"%rd": 64, "%rs": 16}.get(statement.results[0][:3], 32), z3.BitVec(_BYTE, 8)
    return z3.ZeroExt(width - 8, byte), z3.SignExt(width - 8, byte)


def _without_signs(fault: Fault, terms: Terms, block: Block, statement: Statement) -> str:
    """Why a signed operation is the same as an unsigned one, for operands whose sign is zero."""
    match = _SIGNED.match(statement.opcode)
    if fault.kind != "type" or match is None or fault.changed.split()[0].rpartition(".")[0] not in statement.opcode:
        return ""
    width = int(match[1])
    try:
        operands = [terms.value(each, block, statement.start, width) for each in statement.operands[1:]]
    except (Unknown, z3.Z3Exception):
        return ""
    reached = terms.path(block, statement.start)
    if terms.never(*reached, z3.Or([each < 0 for each in operands])):
        return "z3: the sign of all operands is zero"
    return ""


def _same_uses(
    ptx: str, place: int, facts: Facts, name: str, values: tuple[Any, ...], reached: list[Any], holds: list[Any],
    depth: int,
) -> bool:  # fmt: skip
    """Whether every statement that reads a register makes the same of both values."""
    terms = Terms(ptx, place, facts)
    # Of several definitions one may be of an earlier trip, whose other registers have other values.
    is_alone = all(str(each) == _BYTE for value in values for each in free_constants(value))
    if len(terms.flow.definitions.get(name, ())) != 1 and not is_alone:
        return False
    free = z3.Bool("changed") if z3.is_bool(values[0]) else z3.BitVec("changed", values[0].size())
    terms.instead[name] = free
    for block in terms.flow.blocks:
        for statement in block.statements:
            if name not in statement.reads:
                continue
            try:
                term = terms.result(statement, block) if not statement.guard else None
            except (Unknown, KeyError, IndexError, z3.Z3Exception):
                return False
            if term is None or not statement.results:
                return False
            both = tuple(z3.substitute(term, (free, value)) for value in values)
            if terms.never(*holds, *reached, both[0] != both[1]):
                continue
            if not depth or statement.opcode.startswith("setp"):
                return False
            result, known = statement.results[0], terms.holds + holds
            if not _same_uses(ptx, statement.start, facts, result, both, reached, known, depth - 1):
                return False
    return True


def _dead_trip(terms: Terms, latch: Block, compare: Statement, old: Any, new: Any) -> bool:
    """Whether a loop that the changed comparison closes makes further trips whose global accesses are all masked.

    The number that the loop counts is that of a tile block and the same for its threads; that the grid is so large that
    the counter wraps is left out.
    """
    flow = terms.flow
    if not latch.guard or latch.guard.lstrip("!") != compare.results[0] or len(latch.next) != 2:
        return False
    head = next((number for number in latch.next if flow.loop(latch, number)), None)
    if head is None:
        return False
    body = flow.loop(latch, head)
    back = latch.guard.startswith("!") == (latch.next[0] != head)
    further = z3.And(z3.Not(old), new) if back else z3.And(old, z3.Not(new))
    renamed = _at_head(terms, latch, compare, head)
    if renamed is None:
        return False
    further = z3.substitute(further, *renamed)
    for number in body:
        block = flow.blocks[number]
        for statement in block.statements:
            if _is_harmless(statement):
                continue
            # The statement is executed: its guard and the branches to it from the head of the loop on.
            conditions = [*terms.path(block, statement.start, stop=head)]
            if statement.guard:
                conditions.append(terms.predicate(statement.guard, block, statement.start))
            if statement.opcode.startswith("cp.async.c") and len(statement.operands) == 4:
                conditions.append(terms.value(statement.operands[3], block, statement.start, 32) != 0)
            if not terms.never(further, *conditions):
                return False
    outside = flow.reachable(next(each for each in latch.next if each != head), frozenset(body))
    return all(
        _is_harmless(each) or each.opcode.startswith(("ret", "exit"))
        for number in outside for each in flow.blocks[number].statements
    )  # fmt: skip


def _is_harmless(statement: Statement) -> bool:
    if statement.opcode == "?":
        return re.search(r"\b(?:ld|st|atom|red|cp|mbarrier|tcgen05)\.", statement.operands[1]) is None
    return _HARMLESS.match(statement.opcode) is not None


def _at_head(terms: Terms, latch: Block, compare: Statement, head: int) -> list[tuple[Any, Any]] | None:
    """(term at the comparison, value at the head of the next trip) of the compared numbers that the loop changes; None
    where threads of a block may compare different numbers."""
    flow = terms.flow
    renamed = []
    body = flow.loop(latch, head)
    for operand in compare.operands[1:]:
        if not operand.startswith("%r"):
            continue
        if not _is_uniform(terms, operand, set()):
            return None
        every = flow.definitions.get(operand, [])
        if not any(block.number in body for block, _ in every):
            continue
        carried = operand
        if len(every) == 1:
            # The register that takes the number to the next trip.
            carried = next(
                (s.results[0] for s in latch.statements if s.opcode.startswith("mov") and s.operands[1] == operand), ""
            )
        if len(flow.definitions.get(carried, ())) < 2:
            return None
        here = terms.value(operand, latch, compare.start, 64 if operand.startswith("%rd") else 32)
        top = flow.blocks[head]
        start = top.statements[0].start if top.statements else 0
        renamed.append((here, terms.value(carried, top, start, here.size())))
    return renamed or None


def _is_uniform(terms: Terms, operand: str, seen: set[str]) -> bool:
    """Whether a register is the same for all threads of a block."""
    if operand in seen or not operand.startswith("%"):
        return True
    seen.add(operand)
    if operand.startswith(("%ctaid", "%nctaid")):
        return True
    every = terms.flow.definitions.get(operand)
    return bool(every) and all(
        not each.guard and (each.opcode.startswith("ld.param") or _PURE.match(each.opcode))
        and all(_is_uniform(terms, name, seen) for name in each.operands[1:] if name.startswith("%"))
        for _, each in every or ()
    )  # fmt: skip
