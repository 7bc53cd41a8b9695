"""CTAs of an SM by the resources that ptxas reports: hints never lower them, and launches that give shared memory cost
no registers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.kernels.dots import matmul
from tests.kernels.rows import scaled_by_squares
from tests.kernels.views import Kernel
from tests.machine_code import on_an_sm
from tileiras.codegen import ptxas as assembler
from tileiras.targets import TARGETS, occupancy

GPUS = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
HINTS = [1, 2, 4, 8, 16, 32]
ROWS: dict[str, Callable[[str], Kernel]] = {
    "norm": lambda hints: scaled_by_squares(hints=hints),
    "wide norm": lambda hints: scaled_by_squares(8, 1024, hints=hints),
    "narrow norm": lambda hints: scaled_by_squares(32, 128, hints=hints),
}
DOTS: dict[str, Callable[[str], Kernel]] = {
    "f16": lambda hints: matmul((64, 64, 64), steps=4, hints=hints),
    "f16, flat": lambda hints: matmul((128, 64, 32), steps=4, hints=hints),
    "f32": lambda hints: matmul((64, 64, 32), "f32", steps=4, hints=hints),
}
SPILLED = 24
"""Bytes that a hint may cost at most: the estimate of registers does not see the last few."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", [*ROWS, *DOTS])
def test_a_hint_gives_no_fewer_ctas_than_none(name, gpu, ptxas):
    make = {**ROWS, **DOTS}[name]
    alone, used = on_an_sm(make("").compiled(gpu), gpu)
    for hint in HINTS:
        held, taken = on_an_sm(make(f"{gpu} = {{occupancy = {hint}}}").compiled(gpu), gpu)
        assert held >= min(alone, max(2, hint)), f"{held} CTAs for {hint}, {alone} without a hint"
        assert taken.spill_stores <= used.spill_stores + SPILLED, f"occupancy = {hint}"


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_hint_that_registers_allow_is_given(gpu, ptxas):
    """Four CTAs leave 64 registers; squares that only their sum uses occupy no register."""
    held, taken = on_an_sm(ROWS["norm"](f"{gpu} = {{occupancy = 4}}").compiled(gpu), gpu)
    assert held >= 4 and taken.spill_stores <= 4


@pytest.mark.sampled(12)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
@pytest.mark.parametrize("hint", [8, 16, 32])
@pytest.mark.parametrize("operand", ["f16", "i8"])
@pytest.mark.parametrize("plan", ["auto", "none"])
def test_no_hint_leaves_an_instruction_too_few_registers(plan, operand, hint, gpu, ptxas):
    """ptxas refuses products of warpgroups, and loads of tensor memory, whose fragments leave no registers beside."""
    tiles = (64, 16, 64) if operand == "i8" else (128, 128, 64)
    kernel = matmul(tiles, operand, steps=4, hints=f"{gpu} = {{occupancy = {hint}}}")
    on_an_sm(kernel.compiled(gpu, pipeline_strategy=plan), gpu)


@pytest.mark.parametrize("hint", [3, 4, 8])
@pytest.mark.parametrize("tiles, operand", [((64, 128, 32), "f32"), ((64, 128, 64), "f16"), ((128, 64, 32), "f16")])
def test_agents_start_with_the_registers_of_an_instruction(tiles, operand, hint, ptxas):
    """ptxas holds loads of tensor memory to the registers that threads start with, before `setmaxnreg`."""
    kernel = matmul(tiles, operand, steps=4, hints=f"sm_100 = {{occupancy = {hint}}}")
    on_an_sm(kernel.compiled("sm_100", pipeline_strategy="warp-specialize"), "sm_100")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_86", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("tiles", "operand", "aligned"),
    [((64, 64, 64), "f16", 2), ((64, 64, 32), "f16", 16), ((128, 128, 32), "f16", 16), ((64, 64, 32), "f32", 16)],
)
def test_ordinary_launches_leave_registers_to_shared_memory(tiles, operand, aligned, gpu, ptxas):
    """ptxas does not see the shared memory that the launch adds, and would keep registers for CTAs that find no
    room."""
    kernel = matmul(tiles, operand, steps=8, aligned=aligned)
    ordinary, tile = kernel.compiled(gpu), kernel.compiled(gpu, tile_launch=True)
    held, used = on_an_sm(ordinary, gpu)
    flags = ("--enable-extended-smem", "true")
    static = assembler.assemble(tile.text, gpu, options=flags).resources["k"]
    assert used.spill_stores <= static.spill_stores and used.stack == static.stack
    (threads,) = map(int, re.findall(r"\.reqntid (\d+)", ordinary.text))
    assert held >= occupancy(TARGETS[gpu], threads, static.registers, static.shared).ctas
    assert used.registers >= 0.8 * static.registers


@pytest.mark.parametrize("depth", [4, 8, 16, 64])
def test_hints_leave_f64_products_their_registers(depth, ptxas):
    """ptxas refuses products of 16 rows of f64 under a bound of fewer than 64 registers."""
    kernel = matmul((64, 32, depth), "f64", steps=2, hints="sm_90 = {occupancy = 8, num_worker_warps_per_cta = 8}")
    held, _ = on_an_sm(kernel.compiled("sm_90"), "sm_90")
    assert held >= 2
