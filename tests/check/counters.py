"""Registers that count the trips of a loop: their bounds within it."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.check.flow import Block, Flow, Statement


class Counter(NamedTuple):
    """A register that begins at `start`, is stepped by one at the end of the block `latch`, which leaves the loop
    where the register has come to the operand `end` of `compare`, and goes to the block `head` otherwise."""

    start: tuple[Block, Statement]
    latch: Block
    compare: Statement
    head: Block

    @property
    def end(self) -> str:
        return self.compare.operands[2]


def counter(flow: Flow, name: str) -> Counter | None:
    """The loop that a register counts with an end that the loop does not change; None for any other register."""
    every = flow.definitions.get(name, [])
    steps = [(b, s) for b, s in every if re.match(r"add\.[su](?:32|64)$", s.opcode) and s.operands[1:] == (name, "1")]
    if len(every) != 2 or len(steps) != 1 or any(statement.guard for _, statement in every):
        return None
    (latch, step), (start,) = steps[0], [each for each in every if each != steps[0]]
    compare = next((each for each in latch.statements if each.results == (latch.guard.lstrip("!"),)), None)
    if compare is None or len(set(latch.next)) != 2 or compare.start < step.start:
        return None
    stays = "!" if compare.opcode.startswith("setp.eq") else ""
    if not re.match(r"setp\.(?:eq\.[bsu]|ne\.[bsu]|lt\.s)(?:32|64)$", compare.opcode) or compare.operands[1] != name:
        return None
    # The branch is taken where the guard holds, and falls through to the second block elsewhere.
    number = latch.next[0 if latch.guard.startswith("!") == bool(stays) else 1]
    back = latch
    while flow.blocks[number].statements and flow.blocks[number].statements[0].opcode == "bra.uni":
        back = flow.blocks[number]
        number = back.next[0]
    body = flow.loop(back, number)
    ends = flow.definitions.get(compare.operands[2], ())
    if not body or any(block.number in body for block, _ in (start, *ends)):
        return None
    is_once = all(each == back.number or each not in body for each in flow.blocks[number].before)
    return Counter(start, latch, compare, flow.blocks[number]) if is_once else None
