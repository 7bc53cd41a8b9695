"""The cases that launches reached: operations, regions, outcomes of branches, trips of loops, edges of tiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tileiras.ir import Operation

from .facts import constant_of

if TYPE_CHECKING:
    from .tracking import TrackingMachine

TRIPS = ("no trip", "one trip", "several trips")
BRANCHES = ("taken", "not taken")
EDGES = ("whole tile inside", "tile partly inside")
_NOT_COUNTED = {"cuda_tile.yield", "cuda_tile.continue", "cuda_tile.return", "cuda_tile.entry"}


class Uncovered(NamedTuple):
    """An operation and one of its cases that no launch reached."""

    operation: str
    location: str
    case: str


def place(op: Operation) -> str:
    """FILE:LINE:COLUMN of an operation, empty where that is not known."""
    position = op.location.resolve()
    return "" if position is None else f"{position.filename}:{position.line}:{position.column}"


class Coverage:
    """The reached cases among all cases of the operations of an entry."""

    def __init__(self, entry: Operation) -> None:
        self._cases: dict[Operation, tuple[str, ...]] = {}
        self._reached: dict[Operation, set[str]] = {}
        combiners = {
            inner
            for op in entry.walk()
            if op.name in ("cuda_tile.reduce", "cuda_tile.scan")
            for inner in op.regions[0].block.operations
        }
        for op in entry.walk():
            if op is not entry and op.name not in _NOT_COUNTED and op not in combiners:
                self._cases[op] = ("executed", *_cases(op))
                self._reached[op] = set()

    def enter(self, machine: TrackingMachine, op: Operation) -> None:
        reached = self._reached.get(op)
        if reached is None:
            return
        reached.add("executed")
        if op.name == "cuda_tile.if":
            reached.add("taken" if bool(machine[op.operands[0]]) else "not taken")
        elif op.name == "cuda_tile.for":
            lower, upper, step = (int(machine[value]) for value in op.operands[:3])
            count = max(0, -(-(upper - lower) // step)) if step > 0 else 0
            reached.add(TRIPS[min(count, 2)])

    def leave(self, machine: TrackingMachine, op: Operation, outcome: Any) -> None:
        """Record, after an access, which part of its tile was inside the tensor."""
        reached = self._reached.get(op)
        if reached is None or len(self._cases[op]) == 1 or op.name in ("cuda_tile.if", "cuda_tile.for"):
            return
        for case in _edges(machine, op):
            reached.add(case)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Kind of case -> the number of reached cases, and of all cases."""
        totals: dict[str, list[int]] = {}
        for op, cases in self._cases.items():
            for case in cases:
                row = totals.setdefault(_kind(op, case), [0, 0])
                row[0] += case in self._reached[op]
                row[1] += 1
        return {kind: (reached, total) for kind, (reached, total) in totals.items()}

    def uncovered(self) -> list[Uncovered]:
        missing = []
        for op, cases in self._cases.items():
            reached = self._reached[op]
            names = ["executed"] if "executed" not in reached else [case for case in cases if case not in reached]
            missing += [Uncovered(op.name, place(op), name) for name in names]
        return missing


def _kind(op: Operation, case: str) -> str:
    if case == "executed":
        return "operations"
    return {"cuda_tile.if": "branches", "cuda_tile.for": "loop trips"}.get(op.name, "edges of tiles")


def _cases(op: Operation) -> Iterable[str]:
    if op.name == "cuda_tile.if":
        return BRANCHES
    if op.name == "cuda_tile.for":
        return () if all(constant_of(bound) is not None for bound in op.operands[:3]) else TRIPS
    if op.name in ("cuda_tile.load_ptr_tko", "cuda_tile.store_ptr_tko"):
        return EDGES if op.mask is not None else ()
    if op.name in ("cuda_tile.load_view_tko", "cuda_tile.store_view_tko"):
        return _view_cases(op)
    return ()


def _view_cases(op: Operation) -> Iterable[str]:
    """A tile may reach over the edge of its tensor if some size is not known to be a multiple of the tile's, which has
    several elements, and always does if some size is less than the tile's."""
    view = op.view.type
    dims = getattr(view, "dim_map", range(len(view.tile_shape)))
    sizes = [(view.tensor_view.shape[dim], tile) for dim, tile in zip(dims, view.tile_shape)]
    if not any(tile > 1 and (size < 0 or size % tile) for size, tile in sizes):
        return ()
    return EDGES[1:] if any(0 <= size < tile for size, tile in sizes) else EDGES


def _edges(machine: TrackingMachine, op: Operation) -> Iterable[str]:
    if op.name.endswith("ptr_tko"):
        inside = np.asarray(machine.get(op.mask))
    else:
        from tileiras.sim.interpreter.views import locate

        with machine.looking():
            _, inside = locate(machine, machine[op.view], op)
    return (EDGES[0],) if inside.all() else (EDGES[1],)
