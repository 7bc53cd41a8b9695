"""The interpreter with intervals: for each value and each element in memory, the values that right code may have.

An interval is attached to the array that holds a value, and so follows the array through loops, branches and yields.
Memory keeps the interval of each stored element, and the operation that stored it.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tileiras.ir import Block, Operation
from tileiras.sim.interpreter.machine import Machine, Order, orders
from tileiras.sim.memory import Allocation, Memory

from . import (
    atomic_bounds,
    sum_rules,  # noqa: F401  registers its rules
)
from .atomic_bounds import ATOMICS
from .block_order import BlockOrder, Updates
from .bound_rules import RULES, SOURCES
from .bounds import Bounds, anything, is_point
from .coverage import Coverage
from .shadow import Shadow, Update

LOADS = {"cuda_tile.load_ptr_tko", "cuda_tile.load_view_tko"}
STORES = {"cuda_tile.store_ptr_tko": "value", "cuda_tile.store_view_tko": "tile"}
TRANSPARENT = {
    f"cuda_tile.{name}" for name in (
        "if", "for", "loop", "yield", "continue", "break", "return", "assume", "print_tko", "assert", "make_token",
        "join_tokens", "constant", "iota", "get_tile_block_id", "get_num_tile_blocks", "make_tensor_view",
        "make_partition_view", "make_strided_view", "make_gather_scatter_view", "get_index_space_shape",
        "get_tensor_shape", "get_global", "alloca",
    )
}  # fmt: skip
"""Operations that only pass arrays on, or whose results cannot be inexact numbers."""

_CELL = 16
"""The most bytes of a cell of the emulator's race checker."""


class TrackedMemory(Memory):
    """Memory with shadows; follows accesses while `watching`."""

    def __init__(self) -> None:
        super().__init__()
        Memory._live.pop()
        self._private_cursor = Memory.scratch()._private_cursor
        self.watching = False
        self.pending: Bounds | None = None
        self.loaded: tuple[Bounds, np.ndarray] | None = None
        self.shadows: dict[int, Shadow] = {}
        self.writers: list[tuple[Operation, Allocation, np.ndarray, int]] = []
        self.block_id = (0, 0, 0)
        self.order = BlockOrder()
        self.operation: Operation | None = None
        self.updates: list[Update] | None = None
        """The updates of an atomic operation, whose intervals follow from its mode."""

    def _places(self, addresses: np.ndarray, mask: Any) -> Iterable[tuple[Allocation, np.ndarray, np.ndarray]]:
        flat = addresses.reshape(-1)
        indices = np.arange(flat.size)
        if mask is not None:
            indices = np.flatnonzero(np.broadcast_to(np.asarray(mask, bool), addresses.shape).reshape(-1))
        while indices.size:
            allocation = self.find(int(flat[indices[0]]))
            if allocation is None:
                return
            places = flat[indices] - allocation.address
            inside = (places >= 0) & (places < allocation.size)
            yield allocation, places[inside], indices[inside]
            indices = indices[~inside]

    def load(self, addresses, dtype, *, mask=None, fill=None, alignment=None):
        result = super().load(addresses, dtype, mask=mask, fill=fill, alignment=alignment)
        if not self.watching:
            return result
        for allocation, places, _ in self._places(np.asarray(addresses).astype(np.int64), mask):
            self.order.record_access(self.block_id, False, allocation, places, np.dtype(dtype).itemsize)
        if not self.shadows:
            return result
        wide = np.asarray(addresses).astype(np.int64)
        low, high = np.full(wide.size, -np.inf), np.full(wide.size, np.inf)
        active = np.zeros(wide.size, bool)
        for allocation, places, where in self._places(wide, mask):
            shadow = self.shadows.get(allocation.address)
            if shadow is None:
                continue
            at = places // shadow.itemsize
            active[where] = shadow.active[at]
            if shadow.itemsize == np.dtype(dtype).itemsize:
                low[where], high[where] = shadow.low[at], shadow.high[at]
        if active.any():
            self.loaded = Bounds(low.reshape(wide.shape), high.reshape(wide.shape)), active.reshape(wide.shape)
        return result

    def store(self, addresses, values, *, mask=None, alignment=None):
        super().store(addresses, values, mask=mask, alignment=alignment)
        if not self.watching:
            return
        wide, itemsize = np.asarray(addresses).astype(np.int64), np.asarray(values).dtype.itemsize
        for allocation, places, where in self._places(wide, mask):
            self.order.record_access(self.block_id, True, allocation, places, itemsize)
            if self.operation is not None:
                self.writers.append((self.operation, allocation, places, itemsize))
            if self.updates is not None:
                self.updates.append(Update(allocation, places, where, itemsize))
                continue
            shadow = self.shadows.get(allocation.address)
            if shadow is None:
                if self.pending is None:
                    continue
                shadow = self.shadows[allocation.address] = Shadow(allocation.size, itemsize)
            at = places // shadow.itemsize
            if self.pending is None or shadow.itemsize != itemsize:
                shadow.active[at] = self.pending is not None
                shadow.low[at], shadow.high[at] = -np.inf, np.inf
                continue
            ends = [np.broadcast_to(end, wide.shape).reshape(-1)[where] for end in self.pending]
            shadow.low[at], shadow.high[at] = ends
            shadow.active[at] = ~is_point(Bounds(*ends))

    def conflicts_at(self, address: int) -> bool:
        """Whether the program itself leaves a value in the race checker's cell at an address undetermined: by a race of
        its tile blocks, or a store that writes there twice."""
        allocation = self.find(address)
        return allocation is not None and self.order.races_at(allocation, address - allocation.address, _CELL)

    def writer_of(self, allocation: Allocation, byte: int) -> Operation | None:
        """The operation that last stored to a byte of an allocation."""
        for operation, owner, places, itemsize in reversed(self.writers):
            if owner is allocation and ((places <= byte) & (byte < places + itemsize)).any():
                return operation
        return None


class TrackingMachine(Machine):
    """The machine of a launch that is judged: carries intervals and records coverage."""

    def __init__(
        self, memory: TrackedMemory, grid, globals_, output, *, coverage: Coverage, approx: bool = False,
        ftz: bool = False, narrow_f8: bool = False, order: Order | None = None,
    ) -> None:  # fmt: skip
        super().__init__(memory, grid, globals_, output)
        self.tracked = memory
        self.coverage = coverage
        self.approx, self.ftz, self.narrow_f8 = approx, ftz, narrow_f8
        self.order = order
        self.unruled: set[str] = set()
        """Operations that had inexact operands and no rule."""
        self.unordered: set[Operation] = set()
        """Reductions and scans without rounding whose results depend on the order of combining."""
        self.unsteady: Operation | None = None
        """The first operation whose control flow depends on an inexact value: later values have no bounds."""
        self.ordered_atomics = False
        """Whether an atomic operation makes values that depend on the order of updates."""
        self.repeats_places = False
        """Whether elements of one tile update the same place."""
        self.updates = Updates()
        self._bounds: dict[int, tuple[Any, Bounds]] = {}
        self._quiet = 0
        self._looking = False

    def element_order(self, count: int, is_sum: bool) -> Iterable[int]:
        self.repeats_places = True
        return super().element_order(count, is_sum)

    def is_ordered(self) -> bool:
        """Whether results may depend on an order that the program leaves open."""
        return self.ordered_atomics and (self.repeats_places or int(np.prod(self.grid)) > 1)

    # -- intervals of arrays -----------------------------------------------------------------------------------------

    def bounds_of(self, values: Any) -> Bounds | None:
        entry = self._bounds.get(id(values))
        return entry[1] if entry is not None and entry[0]() is values else None

    def attach(self, values: np.ndarray, bounds: Bounds | None) -> None:
        if bounds is None:
            return
        key = id(values)
        shape = np.shape(values)
        bounds = Bounds(*(np.broadcast_to(end, shape) for end in bounds))
        self._bounds[key] = (weakref.ref(values, lambda _: self._bounds.pop(key, None)), bounds)

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Computations of the block are no part of the run: they decide nothing."""
        self._looking = True
        try:
            yield
        finally:
            self._looking = False

    def decide(self, decision: str, *values: Any) -> None:
        if self._looking:
            return
        super().decide(decision, *values)
        for value in values:
            bounds = self.bounds_of(value)
            if bounds is not None and not is_point(bounds).all() and self.unsteady is None:
                self.unsteady = self.tracked.operation

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Operations of the block have no intervals, and are not counted."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    # -- execution ---------------------------------------------------------------------------------------------------

    def _plan(self, block: Block) -> list:
        plan = self._plans.get(id(block))
        if plan is None:
            plan = [(op, functools.partial(_follow, self._meaning(op)), op.results) for op in block.operations]
            self._plans[id(block)] = plan
        return plan


def _follow(meaning: Callable[[Machine, Operation], Any], machine: TrackingMachine, op: Operation) -> Any:
    """The meaning of an operation, with the interval of its result."""
    if machine._quiet:
        return meaning(machine, op)
    name, memory = op.name, machine.tracked
    machine.coverage.enter(machine, op)
    memory.operation, memory.block_id = op, machine.block_id
    if name in STORES or name in LOADS or name in ATOMICS:
        return _accessed(meaning, machine, op)
    if name in ("cuda_tile.reduce", "cuda_tile.scan"):
        with machine.quiet():
            outcome = meaning(machine, op)
    else:
        outcome = meaning(machine, op)
    if name in TRANSPARENT:
        machine.coverage.leave(machine, op, outcome)
        return outcome
    values = [machine.values.get(operand) for operand in op.operands]
    bounds = [machine.bounds_of(value) for value in values]
    if name not in SOURCES and all(each is None for each in bounds):
        return outcome
    outcome = _arrays(outcome)
    intervals = _ruled(machine, op, values, bounds, outcome)
    for result, each in zip(outcome if type(outcome) is tuple else (outcome,), intervals):
        machine.attach(result, each)
    return outcome


def _arrays(outcome: Any) -> Any:
    """NumPy's scalars as arrays, which intervals can belong to; an operation has one result or a tuple of them."""
    if type(outcome) is tuple:
        return tuple(np.asarray(each) if isinstance(each, np.generic) else each for each in outcome)
    return np.asarray(outcome) if isinstance(outcome, np.generic) else outcome


def _ruled(machine: TrackingMachine, op: Operation, values: list, bounds: list, outcome: Any) -> tuple:
    results = outcome if type(outcome) is tuple else (outcome,)
    rule = RULES.get(op.name)
    if rule is None:
        machine.unruled.add(op.name)
        return tuple(anything(np.shape(each)) if isinstance(each, np.ndarray) else None for each in results)
    result = results[0] if len(results) == 1 else outcome
    with np.errstate(all="ignore"):
        intervals = rule(machine, op, values, bounds, result)
    if isinstance(intervals, Bounds) or intervals is None:
        return (intervals,) * len(results)
    return intervals


def _accessed(meaning: Callable[[Machine, Operation], Any], machine: TrackingMachine, op: Operation) -> Any:
    memory = machine.tracked
    if orders(op):
        memory.order.orders = True
    memory.loaded, memory.watching = None, True
    operand = STORES.get(op.name)
    memory.pending = machine.bounds_of(machine.values.get(getattr(op, operand))) if operand else None
    try:
        if op.name in ATOMICS:
            return atomic_bounds.atomic(meaning, machine, op)
        outcome = meaning(machine, op)
    finally:
        memory.watching, memory.pending = False, None
        memory.order.end(machine.block_id)
    machine.coverage.leave(machine, op, outcome)
    if op.name in LOADS and memory.loaded is not None:
        loaded, active = memory.loaded
        outcome = _arrays(outcome)
        wide = np.asarray(outcome[0]).astype(np.float64)
        machine.attach(outcome[0], Bounds(*(np.where(active, end, wide) for end in loaded)))
    return outcome
