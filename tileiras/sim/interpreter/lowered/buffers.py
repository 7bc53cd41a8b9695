"""Buffers in shared memory, the copies that fill them, and the groups by which these are waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine import Undefined
from ..values import TOKEN, dtype_of, undefined
from .machine import LoweredMachine, as_only
from .memory import combine_tile, read_through, read_tile, write_tile


class Buffer:
    """Stages of a tile; None for a stage with undefined contents."""

    def __init__(self, type: Any, offset: int | None) -> None:
        self.type = type
        self.offset = offset
        self.stages: list[np.ndarray | None] = [None] * type.stages

    def place(self, stage: int) -> range:
        """The bytes of the arena that a stage has; none where that is not settled yet."""
        if self.offset is None:
            return range(0)
        first = self.offset + stage * self.type.stage_bytes
        return range(first, first + self.type.stage_bytes)

    def read(self, stage: int) -> np.ndarray:
        """The contents of a stage.  Raises Undefined if the buffer has no such stage."""
        self.check(stage)
        contents = self.stages[stage]
        if contents is None:
            contents = self.stages[stage] = undefined(self.type.tile.shape, self.type.tile.element_type)
        return contents

    def check(self, stage: int) -> None:
        if not 0 <= stage < self.type.stages:
            raise Undefined(f"uses stage {stage} of {self.type.stages}")


def clear(machine: LoweredMachine, buffer: Buffer, stage: int) -> None:
    """Begin to fill a stage: until it is filled, it and the buffers that share its memory have undefined contents."""
    buffer.check(stage)
    buffer.stages[stage] = None
    place = buffer.place(stage)
    for other in machine.buffers if place else ():
        if other is not buffer and other.offset is not None:
            for number in range(other.type.stages):
                theirs = other.place(number)
                if theirs.start < place.stop and place.start < theirs.stop:
                    other.stages[number] = None


def fill(machine: LoweredMachine, buffer: Buffer, stage: int, tile: np.ndarray) -> None:
    clear(machine, buffer, stage)
    buffer.stages[stage] = tile


class Copy:
    """A copy in flight."""

    def __init__(self, machine: LoweredMachine, buffer: Buffer, stage: int, tile: np.ndarray) -> None:
        clear(machine, buffer, stage)
        self.buffer, self.stage, self.tile = buffer, stage, tile

    def arrive(self) -> None:
        self.buffer.stages[self.stage] = self.tile


@as_only("alloc_tensor")
def alloc_tensor(machine: LoweredMachine, op: Any) -> Buffer:
    buffer = Buffer(op.result.type, None if op.offset is None else op.offset.value)
    machine.buffers.append(buffer)
    return buffer


@as_only("dealloc_tensor")
def dealloc_tensor(machine: LoweredMachine, op: Any) -> None:
    buffer = machine[op.buffer]
    machine.buffers[:] = [other for other in machine.buffers if other is not buffer]


def _stage(machine: LoweredMachine, op: Any) -> int:
    machine.decide("a stage", machine[op.stage])
    return int(machine[op.stage])


def _part(whole: Any, part: Any, number: int) -> tuple[slice, ...]:
    """A part of a tile along the only dimension in which it is smaller."""
    return tuple(
        slice(None) if size == extent else slice(number * extent, (number + 1) * extent)
        for size, extent in zip(whole.shape, part.shape)
    )


@as_only("store_tensor")
def store_tensor(machine: LoweredMachine, op: Any) -> None:
    buffer, tile = machine[op.buffer], machine[op.tensor]
    if op.part is not None:
        tile = tile[_part(op.tensor.type, buffer.type.tile, op.part.value)]
    fill(machine, buffer, _stage(machine, op), tile)


@as_only("copy")
def copy(machine: LoweredMachine, op: Any) -> np.ndarray:
    buffer = machine[op.buffer]
    tile = buffer.read(_stage(machine, op))
    if op.slice is not None:
        tile = tile[_part(buffer.type.tile, op.result.type, int(machine[op.slice]))]
        if tile.shape != tuple(op.result.type.shape):
            raise Undefined(f"reads slice {int(machine[op.slice])}, which the tile does not have")
    return tile


@as_only("async.tiled_load")
def async_tiled_load(machine: LoweredMachine, op: Any) -> None:
    buffer = machine[op.buffer]
    tile = read_tile(machine, machine[op.view], op.coords, op.view.type.element_type, zeros=True)
    machine.crew.current.copies.append(Copy(machine, buffer, _stage(machine, op), tile))


@as_only("async.load")
def async_load(machine: LoweredMachine, op: Any) -> None:
    element = op.buffer.type.tile.element_type
    tile = read_through(machine, op, np.zeros((), dtype_of(element)))
    machine.crew.current.copies.append(Copy(machine, machine[op.buffer], _stage(machine, op), tile))


@as_only("async.commit_group")
def commit_group(machine: LoweredMachine, op: Any) -> None:
    task = machine.crew.current
    task.groups.append(task.copies)
    task.copies = []


@as_only("async.wait")
def wait(machine: LoweredMachine, op: Any) -> Any:
    groups = machine.crew.current.groups
    while len(groups) > op.pending.value:
        for each in groups.pop(0):
            each.arrive()
    return TOKEN


# -- asynchronous products -------------------------------------------------------------------------------------------


@as_only("async.create_none")
def create_none(machine: LoweredMachine, op: Any) -> np.ndarray:
    tile = op.result.type.tile
    return undefined(tile.shape, tile.element_type)


@as_only("async.commit_dots")
def commit_dots(machine: LoweredMachine, op: Any) -> None:
    """Dots are complete when they are issued."""


@as_only("async.future_wait")
def future_wait(machine: LoweredMachine, op: Any) -> tuple:
    return tuple(machine.operands(op))


# -- copies to global memory -----------------------------------------------------------------------------------------


@as_only("async.tma_store")
def tma_store(machine: LoweredMachine, op: Any) -> Any:
    tile, view = machine[op.buffer].read(_stage(machine, op)), machine[op.desc]
    if op.rmw_mode is None:
        write_tile(machine, view, op.coords, tile)
    else:
        combine_tile(machine, view, op.coords, tile, op.rmw_mode.value)
    return TOKEN


@as_only("async.tma_store_tail")
def tma_store_tail(machine: LoweredMachine, op: Any) -> None:
    """Copies have read their stage when they are issued."""
