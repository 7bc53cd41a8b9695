"""PTX declares one CTA for an SM where tiles take all registers of a thread, or more than two CTAs have together, and
no number elsewhere."""

from __future__ import annotations

import json

import pytest

from tests.kernels.dots import matmul
from tests.kernels.rows import reduced_and_scaled
from tests.machine_code import on_an_sm
from tileiras.codegen import toolkit

WORD = ".minnctapersm 1"


def ordered(depth: int, hints: str = ""):
    """A dot whose loads have an order: they stay whole, and in registers."""
    return matmul((64, 64, depth), order="relaxed device", hints=hints)


@pytest.mark.parametrize("depth, told", [(64, False), (256, False), (1024, True)])
def test_dots_of_operands_that_fill_all_registers(depth, told):
    assert (WORD in ordered(depth).compiled("sm_90").text) is told


def test_rows_that_ptxas_rematerializes_in_part():
    # 512 threads have 128 registers each, with a second CTA 64: 32 of them hold the rows, 32 the second tile, 8 the
    # reduced values of rows.
    assert WORD not in reduced_and_scaled().compiled("sm_90", num_warps=16).text


@pytest.mark.parametrize(
    "rows, depth, aligned, told",
    [
        (64, 16, 2, False),
        (64, 16, 16, False),
        pytest.param(128, 16, 2, True, id="a thread of 256 has 128 of the accumulator, and two operands"),
        pytest.param(64, 64, 16, True, id="three stages of 40 KiB are more than half of the shared memory"),
    ],
)
def test_accumulators_too_large_for_two_ctas(rows, depth, aligned, told):
    kernel = matmul((rows, 256, depth), sizes=(rows, 256, 4096), steps=16, aligned=aligned)
    assert (WORD in kernel.compiled("sm_80", num_warps=8).text) is told


def test_ptxas_assigns_all_registers_to_such_kernels():
    if toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    artifact = ordered(1024).compiled("sm_90", emit="cubin")
    data = json.loads(artifact.kernels[0].artifacts[".resources.json"])
    assert data["kernels"]["k"]["registers"] > 168


def test_the_kernels_own_wish_comes_first(ptxas):
    assert on_an_sm(ordered(64, "sm_90 = {occupancy = 2}").compiled("sm_90"), "sm_90")[0] >= 2
