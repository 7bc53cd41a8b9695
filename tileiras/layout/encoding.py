"""Conversion between layouts and the encodings of tensor types in nv_tileas."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import LinearLayoutAttr, PermuteOp, SharedLayoutAttr, UnpackOp
from tileiras.ir import Attribute, TensorType

from .linear_layout import SHARED_DIMS, TENSOR_DIMS, LinearLayout

TENSOR_LAYOUT = "nv_tileas.tensor"
"""Name of the encoding: few kernels load the file that declares it."""


@lru_cache(maxsize=4096)
def encode(layout: LinearLayout) -> Attribute:
    """The encoding attribute of a distributed layout, or of one of shared or tensor memory."""
    bases = layout.to_coordinates()
    if layout.dims == SHARED_DIMS:
        return SharedLayoutAttr(bases["offset"])
    if layout.dims == TENSOR_DIMS:
        return nv_tileas.TensorLayoutAttr(bases["lane"], bases["column"], bases["element"])
    return LinearLayoutAttr(*(bases.get(dim, ()) for dim in ("register", "lane", "warp", "block")))


@lru_cache(maxsize=4096)
def layout_of(type: TensorType) -> LinearLayout:
    """The layout of a tensor type of nv_tileas."""
    encoding = type.encoding
    if isinstance(encoding, SharedLayoutAttr):
        return LinearLayout.from_coordinates({"offset": encoding.offset}, type.shape)
    if encoding is not None and encoding.name == TENSOR_LAYOUT:
        bases = {"element": encoding.element, "column": encoding.column, "lane": encoding.lane}
        return LinearLayout.from_coordinates(bases, type.shape)
    assert isinstance(encoding, LinearLayoutAttr), f"{type} has no layout"
    bases = {dim: getattr(encoding, dim) for dim in ("register", "lane", "warp")}
    if encoding.block:
        bases["block"] = encoding.block
    return LinearLayout.from_coordinates(bases, type.shape)


def held_layout(type: Any, warps: int) -> LinearLayout:
    """The layout of a value of `warps` warps: a scalar is held once by every thread."""
    if isinstance(type, TensorType):
        return layout_of(type)
    return LinearLayout({"lane": (0,) * 5, "warp": (0,) * (warps - 1).bit_length()}, ())


def with_layout(type: TensorType, layout: LinearLayout) -> TensorType:
    """The tensor type with this layout."""
    return type.with_encoding(encode(layout))


def is_in_shared(type: Any) -> bool:
    """Whether values of a type lie in shared memory, where asynchronous dots read them."""
    return isinstance(type, TensorType) and isinstance(type.encoding, SharedLayoutAttr)


@lru_cache(maxsize=1024)
def encode_offsets(offsets: tuple[int, ...], shape: tuple[int, ...]) -> SharedLayoutAttr:
    """The encoding attribute of a tile in shared memory, from the flattened position of each offset bit."""
    return SharedLayoutAttr(LinearLayout({"offset": offsets}, shape).to_coordinates()["offset"])


@lru_cache(maxsize=1024)
def offsets_of(type: TensorType) -> tuple[int, ...]:
    """The flattened position of each offset bit of a tile in shared memory."""
    encoding = type.encoding
    assert isinstance(encoding, SharedLayoutAttr), f"{type} is not in shared memory"
    return LinearLayout.from_coordinates({"offset": encoding.offset}, type.shape).bases("offset")


def packed_layout(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout in shared memory of the bytes of pairs along a dimension, by that of the elements."""
    shape = tuple(n // 2 if d == dim else n for d, n in enumerate(layout.shape))
    pair, *rest = layout.to_coordinates()["offset"]
    assert pair == tuple(int(d == dim) for d in range(len(shape))), "pairs lie together"
    bases = [tuple(at // 2 if d == dim else at for d, at in enumerate(basis)) for basis in rest]
    return LinearLayout.from_coordinates({"offset": bases}, shape)


@lru_cache(maxsize=1024)
def _unpacked(type: TensorType, dim: int) -> LinearLayout:
    layout = layout_of(type)
    shape = tuple(2 * n if d == dim else n for d, n in enumerate(layout.shape))
    pair = tuple(int(d == dim) for d in range(len(shape)))
    bases = [tuple(2 * at if d == dim else at for d, at in enumerate(basis))
             for basis in layout.to_coordinates()["offset"]]  # fmt: skip
    return LinearLayout.from_coordinates({"offset": [pair, *bases]}, shape)


def renamed_layout(op: Any) -> LinearLayout:
    """The layout of the operand of a view, permutation or `unpack`, in the coordinates of the result's layout."""
    if isinstance(op, UnpackOp):
        return _unpacked(op.operand.type, op.dim.value)
    if isinstance(op, PermuteOp):
        return _permute(op.operand.type, op.permutation.elements)
    return _reshape(op.operand.type, op.result.type.shape)


@lru_cache(maxsize=1024)
def _permute(type: TensorType, permutation: tuple[int, ...]) -> LinearLayout:
    return layout_of(type).permute(permutation)


@lru_cache(maxsize=1024)
def _reshape(type: TensorType, shape: tuple[int, ...]) -> LinearLayout:
    return layout_of(type).reshape(shape)


def constant_part(op: Any) -> tuple[int, ...] | None:
    """The number of the part of an `extract_slice`; None if it is known at run time only."""
    number = tuple(arith.constant_integer(each) for each in op.coords)
    return None if None in number else number


def slice_registers(op: Any) -> tuple[int, ...] | None:
    """The registers of the source that are those of the result of an `extract_slice`; None where elements move between
    threads, or the part is known at run time only."""
    number = constant_part(op)
    return None if number is None else _part_registers(op.source.type, op.result.type, number)


@lru_cache(maxsize=1024)
def _part_registers(source: TensorType, result: TensorType, number: tuple[int, ...]) -> tuple[int, ...] | None:
    layout = layout_of(source)
    if layout.part(result.shape) != layout_of(result):
        return None
    return layout.part_registers(result.shape, number)


def broadcast_layout(op: Any) -> LinearLayout:
    """The layout of the operand of a `broadcast` in which each thread has the elements that its part of the result
    repeats."""
    return _narrowed(op.operand.type, op.result.type)


@lru_cache(maxsize=1024)
def _narrowed(operand: TensorType, result: TensorType) -> LinearLayout:
    source, target = layout_of(operand), layout_of(result)
    narrow = operand.shape

    def project(flat: int) -> int:
        return source.flatten([c if n > 1 else 0 for c, n in zip(target.coordinates(flat), narrow)])

    return target.map_bases(project, narrow)
