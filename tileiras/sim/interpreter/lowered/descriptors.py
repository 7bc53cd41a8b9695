"""Descriptors of tensor maps: each is the view whose tiles it copies.

`make_tma_desc` and `map_memory.assemble` have the view as an operand.  A descriptor that is a kernel argument is
filled by the host, as `nv_tileas.tensor_maps` specifies; the view is built from the other arguments by the same text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.ir import Operation

from ..values import TensorView, TileView
from .machine import LoweredMachine, as_only
from .memory import tiles_of

TENSOR_MAPS = "nv_tileas.tensor_maps"


@as_only("make_tma_desc", "map_memory.assemble")
def make_tma_desc(machine: LoweredMachine, op: Any) -> TileView:
    return machine[op.view]


@as_only("map_memory.build")
def build(machine: LoweredMachine, op: Any) -> TileView:
    return machine[op.image]


@as_only("map_memory.reserve", "map_memory.open")
def slot(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.array(0, np.int32)


@as_only("map_memory.release")
def release(machine: LoweredMachine, op: Any) -> None:
    """The slot is another tile block's from here on."""


def descriptors(function: Operation, bound: list[Any]) -> list[TileView]:
    """The values of the arguments that the host fills, of those of the others."""
    fills = function.attributes.get(TENSOR_MAPS, ())
    arguments = function.regions[0].blocks[0].arguments[len(bound) :]
    return [_describe(argument.type, fill.value, bound) for argument, fill in zip(arguments, fills, strict=True)]


def _describe(type: Any, fill: str, bound: list[Any]) -> TileView:
    words = dict(word.partition("=")[::2] for word in fill.split()[1:])

    def numbers(name: str) -> list[int]:
        result = [word for word in words.get(name, "").split(",") if word]
        return [int(bound[int(word[1:])]) if word.startswith("p") else int(word) for word in result]

    # Innermost dimension of the tensor first; it has no stride.
    dims = [type.view.dim_map[dim] for dim in type.order]
    shape, strides = [0] * len(dims), [1] * len(dims)
    for dim, size, stride in zip(dims, numbers("dims"), [1, *numbers("strides")]):
        shape[dim], strides[dim] = size, stride
    (address,) = numbers("address")
    return tiles_of(TensorView(address, type.view.element_type, tuple(shape), tuple(strides)), type.view)
