"""Runs of bytes that one thread has copied by the asynchronous proxy (PTX ISA, "cp.async.bulk")."""

from __future__ import annotations

from typing import Any

from tileiras.dialects.llvm.base import llvm_type, pointer
from tileiras.dialects.llvm.types import LLVMPointerType
from tileiras.ir import (
    AttrSizedOperandSegments,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    StringAttr,
    UnitAttr,
    VerifyError,
    attribute,
    i32,
    operand,
    variadic_operand,
)

from .base import Assembly, NVVMOp, intrinsic
from .intrinsics import PTX80, Intrinsic

GENERIC, GLOBAL, SHARED = 0, 1, 3
MOST_DIMENSIONS = 5
"""The most dimensions of a tensor map."""

PTX86 = (8, 6)
"""PTX ISA, "cp.async.bulk.tensor": `.shared::cta` as the destination."""

UNIT = 16
"""Bytes that a copy and its addresses are multiples of."""


def check_spaces(op: NVVMOp, **spaces: int) -> None:
    """Raise VerifyError unless the operands of these names are pointers into these address spaces."""
    for name, space in spaces.items():
        type = getattr(op, name).type
        if type is not LLVMPointerType(space):
            raise VerifyError(f"expects a pointer into address space {space}, got '{type}'")


def _check(op: CpAsyncBulkLoadOp | CpAsyncBulkStoreOp, **spaces: int) -> None:
    check_spaces(op, **spaces)
    if op.size.value <= 0 or op.size.value % UNIT:
        raise VerifyError(f"expects a multiple of {UNIT} bytes, but got {op.size.value}")


class CpAsyncBulkLoadOp(NVVMOp, name="nvvm.cp.async.bulk.shared.cluster.global", traits=(MemoryRead, MemoryWrite)):
    """From global to shared memory; the bytes complete on an mbarrier."""

    dst = operand(pointer)
    src = operand(pointer)
    mbar = operand(pointer)
    size = attribute(IntegerAttr, "bytes")
    assembly_format = "$dst `,` $src `,` $mbar attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        _check(self, dst=SHARED, src=GLOBAL, mbar=SHARED)
        # A CTA's own shared memory is a window of its cluster's; `.shared::cta` is spelled since PTX 8.6 only.
        text = (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[$0], [$1], {self.size.value}, [$2];"
        )
        return Assembly(text, "r,l,r,~{memory}", "90", PTX80, side_effects=True)


class CpAsyncBulkStoreOp(NVVMOp, name="nvvm.cp.async.bulk.global.shared.cta", traits=(MemoryRead, MemoryWrite)):
    """From shared to global memory; part of the thread's bulk group."""

    dst = operand(pointer)
    src = operand(pointer)
    size = attribute(IntegerAttr, "bytes")
    assembly_format = "$dst `,` $src attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        _check(self, dst=GLOBAL, src=SHARED)
        text = f"cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], {self.size.value};"
        return Assembly(text, "l,r,~{memory}", "90", PTX80, side_effects=True)


class CpAsyncBulkTensorLoadOp(NVVMOp, name="nvvm.cp.async.bulk.tensor.shared.cta.global"):
    """A box of the tensor that a map describes, from global to shared memory; its bytes complete on an mbarrier.

    `instruction`, `syntax` and `requires` are those of the atom's row; `coordinates` is the box's corner, innermost
    first.
    """

    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    dst = operand(pointer)
    map = operand(pointer)
    mbar = operand(pointer)
    coordinates = variadic_operand(llvm_type)
    instruction = attribute(StringAttr)
    syntax = attribute(StringAttr)
    requires = attribute(StringAttr, "of the GPU", optional=True)
    assembly_format = "$dst `,` $map `[` $coordinates `]` `,` $mbar attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        check_spaces(self, dst=SHARED, map=GENERIC, mbar=SHARED)
        return _tensor_copy(self, "r,l,r", to="$0", map="$1", barrier="$2")


class CpAsyncBulkTensorStoreOp(NVVMOp, name="nvvm.cp.async.bulk.tensor.global.shared.cta"):
    """A box of the tensor that a map describes, from shared to global memory; part of the thread's bulk group.

    `instruction` and `syntax` are those of the atom's row; `coordinates` is the box's corner, innermost first.
    """

    traits = (MemoryRead, MemoryWrite, AttrSizedOperandSegments)
    map = operand(pointer)
    src = operand(pointer)
    coordinates = variadic_operand(llvm_type)
    instruction = attribute(StringAttr)
    syntax = attribute(StringAttr)
    assembly_format = "$map `[` $coordinates `]` `,` $src attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        check_spaces(self, map=GENERIC, src=SHARED)
        return _tensor_copy(self, "l,r", **{"map": "$0", "from": "$1"})


def _tensor_copy(op: CpAsyncBulkTensorLoadOp | CpAsyncBulkTensorStoreOp, constraints: str, **operands: str) -> Assembly:
    """The instruction for a box; coordinates follow the operands that `constraints` are of."""
    rank, first = len(op.coordinates), constraints.count(",") + 1
    if not 1 <= rank <= MOST_DIMENSIONS or any(each.type is not i32 for each in op.coordinates):
        raise VerifyError(f"expects 1 to {MOST_DIMENSIONS} coordinates of type i32")
    corner = ", ".join(f"${first + number}" for number in range(rank))
    text = op.syntax.value.format(rank=rank, at=f"{{{corner}}}", **operands)
    letters = ",".join([constraints, *["r"] * rank, "~{memory}"])
    requires = getattr(op, "requires", None)
    needs = "90" if requires is None else requires.value
    return Assembly(f"{op.instruction.value}{text};", letters, needs, PTX86, side_effects=True)


class CpAsyncBulkCommitGroupOp(NVVMOp, name="nvvm.cp.async.bulk.commit.group", traits=(MemoryRead, MemoryWrite)):
    assembly_format = "attr-dict"

    def target(self) -> Intrinsic:
        return intrinsic("cp.async.bulk.commit.group")


class CpAsyncBulkWaitGroupOp(NVVMOp, name="nvvm.cp.async.bulk.wait_group"):
    """Waits until at most `group` of the thread's bulk groups are in flight; with `read` until the others have read
    their sources."""

    traits = (MemoryRead, MemoryWrite)
    group = attribute(IntegerAttr)
    read = attribute(UnitAttr, optional=True)
    assembly_format = "$group attr-dict"

    def target(self) -> Intrinsic:
        if self.group.value < 0:
            raise VerifyError("expects a number of groups of at least 0")
        return intrinsic("cp.async.bulk.wait.group" + (".read" if self.read is not None else ""))

    def call_operands(self) -> list[Any]:
        return [str(self.group.value)]
