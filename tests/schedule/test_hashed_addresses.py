"""Loads that run ahead, at addresses that a long computation derives from the counter: its values have two users each,
so that the paths to the counter double with each round."""

from __future__ import annotations

import pytest

from tests.kernels.pipelined import check, matmul
from tests.tileas_stage import ptx

ROUNDS = 60


def _from_counter() -> str:
    """The counter again, after rounds whose larger one of two values is the value before."""
    lines = ["%h0 = arith.addi %i, %zero : i32"]
    for n in range(ROUNDS):
        lines.append(f"%l{n} = arith.subi %h{n}, %sixteen : i32")
        lines.append(f"%h{n + 1} = arith.maxsi %l{n}, %h{n} : i32")
    return "\n      ".join(lines)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_loads_run_ahead_at_addresses_of_many_rounds(gpu):
    text = matmul()
    load = text.index("%x, %tx = ")
    body = text[load:].replace("%va[%zero, %i]", f"%va[%zero, %h{ROUNDS}]").replace("%vb[%i,", f"%vb[%h{ROUNDS},")
    result = ptx(text[:load] + _from_counter() + "\n      " + body, gpu, stages=3)
    assert "cp.async" in result
    check(result, m=32, k=100, pitch=104, steps=4)
