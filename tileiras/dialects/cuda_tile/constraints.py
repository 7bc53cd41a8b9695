"""Constraints of operands, results and attributes of cuda_tile operations, in MLIR's words.

`since` of an element type determines the version of the language that a tile requires; the constraints here are those
of an operation in any version.
"""

from __future__ import annotations

from typing import Any

from tileiras.ir import (
    AnyOf,
    ArrayAttr,
    Constraint,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    FloatType,
    FunctionType,
    IntegerAttr,
    IntegerType,
    Type,
    bf16,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    i1,
    i4,
    i8,
    i16,
    i32,
    i64,
    tf32,
)

from .types import NEWER_FLOAT_KEYWORDS, PointerType, TileType, TokenType, is_number

INTEGERS = (i1, i8, i16, i32, i64)
BASE_FLOATS = (f16, bf16, f32, f64)
FLOATS = (f16, bf16, f32, f64, tf32, f8E4M3FN, f8E5M2, f8E8M0FNU, f4E2M1FN)
NEWER_FLOATS = tuple(FloatType(keyword) for keyword in NEWER_FLOAT_KEYWORDS)
POINTER = PointerType


class TileOf(Constraint):
    """A tile with one of some element types, of any rank or of one; `elements` are types, or a class of types."""

    __slots__ = ("elements", "rank", "only_type")

    def __init__(
        self,
        *elements: FloatType | IntegerType | type[PointerType],
        rank: int | None = None,
        name: str | None = None,
        newer: tuple[Any, ...] = (),
    ) -> None:
        """`newer` are types that are accepted as well and that `NEWER_FLOAT_KEYWORDS` keeps from diagnostics."""
        words = " or ".join(e.description if isinstance(e, type) else str_of(e) for e in elements)
        self.elements = elements
        self.rank = rank
        single = rank == 0 and len(elements) == 1 and not isinstance(elements[0], type)
        self.only_type = TileType((), elements[0]) if single else None
        exact = frozenset(e for e in (*elements, *newer) if not isinstance(e, type))
        classes = tuple(e for e in elements if isinstance(e, type))

        def satisfied(type: Type) -> bool:
            if not isinstance(type, TileType) or rank is not None and len(type.shape) != rank:
                return False
            element = type.element_type
            return element in exact or bool(classes) and isinstance(element, classes)

        super().__init__(satisfied, f"{name or ('tile' if rank is None else f'{rank}D tile')} of {words} values")


def str_of(element: FloatType | IntegerType) -> str:
    return f"i{element.width}" if isinstance(element, IntegerType) else element.keyword


IntTile = TileOf(*INTEGERS)
Int4Tile = TileOf(*INTEGERS, i4)
I1Tile = TileOf(i1)
I8Tile = TileOf(i8)
I64Tile = TileOf(i64)
BaseFloatTile = TileOf(*BASE_FLOATS)
FloatTile = TileOf(*FLOATS, newer=NEWER_FLOATS)
NumberTile = TileOf(*INTEGERS, *FLOATS, newer=NEWER_FLOATS)
Number4Tile = TileOf(*INTEGERS, *FLOATS, i4, newer=NEWER_FLOATS)
PointerTile = TileOf(POINTER)
ScalarI1 = TileOf(i1, rank=0)
ScalarI32 = TileOf(i32, rank=0)
ScalarInt = TileOf(*INTEGERS, rank=0)
ScalarPointer = TileOf(POINTER, rank=0)

any_value = Constraint(
    lambda type: is_number(type) or type.name.startswith("cuda_tile."),
    "f16 or bf16 or f32 or tf32 or f64 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN"
    " or i1 or i8 or i16 or i32 or i64 or ",
)


class TypedInteger(Constraint):
    """An integer attribute of a fixed type; its number is written without the type."""

    __slots__ = ("value_type",)

    attribute_class = IntegerAttr

    def __init__(self, value_type: IntegerType, description: str | None = None) -> None:
        self.value_type = value_type
        super().__init__(
            lambda value: isinstance(value, IntegerAttr) and value.type is value_type,
            description or f"{value_type.width}-bit signless integer attribute",
        )


class TypedArray(Constraint):
    """A dense array attribute with a fixed element type, written `[1, 2]`."""

    __slots__ = ("value_type",)

    attribute_class = DenseArrayAttr

    def __init__(self, value_type: IntegerType) -> None:
        self.value_type = value_type
        super().__init__(
            lambda value: isinstance(value, DenseArrayAttr) and value.element_type is value_type,
            f"i{value_type.width} dense array attribute",
        )


I32Attr = TypedInteger(i32)
I64Attr = TypedInteger(i64)
BoolAttr = TypedInteger(i1, "bool attribute")
BoolArrayAttr = TypedArray(i1)
I32ArrayAttr = TypedArray(i32)


class ArrayOf(Constraint):
    """An array attribute whose elements are all of one class."""

    __slots__ = ("element_class",)

    attribute_class = ArrayAttr

    def __init__(self, element: type, description: str) -> None:
        self.element_class = element
        super().__init__(
            lambda value: isinstance(value, ArrayAttr) and all(isinstance(e, element) for e in value.elements),
            description,
        )


DictArrayAttr = ArrayOf(DictAttr, "Array of dictionary attributes")


class TileConstant(Constraint):
    """The elements of a constant whose type is a tile of numbers."""

    __slots__ = ()

    attribute_class = DenseElementsAttr

    def __init__(self) -> None:
        super().__init__(
            lambda value: isinstance(value, DenseElementsAttr) and NumberTile.satisfied_by(value.type),
            "dense typed elements attribute",
        )


function_type_attr = Constraint(lambda value: isinstance(value, FunctionType), "type attribute of function type")

__all__ = [
    "AnyOf",
    "ArrayOf",
    "BaseFloatTile",
    "BoolArrayAttr",
    "BoolAttr",
    "DictArrayAttr",
    "FloatTile",
    "I1Tile",
    "I32ArrayAttr",
    "I32Attr",
    "I64Attr",
    "I64Tile",
    "I8Tile",
    "Int4Tile",
    "IntTile",
    "Number4Tile",
    "NumberTile",
    "PointerTile",
    "ScalarI1",
    "ScalarI32",
    "ScalarInt",
    "ScalarPointer",
    "TileConstant",
    "TileOf",
    "TileType",
    "TokenType",
    "TypedArray",
    "TypedInteger",
    "any_value",
    "function_type_attr",
]
