"""Assertions of a thread; helpers of printing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import cf, llvm
from tileiras.ir import Block, Value, VectorType

from ..emit.function import FunctionLowering

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas

GENERIC = llvm.LLVMPointerType(0)


def text_address(text: str, lowering: FunctionLowering) -> Value:
    """The generic address of a zero-terminated string in global memory."""
    symbol = lowering.string(text)
    emit = lowering.emit

    def make() -> Value:
        address = emit.insert(llvm.AddressOfOp(global_name=symbol, res=llvm.LLVMPointerType(1)))
        return emit.insert(llvm.AddrSpaceCastOp(address, res=GENERIC))

    return emit.once(("string", text), make)


def only_where(condition: Value, lowering: FunctionLowering) -> Any:
    """Move to a block that runs where `condition` holds; return the block that follows."""
    emit = lowering.emit
    inside, after = lowering.new_block(), lowering.new_block()
    emit.insert(llvm.CondBrOp(condition, [], [], trueDest=inside, falseDest=after))
    emit.block = inside
    return after


def continue_at(block: Block, lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.BrOp([], dest=block))
    lowering.emit.block = block


def assert_(op: tileas.AssertOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    """Every thread checks the elements that it holds."""
    emit = lowering.emit
    (condition,) = args
    if isinstance(condition.type, VectorType):
        condition = emit.insert(llvm.INTRINSIC_OPS["vector.reduce.and"](condition))
    emit.insert(cf.AssertOp(condition, msg=op.message))
