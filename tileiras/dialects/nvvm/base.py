"""Lowering of nvvm operations: each becomes a row of the intrinsic table or inline assembly.

An operation defines it by `target()`, from which the translation to LLVM IR, the check against the GPU and the PTX
version are derived.
"""

from __future__ import annotations

from typing import Any, ClassVar

from tileiras.dialects.llvm.base import LLVMOp
from tileiras.ir import Convergent, MemoryRead, MemoryWrite, Pure, VerifyError
from tileiras.support.named_tuple import NamedTuple

from .intrinsics import INTRINSICS, Intrinsic


class Assembly(NamedTuple):
    """Inline assembly: PTX text with `$n` operands, LLVM's constraints, and the requirements of the instruction."""

    text: str
    constraints: str
    sm: str
    ptx: tuple[int, int]
    side_effects: bool = False


EFFECT_TRAITS: dict[str, tuple[type, ...]] = {
    "none": (Pure,),
    # Not Pure: moving it to where other threads of the warp do not go changes its result.
    "convergent": (Convergent,),
    "read": (MemoryRead,),
    "write": (MemoryWrite,),
    "readwrite": (MemoryRead, MemoryWrite),
    "barrier": (MemoryRead, MemoryWrite),
}


class NVVMOp(LLVMOp):
    """Base of the dialect's operations."""

    __slots__ = ()

    elementwise: ClassVar[bool] = False
    """Whether vectors are accepted and the instruction is issued per element."""

    def target(self) -> Intrinsic | Assembly:
        """The instruction; raises VerifyError if it does not exist for these types and attributes."""
        raise VerifyError("has no instruction")

    def call_operands(self) -> list[Any]:
        """Operands of the call: values, or LLVM text for constants."""
        return list(self.operands)

    def verify_op(self) -> None:
        self.target()


def intrinsic(name: str) -> Intrinsic:
    """The table's row; raises VerifyError when LLVM has no such intrinsic that we emit."""
    row = INTRINSICS.get(name)
    if row is None:
        raise VerifyError(f"has no instruction '{name}'")
    return row
