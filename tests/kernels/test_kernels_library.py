"""Every kernel of the library computes its expected results, interpreted and on targets with different instructions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import dots, rows
from tests.kernels.views import Kernel

KERNELS: dict[str, Callable[[], Kernel]] = {
    **rows.KERNELS,
    "matmul": lambda: dots.matmul((64, 64, 32), steps=3),
    "matmul of parts": lambda: dots.matmul((64, 64, 32), "bf16", sizes=(61, 45, 70), steps=3, b_by_columns=True),
    "matmul of i8": lambda: dots.matmul((32, 32, 64), "i8"),
    "matmul added to C": lambda: dots.matmul((32, 32, 32), "f32", start="loaded"),
    "matmul of one A": lambda: dots.matmul((64, 64, 64), steps=3, a_outside=True),
    "chained": lambda: dots.chained((64, 64, 64, 32)),
    "square_and_rows": dots.square_and_rows,
    "attention_like": lambda: dots.attention_like(2),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compute_their_documented_results(name, gpu_name):
    KERNELS[name]().check(gpu_name)
