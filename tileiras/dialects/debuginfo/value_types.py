"""The debug type that a variable without one gets from its value.

| value | type |
|---|---|
| i1 | boolean of a byte |
| iN, index | signed |
| f16, bf16, tf32, f32, f64 | float |
| narrower floats | unsigned, with the format's name: debuggers do not know how to read them |
| pointer | pointer to bytes |
| vector, array | array |
| struct | array, when all members are alike; else a struct of the members, at their alignments |
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import llvm
from tileiras.ir import FloatType, IndexType, IntegerType, Type, VectorType

from .attributes import DIArrayTypeAttr, DIBasicTypeAttr, DIPointerTypeAttr, DIStructTypeAttr, EncodingAttr

BYTE = DIBasicTypeAttr("byte", 8, EncodingAttr("unsigned"))

_IEEE = ("f16", "bf16", "tf32", "f32", "f64")


def debug_type(type: Type) -> Any:
    """The debug type of values of an LLVM type; None if absent."""
    if isinstance(type, IndexType):
        return DIBasicTypeAttr("index", 64, EncodingAttr("signed"))
    if isinstance(type, IntegerType):
        if type.width == 1:
            return DIBasicTypeAttr("i1", 8, EncodingAttr("boolean"))
        return DIBasicTypeAttr(str(type), type.width, EncodingAttr("signed")) if type.width % 8 == 0 else None
    if isinstance(type, FloatType):
        encoding = "float" if str(type) in _IEEE else "unsigned"
        # tf32 is an f32 whose last bits do not count.
        width = 32 if str(type) == "tf32" else type.width
        return DIBasicTypeAttr(str(type), width, EncodingAttr(encoding)) if width % 8 == 0 else None
    if isinstance(type, llvm.LLVMPointerType):
        return DIPointerTypeAttr(BYTE)
    if isinstance(type, VectorType) and len(type.shape) == 1:
        element = debug_type(type.element_type)
        return DIArrayTypeAttr(element, type.shape[0]) if element is not None else None
    if isinstance(type, llvm.LLVMArrayType):
        element = debug_type(type.element_type)
        return DIArrayTypeAttr(element, type.count) if element is not None else None
    if isinstance(type, llvm.LLVMStructType):
        members = [debug_type(member) for member in type.elements]
        if not members or None in members:
            return None
        alike = len(set(members)) == 1
        return DIArrayTypeAttr(members[0], len(members)) if alike else DIStructTypeAttr(members)
    return None
