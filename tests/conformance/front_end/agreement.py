"""One launch on the interpreter and on the emulator, on the same memory, and the comparison of both.

Floats may differ by the effect of another order of sums: by `ALLOWED` units of their type's precision, relative to the
largest number of the array.  Elements that are undefined in the interpreter may have any value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tileiras.sim.interpreter.values import dtype_of
from tileiras.sim.memory import Memory

ALLOWED = {torch.float16: 16, torch.bfloat16: 16, torch.float32: 4096, torch.float64: 4096}
"""Units of precision; narrower types use f16's.  f32 results include those of f16 and tf32 factors that cancel."""


@dataclass
class Launch:
    """The result of one kernel, launched once, on one target."""

    origin: str
    kernel: str
    digest: str
    target: str
    result: str
    """same: to the bit; close: within `ALLOWED`; differs; large: not emulated in time; failed."""
    said: str = ""


def contents(memory: Memory) -> list[np.ndarray]:
    """A copy of every allocation's bytes."""
    return [allocation.data.view(np.uint8).reshape(-1).copy() for allocation in memory.allocations]


def restore(memory: Memory, before: list[np.ndarray]) -> None:
    for allocation, data in zip(memory.allocations, before):
        if allocation.data.flags.writeable:
            allocation.data.view(np.uint8).reshape(-1)[:] = data


def undefined_bytes(
    run: Callable[[list[Any]], dict[int, np.ndarray]], types: Sequence[Any], arguments: list[Any], memory: Memory
) -> list[np.ndarray]:
    """The undefined elements after interpretation, a bool per byte of every allocation.

    ``run(arguments)`` interprets with arrays instead of addresses, because `interpret` reports arrays only.
    """
    marks = [np.zeros(allocation.data.nbytes, np.bool_) for allocation in memory.allocations]
    result, places = list(arguments), {}
    for position, (type, value) in enumerate(zip(types, arguments)):
        pointee = getattr(type, "pointee_type", None)
        allocation = memory.find(value) if pointee is not None and value else None
        if allocation is None or (size := dtype_of(pointee).itemsize) * 8 != max(8, pointee.width):
            continue
        offset = value - allocation.address
        count = (allocation.data.nbytes - offset) // size
        result[position] = allocation.data[offset : offset + count * size].view(dtype_of(pointee))
        places[position] = memory.allocations.index(allocation), offset, size
    for position, where in run(result).items():
        number, offset, size = places[position]
        bytes_ = np.repeat(where.reshape(-1), size)
        marks[number][offset : offset + len(bytes_)] |= bytes_
    return marks


def compare(
    tensors: Sequence[torch.Tensor], memory: Memory, expected: list[np.ndarray], actual: list[np.ndarray],
    undefined: list[np.ndarray] | None = None,
) -> tuple[str, str]:
    """(result, message) of two states of memory.  Bytes outside of all tensors have to be equal."""
    if all(np.array_equal(*pair) for pair in zip(expected, actual)):
        return "same", ""
    worst, covered = 0.0, [np.zeros(len(data), np.bool_) for data in actual]
    # A tensor of a whole storage gives the type of its bytes; a storage with two types is compared as the first.
    for tensor in tensors:
        storage = tensor.untyped_storage()
        allocation = memory.find(storage.data_ptr()) if storage.nbytes() else None
        if allocation is None:
            continue
        number = memory.allocations.index(allocation)
        if covered[number].all():
            continue
        covered[number][:] = True
        differs = expected[number] != actual[number]
        if undefined is not None:
            differs &= ~undefined[number]
        if not differs.any():
            continue
        result, distance = _distance(tensor.dtype, expected[number], actual[number], differs)
        if result:
            return "differs", result
        worst = max(worst, distance)
    for number, mask in enumerate(covered):
        if (~mask & (expected[number] != actual[number])).any():
            return "differs", "bytes outside of tensors"
    return ("close", f"{worst:.3g}") if worst else ("same", "")


def _distance(
    dtype: torch.dtype, expected: np.ndarray, actual: np.ndarray, differs: np.ndarray
) -> tuple[str, float]:
    """(a mistake, or ""; the distance in units of precision relative to the largest element)."""
    size = dtype.itemsize
    count = len(expected) // size
    numbers = [torch.from_numpy(data[: count * size].copy()).view(dtype) for data in (expected, actual)]
    if not (dtype.is_floating_point or dtype.is_complex):
        return f"{int(differs.sum())} bytes of {dtype} differ", 0.0
    if dtype.is_complex:
        numbers = [torch.view_as_real(number).reshape(-1) for number in numbers]
        size //= 2
    result = torch.from_numpy(differs[: len(numbers[0]) * size].reshape(-1, size).any(-1))
    wanted, got = (number.to(torch.float64) for number in numbers)
    finite = torch.isfinite(wanted) & torch.isfinite(got)
    other = result & ~finite & ~(torch.isnan(wanted) & torch.isnan(got)) & (wanted != got)
    if other.any():
        at = int(other.nonzero()[0])
        return f"element {at}: {got[at].item():g} for {wanted[at].item():g}", 0.0
    result &= finite
    if not result.any():
        return "", 0.0
    largest = wanted[finite].abs().max().item() or 1.0
    real = numbers[0].dtype
    apart = ((wanted - got).abs()[result].max() / largest / torch.finfo(real).eps).item()
    if apart > ALLOWED.get(real, 16):
        at = int(((wanted - got).abs() * result).nan_to_num(0).argmax())
        return f"element {at}: {got[at].item():g} for {wanted[at].item():g}, {apart:.3g} units of {real}", apart
    return "", apart
