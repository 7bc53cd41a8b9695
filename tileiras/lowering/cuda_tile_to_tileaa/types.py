"""Conversion of cuda_tile types: tiles to tensors, rank-0 tiles to scalars, views to memrefs and tilings of memrefs."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import cuda_tile, nv_tileaa
from tileiras.ir import FunctionType, TensorType, Type, TypeConverter


def tileaa_types() -> TypeConverter:
    """The converter, which callers share for one module so that its cache serves all entries."""
    return TypeConverter(_RULES)


def element(type: Type) -> Any:
    """An element of a tile: a pointer changes dialect, numbers stay."""
    if isinstance(type, cuda_tile.PointerType):
        return nv_tileaa.PtrType(type.pointee_type)
    return type


def _tile(type: cuda_tile.TileType) -> Any:
    return TensorType(type.shape, element(type.element_type)) if type.shape else element(type.element_type)


def _tensor_view(type: cuda_tile.TensorViewType) -> Any:
    return nv_tileaa.MemRefType(type.shape, type.element_type, type.strides)


def _padding(type: cuda_tile.GatherScatterViewType | cuda_tile.PartitionViewType) -> Any:
    return None if type.padding_value is None else nv_tileaa.PaddingValueAttr(type.padding_value.value)


def _partition_view(type: cuda_tile.PartitionViewType) -> Any:
    return nv_tileaa.TiledViewType(type.tile_shape, _tensor_view(type.tensor_view), type.dim_map, _padding(type))


def _strided_view(type: cuda_tile.StridedViewType) -> Any:
    memref = _tensor_view(type.tensor_view)
    return nv_tileaa.TiledViewType(type.tile_shape, memref, type.dim_map, _padding(type), type.traversal_strides)


def _gather_scatter_view(type: cuda_tile.GatherScatterViewType) -> Any:
    memref = _tensor_view(type.tensor_view)
    # All indices count elements: a tile of them along the sparse dimension, the slice's start along the others.
    steps = (1,) * len(type.tile_shape)
    return nv_tileaa.TiledViewType(type.tile_shape, memref, None, _padding(type), steps, type.sparse_dim)


def _function(type: FunctionType) -> Any:
    convert = tileaa_types()
    return FunctionType([convert(t) for t in type.inputs], [convert(t) for t in type.results])


_RULES = {
    cuda_tile.TileType: _tile,
    cuda_tile.PointerType: element,
    cuda_tile.TokenType: lambda type: nv_tileaa.MemTokenType(),
    cuda_tile.TensorViewType: _tensor_view,
    cuda_tile.PartitionViewType: _partition_view,
    cuda_tile.StridedViewType: _strided_view,
    cuda_tile.GatherScatterViewType: _gather_scatter_view,
    FunctionType: _function,
}
