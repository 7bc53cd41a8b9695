"""Dots of warpgroups take operands of 32-bit elements whose rows or columns are contiguous in memory from registers:
threads read them where copies have put them, and store no transposed tile."""

from __future__ import annotations

import pytest

from tests.kernels.dots import by_columns, matmul
from tests.kernels.views import Kernel, operations
from tileiras.dialects import nv_tileas as tileas
from tileiras.layout.encoding import is_in_shared

STEPS = 3
PLANS = [{"tensor_maps": maps, "pipeline_strategy": strategy}
         for maps in ("none", "host") for strategy in ("unspecialize", "warp-specialize")]  # fmt: skip

ROWS_OF_B = {
    tiles: matmul(tiles, "tf32", sizes=(tiles[0] - 4, tiles[1] - 8, STEPS * tiles[2] - 4), steps=STEPS)
    for tiles in ((64, 64, 32), (128, 128, 16), (64, 128, 8), (128, 64, 32), (32, 64, 16))
}
COLUMNS_OF_A = {
    (tiles, rows_of_b): by_columns(tiles, operand="tf32", steps=STEPS, b_by_columns=not rows_of_b)
    for tiles in ((64, 64, 32), (128, 32, 16))
    for rows_of_b in (True, False)
}


def form(kernel: Kernel, **options) -> tuple[bool, str]:
    """Whether the only dot's operands are exchanged, and where its instruction takes A: `rs` in registers, `ss` in
    shared memory."""
    (dot,) = operations(kernel.after("tileas-assign-dot-layouts", "sm_90", **options), tileas.DotOp)
    return dot.exchanged is not None, dot.atom.atom.rpartition("_")[2]


def stores(kernel: Kernel) -> list[tileas.ConvertLayoutOp]:
    """The conversions by which threads store a tile for a dot from other registers than those it is loaded in."""
    module = kernel.after("tileas-remove-layout-conversions", "sm_90")
    return [op for op in operations(module, tileas.ConvertLayoutOp)
            if is_in_shared(op.result.type) and isinstance(op.operand.defining_op, tileas.ConvertLayoutOp)]  # fmt: skip


@pytest.mark.parametrize("tiles", ROWS_OF_B, ids=str)
def test_rows_of_b(tiles):
    assert form(ROWS_OF_B[tiles]) == (True, "rs") and not stores(ROWS_OF_B[tiles])


@pytest.mark.parametrize(("tiles", "rows_of_b"), COLUMNS_OF_A, ids=str)
def test_columns_of_a(tiles, rows_of_b):
    """Where B would have to be stored as well, one of the two is."""
    kernel = COLUMNS_OF_A[tiles, rows_of_b]
    assert form(kernel) == (False, "rs") and len(stores(kernel)) == rows_of_b


OTHERS = {
    "K is contiguous": (matmul((64, 64, 32), "tf32", steps=STEPS, b_by_columns=True), (False, "ss")),
    "a register has several elements": (matmul((64, 64, 32), "f8E4M3FN", steps=STEPS), (False, "ss")),
    "warpgroups share columns": (matmul((128, 64, 32), "tf32", steps=STEPS), (False, "ss")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_operands_are_in_shared_memory(name):
    kernel, wanted = OTHERS[name]
    assert form(kernel, num_warps=8) == wanted


@pytest.mark.sampled(6)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: " ".join(plan.values()))
@pytest.mark.parametrize("kernel", [*ROWS_OF_B.values(), *COLUMNS_OF_A.values()], ids=range(9))
def test_results(kernel, plan):
    artifact = kernel.check("sm_90", **plan)
    kernel.emulated(artifact, seed=None)
