"""Assertions and printing, through the functions that the driver provides (CUDA programming guide, "Assertion",
"Formatted Output")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import llvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import FloatType, IntegerType, TensorType, Value, VectorType, VerifyError, f64, i1, i8, i32, i64

from .floats import to_f32
from .function import FunctionLowering
from .types import count_of, element_of

_GENERIC = llvm.LLVMPointerType(0)


def _text(text: str, lowering: FunctionLowering) -> Value:
    """The generic address of a zero-terminated string in global memory."""
    symbol = lowering.string(text)
    emit = lowering.emit

    def make() -> Value:
        address = emit.insert(llvm.AddressOfOp(global_name=symbol, res=llvm.LLVMPointerType(1)))
        return emit.insert(llvm.AddrSpaceCastOp(address, res=_GENERIC))

    return emit.once(("string", text), make)


def _only_where(condition: Value, lowering: FunctionLowering) -> Any:
    """Moves to a block that runs where `condition` holds; returns the block that follows."""
    emit = lowering.emit
    inside, after = lowering.new_block(), lowering.new_block()
    emit.insert(llvm.CondBrOp(condition, [], [], trueDest=inside, falseDest=after))
    emit.block = inside
    return after


def _continue_at(block: Any, lowering: FunctionLowering) -> None:
    lowering.emit.insert(llvm.BrOp([], dest=block))
    lowering.emit.block = block


def lower_assert(op: Any, args: Sequence[Value], lowering: FunctionLowering) -> None:
    """Every thread checks the elements that it holds."""
    emit = lowering.emit
    (condition,) = args
    if isinstance(condition.type, VectorType):
        condition = emit.insert(llvm.INTRINSIC_OPS["vector.reduce.and"](condition))
    failed = emit.insert(llvm.XOrOp(condition, emit.integer(1, i1)))
    after = _only_where(failed, lowering)
    # No file and no line: where the kernel was written is no part of the artifact.
    texts = [_text(t, lowering) for t in (op.message.value, "", lowering.func.sym_name.value)]
    message, file, function = texts
    arguments = (message, file, emit.integer(0), function, emit.integer(1, i64))
    lowering.external_call("__assertfail", arguments, None)
    _continue_at(after, lowering)


def lower_print(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """One thread prints the scalars: integers of at least 32 bits, floats as f64, as C passes them to a variadic."""
    emit = lowering.emit
    if any(isinstance(v.type, TensorType) and v.type.num_elements > 1 for v in op.args):
        raise VerifyError("printing a tile of more than one element is not supported")
    after = _only_where(emit.icmp("eq", emit.thread, emit.integer(0)), lowering)
    values = [_promoted(old, new, lowering) for old, new in zip(op.args, args)]
    buffer = emit.zero(_GENERIC)
    if values:
        size = emit.integer(len(values) * 8)
        space = emit.once(
            ("print buffer", op), lambda: emit.insert(llvm.AllocaOp(size, elem_type=i8, alignment=8, res=_GENERIC))
        )
        offset = 0
        for value in values:
            width = value.type.width // 8
            offset = -(-offset // width) * width
            emit.insert(llvm.StoreOp(value, emit.gep(space, offset), alignment=width))
            offset += width
        buffer = space
    lowering.external_call("vprintf", (_text(op.format.value, lowering), buffer), i32)
    _continue_at(after, lowering)
    return [None]


def _promoted(old: Value, new: Value, lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    value = emit.extract(new, 0) if count_of(new.type) > 1 else new
    type = old.type.element_type if isinstance(old.type, TensorType) else old.type
    if isinstance(element_of(value.type), llvm.LLVMPointerType):
        return emit.insert(llvm.PtrToIntOp(value, res=i64))
    if isinstance(type, FloatType):
        if type is f64:
            return value
        return emit.insert(llvm.FPExtOp(to_f32(type, value, lowering), res=f64))
    if isinstance(value.type, IntegerType) and value.type.width < 32:
        return emit.insert((llvm.ZExtOp if value.type is i1 else llvm.SExtOp)(value, res=i32))
    return value


PATTERNS: dict[type, Any] = {
    tileas.AssertOp: lower_assert,
    tileas.PrintOp: lower_print,
}
