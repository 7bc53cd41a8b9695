"""Sizes and alignments of types in memory, and of a kernel's parameters (PTX ISA, "Parameter State Space").

Integers and floats take their width in whole bytes, pointers 8 (4 in shared memory), arrays and vectors the sum of
their elements, structs the sum of their members at their alignments, padded to their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.ir import Type, VectorType

from .types import LLVMArrayType, LLVMPointerType, LLVMStructType

SHARED = 3
"""The address space of shared memory."""


def size_and_alignment(type: Type) -> tuple[int, int]:
    """Bytes of a value of an LLVM type, and of its natural alignment."""
    if isinstance(type, LLVMPointerType):
        bytes = 4 if type.address_space == SHARED else 8
        return bytes, bytes
    if isinstance(type, LLVMStructType):
        size, widest = 0, 1
        for member in type.elements:
            own, alignment = size_and_alignment(member)
            size = _align(size, alignment) + own
            widest = max(widest, alignment)
        return _align(size, widest), widest
    if isinstance(type, LLVMArrayType):
        size, alignment = size_and_alignment(type.element_type)
        return size * type.count, alignment
    if isinstance(type, VectorType):
        bits = type.element_type.width * type.shape[0]
        size = -(-bits // 8)
        return size, 1 << (size - 1).bit_length() if size else 1
    size = -(-type.width // 8)
    return size, 1 << (size - 1).bit_length()


def parameter_space_bytes(types: Sequence[Any], by_value: Sequence[Any] = ()) -> int:
    """Bytes of a kernel's parameters one after the other; `by_value[n]` is the type behind a pointer that is passed as
    the data it points at, None for other parameters."""
    size = 0
    for number, type in enumerate(types):
        pointee = by_value[number] if number < len(by_value) else None
        own, alignment = size_and_alignment(type if pointee is None else pointee)
        size = _align(size, alignment) + own
    return size


def _align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
