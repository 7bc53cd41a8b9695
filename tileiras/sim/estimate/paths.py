"""The machine instructions that a warp executed: its path through the PTX carried over to the machine code.

ptxas moves, merges, unrolls and predicates, so blocks of the two programs do not correspond one to one.  What stays
where it is are instructions with effects: branches, stores, barriers, asynchronous operations, products.  The walk goes
through the blocks of the machine code and takes of the successors of a branch the one whose instructions with effects
come first in what is left of the PTX trace.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection
from statistics import median_low

from tileiras.codegen.machine_code import INSTRUCTION_BYTES, Instruction, MachineCode
from tileiras.named_tuple import NamedTuple
from tileiras.sim.emulator.recording import (
    Arrive,
    BarrierInit,
    BlockBarrier,
    ClusterBarrier,
    Commit,
    Copy,
    Multiply,
    PhaseWait,
    SetRegisters,
    Transfer,
    WaitGroup,
)
from tileiras.sim.errors import SimulationError
from tileiras.sim.estimate.events import Access, Event, PtxBlock, WarpTrace

BRANCHES = frozenset({"BRA", "BRX", "BRXU", "EXIT", "RET", "JMP", "JMX"})

#: What the emulator tells of -> machine instructions that do it.
_FAMILIES: dict[str, str] = {
    "access": "LDG LDS LDSM LD STG STS ST STSM RED REDG ATOM ATOMG ATOMS LDGSTS LDL STL",
    "copy": "LDGSTS UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED STAS REDAS",
    "commit": "LDGDEPBAR ARRIVES UTMACMDFLUSH UTCBAR HGMMA IGMMA QGMMA BGMMA",
    "wait": "DEPBAR WARPGROUP",
    "mma": "HMMA IMMA QMMA OMMA DMMA BMMA",
    "wgmma": "HGMMA IGMMA QGMMA BGMMA",
    "tcgen05": "UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCMXQMMA",
    "transfer": "LDTM STTM UTCCP",
    "mbarrier": "SYNCS",
    "barrier": "BAR",
    "cluster": "UCGABAR_ARV UCGABAR_WAIT",
    "registers": "USETMAXREG",
}
FAMILIES_OF: dict[str, tuple[str, ...]] = {}
for _family, _names in _FAMILIES.items():
    for _name in _names.split():
        FAMILIES_OF[_name] = (*FAMILIES_OF.get(_name, ()), _family)
UNITS = frozenset(FAMILIES_OF)
"""Opcodes of machine instructions that the emulator tells something of."""

_LOADS = frozenset({"LDG", "LDS", "LDSM", "LD", "LDL", "STL"})
"""Of those, what ptxas may move to another block, or adds on its own."""
_SPARE = ("LDL", "STL", "WARPGROUP.DEPBAR")
"""What ptxas adds on its own as often as it likes: spills, and waits for products that it could not keep in flight."""
_EFFECTS = UNITS - _LOADS | {"UTCATOMSWS", "NANOSLEEP"}

_FAMILY_OF_TYPE: dict[type, str] = {
    Access: "access", Copy: "copy", Commit: "commit", WaitGroup: "wait", Transfer: "transfer", BarrierInit: "mbarrier",
    Arrive: "mbarrier", PhaseWait: "mbarrier", BlockBarrier: "barrier", ClusterBarrier: "cluster",
    SetRegisters: "registers",
}  # fmt: skip


def family_of(event: Event) -> str:
    what = event.what
    return what.kind if isinstance(what, Multiply) else _FAMILY_OF_TYPE[type(what)]


_FAR = 1 << 60
_ALWAYS = ("", "PT", "UPT")
_LOOKED_AT = 8
_LOOKED_THROUGH = 24
_JUMP = 2
"""Instructions of a block that only branches."""
_MOST_REPEATS = 64
"""How often a block may follow without the trace moving on, before the two are said not to belong together."""

_MEETINGS = frozenset({"BSSY", "BSYNC", "BREAK", "EXIT", "NOP", "WARPSYNC", "YIELD"})
_DIVERGED = frozenset({"DIV", "CONV"})
"""Modifiers of branches that lead to code for warps whose threads have parted."""
_OVER_THREADS = "ANY"
"""Modifier of the way back of a loop that ptxas puts around an instruction whose operand has to be one for the warp: it
takes the threads with equal values at a time."""


def _is_added(instruction: Instruction) -> bool:
    """Whether ptxas has added it for threads to part, meet or end: its line is that of some branch near by, often of a
    loop's way back, and says nothing of where the code belongs."""
    if instruction.opcode in _MEETINGS:
        return instruction.predicate in _ALWAYS
    return instruction.opcode == "BRA" and not _DIVERGED.isdisjoint(instruction.modifiers)


class MachineBlock(NamedTuple):
    """A basic block of the machine code, prepared for the walk."""

    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
    """Numbers of blocks, the branch's target first."""
    anchors: tuple[int, ...]
    """PTX lines of its instructions with effects that are executed whenever the block is, each once, in order."""
    guarded: tuple[int, ...]
    """PTX lines of those that are executed under a predicate, and of loads."""
    lines: tuple[int, ...]
    """All PTX lines of it that the walk asks for."""
    copies: int
    """How many iterations of the PTX's loop it stands for."""
    loops: bool
    """Whether it goes back to its own beginning, as a loop of the PTX does."""
    branches_only: bool
    """Whether none of its anchors but branches has an effect."""
    jumps: bool
    """Whether it is a branch and little else.  ptxas makes one of several, with the line of one of them: a warp that
    has taken another of these goes there too."""
    places: dict[tuple[int, str], tuple[int, ...]]
    """(PTX line, family) -> positions of the instructions that are made of it."""
    families: dict[str, tuple[int, ...]]
    """Family -> positions of its instructions."""


class Step(NamedTuple):
    """One execution of a block of the machine code."""

    block: int
    events: tuple[tuple[int, tuple[Event, ...]], ...]
    """(position of an instruction in the block, what it did), in order of position."""


class NoPath(SimulationError):
    """The machine code cannot have taken the path of the PTX."""


def prepare(code: MachineCode, known: set[int], branches: set[int], several: Collection[int]) -> list[MachineBlock]:
    """The blocks of an entry; ``known`` are the lines of the PTX that traces have, ``branches`` those that branch,
    ``several`` those of more than one instruction."""
    numbers = {block.start: number for number, block in enumerate(code.blocks)}
    found = []
    jumps: set[int] = set()  # line of the branch that ends the block before
    for block in code.blocks:
        instructions = code.instructions[block.start // INSTRUCTION_BYTES : block.end // INSTRUCTION_BYTES]
        anchors: dict[int, None] = {}
        effects = False
        guarded: dict[int, None] = {}
        places: dict[tuple[int, str], list[int]] = {}
        families: dict[str, list[int]] = {}
        only_of = {each.ptx_line for each in instructions}
        for position, instruction in enumerate(instructions):
            line, opcode = instruction.ptx_line, instruction.opcode
            for family in FAMILIES_OF.get(opcode, ()):
                families.setdefault(family, []).append(position)
                places.setdefault((line, family), []).append(position)
            if line not in known:
                continue
            # A branch is there whether it is taken or not.  ptxas puts some on the line behind the PTX's branch.
            branches_here = opcode in BRANCHES and line in branches
            if _is_added(instruction):
                continue
            if branches_here and line in jumps and (len(instructions) <= _JUMP or only_of == {line}):
                continue  # of the next branch of the PTX, which has this one's line
            if branches_here or opcode in _EFFECTS and instruction.predicate in _ALWAYS:
                anchors[line] = None
                effects |= not branches_here
            elif opcode in _EFFECTS or opcode in _LOADS:
                guarded[line] = None
        for line in anchors:
            guarded.pop(line, None)
        jumps = {each.ptx_line for each in instructions[-1:] if each.opcode in BRANCHES}
        plain = (each.ptx_line for each in instructions if each.opcode not in BRANCHES and not _is_added(each))
        lines = dict.fromkeys((*anchors, *(line for line in plain if line in known)))
        found.append(MachineBlock(
            instructions, tuple(numbers[start] for start in block.successors), tuple(anchors), tuple(guarded),
            tuple(lines), _copies(instructions, known - branches, several),
            block.start in block.successors and _OVER_THREADS not in instructions[-1].modifiers,
            not effects, not effects and len(instructions) <= _JUMP,
            {key: tuple(at) for key, at in places.items()}, {key: tuple(at) for key, at in families.items()},
        ))  # fmt: skip
    asked = {line for block in found for line in (block.anchors or block.guarded or block.lines)}
    return [block._replace(lines=tuple(line for line in block.lines if line in asked)) for block in found]


def _copies(instructions: tuple[Instruction, ...], known: set[int], several: Collection[int]) -> int:
    """How many iterations of a PTX loop the block holds, when ptxas has unrolled it: how often most of its lines occur
    with the same machine instruction.  `known`: lines that branch are none of them, since moves of what the loop
    carries have the line of its way back.

    Lines of memory and barriers are asked first, of which the machine has one instruction each; products may be several
    instructions, and what else a line stands for (addresses, constants) often is, as is a line of several of the PTX
    (inline assembly of a tile's products).
    """
    if instructions[-1].target is None or instructions[-1].target > instructions[-1].address:
        return 1
    counts: tuple[dict[tuple[int, str], int], ...] = ({}, {}, {})
    for instruction in instructions:
        line, opcode = instruction.ptx_line, instruction.opcode
        if line in known and line not in several:
            moves = (opcode in _EFFECTS or opcode in _LOADS) and not instruction.name.startswith(_SPARE)
            kind = 2 if not moves else 1 if "mma" in FAMILIES_OF.get(opcode, ()) else 0
            counts[kind][line, instruction.name] = counts[kind].get((line, instruction.name), 0) + 1
    for each in counts:
        most: dict[int, int] = {}
        for (line, _), count in each.items():
            most[line] = max(most.get(line, 0), count)
        if most:
            return median_low(most.values())
    return 1


class _Trace:
    """A warp's trace: where in it the lines of the PTX come."""

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
                known = self.visits.get(line)
                self.visits[line] = positions if known is None else sorted({*known, *positions})
        self.consumed: dict[int, int] = {}
        self.cursor = 0

    def visited(self, line: int, until: int) -> bool:
        """Whether the line is executed between where the walk is and a later position."""
        positions = self.visits.get(line)
        if positions is None:
            return False
        at = bisect_left(positions, self.cursor - 1)
        return at < len(positions) and positions[at] <= until

    def is_past(self, line: int) -> bool:
        """Whether the line was executed and will not be again."""
        positions = self.visits.get(line)
        return positions is not None and positions[-1] < self.cursor - 1

    def following(self, line: int) -> int:
        """Where the line comes next that has not been executed yet."""
        positions = self.visits.get(line)
        if positions is None:
            return _FAR
        at = bisect_right(positions, max(self.cursor - 1, self.consumed.get(line, -1)))
        return positions[at] if at < len(positions) else _FAR

    def execute(self, block: MachineBlock) -> int:
        """Consume what one execution of the block stands for; the position in the trace that it reaches."""
        reached = self.cursor
        anchors = block.anchors
        if not anchors:
            if not block.loops:
                return reached  # its instructions may be from anywhere
            found = sorted(at for line in block.lines if (at := self.following(line)) < _FAR)
            limit = found[(len(found) - 1) // 2] if found else self.cursor
            anchors = tuple(line for line in block.lines if self.following(line) <= limit)
        for line in anchors:
            for _ in range(block.copies):
                at = self.following(line)
                if at == _FAR:
                    break
                self.consumed[line] = at
                reached = max(reached, at)
        for line in block.lines:
            if self.consumed.get(line, -1) < reached and line not in anchors:
                positions = self.visits[line] if line in self.visits else []
                # What ptxas has put before an instruction with effects, in another block, does not stand for it.
                at = (bisect_left if line in self.anchored else bisect_right)(positions, reached) - 1
                if at >= 0:
                    self.consumed[line] = max(self.consumed.get(line, -1), positions[at])
        return reached


class Walk(NamedTuple):
    """A path through the machine code: numbers of blocks, and the position in the PTX trace that each reached."""

    blocks: tuple[int, ...]
    reached: tuple[int, ...]


class Walker:
    """Walks of the warps of one recording, of which many take the same path."""

    def __init__(self, code: MachineCode, ptx: dict[int, PtxBlock], skipped: Collection[int] = ()) -> None:
        """``ptx``: the blocks that warps have executed; ``skipped``: lines of those that none has."""
        self.ptx = ptx
        counts = Counter(line for block in ptx.values() for line in block.lines)
        known = set(counts)
        several = {line for line, count in counts.items() if count > 1}
        self.blocks = prepare(code, known, {block.branch for block in ptx.values()}, several)
        told = known | set(skipped)
        self._block_of = {line: block for block in ptx.values() for line in block.lines if counts[line] == 1}
        self._lines = [self._lines_from(number, told) for number in range(len(self.blocks))]
        self.known = {key for block in self.blocks for key in block.places}
        self._anchored = {line for block in self.blocks for line in block.anchors}
        self._walks: dict[tuple[int, ...], Walk] = {}
        self.told = self.crowded = 0

    def follow(self, trace: WarpTrace) -> list[Step]:
        """The blocks of the machine code that the warp executed, with what their instructions did.

        Raises NoPath where the two programs do not belong together.
        """
        key = tuple(trace.visits)
        walk = self._walks.get(key)
        if walk is None:
            walk = self._walks[key] = self._walk(trace)
        events = _Events(trace, self.ptx, self.known)
        taken = [events.take(self.blocks[number], at) for number, at in zip(walk.blocks, walk.reached)]
        events.give_rest(walk, self.blocks, taken)
        self.told += events.told
        self.crowded += events.crowded
        return [
            Step(number, tuple((position, tuple(told[position])) for position in sorted(told)))
            for number, told in zip(walk.blocks, taken)
        ]

    @property
    def doubtful(self) -> float:
        """Share of what was told that went to an execution of its instruction that had some already: more than a few
        hundredths mean that the walk has gone another way than the warps."""
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
                positions[-1] = view.length  # what is left belongs to the end
                return Walk(tuple(path), tuple(positions))
            # What comes before the following block takes up is still this block's: instructions under a predicate, and
            # those that ptxas has moved behind the last that is always executed.
            begins = self._first(following, view)
            if begins < _FAR:
                positions[-1] = max(reached, begins - 1)
            number = following

    def _next(self, block: MachineBlock, view: _Trace) -> int | None:
        last = block.instructions[-1]
        leaves = last.opcode in ("EXIT", "RET")
        if not block.successors:
            return None
        if len(block.successors) == 1 and not leaves:
            return block.successors[0]
        choices = []
        for order, successor in enumerate(block.successors):
            first = self._first(successor, view)
            # Where both come equally soon, it is not the one of which other PTX would have come before, and what
            # follows in the code is more likely than a branch to code put aside.
            foreign, between = (self._foreign(successor, view, until, first < _FAR) for until in (_FAR, first))
            foreign |= self._leads_astray(successor, view)
            choices.append((foreign, first, between, -order))
        _, best, _, order = min(choices)
        return None if best == _FAR and leaves else block.successors[-order]

    def _lines_from(self, number: int, told: Collection[int]) -> tuple[int, ...]:
        """PTX lines of the instructions of a block, and of what it runs into where it only prepares that: there ptxas
        puts what it has moved out of a loop."""
        found: list[int] = []
        while True:
            block = self.blocks[number]
            alone = len(block.instructions) <= _JUMP  # its branch may be one of several
            lines = [each.ptx_line for each in block.instructions
                     if each.ptx_line in told and not _is_added(each) and not (alone and each.opcode in BRANCHES)]
            guarded = self._guarded_here(block)
            found += [line for line in lines if line not in guarded] or lines
            prepares = block.successors == (number + 1,) and len(block.instructions) > _JUMP
            # Code for warps whose threads have parted is elsewhere: what follows is what the branch goes around.
            prepares |= number + 1 in block.successors and _is_added(block.instructions[-1])
            if block.anchors or not prepares or len(found) >= _LOOKED_AT:
                return tuple(found)
            number += 1

    def _guarded_here(self, block: MachineBlock) -> set[int]:
        """PTX lines of which ptxas has made instructions under a predicate in the place of a branch around them: what
        they prepare is executed whether they are or not, and says nothing of what else is in the block."""
        effects = [each for each in block.instructions if each.opcode in _EFFECTS and each.predicate not in _ALWAYS]
        around = {self._block_of[each.ptx_line] for each in effects if each.ptx_line in self._block_of}
        return {line for each in around for line in each.lines}

    def _foreign(self, number: int, view: _Trace, until: int, comes: bool) -> bool:
        """Whether a block is made of PTX that the warp does not execute before a position of its trace.  ptxas moves
        instructions to where they are not always needed, so some of a block say nothing; nor does what the warp has
        done before, in a block that is still to come (`comes`): that was sunk to its use."""
        lines: Collection[int] = self._lines[number]
        if comes:
            lines = [line for line in lines if not view.is_past(line)]
        return len(lines) > 2 * sum(view.visited(line, until) for line in lines)

    def _leads_astray(self, number: int, view: _Trace) -> bool:
        """Whether a block has an effect only on where the warp goes, and whatever follows it is PTX that the warp does
        not execute.  ptxas gives a branch the line of the branch before at times: of one that leads elsewhere."""
        block = self.blocks[number]
        if not block.branches_only or not block.anchors or block.instructions[-1].opcode in ("EXIT", "RET"):
            return False
        return bool(block.successors) and all(self._first(each, view) == _FAR for each in block.successors)

    def _first(self, number: int, view: _Trace) -> int:
        """Where in the trace a block takes up: at its first instruction with effects, else at those of the blocks it
        leads to; at any of its instructions where there are none, and for a loop of its own."""
        block = self.blocks[number]
        if block.anchors:
            soonest = self._soonest(block, view)
            if soonest < _FAR or not block.jumps or block.loops:
                return soonest
        own = min((view.following(line) for line in (block.guarded or block.lines)[:_LOOKED_AT]), default=_FAR)
        if block.loops:
            return own
        found, seen, waiting = _FAR, {number}, list(block.successors)
        anchored = bool(block.anchors)
        while waiting and len(seen) < _LOOKED_THROUGH:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            following = self.blocks[at]
            if following.anchors:
                anchored = True
                soonest = self._soonest(following, view)
                found = min(found, soonest)
                if soonest < _FAR or not following.jumps or following.loops:
                    continue
            waiting += following.successors
        return found if anchored else own

    @staticmethod
    def _soonest(block: MachineBlock, view: _Trace) -> int:
        return min(view.following(line) for line in block.anchors[:_LOOKED_AT])


class _Events:
    """What a warp did and what is still to be given to instructions, in order, the first last."""

    def __init__(self, trace: WarpTrace, ptx: dict[int, PtxBlock], known: set[tuple[int, str]]) -> None:
        self.queues: dict[tuple[int, str], list[tuple[int, list[Event]]]] = {}
        self.told = self.crowded = 0
        self.visits = trace.visits
        self.lost: list[tuple[int, Event]] = []  # whose line no instruction of their family has
        for at in sorted(trace.events):
            lines = ptx[trace.visits[at]].lines
            for event in trace.events[at]:
                # A guarded instruction that ends a block has its effects in a block of its own behind it.
                where = at if event.line in lines else max(at - 1, 0)
                key = (event.line, family_of(event))
                if key not in known:
                    self.lost.append((where, event))
                    continue
                queue = self.queues.setdefault(key, [])
                if queue and queue[-1][0] == where:
                    queue[-1][1].append(event)
                else:
                    queue.append((where, [event]))
        for queue in self.queues.values():
            queue.reverse()
        self.lost.reverse()

    def take(self, block: MachineBlock, reached: int) -> dict[int, list[Event]]:
        """What the instructions of one execution of a block did, by position, up to a position of the trace."""
        merged: dict[int, list[Event]] = {}
        for key, positions in block.places.items():
            queue = self.queues.get(key)
            if not queue or queue[-1][0] > reached:
                continue
            due: list[list[Event]] = []
            again: set[int] = set()
            while queue and queue[-1][0] <= reached:
                at, events = queue.pop()
                due.append(events)
                again.add(self.visits[at])
            self.told += len(due)
            # One line may have several statements, each in a block of its own.
            self.crowded += max(0, len(due) - len(again) + 1 - len(positions))
            # Several instructions may be made of one, and one of several that ptxas has merged.
            for index, events in enumerate(due):
                merged.setdefault(positions[index * len(positions) // len(due)], []).extend(events)
        taken: dict[str, int] = {}
        while self.lost and self.lost[-1][0] <= reached:
            _, event = self.lost.pop()
            family = family_of(event)
            if family == "access":
                continue  # ptxas needs no access for it
            positions = block.families.get(family, (len(block.instructions) - 1,))
            index = taken.get(family, 0)
            taken[family] = index + 1
            at = -1 if family == "commit" else min(index, len(positions) - 1)
            merged.setdefault(positions[at], []).append(event)
        return merged

    def give_rest(self, walk: Walk, blocks: list[MachineBlock], taken: list[dict[int, list[Event]]]) -> None:
        """What no execution of a block has taken goes to the last that could: nothing may be lost that others wait
        for."""
        for key, queue in self.queues.items():
            for at in range(len(walk.blocks) - 1, -1, -1) if queue else ():
                positions = blocks[walk.blocks[at]].places.get(key)
                if positions is not None:
                    for _, events in reversed(queue):
                        taken[at].setdefault(positions[-1], []).extend(events)
                    break
