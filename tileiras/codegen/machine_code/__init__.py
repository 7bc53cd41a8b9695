"""The machine code of a cubin as data: what the estimate and reports read instead of a disassembler's text."""

from tileiras.codegen.machine_code.instructions import INSTRUCTION_BYTES, BasicBlock, Instruction, MachineCode
from tileiras.codegen.machine_code.listing import read

__all__ = ["INSTRUCTION_BYTES", "BasicBlock", "Instruction", "MachineCode", "read"]
