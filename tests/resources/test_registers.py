"""A hint of several CTAs on an SM yields where the tiles of a kernel would not fit in their share of it."""

from __future__ import annotations

import re

import pytest

from tests.kernels.dots import matmul
from tests.kernels.views import Kernel, buffers
from tests.machine_code import on_an_sm
from tileiras.dialects import nv_tileaa as aa


def repeated(depth: int, steps: int, ctas: int, rows: int = 64) -> Kernel:
    """C = A B_0 + ... + A B_n with A of `rows` x `depth`, with a hint of `ctas` on an SM."""
    return matmul((rows, 64, depth), steps=steps, a_outside=True, hints=f"sm_80 = {{occupancy = {ctas}}}")


@pytest.mark.parametrize(("asked", "given"), [(2, 2), (8, 8), (16, 12), (32, 12)])
def test_tiles_get_the_registers_that_they_need(asked, given, ptxas):
    # One warp holds 128 elements of C in each thread; 64 Ki registers are 2048 for each lane of a warp.  With the 152
    # that 13 CTAs leave, ptxas spills.
    held, used = on_an_sm(repeated(64, 1, asked).compiled("sm_80", num_warps=1), "sm_80")
    assert held >= given and not used.spill_stores


def test_loads_ahead_have_the_shared_memory_they_need():
    # Two stages of B are 64 KiB; three CTAs leave 53 each.  A is small, and stays in registers.
    kernel = repeated(256, 3, 3, rows=16)
    module = kernel.tileas("sm_80", num_warps=4)
    (func,) = (op for op in module.walk() if isinstance(op, aa.FuncOp))
    assert func.kernel_spec.occupancy == 2
    assert ((256, 64), 2) in buffers(module)


def test_a_loop_with_rematerialized_addresses_is_unchanged():
    artifact = repeated(128, 3, 16).check("sm_80", num_warps=1)
    assert len(re.findall(r"mul\.lo\.s32 n, n", artifact.text)) >= 2  # in the loop and behind it


def test_tiles_that_are_copied_for_a_dot_take_no_registers(ptxas):
    # 128 for C, 64 for fragments of two steps, and 22 for conditions and distances of rows: of 215.
    artifact = matmul((128, 256, 64), steps=3).compiled("sm_80", num_warps=8)
    assert "mul.lo.s32 n, n" not in artifact.text
    assert not on_an_sm(artifact, "sm_80")[1].spill_stores
