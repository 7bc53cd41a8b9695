"""Reads of the register file by instructions of fixed latency.

A sub-core has two banks of registers, even and odd ones, and each delivers one register of a warp per cycle. Operands
are collected over several cycles, so that the banks' sums over consecutive instructions count. An operand marked
`.reuse` stays in the cache of its position for the warp's next instruction (Jia et al., arXiv 1804.06826; Huerta et
al., arXiv 2503.20481; recalled).
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
    cached: dict[int, str] = {}  # position of an operand -> the register in its cache
    for instruction in run:
        kept: dict[int, str] = {}
        for position, operand in enumerate(instruction.operands[1:]):
            match = _REGISTER.search(operand)
            if match is None:
                continue
            if cached.get(position) != match[1]:
                first = int(match[1])
                for register in range(first, first + 1 + (instruction.opcode in _PACKED)):
                    reads[register % _BANKS] += 1
            if ".reuse" in operand:
                kept[position] = match[1]
        cached = kept
    return float(max(reads))
