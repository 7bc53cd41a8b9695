"""Representation of values of each type in the interpreter.

A tile is a NumPy array of the tile's shape: signed integers of the element's width (i4 in int8, i1 as bool), floats in
the dtype of their format, pointers as int64 addresses. Views are the small classes below; tokens are :data:`TOKEN`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tileiras.ir import DenseElementsAttr, FloatType, IntegerType

from ..memory import UNINITIALISED
from .rounding import FLOAT_DTYPES
from .undefined import keeps_results, undefined_bytes

TOKEN = object()

_INTEGERS = {1: np.dtype(np.bool_), 4: np.dtype(np.int8), **{w: np.dtype(f"int{w}") for w in (8, 16, 32, 64)}}


def dtype_of(element: FloatType | IntegerType) -> np.dtype:
    """The dtype that elements of type ``element`` are kept in."""
    if isinstance(element, IntegerType):
        return _INTEGERS[element.width]
    if isinstance(element, FloatType):
        return FLOAT_DTYPES[element.keyword]
    return np.dtype(np.int64)


def width_of(element: FloatType | IntegerType) -> int:
    """Bits of an element in memory: i1 takes a byte, pointers eight."""
    width = getattr(element, "width", 64)
    return 8 if width == 1 else width


def unsigned(values: np.ndarray, width: int) -> np.ndarray:
    """The elements of an integer tile read as unsigned, in an unsigned dtype of the same size."""
    values = np.asarray(values)
    if width == 1:
        return values.astype(np.uint8)
    if width == 4:
        return (values & 0xF).astype(np.uint8)
    return values.view(f"uint{width}")


def signed(values: np.ndarray, width: int) -> np.ndarray:
    """The elements read as signed numbers: a true i1 is -1."""
    values = np.asarray(values)
    return -values.astype(np.int8) if width == 1 else values


def wrap(values: np.ndarray, width: int) -> np.ndarray:
    """Integers of any dtype reduced modulo 2**width, as an integer tile of that width."""
    values = np.asarray(values)
    if width == 1:
        return (values & 1).astype(np.bool_)
    if width == 4:
        return (((values & 0xF) ^ 8).astype(np.int8) - 8).astype(np.int8)
    return values.astype(f"int{width}")


def undefined(shape: tuple[int, ...], element: FloatType | IntegerType, *, is_inverted: bool = False) -> np.ndarray:
    """A tile of undefined elements: recognisable bits in the first run, others in the next."""
    dtype = dtype_of(element)
    data = undefined_bytes(math.prod(shape) * dtype.itemsize)
    if is_inverted:
        data = ~data
    if dtype == np.bool_:
        return (data & 2 != UNINITIALISED & 2).reshape(shape)
    if width_of(element) == 4:
        data &= 0xF
    return data.view(dtype).reshape(shape)


def undefine(
    values: np.ndarray, where: np.ndarray, element: FloatType | IntegerType, *, is_inverted: bool = False
) -> np.ndarray:
    """``values``, made undefined ``where`` the mask is true.

    Inverted bits tell a quotient by a substituted 0 from a quotient that is 0 with every other substitute.
    """
    values = np.asarray(values)
    if not np.any(where) or keeps_results():
        return values
    substitutes = undefined(values.shape, element, is_inverted=is_inverted)
    return np.where(where, substitutes, values).astype(values.dtype, copy=False)


def elements_of(attribute: DenseElementsAttr, shape: tuple[int, ...]) -> np.ndarray:
    """The tile of a DenseElementsAttr."""
    element = attribute.element_type
    dtype = dtype_of(element)
    raw = np.frombuffer(attribute.data, np.uint8)
    if dtype == np.bool_:
        values = raw != 0
    elif isinstance(element, IntegerType) and element.width == 4:
        values = wrap(raw, 4)
    elif isinstance(element, FloatType) and element.keyword == "tf32":
        # Its 19 bits are the upper ones of the f32 that represents it.
        values = (raw.view(np.uint32) << 13).view(dtype)
    else:
        values = raw.view(dtype)
    if attribute.is_splat:
        return np.full(shape, values[0], dtype)
    return values.reshape(shape)


class TensorView(NamedTuple):
    """A tensor in memory: address of element 0, sizes and strides in elements."""

    address: int
    element: object
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class TileView(NamedTuple):
    """Tiles laid over a tensor.

    ``steps[i]`` is the distance in tensor elements between neighbouring tiles along tile dimension i, which runs along
    tensor dimension ``dim_map[i]``; ``sparse`` is the dimension whose index is a tile of indices, or None.
    """

    tensor: TensorView
    tile_shape: tuple[int, ...]
    steps: tuple[int, ...]
    dim_map: tuple[int, ...]
    padding: str | None
    sparse: int | None = None

    @property
    def index_space(self) -> tuple[int, ...]:
        sizes, sparse = self.tensor.shape, self.sparse
        return tuple([
            sizes[dim] if position == sparse else -(-sizes[dim] // step)
            for position, (dim, step) in enumerate(zip(self.dim_map, self.steps))
        ])  # fmt: skip
