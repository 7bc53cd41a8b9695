"""Machine code of an entry for the engine: segments of instructions that end where a warp may wait or use a unit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tileiras.codegen.machine_code import Instruction
from tileiras.sim.estimate.machine_blocks import UNITS, MachineBlock
from tileiras.sim.estimate.operand_reads import bank_cycles
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.rates import SHARED_PIPES, SUB_CORES, Gpu

WARP = 32

#: Pipe -> opcodes that it executes (CUDA Binary Utilities, "Instruction Set Reference"; the assignment follows the
#: throughput table of the CUDA C++ Programming Guide for the operations that use them).
_OPCODES: dict[str, str] = {
    "fma": "FADD FMUL FFMA FADD2 FMUL2 FFMA2 FFMA32I FADD32I FMUL32I FSWZADD",
    "half": "HADD2 HMUL2 HFMA2 HSET2 HSETP2 HMNMX2 HADD2_32I HFMA2_32I HMUL2_32I",
    "imad": "IMAD IMUL IDP IDP4A IMAD32I",
    "mufu": "MUFU",
    "conversion": "F2F F2I I2F FRND F2IP I2I POPC FLO BREV FCHK",
    "fp64": "DADD DMUL DFMA DSETP DMNMX",
    "shuffle": "SHFL REDUX CREDUX",
    "branch": "BRA BRX BRXU EXIT RET CALL JMP BSSY BSYNC BREAK WARPSYNC",
    "lsu": "LDS LDSM STS STSM ATOMS LDG STG LD ST LDL STL RED REDG ATOM ATOMG LDGSTS LDC",
    "tensor": "HMMA IMMA QMMA OMMA DMMA BMMA",
}
PIPE_OF = {opcode: pipe for pipe, names in _OPCODES.items() for opcode in names.split()}
_PACKED = frozenset({"FADD2", "FMUL2", "FFMA2"})
"""Two results per lane."""
_COLLECTED = frozenset({"fma", "half", "imad", "alu"})
"""Pipes whose instructions read their operands in fixed cycles after their issue."""
_UNIFORM = frozenset({"R2UR", "S2UR", "ULDC", "LDCU", "REDUX", "UMOV", "ELECT", "VOTEU"})


def pipe_of(instruction: Instruction) -> str:
    """The pipe of an instruction; `alu` by default."""
    opcode = instruction.opcode
    pipe = PIPE_OF.get(opcode)
    if pipe == "mufu" and "EX2" in instruction.modifiers:
        return "ex2"
    if pipe is not None:
        return pipe
    if opcode in _UNIFORM or opcode.startswith("U") and not opcode.startswith(("UTM", "UTC", "UBL")):
        return "uniform"
    return "none" if opcode.startswith(("UT", "UBL", "HGMMA", "QGMMA", "IGMMA", "NOP")) else "alu"


@dataclass(slots=True)
class Segment:
    """Consecutive instructions of a warp; only the last may have effects beyond registers, and only the first waits
    for scoreboards."""

    number: int
    """In the machine code."""
    wait: int
    """Mask of the awaited scoreboards."""
    issues: int
    cycles: int
    """From the first issue until the warp can issue the next segment, on an idle sub-core."""
    pipes: tuple[tuple[str, float, float], ...]
    """(pipe, cycles that it is busy in all, cycles of the last instruction there)."""
    first: int
    """Number of the first instruction in the code."""
    last: Instruction
    stall: int
    """Cycles from the issue of the last one to that of the next."""
    position: int
    """Of the last one in its block."""
    tensor: bool
    """Whether the last one is an `mma`."""
    acts: bool
    """Whether the last one uses a scoreboard, branches, or may have an event of the emulator."""
    group: int | None = None
    """Effect of the last one on groups of `wgmma`: COMMITS, or the number of groups that the wait leaves."""
    fences: bool = False
    """Whether the last one waits until the stores of the warp are visible to other SMs."""


COMMITS = -1
"""A `wgmma` that closes a group: the counter `gsb0` is incremented."""


def _group(instruction: Instruction) -> int | None:
    """ptxas may wait for groups where the PTX does not (it then reports that dots are serialized), so the groups of
    the machine code count."""
    if "gsb0" not in instruction.operands:
        return None
    return int(instruction.operands[-1], 0) if instruction.opcode == "WARPGROUP" else COMMITS


def _fences(instruction: Instruction) -> bool:
    return instruction.opcode == "MEMBAR" and not _WIDE.isdisjoint(instruction.modifiers)


_WIDE = frozenset({"GPU", "SYS"})


class Machine(NamedTuple):
    """Segments by block and by number, and all instructions."""

    segments: tuple[tuple[Segment, ...], ...]
    numbered: tuple[Segment, ...]
    instructions: tuple[Instruction, ...]
    parts: dict[int, float]
    """Instruction of `mma` whose name lacks the shape -> its share of the dot of the PTX."""


_SHAPE = re.compile(r"(8|16)(8)(4|8|16|32|64|128|256)")


def mma_flops(instruction: Instruction) -> float | None:
    """FLOP of one tensor core instruction, from its name: HMMA.16816 is m16n8k16. A dot of the PTX may be several
    instructions."""
    for modifier in instruction.modifiers:
        if (match := _SHAPE.fullmatch(modifier)) is not None:
            m, n, k = map(int, match.groups())
            return 2.0 * m * n * k
    return None


def pipe_cycles(pipe: str, gpu: Gpu) -> float:
    """Cycles that one warp instruction occupies a pipe of its sub-core, or of the SM for `SHARED_PIPES`."""
    lanes = gpu.lanes.get(pipe)
    if not lanes:
        return 0.0
    return WARP / lanes if pipe in SHARED_PIPES else WARP * SUB_CORES / lanes


def compile_blocks(blocks: list[MachineBlock], gpu: Gpu) -> Machine:
    """Cut blocks into segments."""
    every: list[Instruction] = []
    items = []
    numbered: list[Segment] = []
    for block in blocks:
        segments: list[Segment] = []
        start = 0
        first = len(every)
        last_position = len(block.instructions) - 1
        for position, instruction in enumerate(block.instructions):
            acts = (
                instruction.write_scoreboard is not None
                or instruction.read_scoreboard is not None
                or instruction.opcode in UNITS
                or _fences(instruction)
                or position == last_position
            )
            following = block.instructions[position + 1] if position < last_position else None
            if acts or following is None or following.wait_mask:
                run = block.instructions[start : position + 1]
                segments.append(_segment(len(numbered) + len(segments), run, first + start, position, acts, gpu))
                start = position + 1
        every += block.instructions
        items.append(tuple(segments))
        numbered += segments
    return Machine(tuple(items), tuple(numbered), tuple(every), _parts(blocks))


def _parts(blocks: list[MachineBlock]) -> dict[int, float]:
    """Several instructions of one line in a block are parts of one dot, except those of unrolled iterations."""
    parts: dict[int, float] = {}
    first = 0
    for block in blocks:
        for (_, family), positions in block.places.items():
            if family == "mma":
                part = min(1.0, block.copies / len(positions))
                unnamed = (at for at in positions if mma_flops(block.instructions[at]) is None)
                parts.update((first + position, part) for position in unnamed)
        first += len(block.instructions)
    return parts


def _segment(
    number: int, run: tuple[Instruction, ...], first: int, position: int, acts: bool, gpu: Gpu
) -> Segment:  # fmt: skip
    busy: dict[str, float] = {}
    one: dict[str, float] = {}
    for instruction in run:
        pipe = pipe_of(instruction)
        cycles = pipe_cycles(pipe, gpu)
        if cycles and pipe not in ("lsu", "tensor"):  # the time of these depends on the operands
            cycles *= 2 if instruction.opcode in _PACKED else 1
            busy[pipe] = busy.get(pipe, 0.0) + cycles
            one[pipe] = cycles
    reads = bank_cycles([instruction for instruction in run if pipe_of(instruction) in _COLLECTED])
    if reads > len(run):  # fewer never delay the issue
        busy["operands"], one["operands"] = reads, reads / len(run)
    pipes = tuple((pipe, total, one[pipe]) for pipe, total in busy.items())
    tensor = PIPE_OF.get(run[-1].opcode) == "tensor"
    spent = sum(max(1, instruction.stall) for instruction in run)
    group, fences = _group(run[-1]), _fences(run[-1])
    last, stall = run[-1], max(1, run[-1].stall)
    return Segment(
        number, run[0].wait_mask, len(run), spent, pipes, first, last, stall, position, tensor, acts, group, fences
    )
