"""A loop whose trip count depends on a product: no other agent can compute it, since a product has one agent."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.agents.running import SPECIALIZED
from tests.kernels.reasons import stated
from tileiras.sim import emulate

ct = pytest.importorskip("cuda.tile")
T, TILES = 64, 2


@ct.kernel
def twice(a, b, c, T: ct.Constant[int]):
    total = ct.zeros((T, T), ct.float32)
    for k in range(2):
        total = ct.mma(ct.load(a, (0, k), (T, T)), ct.load(b, (k, 0), (T, T)), total)
    for k in range(ct.astype(ct.max(total) > 0.0, ct.int32) + 1):
        total = ct.mma(ct.load(a, (0, k), (T, T)), ct.load(b, (k, 0), (T, T)), total)
    ct.store(c, (0, 0), total)


SIGNATURE = (f"f16[{T}, {TILES * T}]", f"f16[{TILES * T}, {T}]", f"f32[{T}, {T}]", T)


@ct.kernel
def twice_scaled(a, a_scales, b, b_scales, c, T: ct.Constant[int]):
    total = ct.zeros((T, T), ct.float32)
    left, right = ct.load(a_scales, (0, 0), (T, T // 32)), ct.load(b_scales, (0, 0), (T // 32, T))
    for k in range(2):
        total = ct.mma_scaled(ct.load(a, (0, k), (T, T)), left, ct.load(b, (k, 0), (T, T)), right, total)
    for k in range(ct.astype(ct.max(total) > 0.0, ct.int32) + 1):
        total = ct.mma_scaled(ct.load(a, (0, k), (T, T)), left, ct.load(b, (k, 0), (T, T)), right, total)
    ct.store(c, (0, 0), total)


@pytest.mark.parametrize("gpu_name", ["sm_100", "sm_110", "sm_120"])
def test_scaled_products_are_not_repeated_either(gpu_name):
    signature = ("f8e4m3fn[128, 256]", "f8e8m0fnu[128, 4]", "f8e4m3fn[256, 128]", "f8e8m0fnu[4, 128]", "f32[128, 128]")
    artifact = tileiras.compile(
        twice_scaled, signature=(*signature, 128), gpu_name=gpu_name, tensor_maps="device", emit_remarks=True,
        **SPECIALIZED
    )  # fmt: skip
    assert "agents.executes-once" in "\n".join(stated(artifact.diagnostics))


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_110", "sm_120"])
def test_products_are_not_repeated_by_another_agent(gpu_name):
    artifact = tileiras.compile(
        twice, signature=SIGNATURE, gpu_name=gpu_name, tensor_maps="device", emit_remarks=True, **SPECIALIZED
    )
    assert "agents.executes-once" in "\n".join(stated(artifact.diagnostics))
    a, b = (np.random.default_rng(n).integers(-2, 3, (T, TILES * T)).astype(np.float16) for n in range(2))
    b, c = np.ascontiguousarray(b.T), np.zeros((T, T), np.float32)
    once = a.astype(np.float32) @ b.astype(np.float32)
    kernel = artifact.kernels[0]
    arguments = [value for each in (a, b, c) for value in (each, *each.shape, each.shape[1], 1)]
    emulate(artifact.text, kernel.name, 1, arguments, metadata=kernel.metadata)
    assert (c == 2 * once).all()
