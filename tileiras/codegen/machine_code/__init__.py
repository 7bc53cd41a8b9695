"""The machine code of a cubin as data: read by the estimate and reports instead of a disassembler's text."""

from tileiras.codegen.machine_code.instructions import INSTRUCTION_BYTES, BasicBlock, Instruction, MachineCode
from tileiras.codegen.machine_code.listing import read

__all__ = ["INSTRUCTION_BYTES", "BasicBlock", "Instruction", "MachineCode", "read"]
