"""How types of nv_tileas are held by a thread: LLVM types, and fragments of tensors.

A tensor with a layout of R registers becomes one LLVM vector of R elements, or a plain value when R is 1; scalars stay
scalars.  8- and 4-bit floats travel as i8, tf32 as f32.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import llvm
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.types import element_count, element_type
from tileiras.dialects.nv_tileas import names
from tileiras.ir import (
    FloatType,
    IndexType,
    IntegerType,
    TensorType,
    Type,
    VectorType,
    VerifyError,
    element_type_of,
    f32,
    i8,
    i32,
    i64,
)
from tileiras.layout.encoding import layout_of

count_of, element_of = element_count, element_type

_PIPE_TOKENS = ("nv_tileas.producer_token", "nv_tileas.consumer_token")
"""Names of types: kernels without pipes do not load the file that declares them."""

ROUNDING = {
    "nearest_even": "rn",
    "zero": "rz",
    "negative_inf": "rm",
    "positive_inf": "rp",
    "approx": "approx",
    "full": "full",
}
"""PTX's names of the rounding modes."""

"""The type of tiles in flight; few kernels load its file."""

NATIVE_FLOATS = ("f16", "bf16", "f32", "f64")


def scalar_type(type: Type) -> Any:
    """The LLVM type of one element; raises VerifyError for a type that no thread can hold."""
    if isinstance(type, FloatType):
        if type.keyword in NATIVE_FLOATS:
            return type
        return f32 if type.keyword == "tf32" else i8
    if isinstance(type, IntegerType):
        return i8 if type.width == 4 else type
    if isinstance(type, IndexType):
        return i64
    if isinstance(type, aa.PtrType):
        return llvm.LLVMPointerType(type.address_space)
    if type.name in _PIPE_TOKENS:
        return i32
    raise VerifyError(f"values of type '{type}' have no register form", prefix=False)


def memory_type(type: Type) -> Any:
    """The LLVM type of one element in memory: i1 takes a byte, a pointer is its address.

    Raises VerifyError for 4-bit types: two elements share a byte.
    """
    if isinstance(type, (FloatType, IntegerType)) and type.width == 4:
        raise VerifyError(f"elements of type '{type}' in memory are not supported", prefix=False)
    scalar = scalar_type(type)
    if isinstance(scalar, llvm.LLVMPointerType):
        return i64
    return i8 if isinstance(scalar, IntegerType) and scalar.width == 1 else scalar


def held_bits(type: FloatType | IntegerType, pattern: int) -> int:
    """The bits by which an element is held, of its bit pattern: a tf32's 19 are the upper ones of an f32."""
    if isinstance(type, FloatType) and type.keyword == "tf32":
        return pattern << f32.semantics.mantissa_bits - type.semantics.mantissa_bits
    return pattern


def bit_width(type: FloatType | IntegerType) -> int:
    """Bits of one element's LLVM type; pointers have 64."""
    return 64 if isinstance(type, llvm.LLVMPointerType) else type.width


def as_integer(element: FloatType | IntegerType) -> Any:
    """The integer type of an element's bits."""
    return element if isinstance(element, IntegerType) else IntegerType(element.width)


def vector_of(element: Type, count: int) -> Any:
    """`count` elements as one value."""
    return element if count == 1 else VectorType((count,), element)


def fragment_type(type: Type) -> Any:
    """The LLVM type of a thread's share of a value."""
    if isinstance(type, TensorType):
        element = i64 if points_to_half_bytes(type) else scalar_type(type.element_type)
        return vector_of(element, layout_of(type).registers)
    if type.name == names.PIPE_ITERATOR:
        return vector_of(i32, 2)
    if type.name == names.IN_FLIGHT:
        word = in_flight_word(type.tile)
        return vector_of(word, layout_of(type.tile).registers * type.tile.element_type.width // 32)
    return scalar_type(type)


def in_flight_word(tile: TensorType) -> Any:
    """The type of a register of a tile in flight: wgmma takes accumulators of f32 as such, all else as bits."""
    return f32 if tile.element_type is f32 else i32


def points_to_half_bytes(type: aa.PtrType | TensorType) -> bool:
    """Whether it is a pointer, or a tensor of pointers, to elements of four bits.

    A tensor of them is one of addresses in half bytes, as an i64 each; a pointer alone is to a whole byte.
    """
    element = element_type_of(type)
    return isinstance(element, aa.PtrType) and getattr(element.pointee, "width", 64) == 4
