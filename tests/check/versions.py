"""Proofs that two versions of loads, of whole tiles and of partial ones, are the same where a changed comparison
selects the other one."""

from __future__ import annotations

import re
from typing import Any

import z3

from tests.check.flow import Block
from tests.check.terms import Terms, Unknown

_PURE = re.compile(r"(?:mov|cvt|add|sub|mul|mad|shl|shr|and|or|xor|not|setp|selp|min|max)\.")
_LOAD = re.compile(r"ld\.global\.(?:v(?P<count>\d)\.)?(?P<type>b(?P<bits>\d+))$")


def same_versions(terms: Terms, block: Block, old: Any, new: Any) -> str:
    """Why both successors of a block load the same where `old` and `new` differ; empty if they may not."""
    if not block.guard or len(set(block.next)) != 2:
        return ""
    regions = [terms.flow.blocks[number] for number in block.next]
    if regions[0].next != regions[1].next or any(each.before != [block.number] for each in regions):
        return ""
    differs = [*terms.path(block, block.statements[-1].start), old != new]
    try:
        results = [_loads(terms, region, differs) for region in regions]
    except (Unknown, z3.Z3Exception):
        return ""
    own = {region.number for region in regions}
    used = {name for each in terms.flow.blocks if each.number not in own for s in each.statements for name in s.reads}
    names = (set(results[0]) | set(results[1])) & used
    if any(results[0].get(name) != results[1].get(name) for name in names):
        return ""
    return "z3: no load of the masked version is masked there, and both versions load the same"


def _loads(terms: Terms, region: Block, differs: list[Any]) -> dict[str, Any]:
    """Register -> type and place of the load that defines it in a region; a unique value for registers without one."""
    result: dict[str, Any] = {}
    for each in region.statements:
        match = _LOAD.match(each.opcode)
        if match is None:
            if not _PURE.match(each.opcode) and not each.opcode.startswith("bra"):
                raise Unknown(each.opcode)
            result |= {name: (each.start, name) for name in each.results}
            continue
        if each.guard and not terms.never(*differs, z3.Not(terms.predicate(each.guard, region, each.start))):
            raise Unknown(each.guard)
        address = re.fullmatch(r"\[(%rd\d+)(?:\+(\d+))?\]", each.operands[1])
        if address is None or address[1] in result:
            raise Unknown(each.operands[1])
        for number, name in enumerate(each.results):
            place = int(address[2] or 0) + number * int(match["bits"]) // 8
            result[name] = match["type"], address[1], place
    return result
