"""Atomic read-modify-write operations: one element after the other, by default in row-major order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tileiras.ir import FloatType, IntegerType

from .machine import Undefined, meaning
from .memory import pointee
from .rounding import compute
from .values import TOKEN, dtype_of, undefined
from .views import locate

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine

#: AtomicRMWModeAttr keyword -> new value from (old, argument); float addition is added where the format is known.
_MODES = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "umax": lambda old, new: _unsigned(np.maximum, old, new),
    "umin": lambda old, new: _unsigned(np.minimum, old, new),
    "xchg": lambda old, new: new,
}


def _unsigned(function: Callable[..., np.ndarray], old: np.ndarray, new: np.ndarray):
    view = f"uint{old.dtype.itemsize * 8}"
    return function(old.view(view), new.view(view)).view(old.dtype)


def _combine(mode: str, element: FloatType | IntegerType):
    if mode == "addf":
        return lambda old, new: compute("add", [old, new], element.keyword)
    return _MODES[mode]


def _update(
    machine: Machine,
    addresses: np.ndarray,
    mask: np.ndarray | None,
    element: FloatType | IntegerType,
    function: Callable[..., np.ndarray],
    *arguments: np.ndarray,
    is_sum: bool = False,
) -> np.ndarray:
    """Apply ``function(old, *arguments)`` to every place where ``mask`` is true; returns the old elements."""
    dtype = dtype_of(element)
    machine.decide("an address", addresses, mask)
    selection = np.ones(addresses.shape, bool) if mask is None else mask
    places = addresses.reshape(-1)[selection.reshape(-1)]
    picked = [np.ascontiguousarray(a).reshape(-1)[selection.reshape(-1)] for a in arguments]
    if np.unique(places).size == places.size:
        old = machine.memory.load(places, dtype)
        machine.memory.store(places, np.asarray(function(old, *picked)).astype(dtype, copy=False))
    else:
        old = np.empty(places.shape, dtype)
        for position in machine.element_order(places.size, is_sum):
            place = places[position : position + 1]
            old[position : position + 1] = before = machine.memory.load(place, dtype)
            after = function(before, *(p[position : position + 1] for p in picked))
            machine.memory.store(place, np.asarray(after).astype(dtype, copy=False))
    result = np.empty(addresses.shape, dtype) if selection.all() else undefined(addresses.shape, element)
    result.reshape(-1)[selection.reshape(-1)] = old
    return result


@meaning("atomic_rmw_tko")
def atomic_rmw_tko(machine: Machine, op: cuda_tile.AtomicRMWTkoOp):
    element = pointee(op.pointers)
    mode = op.attributes["mode"].value
    function, is_sum = _combine(mode, element), mode == "addf"
    mask = machine.get(op.mask)
    return _update(machine, machine[op.pointers], mask, element, function, machine[op.arg], is_sum=is_sum), TOKEN


@meaning("atomic_cas_tko")
def atomic_cas_tko(machine: Machine, op: cuda_tile.AtomicCASTkoOp):
    element = pointee(op.pointers)
    bits = f"int{dtype_of(element).itemsize * 8}"

    def exchange(old: np.ndarray, comparands: np.ndarray, new: np.ndarray):
        return np.where(old.view(bits) == comparands.view(bits), new, old)

    comparand, mask = machine[op.cmp], machine.get(op.mask)
    old = _update(machine, machine[op.pointers], mask, element, exchange, comparand, machine[op.val])
    return (old if mask is None else np.where(mask, old, comparand).astype(old.dtype)), TOKEN


@meaning("multimem_reduce_view_tko")
def multimem_reduce_view_tko(machine: Machine, op: cuda_tile.MultimemReduceViewTkoOp):
    """A team of one device: one copy is updated."""
    view = machine[op.view]
    element = view.tensor.element
    kind = op.reduction.value
    mode = "addf" if kind == "add" and isinstance(element, FloatType) else kind
    offsets, inside = locate(machine, view, op)
    addresses = view.tensor.address + offsets * dtype_of(element).itemsize
    _update(machine, addresses, inside, element, _combine(mode, element), machine[op.tile])
    return TOKEN


@meaning("atomic_red_view_tko")
def atomic_red_view_tko(machine: Machine, op: cuda_tile.AtomicRedViewTkoOp):
    view = machine[op.view]
    element = view.tensor.element
    if view.padding is not None:
        raise Undefined("reduces into a view with a padding value")
    offsets, inside = locate(machine, view, op)
    addresses = view.tensor.address + offsets * dtype_of(element).itemsize
    mode = op.attributes["mode"].value
    function, is_sum = _combine(mode, element), mode == "addf"
    _update(machine, addresses, inside, element, function, machine[op.value], is_sum=is_sum)
    return TOKEN
