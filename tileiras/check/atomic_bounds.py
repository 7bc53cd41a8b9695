"""The intervals of memory behind atomic operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tileiras.ir import FLOAT_SEMANTICS, FloatType, Operation
from tileiras.sim.interpreter.machine import Machine
from tileiras.sim.interpreter.rounding import FLOAT_DTYPES, max_finite
from tileiras.sim.interpreter.views import locate
from tileiras.sim.memory import Allocation

from .bound_rules import TINY
from .bounds import Bounds, is_exact_sum, is_point, lowest_bit, point, precision
from .shadow import Shadow, Update

if TYPE_CHECKING:
    from .tracking import TrackedMemory, TrackingMachine

ATOMICS = {"cuda_tile.atomic_rmw_tko": "arg", "cuda_tile.atomic_red_view_tko": "value", "cuda_tile.atomic_cas_tko": ""}
"""Atomic operations, and the operand that is combined with memory."""


def atomic(meaning: Callable[[Machine, Operation], Any], machine: TrackingMachine, op: Operation) -> Any:
    """Additions of floats happen in any order.  The values that others read are right for one order of the tile
    blocks."""
    mode, record = getattr(op.attributes.get("mode"), "value", ""), machine.tracked.order.record
    start = len(record)
    outcome = _atomic(meaning, machine, op, mode)
    if mode and mode != "xchg":  # locks are taken and freed by the others
        machine.updates.note(record[start:])
    return outcome


def _atomic(meaning: Callable[[Machine, Operation], Any], machine: TrackingMachine, op: Operation, mode: str) -> Any:
    memory, name = machine.tracked, ATOMICS[op.name]
    argument = machine.values.get(getattr(op, name)) if name else None
    is_read = op.name != "cuda_tile.atomic_red_view_tko" and op.results[0].has_uses
    if is_read or mode == "xchg" or op.name == "cuda_tile.atomic_cas_tko":
        machine.ordered_atomics = True
    is_addition = mode == "addf"
    if not is_addition or argument is None:
        return _exchange(meaning, machine, op, mode, argument)
    element = getattr(op, name).type.element_type
    memory.watching = False
    before = len(memory.writers)
    dtype = FLOAT_DTYPES[element.keyword]
    places: list[tuple[Allocation, np.ndarray, np.ndarray]] = []
    accesses = memory.accesses

    def followed(addresses, dtype_, mask, alignment, write=False):
        if write:
            for allocation, where, _ in memory._places(np.asarray(addresses), mask):
                memory.order.record_access(machine.block_id, True, allocation, where, dtype.itemsize)
                places.append((allocation, where, _numbers(allocation, where, dtype)))
        return accesses(addresses, dtype_, mask, alignment, write)

    memory.accesses = followed  # type: ignore[method-assign]
    try:
        outcome = meaning(machine, op)
    finally:
        del memory.accesses
    del memory.writers[before:]
    terms, radii = _terms(machine, op, argument)
    offset = 0
    for allocation, where, old in places:
        part = slice(offset, offset + where.size)
        offset += where.size
        memory.writers.append((op, allocation, where, dtype.itemsize))
        _add(memory, allocation, where, _Addition(terms[part], radii[part], old), element)
    return outcome


class _Addition(NamedTuple):
    """One addition to several elements: magnitudes and radii of the terms, and the previous values."""

    terms: np.ndarray
    radii: np.ndarray
    old: np.ndarray


_EXTREMA = {"max": np.maximum, "min": np.minimum, "umax": np.maximum, "umin": np.minimum}


def _exchange(
    meaning: Callable[[Machine, Operation], Any], machine: TrackingMachine, op: Operation, mode: str,
    argument: np.ndarray | None,
) -> Any:  # fmt: skip
    """Operations other than additions of floats: the intervals of the elements behind it, and of the old values."""
    memory, updates = machine.tracked, []
    memory.updates = updates
    try:
        outcome = meaning(machine, op)
    finally:
        memory.updates = None
    inputs = [bounds for operand in op.operands if (bounds := machine.bounds_of(machine.values.get(operand)))]
    is_exact = all(is_point(bounds).all() for bounds in inputs)
    if is_exact and not any(_is_active(memory, each) for each in updates):
        return outcome
    old = np.asarray(outcome[0]) if isinstance(outcome, tuple) else None
    is_single = len(updates) == 1  # several elements update one place by separate stores, in any order
    rounded = machine.bounds_of(argument) if argument is not None else None
    shape = np.shape(argument) if argument is not None else ()
    selection = _selection(machine, op, shape)
    before = [np.full(selection.sum(), end) for end in (-np.inf, np.inf)]
    for each in updates:
        shadow = memory.shadows.setdefault(each.allocation.address, Shadow(each.allocation.size, each.itemsize))
        at = each.places // shadow.itemsize
        low, high = np.full(at.size, -np.inf), np.full(at.size, np.inf)
        if is_single and shadow.itemsize == each.itemsize and old is not None and argument is not None:
            wide = np.asarray(old, np.float64).reshape(-1)[selection][each.positions]
            active = shadow.active[at]
            ends = np.where(active, shadow.low[at], wide), np.where(active, shadow.high[at], wide)
            for end, value in zip(before, ends):
                end[each.positions] = value
            new = rounded if rounded is not None else point(argument)
            terms = [np.asarray(end).reshape(-1)[selection][each.positions] for end in new]
            low, high = _after(mode, Bounds(*ends), Bounds(*terms))
        shadow.low[at], shadow.high[at] = low, high
        shadow.active[at] = ~is_point(Bounds(low, high))
    if old is not None:
        wide = [np.asarray(old, np.float64).copy() for _ in before]
        for end, value in zip(wide, before):
            end.reshape(-1)[selection] = value
        machine.attach(outcome[0], Bounds(*wide))
    return outcome


def _is_active(memory: TrackedMemory, update: Update) -> bool:
    shadow = memory.shadows.get(update.allocation.address)
    return shadow is not None and bool(shadow.active[update.places // shadow.itemsize].any())


def _after(mode: str, old: Bounds, term: Bounds) -> Bounds:
    """The interval of an element that one update has changed."""
    if mode == "xchg":
        return term
    signed = mode in ("max", "min")
    if mode in _EXTREMA and (signed or (old.low >= 0).all() and (term.low >= 0).all()):
        return Bounds(*(_EXTREMA[mode](one, other) for one, other in zip(old, term)))
    is_fixed = is_point(old) & is_point(term)
    return Bounds(np.where(is_fixed, old.low, -np.inf), np.where(is_fixed, old.low, np.inf))


def _terms(machine: TrackingMachine, op: Operation, argument: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Magnitudes and radii of the terms of an atomic addition, in the order of the accesses."""
    bounds = machine.bounds_of(argument)
    wide = np.asarray(argument).astype(np.float64)
    magnitude, radius = np.abs(wide), np.zeros(wide.shape)
    if bounds is not None:
        with np.errstate(all="ignore"):
            fixed = is_point(bounds)
            radius = np.where(fixed, 0.0, np.maximum(bounds.high - wide, wide - bounds.low))
        radius = np.where(np.isnan(radius), np.inf, radius)
        magnitude = magnitude + radius
    selection = _selection(machine, op, wide.shape)
    return magnitude.reshape(-1)[selection], radius.reshape(-1)[selection]


def _selection(machine: TrackingMachine, op: Operation, shape: tuple[int, ...]) -> np.ndarray:
    """Which elements of an atomic operation, in row-major order, update memory."""
    selection: Any = np.ones(shape, bool)
    if op.name == "cuda_tile.atomic_red_view_tko":
        with machine.looking():
            _, selection = locate(machine, machine[op.view], op)
    elif (mask := machine.get(op.mask)) is not None:
        selection = np.broadcast_to(mask, shape)
    return np.asarray(selection).reshape(-1)


def _add(
    memory: TrackedMemory, allocation: Allocation, places: np.ndarray, addition: _Addition, element: FloatType
) -> None:
    """The interval after an addition: of the sum of all so far, in any order."""
    dtype, (terms, radii, old) = FLOAT_DTYPES[element.keyword], addition
    shadow = memory.shadows.get(allocation.address)
    if shadow is None:
        shadow = memory.shadows[allocation.address] = Shadow(allocation.size, dtype.itemsize)
    at = places // dtype.itemsize
    now = _numbers(allocation, places, dtype)
    fresh = shadow.count[at] == 0
    first = at[fresh]
    with np.errstate(all="ignore"):
        before = np.where(shadow.active[first], np.maximum(shadow.high[first] - old[fresh],
                                                           old[fresh] - shadow.low[first]), 0.0)  # fmt: skip
    before = np.where(np.isnan(before), np.inf, before)
    np.maximum.at(shadow.radius, first, before)
    np.maximum.at(shadow.magnitude, first, np.abs(old[fresh]) + before)
    np.add.at(shadow.radius, at, radii)
    np.add.at(shadow.magnitude, at, terms)
    np.add.at(shadow.count, at, 1)
    np.minimum.at(shadow.lowest, at, np.minimum(lowest_bit(terms), lowest_bit(old)))
    # "atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero" (PTX ISA, atom).
    tiny = TINY if element.keyword == "f32" else 0.0
    for each in (terms, np.abs(old), np.abs(now)):
        np.logical_or.at(shadow.flushed, at, (each > 0) & (each < tiny))
    magnitude, radius = shadow.magnitude[at], shadow.radius[at]
    exact = is_exact_sum(magnitude, shadow.lowest[at], precision(element.keyword)) & (radius == 0)
    exact &= ~shadow.flushed[at]
    with np.errstate(all="ignore"):
        each = 2.0 ** -precision(element.keyword) * magnitude + tiny
        error = 2.02 * ((shadow.count[at] + 1) * each + radius)
        low, high = now - error, now + error
    is_bounded = (magnitude * 1.01 <= max_finite(FLOAT_SEMANTICS[element.keyword])) & (low <= high)
    shadow.low[at], shadow.high[at] = np.where(is_bounded, low, -np.inf), np.where(is_bounded, high, np.inf)
    shadow.active[at] = ~exact


def _numbers(allocation: Allocation, places: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The numbers at some bytes of an allocation, in f64."""
    size = dtype.itemsize
    return allocation.data[: allocation.size // size * size].view(dtype)[places // size].astype(np.float64)
