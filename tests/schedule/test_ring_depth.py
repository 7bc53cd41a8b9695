"""Loops that copies bound have rings that cover the latency of memory, as long as an SM holds two CTAs."""

from __future__ import annotations

import pytest

from tests.kernels.dots import attention_like, matmul
from tests.kernels.views import Kernel, operations
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.targets import TARGETS

STEPS = 11


def product(m: int, n: int, k: int, operand: str = "f16") -> Kernel:
    return matmul((m, n, k), operand, steps=STEPS, b_by_columns=operand.startswith("f8"))


def loop_of(kernel: Kernel, gpu_name: str, **options) -> scf.ForOp:
    module = kernel.after("tileas-generate-schedule", gpu_name, **{"tensor_maps": "none", **options})
    (loop,) = operations(module, scf.ForOp)
    return loop


def stages(kernel: Kernel, gpu_name: str, **options) -> int:
    return loop_of(kernel, gpu_name, **options).attributes[tileas.LOOP_SCHEDULE].stages


@pytest.mark.parametrize("tiles, operand, gpu_name, number", [
    ((64, 64, 64), "f16", "sm_90", 7),
    ((64, 64, 128), "f8E4M3FN", "sm_90", 7),
    ((64, 64, 64), "f16", "sm_100", 7),
    ((64, 32, 64), "bf16", "sm_90", 8),
])  # fmt: skip
def test_few_rows_have_deep_rings(tiles, operand, gpu_name, number):
    kernel = product(*tiles, operand)
    stage = (tiles[0] + tiles[1]) * tiles[2] * (1 if operand.startswith("f8") else 2)
    assert stages(kernel, gpu_name) == number
    assert 2 * number * stage < TARGETS[gpu_name].shared_per_sm
    for maps in ("none", "host"):
        kernel.check(gpu_name, tensor_maps=maps)


@pytest.mark.parametrize("tiles", [(128, 128, 64), (128, 256, 64)])
def test_large_tiles_have_as_many_as_before(tiles):
    """Their dots take as long as their copies: a further stage would not be waited for."""
    loop = loop_of(product(*tiles), "sm_90")
    assert loop.attributes[tileas.LOOP_SCHEDULE].stages == 4 and tileas.DOTS_IN_FLIGHT in loop.attributes


def test_dots_of_short_rings_are_waited_for():
    """Two CTAs leave 64x128x64 four stages; a dot in flight would keep one of them from the copies."""
    kernel = product(64, 128, 64)
    loop = loop_of(kernel, "sm_90")
    assert loop.attributes[tileas.LOOP_SCHEDULE].stages == 4 and tileas.DOTS_IN_FLIGHT not in loop.attributes
    remarks = str(kernel.compiled("sm_90", emit_remarks=True).diagnostics)
    assert "loops.keeps-ctas copies=384 computes=256 wanted=6" in remarks


def test_a_number_given_by_the_user_remains():
    assert stages(product(64, 64, 64), "sm_90", num_stages=3) == 3


def test_no_more_stages_than_iterations():
    assert stages(matmul((64, 64, 64), steps=5), "sm_90") == 5


def test_computation_between_dots_keeps_its_ctas():
    """Threads compute under the dots of other CTAs."""
    kernel = attention_like(1, "f16", rows=64, columns=64, depth=64, steps=16)
    assert stages(kernel, "sm_90") <= 4


def test_dots_that_threads_execute_keep_their_ctas():
    assert stages(product(16, 64, 64), "sm_80") == 3
