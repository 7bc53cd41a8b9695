"""Pointers, views and accesses of global memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.ir import DYNAMIC, Operation, element_type_of

from ..atomics import _combine, _update
from ..machine import Undefined
from ..memory import read_elements, write_elements
from ..rounding import round_to
from ..undefined import undefined_bytes
from ..values import TOKEN, TensorView, TileView, dtype_of, undefine, unsigned, width_of, wrap
from ..views import padding_tile
from .machine import LoweredMachine, rule

IN_BOUNDS = "nv_tileaa.inbounds"


@rule("create_mem_token", "join_mem_token", "gdc_wait", "gdc_launch_dependents", "fence_alias", "print")
def ordering_only(machine: LoweredMachine, op: Operation) -> Any:
    return TOKEN


@rule("assert")
def assert_(machine: LoweredMachine, op: Any) -> None:
    if not np.all(machine[op.condition]):
        raise Undefined(f"fails: {op.message.value}")


@rule("addptr")
def addptr(machine: LoweredMachine, op: Any) -> np.ndarray:
    pointers, offsets = machine.operands(op)
    pointee = element_type_of(op.pointer.type).pointee
    offsets = np.asarray(offsets).astype(np.int64)
    if width_of(pointee) == 4:
        if np.any(offsets & 1):
            raise Undefined("moves a pointer by half a byte")
        return np.asarray(pointers + (offsets >> 1))
    return np.asarray(pointers + offsets * dtype_of(pointee).itemsize)


@rule("get_global")
def get_global(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.array(machine.globals[op.symbol.root], np.int64)


@rule("alloca")
def alloca(machine: LoweredMachine, op: Any) -> np.ndarray:
    name = f"alloca of {op.num_elem.value} elements"
    address = machine.memory.allocate(op.bytes, alignment=op.alignment.value, name=name)
    machine.memory.view(address, np.uint8, op.bytes)[:] = undefined_bytes(op.bytes)
    return np.array(address, np.int64)


@rule("dealloc")
def dealloc(machine: LoweredMachine, op: Any) -> None:
    machine.memory.release(int(machine[op.pointer]))


# -- views -----------------------------------------------------------------------------------------------------------


@rule("make_memref")
def make_memref(machine: LoweredMachine, op: Any) -> TensorView:
    type = op.result.type
    extents = []
    for values, sizes in ((op.sizes, type.shape), (op.strides, type.strides)):
        result = iter([int(unsigned(machine[value], value.type.width)) for value in values])
        extents.append(tuple(next(result) if size == DYNAMIC else size for size in sizes))
    return TensorView(int(machine[op.base]), type.element_type, *extents)


@rule("get_dim_size")
def get_dim_size(machine: LoweredMachine, op: Any) -> np.ndarray:
    return wrap(np.asarray(machine[op.source].shape[op.dim.value]), op.result.type.width)


def tiles_of(tensor: TensorView, type: Any) -> TileView:
    """The tiles that a type of view cuts a tensor into."""
    padding = None if type.padding is None else type.padding.value
    sparse = None if type.sparse_dim is None else type.dim_map.index(type.sparse_dim)
    return TileView(tensor, type.shape, type.traversal_strides, type.dim_map, padding, sparse)


@rule("block_tile")
def block_tile(machine: LoweredMachine, op: Any) -> TileView:
    return tiles_of(machine[op.source], op.result.type)


def locate(machine: LoweredMachine, view: TileView, coords: Any, promised: Any = ()) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of a tile's elements from the tensor's first one, and which lie inside of it.

    A tile may lie outside altogether: one that runs ahead, or a slice of a tile.
    """
    rank = len(view.tile_shape)
    offsets, inside = np.zeros((1,) * rank, np.int64), np.ones((1,) * rank, bool)
    machine.decide("an index", *(machine[each] for each in coords))
    for position, coordinate in enumerate(coords):
        number = np.asarray(machine[coordinate]).astype(np.int64)
        if position != view.sparse:
            number = number * view.steps[position] + np.arange(view.tile_shape[position], dtype=np.int64)
        along = [1] * rank
        along[position] = view.tile_shape[position]
        number, dim = number.reshape(along), view.dim_map[position]
        valid = (number >= 0) & (number < view.tensor.shape[dim])
        if position < len(promised) and promised[position] and not valid.all():
            raise Undefined(f"leaves the tensor along dimension {dim}, which 'inbounds' rules out")
        offsets, inside = offsets + np.where(valid, number, 0) * view.tensor.strides[dim], inside & valid
    return np.broadcast_to(offsets, view.tile_shape), np.broadcast_to(inside, view.tile_shape)


def promises(op: Operation) -> list:
    entry = op.attributes.get(IN_BOUNDS)
    return [] if entry is None else list(entry.elements)


def read_tile(
    machine: LoweredMachine, view: TileView, coords: Any, element: Any, promised: Any = (), zeros: bool = False
) -> np.ndarray:
    """A tile of a view as elements of a type; with `zeros` those outside are zero where no padding is given."""
    offsets, inside = locate(machine, view, coords, promised)
    storage = view.tensor.element
    values = read_elements(machine, view.tensor.address, offsets, storage, inside)
    if not inside.all():
        padded = view._replace(padding="zero") if zeros and view.padding is None else view
        values = np.where(inside, values, padding_tile(padded, storage)).astype(dtype_of(storage), copy=False)
    return values if element is storage else round_to(values.astype(np.float64), element.keyword)


def write_tile(machine: LoweredMachine, view: TileView, coords: Any, values: np.ndarray, promised: Any = ()) -> None:
    offsets, inside = locate(machine, view, coords, promised)
    write_elements(machine, view.tensor.address, offsets, view.tensor.element, inside, values)


def combine_tile(machine: LoweredMachine, view: TileView, coords: Any, values: np.ndarray, mode: str) -> None:
    offsets, inside = locate(machine, view, coords)
    element = view.tensor.element
    addresses = view.tensor.address + offsets * dtype_of(element).itemsize
    _update(machine, addresses, inside, element, _combine(mode, element), values)


@rule("tiled_load")
def tiled_load(machine: LoweredMachine, op: Any) -> tuple:
    element = element_type_of(op.data.type)
    return read_tile(machine, machine[op.view], op.coords, element, promises(op)), TOKEN


@rule("tiled_store")
def tiled_store(machine: LoweredMachine, op: Any) -> Any:
    write_tile(machine, machine[op.view], op.coords, machine[op.data], promises(op))
    return TOKEN


@rule("tiled_atomic_rmw")
def tiled_atomic_rmw(machine: LoweredMachine, op: Any) -> Any:
    combine_tile(machine, machine[op.view], op.coords, machine[op.data], op.rmw_mode.value)
    return TOKEN


# -- pointers --------------------------------------------------------------------------------------------------------


def pointee(op: Any) -> Any:
    element = element_type_of(op.pointer.type).pointee
    if width_of(element) == 4:
        raise Undefined("accesses 4-bit elements through pointers")
    return element


def read_through(machine: LoweredMachine, op: Any, other: Any = None) -> np.ndarray:
    """The elements behind pointers, `other` where the mask is false."""
    element, pointers, mask = pointee(op), np.asarray(machine[op.pointer]), machine.get(op.mask)
    values = read_elements(machine, pointers, np.zeros(pointers.shape, np.int64), element, mask)
    if mask is None:
        return values
    if other is None:
        return undefine(values, ~np.asarray(mask), element)
    return np.where(mask, values, other).astype(dtype_of(element), copy=False)


@rule("load")
def load(machine: LoweredMachine, op: Any) -> tuple:
    return read_through(machine, op, machine.get(op.other)), TOKEN


@rule("store")
def store(machine: LoweredMachine, op: Any) -> Any:
    pointers = np.asarray(machine[op.pointer])
    offsets = np.zeros(pointers.shape, np.int64)
    write_elements(machine, pointers, offsets, pointee(op), machine.get(op.mask), np.asarray(machine[op.data]))
    return TOKEN


@rule("atomic_rmw")
def atomic_rmw(machine: LoweredMachine, op: Any) -> tuple:
    element, value = pointee(op), np.asarray(machine[op.value])
    function = _combine(op.rmw_mode.value, element)
    return _update(machine, np.asarray(machine[op.pointer]), machine.get(op.mask), element, function, value), TOKEN


@rule("atomic_cas")
def atomic_cas(machine: LoweredMachine, op: Any) -> tuple:
    element = pointee(op)
    bits = f"int{dtype_of(element).itemsize * 8}"

    def exchange(old: np.ndarray, comparands: np.ndarray, new: np.ndarray) -> np.ndarray:
        return np.where(old.view(bits) == comparands.view(bits), new, old)

    comparand, mask, new = np.asarray(machine[op.compare]), machine.get(op.mask), np.asarray(machine[op.value])
    old = _update(machine, np.asarray(machine[op.pointer]), mask, element, exchange, comparand, new)
    return (old if mask is None else np.where(mask, old, comparand).astype(old.dtype)), TOKEN
