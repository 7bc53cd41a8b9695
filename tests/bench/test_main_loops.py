"""Purposes of the instructions of loops: written ones without tools, and those of kernels by ptxas."""

from __future__ import annotations

import pytest

from bench import main_loops
from bench.loop_purposes import MOVE, NOTHING, RECOMPUTED, REPEATED, SPILL, UNREAD, Flow, purposes, working_loops
from bench.register_uses import Uses, parse
from tests.machine_code import needs_tools
from tileiras.codegen.machine_code import INSTRUCTION_BYTES, BasicBlock, Instruction, MachineCode

LISTING = """
                                               // |            GPR             |   PRED   |
                                               // |  # 0 1 9 10 11 | # 0 |
        /*0000*/         S2R R0, SR_TID.X ;    // |  1 ^           |     |
        /*0010*/   @P0   IADD3 R10, R0, R9 ;   // |  3 v   v  ^    | 1 v |
        /*0020*/         FADD R11, R11, R10 ;  // |  2        v  x |     |
        /*0030*/         P2R R1, PR, RZ, 0x5 ; // |  1   ^         |     |
"""


def test_registers_by_column():
    assert parse(LISTING.splitlines()) == {
        0x00: Uses(frozenset(), frozenset({"R0"})),
        0x10: Uses(frozenset({"R0", "R9", "P0"}), frozenset({"R10"})),
        0x20: Uses(frozenset({"R10", "R11"}), frozenset({"R11"})),
        0x30: Uses(frozenset({"P0", "P2"}), frozenset({"R1"})),
    }


def written(*lines: str) -> Flow:
    """The flow of instructions that are written `reads -> writes | text`; the loop is from the second to the last
    but one."""
    code, uses = [], {}
    for number, line in enumerate(lines):
        registers, text = line.split("|")
        guard, words = ("", text.split()) if "@" not in text else (text.split()[0][1:], text.split()[1:])
        address = number * INSTRUCTION_BYTES
        opcode, *modifiers = words[0].split(".")
        target = INSTRUCTION_BYTES if opcode == "BRA" else None
        operands = tuple(" ".join(words[1:]).split(", ")) if words[1:] else ()
        code.append(Instruction(address, guard, opcode, tuple(modifiers), operands, 1, False, None, None, 0, 0, number,
                                None, target))  # fmt: skip
        uses[address] = Uses(*(frozenset(part.split()) for part in registers.split("->")))
    ends = [0, INSTRUCTION_BYTES, (len(code) - 1) * INSTRUCTION_BYTES, len(code) * INSTRUCTION_BYTES]
    following = [(ends[1],), (ends[1], ends[2]), ()]
    blocks = tuple(BasicBlock(start, end, after) for start, end, after in zip(ends, ends[1:], following))
    return Flow(MachineCode("k", "sm_90a", tuple(code), blocks, {}, 32, 0, 0), uses)


def test_purposes_by_dataflow():
    flow = written(
        "-> R0 R8 | S2R R0, SR_TID.X",
        "R0 -> R0 | IADD3 R0, R0, 0x1, RZ",
        "R0 -> R2 | IMAD.SHL.U32 R2, R0, 0x4, RZ",
        "R0 -> P0 | ISETP.LT.AND P0, PT, R0, 0x9, PT",
        "P0 R2 -> R4 | @P0 LDG.E R4, [R2.64]",
        "R8 -> R9 | IADD3 R9, R8, 0x10, RZ",
        "R4 R9 R5 -> R5 | FFMA R5, R4, R9, R5",
        "R0 -> R6 | IADD3 R6, R0, 0x7, RZ",
        "R0 -> R7 | IADD3 R7, R0, 0x7, RZ",
        "R6 R7 -> R10 | FADD R10, R6, R7",
        "R10 -> R12 | MOV R12, R10",
        "R0 -> R11 | IADD3 R11, R0, 0x3, RZ",
        "R12 -> | STL [R1], R12",
        "-> | NOP",
        "R12 P0 -> | @P0 STG.E [R2.64], R12",
        "P0 -> | @P0 BRA target",
        "R5 -> | EXIT",
    )
    (loop,) = working_loops(flow)
    purpose_of = {each.instruction.ptx_line: (each.name, each.waste) for each in purposes(flow, loop)}
    assert purpose_of == {
        1: ("several of these", ""), 2: ("address or descriptor: load", ""), 3: ("several of these", ""),
        4: ("load", ""), 5: ("operand: arithmetic", RECOMPUTED), 6: ("arithmetic", ""), 7: ("operand: arithmetic", ""),
        8: ("operand: arithmetic", REPEATED), 9: ("arithmetic", ""), 10: ("operand: store", MOVE), 11: ("", UNREAD),
        12: ("", SPILL), 13: ("", NOTHING), 14: ("store", ""), 15: ("branch", ""),
    }  # fmt: skip


def test_loops_that_only_wait_are_no_main_loops():
    flow = written("-> R0 | S2R R0, SR_TID.X", "R0 -> P0 | SYNCS.PHASECHK.TRYWAIT P0, [R0]", "P0 -> | @P0 BRA target",
                   "-> | EXIT")  # fmt: skip
    assert flow.loops() and not working_loops(flow)


@needs_tools
@pytest.mark.parametrize("name", ["product f16, 128x128x32 on sm_80", "product f16, 128x256x64 on sm_90"])
def test_main_loops_of_products(name):
    (kernel,) = (each for each in main_loops.KERNELS if each.title == name)
    loops = list(main_loops.loops(kernel))
    assert any(each.name == "dot" for each in loops[0])
    for loop in loops:
        assert all(each.name or each.waste for each in loop)
