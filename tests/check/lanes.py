"""Proofs that another thread of several may execute a statement: a store of one value to one place by other lanes of a
warp, or a region without any number of a thread by another single thread."""

from __future__ import annotations

import re
from typing import Any

import z3

from tests.check.faults import Fault
from tests.check.flow import Block, Statement
from tests.check.terms import Terms, Unknown

_LANES = frozenset(range(5))
_COMMUTES = re.compile(r"(?:add|min|max|and|or|xor)\.")
_PURE = re.compile(
    r"(?:mov|cvt|add|sub|mul|mad|fma|div|rem|min|max|and|or|xor|not|neg|abs|selp|setp|shl|shr|ex2|lg2|rcp|sqrt|rsqrt"
    r"|prmt|copysign|ld\.param|ld\.shared)\b"
)
_ACCESS = re.compile(
    r"ld\.(?!param)|st\.|atom|red\.|cp\.|mbarrier|ldmatrix|stmatrix|wgmma|tcgen05|tensormap|prefetch|barrier|bar\.|\?"
)
"""Statements that access memory or order accesses."""
_OF_ANY_THREAD = re.compile(r"mov\.|mbarrier\.(?:init|inval)|fence\.|bra")


def another_lane(terms: Terms, block: Block, statement: Statement) -> str:
    """Why a store under the negated guard is the same; empty if it may be another one."""
    if not statement.opcode.startswith("st.") or not statement.guard:
        return ""
    names = re.findall(r"%r[sd]?\d+", " ".join(statement.operands))
    if any(_lane_bits(terms, name, block, statement.start, frozenset()) for name in names):
        return ""
    chosen = threads_of(terms, [terms.predicate(statement.guard, block, statement.start)])
    if chosen is None:
        return ""
    for warp in range(0, terms.threads, 32):
        lanes = {thread in chosen for thread in range(warp, min(warp + 32, terms.threads))}
        if len(lanes) == 1:
            return ""
    return "all lanes of a warp have the stored value and its place; one of either half of the guard stores it"


def another_thread(terms: Terms, block: Block, old: Any, new: Any) -> str:
    """Why it makes no difference which thread runs the region that a branch at the end of a block leaves out."""
    flow = terms.flow
    if not block.guard or len(set(block.next)) != 2:
        return ""
    join, region = (flow.blocks[number] for number in block.next)
    if region.next != [join.number] or region.before != [block.number]:
        return ""
    for statement in region.statements:
        names = re.findall(r"%\w+", " ".join(statement.operands))
        own = {name for each in region.statements for name in each.results}
        if not _OF_ANY_THREAD.match(statement.opcode) or any(name not in own and name != "%ctaid.x" for name in names):
            return ""
    if any(name in own for b in flow.blocks if b is not region for s in b.statements for name in s.reads):
        return ""
    uses = re.compile(r"bar|st|ld\.(?!param)|mbarrier|cp|atom|red|tcgen05")
    waits = next((each.opcode for each in join.statements if uses.match(each.opcode)), "")
    if not waits.startswith(("bar.sync", "barrier")):
        return ""
    reached = terms.path(block, block.statements[-1].start)
    negated = block.guard.startswith("!")
    runs = [threads_of(terms, [*reached, each if negated else z3.Not(each)]) for each in (old, new)]
    if any(each is None or len(each) != 1 for each in runs):
        return ""
    return "one thread runs the region, which names no thread, before the barrier of all that use it"


def among_one_warp(terms: Terms, block: Block, statement: Statement) -> str:
    """Why a barrier of all threads, here one of each warp, orders no accesses of different warps: from the barriers
    before it to those behind it, only the first warp accesses memory."""
    number = z3.BitVec("%tid.x", 32)
    if statement.guard:
        return ""
    regions = _until_barriers(terms, block, statement, False) + _until_barriers(terms, block, statement, True)
    for home, each in regions:
        if not _ACCESS.match(each.opcode):
            continue
        guard = [terms.predicate(each.guard, home, each.start)] if each.guard else []
        if not terms.never(*terms.path(home, each.start), *guard, z3.UGE(number, 32)):
            return ""
    return "between the barriers of all threads around this one, only the first warp accesses memory"


def _until_barriers(terms: Terms, block: Block, statement: Statement, behind: bool) -> list[tuple[Block, Statement]]:
    """The statements on paths from a barrier to the next ones of all threads behind it, or before it."""
    here = [each for each in block.statements if (each.start > statement.start) == behind and each is not statement]
    result: list[tuple[Block, Statement]] = []
    waiting, seen = [(block, here if behind else here[::-1])], set[int]()
    while waiting:
        home, statements = waiting.pop()
        for each in statements:
            if each.opcode == "bar.sync" and each.operands == ("0",) and not each.guard:
                break
            result.append((home, each))
        else:
            for number in home.next if behind else home.before:
                if number not in seen:
                    seen.add(number)
                    follows = terms.flow.blocks[number]
                    waiting.append((follows, follows.statements if behind else follows.statements[::-1]))
    return result


def threads_of(terms: Terms, conditions: list[Any]) -> set[int] | None:
    """The threads of a block for which all conditions hold; None if they depend on something else."""
    values: list[Any] = []  # whose numbers stay theirs
    number, condition = z3.BitVec("%tid.x", 32), z3.And(*conditions) if conditions else z3.BoolVal(True)
    result, known = set(), {}
    for thread in range(terms.threads):
        value = z3.simplify(z3.substitute(condition, (number, z3.BitVecVal(thread, 32))))
        outcome = known.get(value.get_id())
        if outcome is None:
            outcome = True if terms.never(z3.Not(value)) else False if terms.never(value) else None
            known[value.get_id()] = outcome
            values.append(value)
        if outcome is None:
            return None
        if outcome:
            result.add(thread)
    return result


def _lane_bits(terms: Terms, name: str, block: Block, place: int, seen: frozenset[str]) -> frozenset[int]:
    """The bits of a lane's number on which a register may depend."""
    if name in seen:
        return _LANES
    every = terms.flow.definitions.get(name, ())
    if len(every) != 1 or every[0][1].guard:
        return _LANES
    here, statement = every[0]
    if _is_of_warp(terms, name, block, place):
        return frozenset()
    inputs = [each for each in re.findall(r"%\w+(?:\.[xyz])?", " ".join(statement.operands[1:]))]
    if statement.opcode.startswith("shfl.sync.bfly"):
        return _lane_bits(terms, inputs[0], here, statement.start, seen | {name})
    if not _PURE.match(statement.opcode):
        return _LANES
    if _COMMUTES.match(statement.opcode) and len(inputs) == 2:
        for one, other in (inputs, inputs[::-1]):
            step = _butterfly(terms, other, one)
            if step is not None:
                return _lane_bits(terms, one, here, statement.start, seen | {name}) - {step}
    lane_bits = frozenset[int]()
    for each in inputs:
        if not each.startswith(("%ctaid", "%nctaid")):
            lane_bits |= _lane_bits(terms, each, here, statement.start, seen | {name})
    return lane_bits


def _butterfly(terms: Terms, name: str, of: str) -> int | None:
    """The bit of the lane's number that an exchange of `of` flips, if `name` is one over all lanes."""
    every = terms.flow.definitions.get(name, ())
    if len(every) != 1 or not every[0][1].opcode.startswith("shfl.sync.bfly.b32"):
        return None
    _, source, step, clamp, members = every[0][1].operands
    if source != of or clamp != "31" or members != "-1" or step not in ("1", "2", "4", "8", "16"):
        return None
    return int(step).bit_length() - 1


def _is_of_warp(terms: Terms, name: str, block: Block, place: int) -> bool:
    """Whether an integer register depends on the number of a thread by that of its warp alone."""
    if name.startswith("%p") or not re.fullmatch(r"%r[sd]?\d+", name):
        return False
    try:
        term = terms.value(name, block, place, 64 if name.startswith("%rd") else 32)
    except (Unknown, z3.Z3Exception):
        return False
    if any("@" in str(each) for each in free_constants(term)):
        return False
    number = z3.BitVec("%tid.x", 32)
    return terms.never(term != z3.substitute(term, (number, number & 0xFFFFFFE0)))


def free_constants(term: Any) -> set[Any]:
    result, waiting, seen = set(), [term], set()
    while waiting:
        each = waiting.pop()
        if each.get_id() not in seen:
            seen.add(each.get_id())
            if z3.is_const(each) and each.decl().kind() == z3.Z3_OP_UNINTERPRETED:
                result.add(each)
            waiting += each.children()
    return result


def proof_of_lanes(fault: Fault, terms: Terms, block: Block, statement: Statement) -> str:
    """The proof for a changed guard, for a changed comparison that a branch reads, or for a barrier of warps."""
    if fault.changed == "bar.warp.sync -1":
        return among_one_warp(terms, block, statement)
    if fault.kind == "predicate":
        return another_lane(terms, block, statement)
    if not block.guard or len(statement.results) != 1 or block.guard.lstrip("!") != statement.results[0]:
        return ""
    try:
        old, new = terms.result(statement, block), terms.result(statement, block, fault.changed)
    except (Unknown, KeyError, IndexError, z3.Z3Exception):
        return ""
    return another_thread(terms, block, old, new)
