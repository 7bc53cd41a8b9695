"""Gradients of keys and values whose threads need all registers keep one agent on sm_90: beside another one ptxas
serializes their products (C7512)."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.generator import attention
from tests.generator.kernel import Argument, Generated, scalar
from tests.kernels.reasons import stated
from tests.kernels.views import DTYPES
from tests.machine_code import assemble, needs_tools


def gradients(rows: int, columns: int, depth: int) -> Generated:
    tile = np.zeros((columns, depth), DTYPES["bf16"])
    arrays = [Argument(name, tile, "bf16[?, 8*?]", depth) for name in ("q", "k", "v", "do")]
    arrays += [Argument(name, np.zeros(columns, np.float32), "f32[?]", columns) for name in ("lse", "delta")]
    arrays += [Argument(name, np.zeros(tile.shape, np.float32), "f32[?, 8*?]", depth) for name in ("dk", "dv")]
    arguments = (*arrays, scalar("scale", 0.125, "f32"))
    return Generated("key gradient", attention._KEY_GRADIENT, arguments, (rows, columns, depth, False), (1, 1, 1), {})


@needs_tools
@pytest.mark.parametrize(("sizes", "obstacle"), [
    ((64, 128, 128), "no-register-left"), ((128, 128, 64), "too-few-registers"), ((64, 64, 64), ""),
])  # fmt: skip
def test_ptxas_serializes_no_product(sizes, obstacle):
    source = gradients(*sizes).source()
    artifact = tileiras.compile(source, gpu_name="sm_90", emit="ptx", tensor_maps="host", emit_remarks=True)
    assert "wgmma" in artifact.text
    assemble(artifact.text, "sm_90")
    reasons = str(stated(artifact.diagnostics))
    assert [name for name in ("no-register-left", "too-few-registers") if f"agents.{name}" in reasons] == [
        name for name in (obstacle,) if name
    ]
