"""A stand-in for torch: the names that generated operators use, over NumPy.  Fake tensors have no memory.

A dispatch goes through the registered implementation of the tensors' device, or in the fake mode through the rule for
fake tensors, so that a test sees the registrations at work.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

DTYPES = {"float32": np.float32, "float16": np.float16, "int32": np.int32, "int64": np.int64}


class Device:
    def __init__(self, type: str) -> None:
        self.type, self.index = type, 0 if type == "cuda" else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.type == other.type

    __hash__ = None  # type: ignore[assignment]


class Tensor:
    def __init__(self, array: np.ndarray, device: str, fake: bool = False) -> None:
        self.array, self.device, self.fake = array, Device(device), fake

    @property
    def dtype(self) -> str:
        return self.array.dtype.name

    def dim(self) -> int:
        return self.array.ndim

    def size(self, at: int) -> int:
        return self.array.shape[at]

    def stride(self, at: int) -> int:
        return self.array.strides[at] // self.array.itemsize

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def data_ptr(self) -> int:
        assert not self.fake, "a fake tensor has no memory"
        return self.array.ctypes.data

    def new_empty(self, shape: tuple[int, ...], dtype: str) -> Tensor:
        memory = np.zeros(int(np.prod(shape)) + 16, DTYPES[dtype])
        start = -memory.ctypes.data % 64 // memory.itemsize
        array = memory[start : start + int(np.prod(shape))].reshape(shape)
        return Tensor(array, self.device.type, self.fake)


def module(capability: tuple[int, int] = (8, 9), stream: int = 0) -> types.ModuleType:
    """A fresh module `torch`; streams and devices of the GPU are those of the arguments."""
    torch: Any = types.ModuleType("torch")
    schemas: dict[str, str] = {}
    implementations: dict[tuple[str, str], Callable] = {}
    fakes: dict[str, Callable] = {}

    class Library:
        def __init__(self, namespace: str, kind: str) -> None:
            assert kind == "FRAGMENT"
            self.namespace = namespace

        def define(self, schema: str) -> None:
            schemas[f"{self.namespace}::{schema.split('(')[0]}"] = schema

        def impl(self, name: str, function: Callable, key: str) -> None:
            implementations[f"{self.namespace}::{name}", key] = function

    def register_fake(name: str, function: Callable, lib: object) -> None:
        fakes[name] = function

    def check(condition: bool, message: Callable[[], str]) -> None:
        if not condition:
            raise RuntimeError(message())

    class Operator:
        def __init__(self, name: str) -> None:
            self.name = name
            self.default = self

        def __call__(self, *arguments: Any) -> Any:
            assert self.name in schemas
            tensors = [each for each in arguments if isinstance(each, Tensor)]
            if any(tensor.fake for tensor in tensors):
                return fakes[self.name](*arguments)
            return implementations[self.name, tensors[0].device.type.upper()](*arguments)

    class Namespace:
        def __init__(self, prefix: str = "") -> None:
            self._prefix = prefix

        def __getattr__(self, name: str) -> Any:
            return Operator(f"{self._prefix}::{name}") if self._prefix else Namespace(name)

    @contextlib.contextmanager
    def device(_: Device) -> Iterator[None]:
        yield

    torch.library = types.SimpleNamespace(Library=Library, register_fake=register_fake)
    torch._check, torch.ops, torch.schemas = check, Namespace(), schemas
    torch.cuda = types.SimpleNamespace(
        device=device, get_device_capability=lambda _: capability,
        current_stream=lambda _: types.SimpleNamespace(cuda_stream=stream),
    )  # fmt: skip
    for name in DTYPES:
        setattr(torch, name, name)
    return torch
