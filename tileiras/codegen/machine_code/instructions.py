"""Decoded machine code of a cubin: instructions with their control fields, basic blocks, and the lines of PTX
and of the source from its line tables."""

from __future__ import annotations

from tileiras.support.named_tuple import NamedTuple


class Instruction(NamedTuple):
    """One machine instruction (SASS) of an entry, with the fields of its control word."""

    address: int
    """Bytes from the start of the entry's code; instructions take 16 each."""
    predicate: str
    """`P0`, `!UP1`: the instruction is executed where this holds.  Empty without a guard."""
    opcode: str
    """`IMAD` of `IMAD.WIDE.U32`."""
    modifiers: tuple[str, ...]
    """The suffixes of the opcode: `("WIDE", "U32")`."""
    operands: tuple[str, ...]
    """As nvdisasm writes them, destinations first; labels are in `target`."""
    stall: int
    """Cycles, 0 to 15, before the next instruction of the warp may issue."""
    yield_flag: bool
    """Whether the scheduler is asked to prefer another warp afterwards."""
    write_scoreboard: int | None
    """Scoreboard, 0 to 5, that is held until the results are written; None for fixed-latency instructions."""
    read_scoreboard: int | None
    """Scoreboard that is held until the operands have been read."""
    wait_mask: int
    """Bit n: the instruction waits until scoreboard n is free."""
    reuse: int
    """Bit n: source operand n stays in the operand cache for the next instruction."""
    ptx_line: int
    """Line of the PTX, counted from 1, on which the statement begins that the instruction was generated from; 0 if
    absent from the line table.  If ptxas unrolled a loop, one line has several instructions."""
    source: tuple[str, int] | None
    """File and line of the user's source; None without `.loc` directives in the PTX."""
    target: int | None = None
    """Address that a branch goes to, where the instruction names one."""

    @property
    def name(self) -> str:
        """Opcode and modifiers: `IMAD.WIDE.U32`."""
        return ".".join((self.opcode, *self.modifiers))


class BasicBlock(NamedTuple):
    """Instructions that are executed one after the other, entered at the first and left at the last."""

    start: int
    """Address of its first instruction."""
    end: int
    """Address after its last one."""
    successors: tuple[int, ...]
    """Start addresses of the successors: the branch's target, then the block after it.  Empty after
    `EXIT`, and after an indirect branch, whose targets are not known."""


class MachineCode(NamedTuple):
    """The machine code of one entry of a cubin, and its resources."""

    entry: str
    target: str
    """The chip that the code is for: `sm_90a`."""
    instructions: tuple[Instruction, ...]
    blocks: tuple[BasicBlock, ...]
    by_ptx_line: dict[int, tuple[Instruction, ...]]
    """Instructions in order of address by the PTX line that they were generated from; those without one under 0."""
    registers: int
    """Of a thread, at entry (before any `setmaxnreg`)."""
    shared: int
    """Bytes of shared memory that the code declares; the bytes that launches add are not included."""
    local: int
    """Bytes of a thread's stack: spilled registers, and arrays that are indexed by a variable."""

    def at(self, address: int) -> Instruction:
        """The instruction at an address.  Raises KeyError if there is no instruction."""
        index, rest = divmod(address, INSTRUCTION_BYTES)
        if rest or not 0 <= index < len(self.instructions):
            raise KeyError(address)
        return self.instructions[index]


INSTRUCTION_BYTES = 16
"""Two words of 64 bits on every target since sm_70."""
