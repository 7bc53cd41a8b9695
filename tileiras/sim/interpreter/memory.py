"""Reading and writing elements in simulated memory; loads and stores through tiles of pointers, tokens, alloca."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tileiras.ir import FloatType, IntegerType, Operation, Value

from ..memory import Memory
from .machine import Undefined, meaning
from .rounding import FLOAT_DTYPES
from .undefined import undefined_bytes
from .values import TOKEN, dtype_of, undefine, width_of, wrap

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine


def read_elements(
    machine: Machine,
    address: int | np.ndarray,
    offsets: np.ndarray,
    element: FloatType | IntegerType,
    mask: np.ndarray | None,
) -> np.ndarray:
    """Elements at ``address`` plus ``offsets`` elements where ``mask`` is true; others are undefined.

    ``address`` is one number or an array shaped like ``offsets``. An i1 is a byte, true if not zero; two 4-bit elements
    share a byte, the even one in the lower half.
    """
    memory: Memory = machine.memory
    machine.decide("an address", address, mask)
    if width_of(element) == 4:
        packed = memory.load(address + (offsets >> 1), np.uint8, mask=mask)
        nibbles = np.where(offsets & 1, packed >> 4, packed & 0xF).astype(np.uint8)
        return wrap(nibbles, 4) if isinstance(element, IntegerType) else nibbles.view(FLOAT_DTYPES[element.keyword])
    dtype = dtype_of(element)
    if dtype == np.bool_:
        return memory.load(address + offsets, np.uint8, mask=mask, fill=0) != 0
    return memory.load(address + offsets * dtype.itemsize, dtype, mask=mask)


def write_elements(
    machine: Machine,
    address: int | np.ndarray,
    offsets: np.ndarray,
    element: FloatType | IntegerType,
    mask: np.ndarray | None,
    values: np.ndarray,
) -> None:
    """Inverse of :func:`read_elements`; of several elements for one place the last in row-major order wins."""
    memory: Memory = machine.memory
    machine.decide("an address", address, mask)
    if width_of(element) == 4:
        nibbles = np.ascontiguousarray(values).view(np.uint8).reshape(np.shape(values)) & 0xF
        # Neighbours share a byte: one half after the other, each merged into the present byte.
        for half in (0, 1):
            half_mask = mask & ((offsets & 1) == half)
            places = address + (offsets >> 1)
            old = memory.load(places, np.uint8, mask=half_mask, fill=0)
            result = old & (0x0F if half else 0xF0)
            memory.store(places, (result | (nibbles << (4 * half))).astype(np.uint8), mask=half_mask)
        return
    dtype = dtype_of(element)
    if dtype == np.bool_:
        memory.store(address + offsets, values.astype(np.uint8), mask=mask)
    else:
        memory.store(address + offsets * dtype.itemsize, values.astype(dtype, copy=False), mask=mask)


def pointee(value: Value):
    element = value.type.element_type.pointee_type
    if width_of(element) == 4:
        raise Undefined("accesses 4-bit elements through pointers; they have addresses only inside a tensor view")
    return element


@meaning("load_ptr_tko")
def load_ptr_tko(machine: Machine, op: cuda_tile.LoadPtrTkoOp):
    pointers = machine[op.source]
    element = pointee(op.source)
    mask = machine.get(op.mask)
    padding = machine.get(op.paddingValue)
    loaded = read_elements(machine, pointers, np.zeros(pointers.shape, np.int64), element, mask)
    if mask is not None:
        if padding is None:
            loaded = undefine(loaded, ~mask, element)
        else:
            loaded = np.where(mask, loaded, padding).astype(dtype_of(element), copy=False)
    return loaded, TOKEN


@meaning("store_ptr_tko")
def store_ptr_tko(machine: Machine, op: cuda_tile.StorePtrTkoOp):
    pointers = machine[op.destination]
    offsets = np.zeros(pointers.shape, np.int64)
    write_elements(machine, pointers, offsets, pointee(op.destination), machine.get(op.mask), machine[op.value])
    return TOKEN


@meaning("make_token", "join_tokens", "memory_fence_alias_tko", "gdc_wait_tko", "gdc_launch_dependents_tko")
def ordering_only(machine: Machine, op: Operation):
    """Operations run in program order, which satisfies every order that tokens can require."""
    return tuple(TOKEN for _ in op.results)


@meaning("alloca")
def alloca(machine: Machine, op: cuda_tile.AllocaOp):
    element = op.results[0].type.element_type.pointee_type
    count = op.attributes["num_elem"].value
    size = -(-count * width_of(element) // 8)
    alignment = max(1, op.attributes["alignment"].value)
    address = machine.memory.allocate(size, alignment=alignment, name=f"alloca of {count} elements")
    if size:
        machine.memory.view(address, np.uint8, size)[:] = undefined_bytes(size)
    machine.allocated.append(address)
    return np.array(address, np.int64)
