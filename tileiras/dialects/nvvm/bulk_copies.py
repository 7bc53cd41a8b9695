"""Runs of bytes that one thread has copied by the asynchronous proxy (PTX ISA, "cp.async.bulk")."""

from __future__ import annotations

from typing import Any

from tileiras.dialects.llvm.base import pointer
from tileiras.dialects.llvm.types import LLVMPointerType
from tileiras.ir import IntegerAttr, MemoryRead, MemoryWrite, UnitAttr, VerifyError, attribute, operand

from .base import Assembly, NVVMOp, intrinsic
from .intrinsics import PTX80, Intrinsic

GLOBAL, SHARED = 1, 3
UNIT = 16
"""Bytes that a copy and its addresses are multiples of."""


def _check(op: CpAsyncBulkLoadOp | CpAsyncBulkStoreOp, **spaces: int) -> None:
    for name, space in spaces.items():
        type = getattr(op, name).type
        if type is not LLVMPointerType(space):
            raise VerifyError(f"expects a pointer into address space {space}, got '{type}'")
    if op.size.value <= 0 or op.size.value % UNIT:
        raise VerifyError(f"expects a multiple of {UNIT} bytes, but got {op.size.value}")


class CpAsyncBulkLoadOp(NVVMOp):
    """From global to shared memory; the bytes complete on an mbarrier."""

    name = "nvvm.cp.async.bulk.shared.cluster.global"
    traits = (MemoryRead, MemoryWrite)
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


class CpAsyncBulkStoreOp(NVVMOp):
    """From shared to global memory; part of the thread's bulk group."""

    name = "nvvm.cp.async.bulk.global.shared.cta"
    traits = (MemoryRead, MemoryWrite)
    dst = operand(pointer)
    src = operand(pointer)
    size = attribute(IntegerAttr, "bytes")
    assembly_format = "$dst `,` $src attr-dict `:` type(operands)"

    def target(self) -> Assembly:
        _check(self, dst=GLOBAL, src=SHARED)
        text = f"cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], {self.size.value};"
        return Assembly(text, "l,r,~{memory}", "90", PTX80, side_effects=True)


class CpAsyncBulkCommitGroupOp(NVVMOp):
    name = "nvvm.cp.async.bulk.commit.group"
    traits = (MemoryRead, MemoryWrite)
    assembly_format = "attr-dict"

    def target(self) -> Intrinsic:
        return intrinsic("cp.async.bulk.commit.group")


class CpAsyncBulkWaitGroupOp(NVVMOp):
    """Waits until at most `group` of the thread's bulk groups are in flight; with `read` until the others have read
    what they copy."""

    name = "nvvm.cp.async.bulk.wait_group"
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
