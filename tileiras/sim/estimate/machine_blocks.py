"""Basic blocks of an entry's machine code, prepared for the walk of a warp's path.

ptxas gives each machine instruction a line of the PTX. Instructions that it adds for divergence and reconvergence have
the line of some nearby branch, one instruction may represent several branches, and the block of a loop several
iterations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median_low

from tileiras.codegen.machine_code import INSTRUCTION_BYTES, Instruction, MachineCode
from tileiras.support.named_tuple import NamedTuple

BRANCHES = frozenset({"BRA", "BRX", "BRXU", "EXIT", "RET", "JMP", "JMX"})
ENDS = frozenset({"EXIT", "RET"})

#: Event family of the emulator -> machine instructions that implement it.
_FAMILIES: dict[str, str] = {
    "access": "LDG LDS LDSM LD STG STS ST STSM RED REDG ATOM ATOMG ATOMS LDL STL",
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
    "sleep": "NANOSLEEP",
}
FAMILIES_OF: dict[str, tuple[str, ...]] = {}
for _family, _names in _FAMILIES.items():
    for _name in _names.split():
        FAMILIES_OF[_name] = (*FAMILIES_OF.get(_name, ()), _family)
UNITS = frozenset(FAMILIES_OF)
"""Opcodes of machine instructions with an event of the emulator."""

LOADS = frozenset({"LDG", "LDS", "LDSM", "LD", "LDL", "STL"})
"""Those of them that ptxas may move to another block, or add."""
_SPARE = ("LDL", "STL", "WARPGROUP.DEPBAR")
"""Instructions that ptxas adds in any number: spills, and waits for dots that it could not keep in flight."""
EFFECTS = UNITS - LOADS | {"UTCATOMSWS"}

ALWAYS = ("", "PT", "UPT")
JUMP = 2
"""Most instructions of a block that only branches."""

_MEETINGS = frozenset({"BSSY", "BSYNC", "BREAK", "EXIT", "NOP", "WARPSYNC", "YIELD"})
_DIVERGED = frozenset({"DIV", "CONV"})
"""Modifiers of branches that lead to code for diverged warps."""
_OVER_THREADS = "ANY"
"""Modifier of the back edge of a loop that ptxas puts around an instruction whose operand has to be warp-uniform: it
executes the threads with equal values at a time."""


def is_added(instruction: Instruction) -> bool:
    """Whether ptxas has added it for divergence, reconvergence or exit: its line is that of some nearby branch,
    often of a loop's back edge, and is no evidence of the position in the PTX."""
    if instruction.opcode in _MEETINGS:
        return instruction.predicate in ALWAYS
    return instruction.opcode == "BRA" and not _DIVERGED.isdisjoint(instruction.modifiers)


def _waits_by_itself(instruction: Instruction) -> bool:
    """Whether it waits for dots. Where ptxas cannot keep them in flight, it adds a wait before each use of their
    registers, with the line of some computation that it has put nearby."""
    return instruction.opcode == "WARPGROUP" and "DEPBAR" in instruction.modifiers


def is_move(instruction: Instruction) -> bool:
    """Whether it copies a register; ptxas uses other units for some copies (`IMAD.MOV`)."""
    return instruction.opcode in ("MOV", "UMOV") or "MOV" in instruction.modifiers


class MachineBlock(NamedTuple):
    """A basic block of the machine code, prepared for the walk."""

    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
    """Numbers of blocks, the branch target first."""
    anchors: tuple[int, ...]
    """PTX lines of its unpredicated instructions with effects, each once, in order."""
    guarded: tuple[int, ...]
    """PTX lines of its predicated instructions with effects, and of loads."""
    lines: tuple[int, ...]
    """All PTX lines of it that the walk uses."""
    copies: int
    """Number of iterations of the PTX loop that it contains."""
    unrolled: frozenset[int]
    """Anchors whose executions are all in it, of a loop that ptxas has unrolled as a whole: it is executed once, and no
    other block has instructions of theirs."""
    loops: bool
    """Whether it branches to its own beginning, as a loop of the PTX does."""
    branches_only: bool
    """Whether none of its anchors but branches has an effect."""
    jumps: bool
    """Whether it is hardly more than a branch. ptxas merges several branches into one with the line of one of them:
    a warp that has taken another of these goes there too."""
    places: dict[tuple[int, str], tuple[int, ...]]
    """(PTX line, family) -> positions of the instructions that implement it."""
    families: dict[str, tuple[int, ...]]
    """Family -> positions of its instructions."""

    @property
    def joint_branch(self) -> int | None:
        """PTX line of the conditional branch at its end, behind other effects: ptxas may have made it of several."""
        alone = len(self.successors) < 2 or len(self.anchors) < 2 or self.copies > 1
        return None if alone else self.instructions[-1].ptx_line

    @property
    def calls(self) -> bool:
        """Whether it ends with a call of a subroutine."""
        return self.instructions[-1].opcode == "CALL"


def prepare(code: MachineCode, ptx_lines: set[int], branches: set[int], several: Collection[int],
            behind: Mapping[int, int]) -> list[MachineBlock]:  # fmt: skip
    """Prepare the blocks of an entry; ``ptx_lines`` are the lines of the PTX in traces, ``branches`` those that branch,
    ``several`` those of more than one instruction; ``behind``: line of an unconditional branch behind a conditional
    one -> line of the latter."""
    numbers = {block.start: number for number, block in enumerate(code.blocks)}
    computed = {each.ptx_line for each in code.instructions if each.opcode != "WARPGROUP" and not is_move(each)}
    value = []
    jumps: set[int] = set()  # line of the branch that ends the previous block
    for block in code.blocks:
        *before, last = code.instructions[block.start // INSTRUCTION_BYTES : block.end // INSTRUCTION_BYTES]
        # Of a conditional branch and the jump behind it ptxas makes one branch, with the line of either; a warp
        # executes the jump only where it does not take the branch.
        merged = len(block.successors) > 1 and last.opcode in BRANCHES
        line = behind.get(last.ptx_line, last.ptx_line) if merged else last.ptx_line
        instructions = (*before, last._replace(ptx_line=line))
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
            if line not in ptx_lines:
                continue
            # A branch is executed whether it is taken or not. ptxas gives some the line after the PTX's branch.
            branches_here = opcode in BRANCHES and line in branches
            if is_added(instruction) or _waits_by_itself(instruction) and line in computed:
                continue
            if branches_here and line in jumps and (len(block.successors) == 1 or len(instructions) <= JUMP
                                                    or only_of == {line}):  # fmt: skip
                continue  # the other way of this branch, or of the next branch of the PTX, which has this one's line
            if branches_here or opcode in EFFECTS and instruction.predicate in ALWAYS:
                anchors[line] = None
                effects |= not branches_here
            elif opcode in EFFECTS or opcode in LOADS:
                guarded[line] = None
        for line in anchors:
            guarded.pop(line, None)
        jumps = {last.ptx_line} if last.opcode in BRANCHES else set()
        plain = (each.ptx_line for each in instructions if each.opcode not in BRANCHES and not is_added(each))
        lines = dict.fromkeys((*anchors, *(line for line in plain if line in ptx_lines)))
        value.append(MachineBlock(
            instructions, tuple(numbers[start] for start in block.successors), tuple(anchors), tuple(guarded),
            tuple(lines), _copies(instructions, ptx_lines - branches, several), frozenset(),
            block.start in block.successors and _OVER_THREADS not in instructions[-1].modifiers,
            not effects, not effects and len(instructions) <= JUMP,
            {key: tuple(at) for key, at in places.items()}, {key: tuple(at) for key, at in families.items()},
        ))  # fmt: skip
    result = {line for block in value for line in (block.anchors or block.guarded or block.lines)}
    value = [block._replace(lines=tuple(line for line in block.lines if line in result)) for block in value]
    value = [block._replace(successors=_behind_call(block, value)) for block in value]
    return [block._replace(unrolled=lines) for block, lines in zip(value, _unrolled(value, {*branches, *several}))]


def _unrolled(blocks: Sequence[MachineBlock], ambiguous: Collection[int]) -> Iterator[frozenset[int]]:
    """`MachineBlock.unrolled` of each block; ``ambiguous``: lines that may be those of other instructions."""
    holders: dict[int, set[int]] = {}
    for number, block in enumerate(blocks):
        for each in block.instructions:
            if each.opcode in EFFECTS or each.opcode in LOADS:
                holders.setdefault(each.ptx_line, set()).add(number)
    repeated = _repeated(blocks)
    for number, block in enumerate(blocks):
        own = (line for line in block.anchors if line not in ambiguous and holders.get(line) == {number})
        yield frozenset() if number in repeated else frozenset(own)


def _repeated(blocks: Sequence[MachineBlock]) -> set[int]:
    """Blocks on a cycle of the control flow, or between two."""
    rest = set(range(len(blocks)))
    size = -1
    while size != len(rest):
        size = len(rest)
        entered = {each for number in rest for each in blocks[number].successors}
        rest &= entered
        rest = {number for number in rest if not rest.isdisjoint(blocks[number].successors)}
    return rest


def _behind_call(block: MachineBlock, blocks: list[MachineBlock]) -> tuple[int, ...]:
    """The successors of a block without a subroutine of ptxas's own, such as the slow path of a division: its
    instructions have the lines of the kernel's end and say nothing about the path, which goes on behind the call."""
    if not block.calls or len(block.successors) < 2:
        return block.successors
    ends = {each.ptx_line for other in blocks for each in other.instructions if each.opcode in ENDS}
    target, *behind = block.successors
    reached, waiting = {target}, [target]
    while waiting:
        following = blocks[waiting.pop()]
        if not ends.issuperset((*following.anchors, *following.guarded, *following.lines)):
            return block.successors
        waiting += [each for each in following.successors if each not in reached]
        reached.update(following.successors)
    return tuple(behind)


def _copies(instructions: tuple[Instruction, ...], ptx_lines: set[int], several: Collection[int]) -> int:
    """Unroll factor of a PTX loop in the block: how often most of its lines occur with the same machine instruction.
    `ptx_lines` lines that branch do not count, since moves of loop-carried values have the line of the back edge.

    Lines of memory accesses and barriers are considered first, since each is one machine instruction; dots may be
    several instructions, and other uses of a line (addresses, constants) often are, as is a line of several PTX
    instructions (inline assembly of a tile's dots).
    """
    if instructions[-1].target is None or instructions[-1].target > instructions[-1].address:
        return 1
    counts: tuple[dict[tuple[int, str], int], ...] = ({}, {}, {})
    for instruction in instructions:
        line, opcode = instruction.ptx_line, instruction.opcode
        if line in ptx_lines and line not in several:
            moves = (opcode in EFFECTS or opcode in LOADS) and not instruction.name.startswith(_SPARE)
            kind = 2 if not moves else 1 if "mma" in FAMILIES_OF.get(opcode, ()) else 0
            counts[kind][line, instruction.name] = counts[kind].get((line, instruction.name), 0) + 1
    for each in counts:
        most: dict[int, int] = {}
        for (line, _), count in each.items():
            most[line] = max(most.get(line, 0), count)
        if most:
            return median_low(most.values())
    return 1
