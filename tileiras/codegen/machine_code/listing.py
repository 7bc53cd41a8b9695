"""nvdisasm's listing of a cubin, read back: instructions, their control words, blocks, lines.

The layout of the control word is not documented; it is that of maxas and CuAssembler, checked against ptxas 13.5 on
sm_75 to sm_120.  The upper of an instruction's two words has, from bit 41 on, the stall count (4 bits), the yield flag
(1, zero where the scheduler is to prefer another warp), the write and the read scoreboard (3 each, 7 for none), the
scoreboards to wait for (6), and the operands to keep for the next instruction (4).
"""

from __future__ import annotations

import functools
import re

from tileiras.codegen import nvdisasm, output_store
from tileiras.codegen.machine_code.instructions import INSTRUCTION_BYTES, BasicBlock, Instruction, MachineCode
from tileiras.codegen.machine_code.statements import first_lines, warpgroup_products
from tileiras.codegen.object_file import Cubin
from tileiras.diagnostics import CompileError, Locatable
from tileiras.support.command_cache import remembered
from tileiras.targets.sm import TARGETS

PTX_FILE = ".nv_debug_ptx_txt"
"""How nvdisasm calls the PTX in its comments on lines: by the section that ptxas keeps it in."""

COMMAND = f"{nvdisasm.PROGRAM} -c -hex -gi -gp"
WITHOUT_DATAFLOW = f"{COMMAND} -ndf"
"""Takes a quarter less time.  Only the dataflow analysis finds the targets of indirect branches, and without these both
commands print the same."""

_INDIRECT = re.compile(r"\b(?:BRXU?|JMXU?)\b")
_INDIRECT_CODES = frozenset({(0x49, 0x9), (0x58, 0x9)})
"""Bits 0 to 7 and 8 to 11 of BRX (sm_75 to sm_120) and BRXU (sm_90 to sm_120), read off listings of ptxas 13.5's code:
they save a listing that lacks targets, and the text decides."""

_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_SECTION = re.compile(r"^\s*\.section\s+(?:\.text\.([\w$.]+?),)?")
_PLACE = re.compile(r'^\s*//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"^(\.?[\w$.]+):\s*$")
_FIRST_WORD = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x([0-9a-f]{16}) \*/")
_SECOND_WORD = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")
_BODY = re.compile(r"(?:@(!?U?P\w+)\s+)?([\w.]+)\s*(.*)")
_LABEL_OPERAND = re.compile(r"`\(([^)]+)\)")
_BRANCH_TARGETS = re.compile(r'"BRANCH_TARGETS\s+([^"]*)"')

SYSTEM_FIRST = 90
"""From this chip on, the shared memory that the system reserves in each CTA precedes the entry's own, and ptxas counts
it in the section of the entry (read off cubins of ptxas 13.5)."""

JUMPS = frozenset({"BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU"})
CALLS = frozenset({"CALL"})
ENDS = frozenset({"EXIT", "RET", "KILL"})
"""Opcodes that end a block: jumps to a target, calls that return, exits."""


def read(cubin: bytes, entry: str, location: Locatable | None = None) -> MachineCode:
    """The machine code of an entry, with the functions that ptxas placed after it.

    Raises CompileError without nvdisasm, for an invalid cubin, and for an entry that the cubin lacks.
    """
    try:
        image = Cubin(cubin)
        entries = image.entries()
    except ValueError as error:
        raise CompileError.at(location, f"not a cubin: {error}") from None
    if entry not in entries:
        names = ", ".join(entries) or "none"
        raise CompileError.at(location, f"no entry '{entry}' in the cubin; it has {names}")
    text = _listing(cubin)
    target = _TARGET.search(text)
    ptx = image.embedded_ptx()
    begins = first_lines(ptx) if ptx is not None else []
    instructions, targets = _instructions(section_of(text, entry), begins)
    if not instructions or target is None:
        raise CompileError.at(location, f"cannot read the output of nvdisasm for '{entry}'")
    if ptx is not None:
        instructions = _with_lines_of_products(instructions, warpgroup_products(ptx, entry))
    by_line: dict[int, list[Instruction]] = {}
    for instruction in instructions:
        by_line.setdefault(instruction.ptx_line, []).append(instruction)
    chip = TARGETS.get(target.group(1))
    reserved = chip.shared_reserved if chip is not None and chip.number >= SYSTEM_FIRST else 0
    return MachineCode(
        entry, target.group(1), tuple(instructions), tuple(_blocks(instructions, targets)),
        {line: tuple(result) for line, result in by_line.items()},
        image.registers(entry), image.shared(entry, reserved), image.local(entry),
    )  # fmt: skip


@remembered
@functools.lru_cache(maxsize=4)
def _listing(cubin: bytes) -> str:
    """All entries of a cubin are in one listing."""

    def run() -> bytes:
        if not _may_branch_indirectly(Cubin(cubin)):
            text = nvdisasm.disassemble(cubin, WITHOUT_DATAFLOW)
            if _INDIRECT.search(text) is None:
                return text.encode()
        return nvdisasm.disassemble(cubin, COMMAND).encode()

    return output_store.output(nvdisasm.find(), COMMAND.split()[1:], cubin, run).decode()


def _may_branch_indirectly(image: Cubin) -> bool:
    code = [image.section(f".text.{entry}") for entry in image.entries()]
    words = (zip(each[::INSTRUCTION_BYTES], each[1::INSTRUCTION_BYTES]) for each in code)
    return any((low, high & 15) in _INDIRECT_CODES for each in words for low, high in each)


def section_of(text: str, entry: str) -> list[str]:
    """The lines of an entry's section in a listing of nvdisasm."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        match = _SECTION.match(line)
        if match is not None:
            inside = match.group(1) == entry
        elif inside and line.lstrip().startswith("//--"):  # the rule above the next section
            inside = False
        elif inside:
            lines.append(line.rstrip())
    while lines and not lines[-1]:
        lines.pop()
    return lines


class _Targets(dict[int, tuple[int, ...]]):
    """Where the branches go that name more than one address, by their own."""


def _instructions(lines: list[str], begins: list[int]) -> tuple[list[Instruction], _Targets]:
    """The instructions of a function's listing, and the targets of its indirect branches as far as they are listed.

    `begins` has the line on which the statement of a line of the PTX begins.
    """
    labels: dict[str, int] = {}
    rows: list[tuple[int, str, int, int, int, tuple[str, int] | None]] = []
    ptx_line, source, chained = 0, None, False
    pending: tuple[int, str, int] | None = None
    for line in lines:
        if pending is not None:
            second = _SECOND_WORD.match(line)
            if second is not None:
                rows.append((*pending, int(second.group(1), 16), ptx_line, source))
                pending = None
                chained = False
            continue
        place = _PLACE.match(line)
        if place is not None:
            if place.group(1) == PTX_FILE:
                ptx_line = int(place.group(2))
                ptx_line = begins[ptx_line] if ptx_line < len(begins) else ptx_line
            elif not chained:  # the rows after the first say where that was inlined
                source, chained = (place.group(1), int(place.group(2))), True
            continue
        label = _LABEL.match(line)
        if label is not None:
            labels[label.group(1)] = len(rows) * INSTRUCTION_BYTES
            continue
        first = _FIRST_WORD.match(line)
        if first is not None:
            pending = (int(first.group(1), 16), first.group(2), int(first.group(3), 16))
    targets = _Targets()
    instructions = []
    for address, body, _, control, at, place_of in rows:
        listed = _BRANCH_TARGETS.search(body)
        if listed is not None:
            targets[address] = tuple(labels[name.strip()] for name in listed.group(1).split(","))
        instructions.append(_instruction(address, body, control, at, place_of, labels))
    return instructions, targets


def _instruction(
    address: int, body: str, control: int, ptx_line: int, source: tuple[str, int] | None, labels: dict[str, int]
) -> Instruction:
    match = _BODY.match(body)
    assert match is not None, body
    predicate, name, rest = match.groups()
    opcode, *modifiers = name.split(".")
    label = None if opcode in ENDS else _LABEL_OPERAND.search(rest)  # of RET: the function it is in
    write, read_board = control >> 46 & 7, control >> 49 & 7
    return Instruction(
        address=address,
        predicate=predicate or "",
        opcode=opcode,
        modifiers=tuple(modifiers),
        operands=tuple(_operands(rest)),
        stall=control >> 41 & 15,
        yield_flag=not control >> 45 & 1,
        write_scoreboard=None if write == 7 else write,
        read_scoreboard=None if read_board == 7 else read_board,
        wait_mask=control >> 52 & 63,
        reuse=control >> 58 & 15,
        ptx_line=ptx_line,
        source=source,
        target=labels.get(label.group(1)) if label is not None else None,
    )


WARPGROUP_PRODUCTS = frozenset({"HGMMA", "IGMMA", "QGMMA", "BGMMA"})


def _with_lines_of_products(instructions: list[Instruction], statements: list[tuple[int, str]]) -> list[Instruction]:
    """The instructions with the line of its own statement for each product of a warpgroup.

    ptxas gives many of them the line of another product, or that on which a descriptor was made.  It keeps their order,
    so where there is a machine instruction of its shape for each statement, the n-th is of the n-th; elsewhere lines
    stay as they are.
    """
    products = [n for n, each in enumerate(instructions) if each.opcode in WARPGROUP_PRODUCTS]
    if [instructions[n].modifiers[0] for n in products] != [shape for _, shape in statements]:
        return instructions
    sources = {each.ptx_line: each.source for each in reversed(instructions)}
    result = list(instructions)
    for n, (line, _) in zip(products, statements):
        source = sources.get(line, instructions[n].source)
        result[n] = instructions[n]._replace(ptx_line=line, source=source)
    return result


def _operands(text: str) -> list[str]:
    """Operands are separated by commas outside brackets."""
    result, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[({":
            depth += 1
        elif letter in "])}":
            depth -= 1
        elif letter == "," and depth == 0:
            result.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*result, last] if last else result


def _blocks(instructions: list[Instruction], targets: _Targets) -> list[BasicBlock]:
    starts = {instructions[0].address}
    for instruction in instructions:
        starts.update(targets.get(instruction.address, ()))
        if instruction.target is not None:  # of BSSY and WARPSYNC as well: where threads meet again
            starts.add(instruction.target)
        if instruction.opcode in JUMPS | CALLS | ENDS:
            starts.add(instruction.address + INSTRUCTION_BYTES)
    end = instructions[-1].address + INSTRUCTION_BYTES
    ordered = sorted(start for start in starts if start < end)
    blocks = []
    for start, behind in zip(ordered, [*ordered[1:], end]):
        last = instructions[behind // INSTRUCTION_BYTES - 1]
        blocks.append(BasicBlock(start, behind, _successors(last, behind if behind < end else None, targets)))
    return blocks


def _successors(last: Instruction, behind: int | None, targets: _Targets) -> tuple[int, ...]:
    """Where control goes from the last instruction of a block."""
    next_one = () if behind is None else (behind,)
    guarded = last.predicate not in ("", "PT", "UPT")
    if last.opcode in ENDS:
        return next_one if guarded else ()
    if last.opcode not in JUMPS | CALLS:
        return next_one
    listed = targets.get(last.address, () if last.target is None else (last.target,))
    # A branch may test a predicate that is an operand: `BRA.U UP0, label`, `BRA P0, label`.
    conditional = guarded or len(last.operands) > 1
    return tuple(dict.fromkeys((*listed, *(next_one if conditional or last.opcode in CALLS else ()))))
