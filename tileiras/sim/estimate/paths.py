"""Path of a warp through the machine code, reconstructed from its trace through the PTX.

ptxas moves, merges, unrolls and predicates instructions, so basic blocks of the two programs do not correspond one to
one. Only instructions with effects stay in place: branches, stores, barriers, asynchronous operations, dots. The walk
goes through the blocks of the machine code; at a branch it takes the successor whose instructions with effects come
first in the rest of the PTX trace.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Collection, Sequence

from tileiras.codegen.machine_code import MachineCode
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate.events import Event, PtxBlock, WarpTrace
from tileiras.sim.estimate.machine_blocks import (
    ALWAYS,
    BRANCHES,
    EFFECTS,
    ENDS,
    JUMP,
    MachineBlock,
    is_added,
    is_move,
    prepare,
)
from tileiras.sim.estimate.traced_events import TracedEvents
from tileiras.support.named_tuple import NamedTuple

_FAR = 1 << 60
_LOOKED_AT = 8
_LOOKED_THROUGH = 64
_MOST_REPEATS = 64
"""Number of times that a block may follow without progress in the trace before the two programs are considered
different."""


class Step(NamedTuple):
    """One execution of a block of the machine code."""

    block: int
    events: tuple[tuple[int, tuple[Event, ...]], ...]
    """(position of an instruction in the block, its events), in order of position."""


class NoPath(SimulationError):
    """The machine code cannot have taken the path of the PTX."""


class _Trace:
    """A warp's trace, indexed by the lines of the PTX."""

    def __init__(self, trace: WarpTrace, blocks: dict[int, PtxBlock], anchored: Collection[int]) -> None:
        """``anchored``: lines that are anchors of some block of the machine code."""
        self.anchored = anchored
        self.length = len(trace.visits)
        visits: dict[int, list[int]] = {}
        for at, number in enumerate(trace.visits):
            visits.setdefault(number, []).append(at)
        self.visits: dict[int, list[int]] = {}
        for number, positions in visits.items():
            for line in blocks[number].lines:
                earlier = self.visits.get(line)
                self.visits[line] = positions if earlier is None else sorted({*earlier, *positions})
        self.consumed: dict[int, int] = {}
        self.cursor = 0

    def visited(self, line: int, until: int) -> bool:
        """Whether the line is executed between the position of the walk and a later position."""
        positions = self.visits.get(line)
        if positions is None:
            return False
        at = bisect_left(positions, self.cursor - 1)
        return at < len(positions) and positions[at] <= until

    def is_past(self, line: int) -> bool:
        """Whether the line was executed and will not be executed again."""
        positions = self.visits.get(line)
        return positions is not None and positions[-1] < self.cursor - 1

    def following(self, line: int, behind: int = 0) -> int:
        """Position of the next execution of the line, or of the one behind `behind` further ones."""
        positions = self.visits.get(line)
        if positions is None:
            return _FAR
        at = bisect_right(positions, max(self.cursor - 1, self.consumed.get(line, -1))) + behind
        return positions[at] if at < len(positions) else _FAR

    def _comes_later(self, line: int, first: int, reached: int) -> bool:
        """Whether a line is executed next only behind an execution of `first` beyond `reached`: a branch at the end of
        a block that ptxas has made of several, of which another one leaves the block this time."""
        executed = self.visits.get(first, [])
        at = bisect_right(executed, reached)
        return at < len(executed) and self.following(line) > executed[at]

    def execute(self, block: MachineBlock) -> int:
        """Consume the part of the trace that one execution of the block covers; returns the position reached."""
        reached = self.cursor
        anchors = block.anchors
        if not anchors:
            if not block.loops:
                return reached  # its instructions may be from anywhere
            # Lines of the next turn follow a second execution of most of the others.
            again = sorted(self.following(line, block.copies) for line in block.lines if line not in block.unrolled)
            limit = again[len(again) // 2] if again else _FAR
            anchors = tuple(line for line in block.lines if self.following(line) < limit)
        for line in anchors:
            if line in block.unrolled and self.following(line) < _FAR:
                self.consumed[line] = self.visits[line][-1]
                reached = max(reached, self.visits[line][-1])
                continue
            if line == block.joint_branch and self._comes_later(line, anchors[0], reached):
                continue
            for _ in range(block.copies):
                at = self.following(line)
                if at == _FAR:
                    break
                self.consumed[line] = at
                reached = max(reached, at)
        for line in block.lines:
            if self.consumed.get(line, -1) < reached and line not in anchors:
                positions = self.visits[line] if line in self.visits else []
                # An instruction that ptxas has hoisted above an instruction with effects, into another block, does not
                # cover it.
                at = (bisect_left if line in self.anchored else bisect_right)(positions, reached) - 1
                if at >= 0:
                    self.consumed[line] = max(self.consumed.get(line, -1), positions[at])
        return reached


def _distances_to_end(blocks: Sequence[MachineBlock]) -> list[int]:
    """For each block, the number of blocks on the shortest way to one that ends the program."""
    before: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            before[successor].append(number)
    distances = [len(blocks)] * len(blocks)
    pending = deque(n for n, block in enumerate(blocks) if block.instructions[-1].opcode in ("EXIT", "RET"))
    for number in pending:
        distances[number] = 0
    while pending:
        number = pending.popleft()
        for each in before[number]:
            if distances[each] > distances[number] + 1:
                distances[each] = distances[number] + 1
                pending.append(each)
    return distances


class Walk(NamedTuple):
    """A path through the machine code: numbers of blocks, and the position in the PTX trace that each reached."""

    blocks: tuple[int, ...]
    reached: tuple[int, ...]


class Walker:
    """Walks of the warps of one recording; warps with equal traces share a walk."""

    def __init__(self, code: MachineCode, ptx: dict[int, PtxBlock], skipped: Collection[int] = ()) -> None:
        """``ptx``: the blocks that warps have executed; ``skipped``: lines of blocks that no warp has executed."""
        self.ptx = ptx
        counts = Counter(line for block in ptx.values() for line in block.lines)
        ptx_lines = set(counts)
        several = {line for line, count in counts.items() if count > 1}
        branches = {block.branch for block in ptx.values()}
        jumps = {block.jump: block.branch for block in ptx.values() if block.jump}
        self.blocks = prepare(code, ptx_lines, branches, several, jumps)
        all_lines = ptx_lines | set(skipped)
        self._block_of = {line: block for block in ptx.values() for line in block.lines if counts[line] == 1}
        self._lines = [self._lines_from(number, ptx_lines, all_lines) for number in range(len(self.blocks))]
        self.places = {key for block in self.blocks for key in block.places}
        self._anchored = {line for block in self.blocks for line in block.anchors}
        self._to_end = _distances_to_end(self.blocks)
        self._walks: dict[tuple[int, ...], Walk] = {}
        self.told = self.crowded = 0

    def follow(self, trace: WarpTrace) -> list[Step]:
        """The blocks of the machine code that the warp executed, with the events of their instructions.

        Raises NoPath if the two programs do not belong together.
        """
        key = tuple(trace.visits)
        walk = self._walks.get(key)
        if walk is None:
            walk = self._walks[key] = self._walk(trace)
        events = TracedEvents(trace, self.ptx, self.places)
        executions = [events.take(self.blocks[number], at) for number, at in zip(walk.blocks, walk.reached)]
        events.give_rest(walk.blocks, self.blocks, executions)
        self.told += events.told
        self.crowded += events.crowded
        return [
            Step(number, tuple((position, tuple(result[position])) for position in sorted(result)))
            for number, result in zip(walk.blocks, executions)
        ]

    @property
    def doubtful(self) -> float:
        """Share of the events that were given to an execution of an instruction that already had some; above a few
        hundredths, the walk has left the path of the warps."""
        return self.crowded / self.told if self.told else 0.0

    def _walk(self, trace: WarpTrace) -> Walk:
        blocks = self.blocks
        view = _Trace(trace, self.ptx, self._anchored)
        path: list[int] = []
        positions: list[int] = []
        number, repeats = 0, 0
        while True:
            block = blocks[number]
            reached = view.execute(block)
            repeats = repeats + 1 if reached == view.cursor else 0
            if repeats > _MOST_REPEATS + len(blocks):
                address = block.instructions[0].address
                raise NoPath(f"the machine code at {address:#x} does not follow the path of the PTX: not made of it?")
            view.cursor = reached
            path.append(number)
            positions.append(reached)
            following = self._next(block, view)
            if following is None:
                positions[-1] = view.length  # the rest belongs to the end
                return Walk(tuple(path), tuple(positions))
            # Instructions before the start of the following block still belong to this block: predicated instructions,
            # and those that ptxas has sunk below the last one that is always executed.
            begins = self._first(following, view)
            if following == number:
                # In a loop of one block, predicated instructions at its start belong to the next execution.
                begins = min(begins, *(view.following(line) for line in (*block.anchors, *block.guarded)), _FAR)
            if begins < _FAR:
                positions[-1] = max(reached, begins - 1)
            number = following

    def _next(self, block: MachineBlock, view: _Trace) -> int | None:
        last = block.instructions[-1]
        leaves = last.opcode in ENDS
        if not block.successors:
            return None
        if len(block.successors) == 1 and not leaves:
            return block.successors[0]
        choices = []
        for order, successor in enumerate(block.successors):
            first = self._first(successor, view)
            # On a tie, a successor is rejected if it would require other PTX first; fallthrough is more likely than a
            # branch to cold code, but less likely if it calls a slow path.
            foreign, between = (self._foreign(successor, view, until, first < _FAR) for until in (_FAR, first))
            foreign |= self._leads_astray(successor, view)
            # A successor is rejected as well if it gets there only through PTX that the warp does not execute.
            own = self._first(successor, view, own=True) if first < _FAR else first
            # Where nothing is left of the trace, a loop is not executed once more.
            rest = self._to_end[successor] if first == _FAR else 0
            choices.append((foreign, first, between, own, self.blocks[successor].calls, rest, -order))
        _, best, *_, order = min(choices)
        return None if best == _FAR and leaves else block.successors[-order]

    def _lines_from(self, number: int, ptx_lines: Collection[int], all_lines: Collection[int]) -> tuple[int, ...]:
        """PTX lines of the instructions of a block, and of its fallthrough block if it is a preheader, into which
        ptxas hoists instructions from a loop. A move on an edge between blocks may have the line of a branch on
        another edge, so that a move of PTX that no warp executes is no evidence."""
        result: list[int] = []
        while True:
            block = self.blocks[number]
            alone = len(block.instructions) <= JUMP  # its branch may be one of several
            lines = [
                each.ptx_line
                for each in block.instructions
                if each.ptx_line in (ptx_lines if is_move(each) else all_lines)
                and not is_added(each)
                and not (alone and each.opcode in BRANCHES)
            ]
            guarded = self._guarded_here(block)
            result += [line for line in lines if line not in guarded] or lines
            prepares = block.successors == (number + 1,) and len(block.instructions) > JUMP
            # Code for diverged warps is out of line; the walk follows the fallthrough of the branch.
            prepares |= number + 1 in block.successors and is_added(block.instructions[-1])
            if block.anchors or not prepares or len(result) >= _LOOKED_AT:
                return tuple(result)
            number += 1

    def _guarded_here(self, block: MachineBlock) -> set[int]:
        """PTX lines that ptxas has if-converted: predicated instructions in place of a branch around them. Their
        operands are computed in any case and say nothing about the other instructions of the block."""
        effects = [each for each in block.instructions if each.opcode in EFFECTS and each.predicate not in ALWAYS]
        around = {self._block_of[each.ptx_line] for each in effects if each.ptx_line in self._block_of}
        return {line for each in around for line in each.lines}

    def _foreign(self, number: int, view: _Trace, until: int, comes: bool) -> bool:
        """Whether a block consists of PTX that the warp does not execute before a position of its trace. ptxas
        speculates instructions, so some lines of a block are no evidence. Lines that the warp has executed before
        are no evidence either if the block is still to come (`comes`): ptxas has sunk them to their use."""
        lines: Collection[int] = self._lines[number]
        if comes:
            lines = [line for line in lines if not view.is_past(line)]
        return len(lines) > 2 * sum(view.visited(line, until) for line in lines)

    def _leads_astray(self, number: int, view: _Trace) -> bool:
        """Whether a block only branches and all its successors consist of PTX that the warp does not execute. ptxas
        sometimes gives a branch the line of an earlier branch that leads elsewhere."""
        block = self.blocks[number]
        if not block.branches_only or not block.anchors or block.instructions[-1].opcode in ENDS:
            return False
        return bool(block.successors) and all(self._first(each, view) == _FAR for each in block.successors)

    def _first(self, number: int, view: _Trace, own: bool = False) -> int:
        """Position in the trace at which a block continues it: that of its first instruction with effects, else of
        the first one in the blocks reachable from it; of any of its instructions if no such block has any, or if the
        block is a loop by itself. With ``own``, only blocks made of PTX that the warp still executes are followed."""
        block = self.blocks[number]
        if block.anchors:
            soonest = self._soonest(block, view)
            if soonest < _FAR or not block.jumps or block.loops:
                return soonest
        at_all = min((view.following(line) for line in (block.guarded or block.lines)[:_LOOKED_AT]), default=_FAR)
        if block.loops:
            return at_all
        least, seen, waiting, blocks = _FAR, {number}, list(block.successors), self.blocks
        anchored = bool(block.anchors)
        while waiting and len(seen) < _LOOKED_THROUGH:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            following = self.blocks[at]
            if own and self._foreign(at, view, _FAR, False):
                continue
            if following.anchors:
                anchored = True
                soonest = self._soonest(following, view)
                least = min(least, soonest)
                if soonest < _FAR or not following.jumps or following.loops:
                    continue
            waiting += [each for each in following.successors if not blocks[each].calls] or following.successors
        return least if anchored else at_all

    @staticmethod
    def _soonest(block: MachineBlock, view: _Trace) -> int:
        return min(view.following(line) for line in block.anchors[:_LOOKED_AT])
