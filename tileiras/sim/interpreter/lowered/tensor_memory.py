"""Tiles in tensor memory, and the products that add to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine import Undefined
from ..rounding import compute
from ..values import dtype_of, undefined
from .machine import LoweredMachine, Unruled, as_only
from .tensors import multiply, whole_b

MEMORY = "tensor_memory."


@as_only(MEMORY + "reserve")
def reserve(machine: LoweredMachine, op: Any) -> Any:
    return op


@as_only(MEMORY + "open")
def open_(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.array(0, np.int32)


@as_only(MEMORY + "release", MEMORY + "dealloc", MEMORY + "wait")
def nothing(machine: LoweredMachine, op: Any) -> None:
    """Products are complete when they are issued."""


@as_only(MEMORY + "alloc")
def alloc(machine: LoweredMachine, op: Any) -> np.ndarray:
    tile = op.result.type.tile
    return np.array(undefined(tile.shape, tile.element_type))


@as_only(MEMORY + "slice")
def slice_(machine: LoweredMachine, op: Any) -> np.ndarray:
    """A view of a part: stores to it are visible in the whole."""
    shape = op.result.type.tile.shape
    starts = [int(machine[coordinate]) * size for coordinate, size in zip(op.coords, shape)]
    part = machine[op.buffer][tuple(slice(start, start + size) for start, size in zip(starts, shape))]
    if part.shape != tuple(shape) or min(starts) < 0:
        raise Undefined(f"names a part at {starts}, which the buffer does not have")
    return part


@as_only(MEMORY + "load")
def load(machine: LoweredMachine, op: Any) -> np.ndarray:
    if op.reduction is not None:
        raise Unruled("returns the reduction of each thread's part of a row, which has no rule")
    return machine[op.buffer].copy()


@as_only(MEMORY + "store")
def store(machine: LoweredMachine, op: Any) -> None:
    machine[op.buffer][...] = machine[op.tile]


@as_only(MEMORY + "scale")
def scale(machine: LoweredMachine, op: Any) -> None:
    buffer = machine[op.buffer]
    buffer[...] = compute("mul", [buffer, machine[op.factor]], "f32", "nearest_even", op.flush_to_zero is not None)


@as_only(MEMORY + "dot")
def dot(machine: LoweredMachine, op: Any) -> None:
    buffer = machine[op.buffer]
    a, b = machine[op.a], whole_b(machine, op, machine[op.b])
    type = op.buffer.type.tile.element_type
    base = buffer.copy() if bool(machine[op.adds]) else np.zeros(buffer.shape, dtype_of(type))
    elements = [getattr(value.type, "tile", value.type).element_type for value in (op.a, op.b)]
    scales = [(machine[value], value.type.element_type) for value in op.scales[:2]]
    buffer[...] = multiply(op, (a, elements[0]), (b, elements[1]), (base, type), *scales)


@as_only(MEMORY + "commit")
def commit(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.asarray(machine[op.count] + np.int32(1))
