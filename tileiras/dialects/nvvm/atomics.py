"""Atomics with an order and a scope, as inline assembly (PTX ISA, "atom", "red").

LLVM's `atomicrmw` loses both on NVPTX.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects.llvm.base import llvm_type, pointer
from tileiras.ir import (
    MemoryRead,
    MemoryWrite,
    Type,
    VerifyError,
    attribute,
    operand,
    optional_operand,
    result,
)
from tileiras.support.named_tuple import NamedTuple

from .attributes import AtomicOpAttr, MemOrderAttr, MemScopeAttr
from .base import Assembly, NVVMOp

_SPACES = {0: "", 1: ".global", 3: ".shared"}
_POINTER_LETTER = {0: "l", 1: "l", 3: "r"}

# (operation, LLVM type) -> (PTX operation and type, register letter, lowest SM).
FORMS: dict[tuple[str, str], tuple[str, str, str]] = {
    **{
        (op, f"i{bits}"): (f"{op}.{'u' if op == 'add' else 'b'}{bits}", letter, "75")
        for op in ("add", "exch", "and", "or", "xor", "cas")
        for bits, letter in ((32, "r"), (64, "l"))
    },
    **{
        (("u" if sign == "u" else "") + op, f"i{bits}"): (f"{op}.{sign}{bits}", letter, "75")
        for op in ("min", "max")
        for sign in "su"
        for bits, letter in ((32, "r"), (64, "l"))
    },
    ("cas", "i16"): ("cas.b16", "h", "75"),
    ("exch", "f32"): ("exch.b32", "f", "75"),
    ("exch", "f64"): ("exch.b64", "d", "75"),
    ("fadd", "f32"): ("add.f32", "f", "75"),
    ("fadd", "f64"): ("add.f64", "d", "75"),
    ("fadd", "f16"): ("add.noftz.f16", "h", "75"),
    ("fadd", "bf16"): ("add.noftz.bf16", "h", "90"),
    ("fadd", "vector<2xf16>"): ("add.noftz.f16x2", "r", "75"),
    ("fadd", "vector<2xbf16>"): ("add.noftz.bf16x2", "r", "90"),
}


class Form(NamedTuple):
    """How an update is spelled: PTX operation and type, register letter, lowest SM."""

    instruction: str
    letter: str
    sm: str


def atomic_form(kind: str, type: Type) -> Form | None:
    """The instruction for an update of this kind and LLVM type; None if PTX has no such instruction on any target."""
    entry = FORMS.get((kind, str(type)))
    return Form(*entry) if entry is not None else None


class AtomOp(NVVMOp, name="nvvm.atom", traits=(MemoryRead, MemoryWrite)):
    """An atomic update giving the old value; `cas` compares with `cmp` and stores `val` when equal."""

    addr = operand(pointer)
    val = operand(llvm_type)
    cmp = optional_operand(llvm_type)
    op = attribute(AtomicOpAttr)
    order = attribute(MemOrderAttr)
    scope = attribute(MemScopeAttr)
    res = result(llvm_type)
    assembly_format = (
        "$op $order $scope $addr `,` $val (`,` $cmp^)? attr-dict `:` functional-type(operands, results)"
    )
    typed_as = 1

    def target(self) -> Assembly:
        kind = self.op.value
        form = atomic_form(kind, self.val.type)
        if form is None:
            raise VerifyError(f"has no instruction for '{kind}' of '{self.val.type}'")
        if self.res.type is not self.val.type or (kind == "cas") != (self.cmp is not None):
            raise VerifyError("operands do not fit the operation")
        instruction, letter, sm = form
        space = self.addr.type.address_space
        if space not in _SPACES:
            raise VerifyError(f"has no instruction for address space {space}")
        order, scope = self.order.value, self.scope.value
        if scope == "cluster":
            sm = "90"
        tail = "$2, $3" if self.cmp is not None else "$2"
        text = f"atom.{order}.{scope}{_SPACES[space]}.{instruction} $0, [$1], {tail};"
        letters = [f"={letter}", _POINTER_LETTER[space], letter, *([letter] if self.cmp is not None else [])]
        ptx = (7, 8) if sm == "90" else (6, 3)
        return Assembly(text, ",".join([*letters, "~{memory}"]), sm, ptx, side_effects=True)

    def call_operands(self) -> list[Any]:
        # PTX has the comparison value before the new one.
        return [self.addr, self.cmp, self.val] if self.cmp is not None else [self.addr, self.val]


class RedOp(NVVMOp, name="nvvm.red", traits=(MemoryRead, MemoryWrite)):
    """As nvvm.atom without a result; only relaxed and release orders exist."""

    addr = operand(pointer)
    val = operand(llvm_type)
    op = attribute(AtomicOpAttr)
    order = attribute(MemOrderAttr)
    scope = attribute(MemScopeAttr)
    assembly_format = "$op $order $scope $addr `,` $val attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        kind = self.op.value
        form = atomic_form(kind, self.val.type)
        if form is None or kind in ("exch", "cas"):
            raise VerifyError(f"Invalid reduction op for nvvm.red: '{kind}' of '{self.val.type}'")
        if self.order.value not in ("relaxed", "release"):
            raise VerifyError("Invalid memory model ordering for nvvm.red")
        instruction, letter, sm = form
        space = self.addr.type.address_space
        if space not in _SPACES:
            raise VerifyError(f"has no instruction for address space {space}")
        if self.scope.value == "cluster":
            sm = "90"
        text = f"red.{self.order.value}.{self.scope.value}{_SPACES[space]}.{instruction} [$0], $1;"
        ptx = (7, 8) if sm == "90" else (6, 3)
        return Assembly(text, f"{_POINTER_LETTER[space]},{letter},~{{memory}}", sm, ptx, side_effects=True)
