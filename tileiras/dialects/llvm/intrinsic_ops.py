"""The `llvm.intr.*` operations: one class per row of the intrinsic table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tileiras.ir import (
    Attribute,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Pure,
    Type,
    VerifyError,
    attribute,
    i1,
    operand,
    result,
)
from tileiras.ir.registry import GeneratedOperations

from .attributes import FastmathFlagsAttr
from .base import LLVMOp, llvm_type, vector_type
from .intrinsics import INTRINSICS, Intrinsic
from .types import element_type, llvm_text

_MANGLED = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def mangled(type: Type) -> str:
    """The spelling of a type in an overloaded intrinsic's name: `v4f32`, `i32`."""
    element = llvm_text(element_type(type))
    element = _MANGLED.get(element, element)
    return f"v{type.shape[0]}{element}" if type is not element_type(type) else element


class IntrinsicOp(LLVMOp):
    """Base of the intrinsics' operations; `row` is the entry of the table, `intrinsic` its name there."""

    __slots__ = ()
    intrinsic: ClassVar[str] = ""
    row: ClassVar[Intrinsic]

    @property
    def overloaded_type(self) -> Any:
        """The type that the intrinsic's name ends in, None for one without."""
        if not self.row.types:
            return None
        return self.operands[-1].type

    def verify_op(self) -> None:
        kind = self.overloaded_type
        if kind is None:
            return
        name = mangled(element_type(kind))
        if name not in self.row.types:
            raise VerifyError(f"has no NVPTX code for '{kind}'")
        shape = self.row.shape
        result_type = self.results[0].type
        if shape in ("reduce", "fold"):
            if result_type is not kind.element_type or shape == "fold" and self.operands[0].type is not result_type:
                raise VerifyError("requires the vector's element type as result type")
        elif any(value.type is not result_type for value in self.operands):
            raise VerifyError("requires the same type for all operands and results")

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        shape = cls.row.shape
        if shape in ("predicate", "void"):
            return []
        return [operands[-1].type.element_type if shape in ("reduce", "fold") else operands[0].type]


_OPERANDS = {"1": ("in",), "2": ("a", "b"), "3": ("a", "b", "c")}


def _make(name: str, row: Intrinsic) -> type[IntrinsicOp]:
    members: dict[str, Any] = {
        "__doc__": f"`llvm.{name}`.",
        "__module__": __name__,
        "name": f"llvm.intr.{name}",
        "intrinsic": name,
        "row": row,
        "traits": (Pure,) if row.pure else (MemoryRead, MemoryWrite),
    }
    if row.shape in _OPERANDS:
        members.update({operand_name: operand(llvm_type) for operand_name in _OPERANDS[row.shape]})
    elif row.shape == "flag":
        members["in"] = operand(llvm_type)
        members["flag"] = attribute(IntegerAttr, "whether zero (for abs, the lowest value) gives poison", optional=True)
    elif row.shape == "reduce":
        members["in"] = operand(vector_type)
    elif row.shape == "fold":
        members.update(start=operand(llvm_type), input=operand(vector_type))
    elif row.shape == "predicate":
        members["cond"] = operand(i1)
    if row.types:
        members["fastmathFlags"] = attribute(FastmathFlagsAttr, optional=True)
        members["res"] = result(llvm_type)
        members["assembly_format"] = "`(` operands `)` attr-dict `:` functional-type(operands, results)"
    else:
        members["assembly_format"] = "operands attr-dict" if row.shape == "void" else "$cond attr-dict `:` type($cond)"
    class_name = "".join(part.capitalize() for part in name.replace(".", "_").split("_")) + "IntrOp"
    return type(class_name, (IntrinsicOp,), members)


INTRINSIC_OPS = GeneratedOperations("llvm.intr.", INTRINSICS, _make)
"""The classes by intrinsic name: `INTRINSIC_OPS["fma"](a, b, c)`."""
