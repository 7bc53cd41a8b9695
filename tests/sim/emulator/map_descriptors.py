"""Tensor maps for the emulator's tests."""

from __future__ import annotations

import numpy as np

from tileiras.sim import Memory
from tileiras.sim.emulator import tensor_map
from tileiras.sim.emulator.tensor_map import TensorMap


def described(tensor, box, **options) -> tuple[np.ndarray, Memory]:
    """The tensor map, innermost dimension first, and the memory that holds the tensor."""
    memory = Memory()
    result = TensorMap(
        "u16", memory.allocate(tensor), tensor.shape[::-1], tensor.strides[-2::-1], box, **options
    )
    return np.frombuffer(tensor_map.encode(result), np.uint8).copy(), memory
