"""Tensors of the host that are no NumPy arrays, as arguments of kernels for the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileiras
from tileiras import runtime
from tileiras.runtime.arguments import device_address
from tileiras.targets.cpu import TARGETS, host

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")


class Tensor:
    """A tensor with DLPack alone: NumPy makes its capsules."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **given: Any) -> object:
        return self._array.__dlpack__(**given)


class OlderTensor(Tensor):
    """Of a producer before DLPack 1.0, whose capsules have no version."""

    def __dlpack__(self, *, stream: Any = None) -> object:
        return self._array.__dlpack__()


class Torch(Tensor):
    """As PyTorch's: NumPy's view shares the memory, and does not exist for types that NumPy lacks."""

    def __init__(self, array: np.ndarray, refuses: type[Exception] | None = None) -> None:
        super().__init__(array)
        self._refuses = refuses

    def numpy(self) -> np.ndarray:
        if self._refuses is not None:
            raise self._refuses("no view")
        return self._array


def saxpy(x: Any, y: Any) -> None:
    runtime.launch(tileiras.compile(EXAMPLES / "saxpy.mlir", gpu_name="cpu"), "saxpy", 1, [x, y, 2.0, 8], threads=1)


@pytest.mark.parametrize("kind", [Tensor, OlderTensor, Torch, lambda array: Torch(array, TypeError)])
def test_tensors_are_used_in_place(kind):
    x, y = np.arange(8, dtype=np.float32), np.ones(24, np.float32)
    saxpy(kind(x), kind(y[8:16]))
    assert (y[8:16] == 2 * x + 1).all() and (y[:8] == 1).all() and (y[16:] == 1).all()


def test_tensors_that_cannot_be_exported():
    x = np.ones(8, np.float32)
    with pytest.raises(runtime.ArgumentError, match="argument 1 .* memory of a Torch is not to be had: no view"):
        saxpy(x, Torch(x, RuntimeError))


@pytest.mark.skipif(int(np.__version__.partition(".")[0]) < 2, reason="capsules have versions since NumPy 2.1")
def test_tensors_that_are_not_writable_keep_their_elements():
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    y.flags.writeable = False
    saxpy(x, Tensor(y))
    assert not y.any()


@pytest.mark.parametrize("view", [np.s_[:], np.s_[::-1], np.s_[:, 1], np.s_[:0], np.s_[1:, ::2], np.s_[0, 0, ...]])
@pytest.mark.parametrize("kind", [Tensor, OlderTensor])
def test_the_memory_of_a_tensor_is_that_of_its_elements(kind, view):
    """A launch on a GPU copies this extent."""
    array = np.arange(12, dtype=np.float64).reshape(3, 4)[view]
    placed: list[Any] = []

    class Placement:
        stream = 0

        def place(self, memory: Any) -> int:
            placed.append(memory)
            return memory.start + memory.offset

        def wait_for(self, stream: int) -> None: ...

    address = device_address(kind(array), Placement())
    (memory,) = placed
    low, high = np.lib.array_utils.byte_bounds(array) if array.size else (address, address)
    assert (memory.start, memory.start + memory.size) == (low, high)
    assert address == array.__array_interface__["data"][0]


def test_measuring_runs_the_kernel():
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    artifact = tileiras.compile(EXAMPLES / "saxpy.mlir", gpu_name="cpu")
    assert 0 < runtime.measure(artifact, "saxpy", 1, [x, y, 1.0, 8], runs=3) < 1e6
    assert (y == 4).all()


def test_code_for_another_processor_is_not_launched(monkeypatch):
    """An error, where the process would end with an illegal instruction."""
    x = np.ones(8, np.float32)
    artifact = tileiras.compile(EXAMPLES / "saxpy.mlir", gpu_name="cpu-x86-64-v4")
    monkeypatch.setattr("tileiras.targets.cpu.host", lambda: TARGETS["cpu-x86-64-v3"])
    with pytest.raises(runtime.ArgumentError, match="'saxpy': this machine lacks instructions of cpu-x86-64-v4"):
        runtime.launch(artifact, "saxpy", 1, [x, x, 2.0, 8])
