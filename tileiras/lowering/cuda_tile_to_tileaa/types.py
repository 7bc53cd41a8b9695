"""What the types and attributes of cuda_tile become in nv_tileaa."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import TensorType, TypeConverter


def _tile(type: ct.TileType) -> Any:
    element = convert_type(type.element_type)
    return TensorType(type.shape, element) if type.shape else element


def _tensor_view(type: ct.TensorViewType) -> aa.MemRefType:
    return aa.MemRefType(type.shape, convert_type(type.element_type), type.strides)


def _padding(type: Any) -> aa.PaddingValueAttr | None:
    return None if type.padding_value is None else aa.PaddingValueAttr(type.padding_value.value)


def _partition_view(type: ct.PartitionViewType) -> aa.TiledViewType:
    return aa.TiledViewType(type.tile_shape, convert_type(type.tensor_view), type.dim_map, _padding(type))


def _strided_view(type: ct.StridedViewType) -> aa.TiledViewType:
    source = convert_type(type.tensor_view)
    return aa.TiledViewType(type.tile_shape, source, type.dim_map, _padding(type), type.traversal_strides)


def _gather_scatter_view(type: ct.GatherScatterViewType) -> aa.TiledViewType:
    source = convert_type(type.tensor_view)
    return aa.TiledViewType(type.tile_shape, source, None, _padding(type), None, type.sparse_dim)


convert_type = TypeConverter(
    {
        ct.TileType: _tile,
        ct.PointerType: lambda type: aa.PtrType(convert_type(type.pointee_type)),
        ct.TokenType: lambda type: aa.MemTokenType(),
        ct.TensorViewType: _tensor_view,
        ct.PartitionViewType: _partition_view,
        ct.StridedViewType: _strided_view,
        ct.GatherScatterViewType: _gather_scatter_view,
    }
)
"""A tile is a tensor, a rank-0 tile a scalar; a tensor view is a memref, a view of tiles a tiled view."""


def result_types(op: Any) -> list[Any]:
    return [convert_type(result.type) for result in op.results]
