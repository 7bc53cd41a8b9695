"""Repeated launches of one kernel in one context: arguments are packed by one `struct` into a reused buffer.

    saxpy = tileiras.runtime.bind(artifact, "saxpy")
    saxpy((3, 1, 1), (x.data_ptr(), y.data_ptr(), 2.0, 3000), stream)

The driver reads parameters during the launch call, so a buffer is free again when the call returns.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_size_t, c_uint, c_void_p
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from .driver import (
    LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
    LAUNCH_PARAM_BUFFER_POINTER,
    LAUNCH_PARAM_BUFFER_SIZE,
    LAUNCH_PARAM_END,
    Driver,
    LaunchAttribute,
    LaunchConfig,
)

if TYPE_CHECKING:
    from . import Module

Dims = tuple[int, int, int]

CODES = {
    ("i8", 1): "b", ("i16", 2): "h", ("i32", 4): "i", ("i64", 8): "q",
    ("f16", 2): "e", ("f32", 4): "f", ("tf32", 4): "f", ("f64", 8): "d",
}  # fmt: skip
"""(type, size) of a parameter -> code of `struct`.  Others (i1, bf16, f8) need a conversion of their own."""


def layout(kernel: Mapping[str, Any]) -> str | None:
    """The format of a kernel's parameter space; None if it has hidden parameters or types without a code."""
    if kernel.get("hidden_parameters"):
        return None
    text, end = "<", 0
    for parameter in kernel["parameters"]:
        pointer = parameter["type"].startswith("ptr")
        code = "Q" if pointer else CODES.get((parameter["type"], parameter["size"]))
        if code is None:
            return None
        text += "x" * (parameter["offset"] - end) + code
        end = parameter["offset"] + parameter["size"]
    return text


class _Slot:
    """The memory of one launch in progress: its parameters, and the structures that the driver reads."""

    def __init__(self, size: int, block: Dims, shared: int, cluster: Dims) -> None:
        self.buffer = ctypes.create_string_buffer(max(size, 1))
        self._size = c_size_t(size)
        self._extra = (c_void_p * 5)(
            LAUNCH_PARAM_BUFFER_POINTER, ctypes.addressof(self.buffer),
            LAUNCH_PARAM_BUFFER_SIZE, ctypes.addressof(self._size), LAUNCH_PARAM_END,
        )  # fmt: skip
        self.extra = ctypes.addressof(self._extra) if size else None
        self._attributes = (LaunchAttribute * 1)()
        self._attributes[0].id = LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        self._attributes[0].value[:3] = cluster
        self._config = LaunchConfig((c_uint * 3)(1, 1, 1), (c_uint * 3)(*block), shared, 0, self._attributes, 0)
        self.config = ctypes.addressof(self._config)
        self.grid: Any = None
        """As the caller gave it; None before the first launch."""
        self.stream = 0

    def set(self, grid: Any, blocks: Dims, stream: int, clusters: bool) -> None:
        """The grid, and its number of blocks; `clusters`: whether the cluster's size is an attribute."""
        self._config.grid[:] = blocks
        self._config.stream, self._config.attribute_count = stream, int(clusters)
        self.grid, self.stream = grid, stream


class BoundKernel:
    """A loaded kernel of one context; `bind` makes it."""

    def __init__(self, cuda: Driver, module: Module, kernel: Mapping[str, Any], geometry: Callable[..., Any]) -> None:
        self._cuda, self._module, self._entry = cuda, module, kernel["name"]
        self._geometry = geometry
        self._kernel = kernel
        # The variant for pairs depends on arguments as well as the grid.
        text = None if "pairs" in kernel else layout(kernel)
        self._fast = text is not None
        pointers = [at for at, each in enumerate(kernel["parameters"]) if each["type"].startswith("ptr")]
        # With one index, itemgetter returns no tuple.
        self._addresses = itemgetter(*(pointers * 2 if len(pointers) == 1 else pointers)) if pointers else tuple
        self._only_ints = {int} if pointers else set()
        self._check = bool(pointers)
        packer = struct.Struct(text or "<")
        self._pack, self._size = packer.pack_into, packer.size
        self._launch = cuda.raw_launch()
        self._function = module.function(kernel)
        self._slots: list[_Slot] = []

    def __call__(self, grid: int | Sequence[int], args: Sequence[Any], stream: int = 0) -> None:
        """Queue one launch.

        grid: tile blocks along x, y, z; fastest as a tuple of three.  args: the entry's parameters in order, addresses
        as int for pointers; anything else that `tileiras.runtime.launch` takes, at its cost.  stream: the handle of a
        CUDA stream.  The context in which the kernel was bound is the thread's current one.  Raises DriverError and
        ArgumentError as `launch` does.
        """
        if not self._fast:
            return self._module.launch(self._entry, grid, args, stream)
        # `pop` and `append` are atomic: a slot belongs to one thread at a time.
        try:
            slot = self._slots.pop()
        except IndexError:
            slot = self._new_slot()
        try:
            if self._check and {*map(type, self._addresses(args))} != self._only_ints:
                return self._module.launch(self._entry, grid, args, stream)
            self._pack(slot.buffer, 0, *args)
            if slot.grid != grid or slot.stream != stream:
                blocks, _, _, cluster = self._geometry(self._kernel, grid)
                slot.set(grid, blocks, stream, cluster is not None)
            code = self._launch(slot.config, self._function, None, slot.extra)
        except (struct.error, IndexError, TypeError, OverflowError):
            return self._module.launch(self._entry, grid, args, stream)  # finds the argument
        finally:
            self._slots.append(slot)
        if code:
            self._cuda.fail("cuLaunchKernelEx", code)

    def _new_slot(self) -> _Slot:
        _, block, shared, _ = self._geometry(self._kernel, 1)
        cluster = self._kernel.get("cluster_blocks") or self._kernel["cluster"]
        x, y, z = (*cluster, 1, 1)[:3]
        return _Slot(self._size, block, shared, (x, y, z))
