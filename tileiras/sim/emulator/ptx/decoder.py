"""Decodes a parsed module to the program of one entry.

Each family of instructions has a file with its decoders, which `instruction` registers in a table by mnemonic;
`instructions` loads them.

Calls are inlined: the callee is decoded in place, each time with separate slots. The stack is static, divergence inside
a callee is not special, and recursion is rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..errors import EmulationError, UnsupportedInstruction
from .module import (
    Address,
    Function,
    Group,
    Immediate,
    Instruction,
    Module,
    Negated,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    immediate_bits,
    is_special,
)
from .path_data import computes
from .program import Block, Collective, Program, Step, branch, extend, guard, writer
from .types import PRED, TYPES, U32, U64, PtxType

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

#: Opcode, or opcode and first modifiers (`cp.async.bulk`) -> decoder; the longest name of an instruction counts.
DECODERS: dict[str, Callable[[Decoder, Instruction, Modifiers], None]] = {}

#: The same, for opcodes whose instructions on floats are those of another family.
FLOAT_DECODERS: dict[str, Callable[[Decoder, Instruction, Modifiers], None]] = {}

_LONGEST = 4
"""Most modifiers in a name (`cp.reduce.async.bulk.tensor`)."""

FLOAT_TYPES = frozenset(("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2"))
"""Types of floating-point arithmetic."""

# Poison in unwritten registers, with the pattern of uninitialised memory.
_POISON = {
    "bool": np.zeros(1, bool),
    **{f"uint{n}": np.frombuffer(b"\xcd" * (n // 8), f"u{n // 8}") for n in (8, 16, 32, 64)},
    "void128": np.frombuffer(b"\xcd" * 16, "V16"),
}

_WIDE_SPECIALS = {"%clock64": U64, "%globaltimer": U64, "%gridid": U64, "%current_graph_exec": U64,
                  "%perctamemoryoffset": U64}  # fmt: skip


def instruction(*names: str, floats: bool = False):
    """Register a decoder by opcodes, with their first modifiers or without; ``floats``: for such types alone."""

    def register(decode):
        (FLOAT_DECODERS if floats else DECODERS).update(dict.fromkeys(names, decode))
        return decode

    return register


def _decoder_of(item: Instruction) -> tuple[Callable[[Decoder, Instruction, Modifiers], None] | None, list[str]]:
    """The decoder of an instruction, and the modifiers that are not part of its name."""
    if item.opcode in FLOAT_DECODERS and not FLOAT_TYPES.isdisjoint(item.modifiers):
        return FLOAT_DECODERS[item.opcode], item.modifiers
    for count in range(min(len(item.modifiers), _LONGEST), -1, -1):
        decode = DECODERS.get(".".join((item.opcode, *item.modifiers[:count])))
        if decode is not None:
            return decode, item.modifiers[count:]
    return None, []


class Modifiers:
    """The dotted parts of an opcode, consumed one by one; a part that is not consumed makes the instruction
    unsupported."""

    __slots__ = ("names",)

    def __init__(self, names: list[str]) -> None:
        self.names = list(names)

    def take(self, *names: str) -> str | None:
        """Remove and return the first of ``names`` that is present."""
        for name in names:
            if name in self.names:
                self.names.remove(name)
                return name
        return None

    def types(self) -> list[PtxType]:
        """Remove and return the modifiers that are types, in order."""
        result = [TYPES[name] for name in self.names if name in TYPES]
        self.names = [name for name in self.names if name not in TYPES]
        return result


class _Frame:
    """One activation of a function: places of its registers and parameters."""

    __slots__ = ("base", "function", "labels", "locals", "params", "parent", "result_block", "shared")

    def __init__(self, function: Function, base: int, parent: _Frame | None) -> None:
        self.function = function
        self.base = base
        self.parent = parent
        self.params: dict[int, int] = {}  # id of a .param variable -> slot of its byte buffer
        self.locals: dict[int, int] = {}
        self.labels: dict[int, Block] = {}
        self.result_block: Block | None = None


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


class Decoder:
    """Decodes one entry.  ``block`` is the block being filled, ``frame`` the function being decoded."""

    def __init__(
        self, module: Module, entry: Function, farther: bool = False, idle: frozenset[int] = frozenset()
    ) -> None:
        """``idle``: ids of instructions whose results nothing depends on: loads and copies need only addresses."""
        self.module = module
        self.farther = farther
        self.idle = idle
        self.is_idle = False  # of the current instruction
        self.program = Program(entry)
        self.constants: dict[tuple[int, int], int] = {}
        self.frame = self._frame(entry, None)
        self.block: Block = self.new_block()
        self.current: Instruction | None = None
        self._layout_parameters(entry)

    # -- layout ----------------------------------------------------------------------------------------------------

    def _layout_parameters(self, entry: Function) -> None:
        offset = 0
        for parameter in entry.params:
            offset = _align(offset, parameter.align)
            self.program.parameter_offsets[parameter.name] = offset
            offset += parameter.size
        self.program.parameter_bytes = offset

    def _frame(self, function: Function, parent: _Frame | None) -> _Frame:
        frame = _Frame(function, len(self.program.registers), parent)
        for register in function.registers:
            self.program.registers.append(_POISON[register.type.storage.name])
        for variable in function.variables:
            if variable.space == "local":
                self.program.local_bytes = _align(self.program.local_bytes, variable.align)
                frame.locals[id(variable)] = self.program.local_bytes
                self.program.local_bytes += variable.size
            elif variable.space == "shared":
                self._shared_offset(variable, f"{function.name}.{variable.name}")
            elif variable.space == "param":
                frame.params[id(variable)] = self.buffer(variable.size)
        return frame

    def buffer(self, size: int) -> int:
        """Slot of a byte buffer, an array of shape (threads or 1, size)."""
        self.program.registers.append(np.full((1, size), 0xCD, np.uint8))
        return len(self.program.registers) - 1

    def _shared_offset(self, variable: Variable, key: str) -> int:
        program = self.program
        if key not in program.shared_variables:
            program.shared_bytes = _align(program.shared_bytes, variable.align)
            program.shared_variables[key] = program.shared_bytes
            program.shared_bytes += variable.size
        return program.shared_variables[key]

    # -- blocks ----------------------------------------------------------------------------------------------------

    def new_block(self) -> Block:
        block = Block(len(self.program.blocks))
        self.program.blocks.append(block)
        return block

    def place(self, block: Block) -> None:
        """Continue in ``block``, which is placed after all earlier blocks."""
        if block.index < 0:
            block.index = len(self.program.blocks)
            self.program.blocks.append(block)
        self.block = block

    def begin_collective(self, members: int | None) -> None:
        """Make the instruction being decoded the first of a block that waits for the lanes it needs.

        Steps that compute its operands have to be emitted after this.
        """
        block = Block(-1)
        block.collective = Collective(members)
        if self.block.steps or self.block.collective or self.block.instructions[:-1]:
            block.instructions.append(self.block.instructions.pop())
            self.jump(block)
            self.place(block)
        else:
            self.block.collective = block.collective

    def jump(self, target: Block) -> None:
        """End the current block with a jump."""

        def terminate(group: WarpGroup) -> None:
            group.goto(target.index)

        self.block.terminator, self.block.successors = terminate, (target,)

    def end_block(self, terminator) -> Block:
        """End the current block with ``terminator(group)`` and continue in a new one, whose block is returned."""
        following = Block(-1)
        self.block.terminator = terminator
        self.place(following)
        return following

    def emit(self, step: Step) -> None:
        self.block.steps.append(step)

    # -- functions -------------------------------------------------------------------------------------------------

    def decode(self) -> Program:
        self._body(self.frame)
        if self.block.terminator is None:
            self.block.terminator = lambda group: group.exit()
            self.block.successors = ()
        return self.program

    def _body(self, frame: _Frame) -> None:
        function = frame.function
        outer, self.frame = self.frame, frame
        targets: dict[int, Block] = {}
        for label in function.labels:
            frame.labels[id(label)] = targets.setdefault(label.position, Block(-1))
        for position, item in enumerate(function.body):
            if position in targets:
                self.jump(targets[position])
                self.place(targets[position])
            self._instruction(item)
        if len(function.body) in targets:
            target = targets[len(function.body)]
            self.jump(target)
            self.place(target)
        self.frame = outer

    def call(self, function: Function, results: list, arguments: list) -> None:
        """Decode ``function`` here, its parameters bound to the caller's buffers."""
        activation: _Frame | None = self.frame
        while activation is not None:
            if activation.function is function:
                raise self.unsupported(f"recursive call of {function.name}")
            activation = activation.parent
        frame = self._frame(function, self.frame)
        for formal, actual in zip(function.params, arguments, strict=True):
            frame.params[id(formal)] = self.argument_buffer(formal, actual)
        for formal, actual in zip(function.results, results, strict=False):
            frame.params[id(formal)] = self.argument_buffer(formal, actual, result=True)
        for formal in function.results[len(results) :]:
            frame.params[id(formal)] = self.buffer(formal.size)
        frame.result_block = Block(-1)
        following = frame.result_block
        entry = Block(-1)
        self.jump(entry)
        self.place(entry)
        self._body(frame)
        if self.block.terminator is None:
            self.jump(following)
        self.place(following)

    def argument_buffer(self, formal: Variable, actual: Symbol, result: bool = False) -> int:
        if isinstance(actual, Symbol) and isinstance(actual.target, Variable):
            return self.param_slot(actual.target)
        if result or isinstance(actual, Group | Address):
            raise self.unsupported("a call argument of this form")
        source = self.src(actual, formal.type)
        slot = self.buffer(formal.size)

        def copy(group: WarpGroup) -> None:
            value = group.R[source]
            group.write_buffer(slot, 0, value)

        self.emit(copy)
        return slot

    def param_slot(self, variable: Variable) -> int | None:
        """The byte buffer of a device function's parameter, None for a parameter of the entry."""
        return self.frame.params.get(id(variable))

    # -- instructions ----------------------------------------------------------------------------------------------

    def unsupported(self, feature: str | None = None) -> UnsupportedInstruction:
        message = f"unsupported instruction: {feature}" if feature else "unsupported instruction"
        return UnsupportedInstruction(message, line=self.current.line, text=self.current.text)

    def error(self, message: str) -> EmulationError:
        return EmulationError(message, line=self.current.line, text=self.current.text)

    def _instruction(self, item: Instruction) -> None:
        self.current, self.is_idle = item, id(item) in self.idle
        decode, rest = _decoder_of(item)
        if decode is None:
            raise self.unsupported()
        self.block.instructions.append(item)
        if self.is_idle and computes(item):
            return
        modifiers = Modifiers(rest)
        try:
            if item.guard is None or item.opcode in ("bra", "ret", "exit"):
                decode(self, item, modifiers)
            else:
                self._guarded(item, decode, modifiers)
        except (AttributeError, IndexError, ValueError) as error:
            # Each decoder parses its operands and types according to its instruction.
            raise self.error("the operands or types do not fit the instruction") from error
        if modifiers.names:
            raise self.unsupported(f"modifier .{modifiers.names[0]}")

    def _guarded(self, item: Instruction, decode, modifiers: Modifiers) -> None:
        slot, polarity = self.frame.base + item.guard[0].index, not item.guard[1]
        outer, before = self.block, len(self.block.steps)
        blocks = len(self.program.blocks)
        decode(self, item, modifiers)
        if self.block is outer and len(self.program.blocks) == blocks:
            steps = outer.steps[before:]
            del outer.steps[before:]
            self.emit(guard(slot, polarity, steps))
            return
        self._guard_blocks(item, slot, polarity, outer, before, blocks)

    def _guard_blocks(self, item: Instruction, slot: int, value: bool, outer: Block, before: int, blocks: int) -> None:
        """A guarded instruction that ends blocks (a barrier, a call): branch around it."""
        body = Block(len(self.program.blocks))
        body.steps = outer.steps[before:]
        del outer.steps[before:]
        if outer.collective is not None and not before and outer.instructions and outer.instructions[-1] is item:
            body.collective, outer.collective = outer.collective, None
        body.terminator, body.successors = outer.terminator, outer.successors
        following = self.block
        if self.block.steps:
            following = Block(-1)
            self.jump(following)
        # Keep block numbers in program order, since the scheduler runs the lowest first.
        rest = self.program.blocks[blocks:]
        del self.program.blocks[blocks:]
        for each in (body, *rest):
            each.index = len(self.program.blocks)
            self.program.blocks.append(each)
        outer.terminator, outer.successors = branch(slot, value, body, following), (body, following)
        if following.index < 0:
            self.place(following)

    # -- operands --------------------------------------------------------------------------------------------------

    def operands(self, count: int) -> list:
        if len(self.current.operands) != count:
            raise self.error(f"expected {count} operands, found {len(self.current.operands)}")
        return self.current.operands

    def group_count(self) -> int:
        """The only operand of an instruction that waits for groups of operations."""
        (count,) = self.operands(1)
        if not isinstance(count, Immediate):
            raise self.error("the group count is not a constant")
        return int(count.value)

    def temporary(self, type_: PtxType) -> int:
        self.program.registers.append(_POISON[type_.storage.name])
        return len(self.program.registers) - 1

    def constant(self, bits: int, type_: PtxType) -> int:
        key = (bits & ((1 << type_.bits) - 1), type_.bits)
        if key not in self.constants:
            if type_ is PRED:
                value = np.array([bool(bits)])
            else:
                value = np.frombuffer(key[0].to_bytes(type_.bytes, "little"), type_.storage)
            self.program.registers.append(value)
            self.constants[key] = len(self.program.registers) - 1
        return self.constants[key]

    def src(self, operand, type_: PtxType, wider: bool = False) -> int:
        """The slot of a source operand read as ``type_``.

        A register has to have the type's width; ``wider`` lets it be wider, and truncates (PTX ISA, "Operand Size
        Exceeding Instruction-Type Size": `cvt`, `st` and the like).
        """
        if isinstance(operand, Register):
            if operand.type.bits != type_.bits and not (wider and operand.type.bits > type_.bits):
                raise self.error(f"a .{operand.type.name} register where .{type_.name} is needed")
            return self._resize(self.frame.base + operand.index, operand.type, type_)
        if isinstance(operand, Immediate):
            bits = immediate_bits(operand, type_)
            if bits is None:
                raise self.error(f"the literal {operand.value} cannot be a .{type_.name}")
            return self.constant(bits, type_)
        if isinstance(operand, Special):
            return self.special(operand, type_)
        if isinstance(operand, Symbol):
            return self._resize(self.address_of(operand), U64, type_)
        if isinstance(operand, Negated) and type_ is PRED:
            source, slot = self.src(operand.operand, PRED), self.temporary(PRED)
            self.emit(lambda group: group.R.__setitem__(slot, ~group.R[source]))
            return slot
        raise self.unsupported("an operand of this form")

    def _resize(self, slot: int, have: PtxType, want: PtxType) -> int:
        if have.bits == want.bits:
            return slot
        if have is PRED or want is PRED or 128 in (have.bits, want.bits):
            raise self.error(f"a .{have.name} register where .{want.name} is needed")
        result, storage = self.temporary(want), want.storage
        self.emit(lambda group: group.R.__setitem__(result, group.R[slot].astype(storage)))
        return result

    def special(self, operand: Special, type_: PtxType) -> int:
        name = operand.name
        natural = _WIDE_SPECIALS.get(name, U32)
        if name in ("%clock", "%clock64", "%globaltimer", "%clock_hi", "%globaltimer_lo", "%globaltimer_hi"):
            slot, storage = self.temporary(natural), natural.storage
            shift = 32 if name.endswith("_hi") else 0
            self.emit(lambda group: group.R.__setitem__(slot, group.clock(shift, storage)))
        else:
            slot = self.program.specials.get(name)
            if slot is None:
                if not is_special(name):
                    raise self.error(f"unknown special register or undeclared name '{name}'")
                if name == "%perctamemoryoffset" and "minperctamemory" not in self.program.entry.directives:
                    raise self.error(f"{name} needs the directive .minperctamemory")
                slot = self.program.specials[name] = self.temporary(natural)
        return self._resize(slot, natural, type_)

    def address_of(self, symbol: Symbol) -> int:
        """A 64-bit slot with the address of a variable in its own state space."""
        variable = symbol.target
        if not isinstance(variable, Variable):
            raise self.error(f"'{symbol.name}' is not a variable")
        program = self.program
        if variable.space in ("global", "const"):
            slot = self.temporary(U64)
            program.addresses.append((slot, variable.name, symbol.offset))
        elif variable.space == "shared":
            slot = self.temporary(U64)
            program.shared_slots.append(slot)
            if not variable.size:
                program.dynamic_align = max(program.dynamic_align, variable.align)
                program.dynamic_slots.append((slot, symbol.offset))
            else:
                local = any(variable is each for each in self.frame.function.variables)
                key = f"{self.frame.function.name}.{variable.name}" if local else variable.name
                program.registers[slot] = np.array([self._shared_offset(variable, key) + symbol.offset], np.uint64)
        elif variable.space == "local":
            slot = self.constant(self.frame.locals[id(variable)] + symbol.offset, U64)
        elif self.param_slot(variable) is None:
            slot = self.temporary(U64)
            program.parameter_addresses.append((slot, program.parameter_offsets[variable.name] + symbol.offset))
        else:
            raise self.unsupported("the address of a device function's parameter")
        return slot

    def dst(self, operand: Register | Sink, type_: PtxType) -> int | None:
        """The slot a result of exactly ``type_``'s width is written to; None for `_`."""
        if isinstance(operand, Sink):
            return None
        if not isinstance(operand, Register):
            raise self.error("the destination is not a register")
        if operand.type.bits != type_.bits:
            raise self.error(f"a .{operand.type.name} destination where .{type_.name} is needed")
        return self.frame.base + operand.index

    def put(self, operand: Register | Sink, type_: PtxType, compute, raw: bool = False) -> None:
        """Write ``compute(R)`` to a destination.

        The result has ``type_``'s width, in storage type when ``raw``; a wider destination register is sign- or
        zero-extended (ptxas permits it only in `cvt`, `ld` and the like).
        """
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise self.error("the destination is not a register")
        slot = self.frame.base + operand.index
        storage = type_.storage
        if operand.type.bits == type_.bits:
            finish = None if raw else storage
        elif operand.type is PRED or type_ is PRED or operand.type.bits < type_.bits:
            raise self.error(f"a .{operand.type.name} destination where .{type_.name} is needed")
        else:
            compute = extend(compute, type_, operand.type)
            finish = None
        self.emit(writer(slot, compute, finish))
