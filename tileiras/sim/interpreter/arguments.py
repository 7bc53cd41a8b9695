"""Converts a caller's arguments to values of an entry's parameters."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tileiras.diagnostics import plural
from tileiras.ir import FLOAT_SEMANTICS, FloatType, IntegerType

from ..errors import ArgumentMismatch
from ..memory import Memory
from .rounding import FLOAT_DTYPES, round_to
from .values import dtype_of, width_of, wrap

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile


def _is_memory_for(array: np.ndarray, element: FloatType | IntegerType) -> bool:
    """Whether an array can hold ``element``: its dtype is the element's, or an integer of the same size for its
    bits."""
    has_dtype = not isinstance(element, FloatType) or element.keyword in FLOAT_DTYPES
    dtype_of_element = dtype_of(element) if has_dtype else np.dtype(np.uint8)
    if array.dtype == dtype_of_element:
        return True
    size = max(1, width_of(element) // 8)
    if array.dtype.itemsize != size:
        return False
    if width_of(element) == 4 or dtype_of_element == np.bool_:
        return array.dtype.kind in "iub"
    return array.dtype.kind in "iu" and (isinstance(element, IntegerType) or dtype_of_element.itemsize <= 2)


def _scalar(value: int, element: IntegerType, name: str):
    if isinstance(element, IntegerType):
        try:
            number = operator.index(value.item() if isinstance(value, np.generic | np.ndarray) else value)
        except TypeError as problem:
            raise ArgumentMismatch(f"{name} must be an integer for {element}, got {value!r}") from problem
        width = element.width
        if not -(1 << (width - 1)) <= number < 1 << width and width > 1:
            raise ArgumentMismatch(f"{name}: {number} does not fit {element}")
        number &= (1 << width) - 1
        return wrap(np.array(number, np.uint64), width)
    if isinstance(element, FloatType):
        if element.keyword not in FLOAT_DTYPES:
            raise ArgumentMismatch(f"{name}: cannot pass a value of type {element.keyword}")
        if getattr(value, "dtype", None) == FLOAT_DTYPES[element.keyword]:
            return np.asarray(value)
        try:
            number = float(value)
        except (TypeError, ValueError) as problem:
            raise ArgumentMismatch(f"{name} must be a number for {element}, got {value!r}") from problem
        saturate = not FLOAT_SEMANTICS[element.keyword].has_infinity
        return round_to(np.array(number), element.keyword, saturate=saturate)
    raise ArgumentMismatch(f"{name}: cannot pass a value of type {element}")


def parameter_names(count: int, names: Sequence[str] = ()) -> list[str]:
    """Names of the parameters of a run in messages: `names`, or by default their numbers."""
    return list(names) or [f"argument {position}" for position in range(count)]


def bind_arguments(
    memory: Memory, types: Sequence[cuda_tile.TileType], args: Sequence[int | np.ndarray], names: Sequence[str] = ()
) -> list[np.ndarray]:
    """One rank-0 tile per parameter.  Arrays become allocations of ``memory``; see the package docstring."""
    if len(types) != len(args):
        message = f"the entry has {plural(len(types), 'parameter')}, got {plural(len(args), 'argument')}"
        raise ArgumentMismatch(message)
    bound = []
    for name, type, value in zip(parameter_names(len(args), names), types, args):
        element = type.element_type
        pointee = getattr(element, "pointee_type", None)
        if pointee is None:
            if isinstance(value, np.ndarray) and value.ndim:
                raise ArgumentMismatch(f"{name} is an array, but the parameter is a scalar {element}")
            bound.append(_scalar(value, element, name))
        elif isinstance(value, np.ndarray):
            if not _is_memory_for(value, pointee):
                message = f"{name} is an array of {value.dtype}, the parameter points to {pointee}"
                raise ArgumentMismatch(message)
            bound.append(np.array(memory.allocate(value, name=name), np.int64))
        else:
            try:
                bound.append(np.array(operator.index(value), np.uint64).astype(np.int64))
            except TypeError as problem:
                message = f"{name} must be a NumPy array or an address, got {value!r}"
                raise ArgumentMismatch(message) from problem
    return bound
