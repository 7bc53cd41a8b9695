"""Dots that are under way between iterations keep their operands in registers: only where a thread has these."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import attention_like
from tests.kernels.gradients import of_keys
from tests.kernels.views import operations
from tileiras.codegen import ptxas as assembler
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf

SCHEDULED = "tileas-generate-schedule"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize("ctas, in_flight", [(1, True), (2, False)])
def test_probabilities_stay_in_registers_where_there_are_any(ctas, in_flight, maps, ptxas):
    """64 registers of scores, 32 of probabilities and 32 of the result are all that a thread of two CTAs has: ptxas
    would serialize both products."""
    kernel = attention_like(ctas, rows=128, columns=128, depth=64, steps=4, halved=True)
    module = kernel.after(SCHEDULED, "sm_90", pipeline_strategy="unspecialize", tensor_maps=maps)
    assert [tileas.DOTS_IN_FLIGHT in op.attributes for op in module.walk() if op.name == "scf.for"] == [in_flight]
    artifact = kernel.check("sm_90", pipeline_strategy="unspecialize", tensor_maps=maps)
    assert not assembler.assemble(artifact.text, "sm_90").messages


@pytest.mark.parametrize("maps", ["none", "host"])
@pytest.mark.parametrize(("asked", "stages"), [(None, 2), (1, 4)])
def test_fewer_stages_leave_room_for_a_fourth_warpgroup(asked, stages, maps, ptxas):
    """An SM holds three CTAs with four stages of 16 KiB, and four with two, each a warpgroup, unless a hint gives the
    number of CTAs."""
    kernel = attention_like(1, rows=64, columns=64, depth=64, steps=6, halved=True)
    if asked is None:
        kernel = kernel._replace(text=re.sub(r" optimization_hints=<.*?}>", "", kernel.text))
        assert "occupancy" not in kernel.text
    module = kernel.after(SCHEDULED, "sm_90", pipeline_strategy="unspecialize", tensor_maps=maps)
    (loop,) = (op for op in module.walk() if op.name == "scf.for")
    assert loop.attributes[tileas.LOOP_SCHEDULE].stages == stages
    assert (tileas.DOTS_IN_FLIGHT in loop.attributes) == (stages > 2)
    artifact = kernel.check("sm_90", pipeline_strategy="unspecialize", tensor_maps=maps)
    assert not assembler.assemble(artifact.text, "sm_90").messages


@pytest.mark.parametrize(("rows", "awaited"), [(64, False), (128, True)])
def test_factors_end_before_a_dot_whose_result_needs_them(rows, awaited, ptxas):
    """64 registers of S, 32 of its factors, 64 of D V^T, 64 of the sums and 32 of the numbers of rows are more than a
    thread has: ptxas would keep some in local memory."""
    kernel = of_keys(2, rows, of_rows=True, loaded_first=True)
    (loop,) = operations(kernel.after("tileas-materialize-async", "sm_90"), scf.ForOp)
    kinds = (tileas.AsyncDotOp, tileas.FutureWaitOp)
    waits = [isinstance(op, tileas.FutureWaitOp) for op in loop.body.block.operations if isinstance(op, kinds)]
    assert waits == [False, True, False, *[True] * awaited, False, True, False, True]
    artifact = kernel.check("sm_90")
    assembled = assembler.assemble(artifact.text, "sm_90")
    assert not assembled.messages and not assembled.resources["k"].spill_stores
