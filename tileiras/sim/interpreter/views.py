"""Tensor views and the views that lay tiles over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tileiras.ir import DYNAMIC, FloatType, IntegerType, Operation, Value

from .machine import Undefined, meaning
from .memory import read_elements, write_elements
from .rounding import FLOAT_DTYPES
from .values import TOKEN, TensorView, TileView, dtype_of, undefined, unsigned, wrap

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine


def _unsigned_scalar(machine: Machine, value: Value) -> int:
    return int(unsigned(machine[value], value.type.element_type.width))


@meaning("make_tensor_view")
def make_tensor_view(machine: Machine, op: cuda_tile.MakeTensorViewOp):
    view = op.results[0].type
    machine.decide("an address or a size", *(machine[value] for value in op.operands))
    dynamic = iter([_unsigned_scalar(machine, value) for value in op.operands[1:]])
    shape = tuple(next(dynamic) if size == DYNAMIC else size for size in view.shape)
    strides = tuple(next(dynamic) if stride == DYNAMIC else stride for stride in view.strides)
    variable = iter(op.dynamicStrides)
    for size, stride in zip(shape, view.strides):
        value = next(variable) if stride == DYNAMIC else None
        # cuTile Python assumes any stride of a dimension of one element to be aligned; it is multiplied by zero only.
        if value in machine.unmet and size > 1:
            raise Undefined(machine.unmet[value])
    return TensorView(int(machine[op.operands[0]]), view.element_type, shape, strides)


def _padding(view: cuda_tile.TileView) -> str | None:
    return None if view.padding_value is None else view.padding_value.value


@meaning("make_partition_view")
def make_partition_view(machine: Machine, op: cuda_tile.MakePartitionViewOp):
    view = op.results[0].type
    tile = tuple(view.tile_shape)
    return TileView(machine[op.operands[0]], tile, tile, tuple(view.dim_map), _padding(view))


@meaning("make_strided_view")
def make_strided_view(machine: Machine, op: cuda_tile.MakeStridedViewOp):
    view = op.results[0].type
    steps = tuple(view.traversal_strides)
    return TileView(machine[op.operands[0]], tuple(view.tile_shape), steps, tuple(view.dim_map), _padding(view))


@meaning("make_gather_scatter_view")
def make_gather_scatter_view(machine: Machine, op: cuda_tile.MakeGatherScatterViewOp):
    view = op.results[0].type
    tile = tuple(view.tile_shape)
    # Indices of the other dimensions count elements as well: cuTile passes a slice's start unchanged.
    steps = (1,) * len(tile)
    return TileView(machine[op.operands[0]], tile, steps, tuple(range(len(tile))), _padding(view), view.sparse_dim)


def _as_results(op: Operation, numbers: Sequence[int]):
    width = op.results[0].type.element_type.width if op.results else 32
    return tuple(wrap(np.array(number), width) for number in numbers)


@meaning("get_tensor_shape")
def get_tensor_shape(machine: Machine, op: cuda_tile.GetTensorShapeOp):
    return _as_results(op, machine[op.operands[0]].shape)


@meaning("get_index_space_shape")
def get_index_space_shape(machine: Machine, op: cuda_tile.GetIndexSpaceShapeOp):
    return _as_results(op, machine[op.operands[0]].index_space)


def locate(
    machine: Machine, view: TileView, op: cuda_tile.LoadViewTkoOp | cuda_tile.StoreViewTkoOp
) -> tuple[np.ndarray, np.ndarray]:
    """Element offsets from the tensor's base of every element of one tile, and whether each lies inside the tensor.

    Tile numbers outside the index space are an error, and so are elements outside the tensor along a dimension of the
    operation's ``inbounds`` attribute. Rows of a gather outside the tensor count as out-of-bounds elements.
    """
    indices = op.index
    promised = op.attributes.get("inbounds") or ()
    tensor = view.tensor
    space = view.index_space
    rank = len(view.tile_shape)
    offsets = np.zeros((1,) * rank, np.int64)
    inside = np.ones((1,) * rank, bool)
    machine.decide("an index", *(machine[index] for index in indices))
    for position, index in enumerate(indices):
        dim = view.dim_map[position]
        width = index.type.element_type.width
        if position == view.sparse:
            coordinates = machine[index].astype(np.int64)
        else:
            number = int(unsigned(machine[index], width))
            if number >= space[position]:
                raise Undefined(
                    f"index {number} along dimension {position} is outside of the view's index space {list(space)}"
                )
            coordinates = number * view.steps[position] + np.arange(view.tile_shape[position], dtype=np.int64)
        along = [1] * rank
        along[position] = view.tile_shape[position]
        coordinates = coordinates.reshape(along)
        valid = (coordinates >= 0) & (coordinates < tensor.shape[dim])
        if position < len(promised) and list(promised)[position] and not valid.all():
            size = tensor.shape[dim]
            raise Undefined(f"leaves the tensor along dimension {dim} (size {size}), which 'inbounds' rules out")
        offsets = offsets + np.where(valid, coordinates, 0) * tensor.strides[dim]
        inside = inside & valid
    shape = view.tile_shape
    return np.broadcast_to(offsets, shape), np.broadcast_to(inside, shape)


def padding_tile(view: TileView, element: FloatType | IntegerType) -> np.ndarray:
    """Padding value of out-of-bounds elements of a load."""
    shape, dtype = view.tile_shape, dtype_of(element)
    if view.padding is None:
        return undefined(shape, element)
    if dtype not in FLOAT_DTYPES.values():
        return np.zeros(shape, dtype)
    if view.padding == "zero":
        # The bits are zero, also in f8E8M0FNU, where they encode the least number.
        return np.zeros(shape, dtype)
    number = np.float32({"neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}[view.padding])
    with np.errstate(all="ignore"):
        padding = number.astype(dtype)
        same = np.array_equal(number, padding.astype(np.float32), equal_nan=True)
        if not same or np.signbit(number) != np.signbit(padding.astype(np.float32)):
            raise Undefined(f"type '{element}' has no padding value '{view.padding}'")
    return np.full(shape, padding, dtype)


# A team of one device has a single copy, which is the result of combining all copies.
@meaning("load_view_tko", "multimem_load_reduce_view_tko")
def load_view_tko(machine: Machine, op: cuda_tile.LoadViewTkoOp):
    view = machine[op.view]
    element = view.tensor.element
    offsets, inside = locate(machine, view, op)
    loaded = read_elements(machine, view.tensor.address, offsets, element, inside)
    if not inside.all():
        loaded = np.where(inside, loaded, padding_tile(view, element)).astype(dtype_of(element), copy=False)
    return loaded, TOKEN


@meaning("store_view_tko", "multimem_store_view_tko")
def store_view_tko(machine: Machine, op: cuda_tile.StoreViewTkoOp):
    view = machine[op.view]
    offsets, inside = locate(machine, view, op)
    write_elements(machine, view.tensor.address, offsets, view.tensor.element, inside, machine[op.tile])
    return TOKEN
