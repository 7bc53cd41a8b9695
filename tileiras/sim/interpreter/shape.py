"""Constants, operations that only move elements, and the coordinates of the tile block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .machine import Undefined, meaning
from .values import dtype_of, elements_of, unsigned, wrap

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import Value

    from .machine import Machine


def _shape(op: cuda_tile.TileOp, index: int = 0) -> tuple[int, ...]:
    return tuple(op.results[index].type.shape)


@meaning("constant", elementwise=True)
def constant(machine: Machine, op: cuda_tile.ConstantOp):
    return elements_of(op.attributes["value"], _shape(op))


@meaning("iota")
def iota(machine: Machine, op: cuda_tile.IotaOp):
    (count,) = _shape(op)
    return wrap(np.arange(count), op.results[0].type.element_type.width)


@meaning("reshape")
def reshape(machine: Machine, op: cuda_tile.ReshapeOp):
    return machine[op.operands[0]].reshape(_shape(op))


@meaning("broadcast")
def broadcast(machine: Machine, op: cuda_tile.BroadcastOp):
    return np.broadcast_to(machine[op.operands[0]], _shape(op))


@meaning("permute")
def permute(machine: Machine, op: cuda_tile.PermuteOp):
    return np.transpose(machine[op.operands[0]], tuple(op.attributes["permutation"]))


@meaning("cat")
def cat(machine: Machine, op: cuda_tile.CatOp):
    return np.concatenate(machine.operands(op), axis=op.attributes["dim"].value)


def _slices(
    machine: Machine, op: cuda_tile.ExtractOp, indices: Sequence[Value], whole: tuple[int, ...], part: tuple[int, ...]
) -> tuple[slice, ...]:
    """The part of a tile that slice numbers select; numbers outside the tile are an error."""
    machine.decide("an index", *(machine[index] for index in indices))
    starts = [int(unsigned(machine[index], index.type.element_type.width)) for index in indices]
    counts = [size // step for size, step in zip(whole, part)]
    for dim, (start, count) in enumerate(zip(starts, counts)):
        if start >= count:
            raise Undefined(f"slice {start} along dimension {dim} does not exist: there are {count}")
    return tuple(slice(start * step, (start + 1) * step) for start, step in zip(starts, part))


@meaning("extract")
def extract(machine: Machine, op: cuda_tile.ExtractOp):
    source, *indices = op.operands
    values = machine[source]
    return values[_slices(machine, op, indices, values.shape, _shape(op))]


@meaning("insert")
def insert(machine: Machine, op: cuda_tile.InsertOp):
    """The destination with one of its slices replaced by the source."""
    source, destination, *indices = op.operands
    values = np.array(machine[destination])
    part = machine[source]
    values[_slices(machine, op, indices, values.shape, part.shape)] = part
    return values


def _scalars(numbers: Sequence[int]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(number, np.int32) for number in numbers)


@meaning("get_tile_block_id")
def get_tile_block_id(machine: Machine, op: cuda_tile.GetTileBlockIdOp):
    return _scalars(machine.block_id)


@meaning("get_num_tile_blocks")
def get_num_tile_blocks(machine: Machine, op: cuda_tile.GetNumTileBlocksOp):
    return _scalars(machine.grid)


@meaning("get_global")
def get_global(machine: Machine, op: cuda_tile.GetGlobalOp):
    return np.array(machine.globals[op.attributes["name"].root], np.int64)


@meaning("offset")
def offset(machine: Machine, op: cuda_tile.OffsetOp):
    pointers, offsets = machine.operands(op)
    pointee = op.operands[0].type.element_type.pointee_type
    width = getattr(pointee, "width", 64)
    if width == 4:
        if np.any(offsets & 1):
            raise Undefined("moves a pointer by half a byte")
        return np.asarray(pointers + (offsets.astype(np.int64) >> 1))
    return np.asarray(pointers + offsets.astype(np.int64) * dtype_of(pointee).itemsize)
