"""A matrix product with and without tensor maps, as the clock sees it."""

from __future__ import annotations

import json

import numpy as np

import tileiras
from tests.kernels.dots import matmul
from tileiras.sim import estimate
from tileiras.sim.estimate.result import Estimate


def estimated(
    shape: tuple[int, int, int], steps: int, target: str, gpu: str, tensor_maps: str, **options: object
) -> Estimate:
    m, n, k = shape
    text = matmul(shape, "f16", steps=steps).text.encode()
    options = {"tensor_maps": tensor_maps, "pipeline_strategy": "unspecialize", **options}
    (kernel,) = tileiras.compile(text, gpu_name=target, emit="ptx", **options).kernels
    ptx = kernel.artifacts[".ptx"].decode()
    assert ("cp.async.bulk.tensor" in ptx) == (tensor_maps == "host")
    arrays = [np.ones((m, steps * k), np.float16), np.ones((steps * k, n), np.float16), np.zeros((m, n), np.float32)]
    return estimate(ptx, "k", 1, arrays, gpu=gpu, metadata=json.loads(kernel.artifacts.get(".json", "{}")) or None)
