"""Resources that instructions or CTAs take turns at: register banks, and addresses that many threads update."""

import numpy as np
import pytest
from micro_kernels import OUT, STORE, estimate, kernel, loop, per_iteration

from tileiras.codegen.machine_code import Instruction
from tileiras.sim.estimate.operand_reads import bank_cycles
from tileiras.targets.rates import gpu


def ffma(*operands: str) -> Instruction:
    return Instruction(0, "", "FFMA", (), operands, 1, False, None, None, 0, 0, 1, None)


@pytest.mark.parametrize("x, y, cycles", [("R19", "R21", 4), ("R18", "R21", 5), ("R18", "R20", 6)])
def test_a_bank_delivers_one_register_per_cycle(x, y, cycles):
    """The listing of Huerta et al.: two FFMA take a cycle longer for each further operand in the even bank."""
    assert bank_cycles([ffma("R11", "R10", "R12", "R14"), ffma("R13", "R16", x, y)]) == cycles


REUSED = ffma("R1", "R2.reuse", "R3", "R4")


@pytest.mark.parametrize("second, reads", [
    (ffma("R5", "R2", "R7", "R8"), (2, 1, 2)),
    (ffma("R5", "R2.reuse", "R7", "R8"), (2, 1, 1)),
    (ffma("R5", "R7", "R2", "R8"), (2, 2, 1)),
    (ffma("R5", "R4", "R7", "R8"), (2, 2, 2)),
])  # fmt: skip
def test_a_reused_operand_stays_until_its_entry_is_read(second, reads):
    """Listing 4 of Huerta et al.: the even bank's reads by three instructions, of which the first caches R2."""
    third = ffma("R10", "R2", "R12", "R13")
    assert bank_cycles([REUSED, second, third]) == sum(reads)


def test_other_positions_and_other_operands_do_not_hit():
    assert bank_cycles([REUSED, ffma("R3", "R16", "R2", "R18")]) == 5
    assert bank_cycles([ffma("R1", "RZ", "UR12", "c[0x0][0x160]")]) == 0


def outer_product(size: int) -> str:
    """One row and one column of distinct values, from registers, into size x size sums."""
    rows = "\n".join(
        f"mul.lo.u32 %r2, %r1, {number * 7919};\ncvt.rn.f32.u32 %f{100 + number}, %r2;" for number in range(2 * size)
    )
    sums = "\n".join(f"mov.f32 %f{number}, 0f00000000;" for number in range(size * size))
    body = "\n".join(
        f"fma.rn.f32 %f{row * size + column}, %f{100 + row}, %f{100 + size + column}, %f{row * size + column};"
        for row in range(size) for column in range(size)
    )  # fmt: skip
    total = "\n".join(f"add.f32 %f0, %f0, %f{number};" for number in range(1, size * size))
    return kernel(f"{rows}\n{sums}\n{loop(body, 60)}{total}\n{STORE}", 256, "sm_86")


def test_sums_in_registers_are_bound_by_the_banks():
    """An FFMA of an outer product reads its sum and a factor, the other factor being reused where ptxas marks it."""
    result = estimate(outer_product(8), [OUT], on="RTX 3090")
    # Two warps a sub-core, 64 FFMA each, at 1 per cycle by issue.
    assert per_iteration(result) > 1.1 * 2 * 64
    assert result.bound == "register banks"
    assert result.utilization["register banks"] <= 1.001 and result.utilization["FMA"] < 0.9


def updates(apart: int) -> str:
    """64 updates by each thread of 128, of an address that is ``apart`` bytes from that of the next CTA."""
    return kernel(
        f"mov.u32 %r2, %ctaid.x;\nmad.wide.u32 %q1, %r2, {apart}, %a0;\nmul.lo.u32 %r4, %r1, 7;\n"
        + loop("atom.global.max.u32 %r3, [%q1], %r4;\nadd.u32 %r4, %r4, %r3;", 64)
        + "st.global.u32 [%q1+4096], %r4;",
        128,
    )  # fmt: skip


def test_updates_of_one_address_take_turns():
    ctas = 264
    result = estimate(updates(0), [np.zeros(1 << 16, np.uint32)], ctas)
    assert result.cycles == ctas * 128 * 64 * gpu("H200").latency["update"]
    assert result.bound == "atomic operations"
    assert any("on one address take turns" in note for note in result.notes)


def test_updates_of_other_addresses_do_not_wait():
    few, many = (estimate(updates(128), [np.zeros(1 << 16, np.uint32)], ctas) for ctas in (66, 264))
    assert many.cycles == pytest.approx(few.cycles, rel=0.05)
    # A trip to L2, and the turns of the other lanes.
    assert per_iteration(many) == pytest.approx(gpu("H200").latency["l2"] + 31, rel=0.25)
    assert many.bound != "atomic operations"


@pytest.mark.parametrize("update", ["red.global.add.u32 [%a0], %r1;", "atom.global.add.u32 %r3, [%a0], 1;"])
def test_sums_of_a_warp_take_one_turn(update):
    """ptxas adds up the lanes (`REDUX`), or counts them (`POPC`), and one of them updates the address."""
    ctas, trips = 264, 64
    text = kernel(loop(f"{update}\nadd.u32 %r1, %r1, %r3;", trips) + "st.global.u32 [%a0+4096], %r1;", 128)
    result = estimate(text, [np.zeros(1 << 16, np.uint32)], ctas)
    turns = ctas * 4 * trips
    assert turns * gpu("H200").latency["update"] <= result.cycles < 4 * turns


def test_sums_of_floats_take_turns_by_lane():
    """No instruction of a GPU before sm_100 sums up the floats of a warp."""
    text = kernel("cvt.rn.f32.u32 %f0, %r1;\n" + loop("red.global.add.f32 [%a0], %f0;", 64), 128)
    assert estimate(text, [np.zeros(1 << 16, np.float32)], 264).cycles == 264 * 128 * 64
