"""Special registers: one operation each, `nvvm.read.ptx.sreg.tid.x : i32`; and copies of ordinary ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects.llvm.types import LLVMPointerType
from tileiras.ir import (
    AllTypesMatch,
    Attribute,
    FloatType,
    IntegerType,
    Pure,
    Value,
    VerifyError,
    f32,
    f64,
    i16,
    i32,
    i64,
    operand,
    result,
)
from tileiras.ir.registry import GeneratedOperations

from .base import EFFECT_TRAITS, NVVMOp, intrinsic
from .intrinsics import INTRINSICS, POINTER_SPACES, Intrinsic

_PREFIX = "read.ptx.sreg."


class SpecialRegisterOp(NVVMOp):
    """Base of the operations that read a special register."""

    __slots__ = ()

    def target(self) -> Intrinsic:
        return intrinsic(self.name.removeprefix("nvvm."))

    @classmethod
    def infer_result_types(cls, operands: Sequence[Value], attributes: dict[str, Attribute]) -> list[Any]:
        return [i64 if INTRINSICS[cls.name.removeprefix("nvvm.")].result == "i64" else i32]


def _make(register: str, row: Intrinsic) -> type[SpecialRegisterOp]:
    members: dict[str, Any] = {
        "__doc__": f"Reads `%{register}`.",
        "__module__": __name__,
        "name": "nvvm." + row.name,
        "traits": EFFECT_TRAITS[row.effects],
        "res": result(i64 if row.result == "i64" else i32),
        "assembly_format": "attr-dict `:` type($res)",
    }
    words = register.replace(".", "_").split("_")
    return type("".join(w.capitalize() for w in words) + "Op", (SpecialRegisterOp,), members)


SPECIAL_REGISTERS = GeneratedOperations(
    "nvvm." + _PREFIX,
    {row.name.removeprefix(_PREFIX): row for row in INTRINSICS.values() if row.name.startswith(_PREFIX)},
    _make,
)
"""The classes by register name: `SPECIAL_REGISTERS["tid.x"]()`."""


_MOVES = {
    i16: "move.i16",
    i32: "move.i32",
    i64: "move.i64",
    f32: "move.float",
    f64: "move.double",
    **{LLVMPointerType(space): f"move.ptr.p{space}" for space in POINTER_SPACES},
}


class MoveOp(NVVMOp, name="nvvm.move", traits=(Pure, AllTypesMatch("arg", "res"))):
    """A copy that LLVM does not look through."""

    arg = operand()
    res = result()
    assembly_format = "$arg `:` type($arg) attr-dict"

    @staticmethod
    def has(type: FloatType | IntegerType) -> bool:
        """Whether there is a copy of values of the type."""
        return type in _MOVES

    def target(self) -> Intrinsic:
        name = _MOVES.get(self.arg.type)
        if name is None:
            raise VerifyError(f"has no instruction for '{self.arg.type}'")
        return intrinsic(name)
