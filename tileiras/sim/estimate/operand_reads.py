"""Reads of the register file by instructions of fixed latency.

A sub-core has two banks of registers, even and odd ones, and each has one read port of 1,024 bits: a register of a warp
per cycle. An instruction reads within three cycles, so that the banks' sums over consecutive instructions count. The
cache has an entry for each bank and position of an operand: an operand marked `.reuse` stays in it until the warp reads
another operand of that bank at that position, or the same without the mark (Huerta et al., "Dissecting and Modeling the
Architecture of Modern GPU Cores", MICRO '25, sections 5.3 and 5.3.1, on Turing, Ampere and Blackwell).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileiras.codegen.machine_code import Instruction

_BANKS = 2
_REGISTER = re.compile(r"(?<![A-Z])R(\d+)")
_PACKED = frozenset({"FADD2", "FMUL2", "FFMA2"})
"""Opcodes whose operands are pairs of registers."""


def bank_cycles(run: Sequence[Instruction]) -> float:
    """Cycles that the busier bank takes for the operands of consecutive instructions of a warp."""
    reads = [0] * _BANKS
    cached: dict[tuple[int, int], int] = {}  # (position of an operand, bank) -> the register in the cache
    for instruction in run:
        for position, operand in enumerate(instruction.operands[1:]):
            match = _REGISTER.search(operand)
            if match is None:
                continue
            first = int(match[1])
            for register in range(first, first + 1 + (instruction.opcode in _PACKED)):
                entry = position, register % _BANKS
                if cached.pop(entry, None) != register:
                    reads[register % _BANKS] += 1
                if ".reuse" in operand:
                    cached[entry] = register
    return float(max(reads))
