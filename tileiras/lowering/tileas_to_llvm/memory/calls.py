"""Calls of functions that a library of device code defines.  Pointers are passed as generic addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import llvm
from tileiras.ir import UnitAttr, Value

from ..emit.function import FunctionLowering
from ..emit.types import scalar_type
from .debug import GENERIC

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileas as tileas


def extern_elementwise(op: tileas.ExternElementwiseOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    def call(*scalars: Value) -> Any:
        return _call(op.callee.root, scalars, op.result.type, lowering, no_memory=UnitAttr())

    return lowering.emit.map_scalars(call, *lowering.matched(args))


def extern_call(op: tileas.ExternCallOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    type = None if op.value is None else op.value.type
    value = _call(op.callee.root, args[1:], type, lowering, convergent=UnitAttr())
    return [None] if type is None else [None, value]


def _call(name: str, scalars: Sequence[Value], type: Any, lowering: FunctionLowering, **attributes: Any) -> Any:
    """A call, whose result has the elements of `type`; None without a result."""
    emit = lowering.emit
    arguments = [
        emit.insert(llvm.AddrSpaceCastOp(each, res=GENERIC))
        if isinstance(each.type, llvm.LLVMPointerType) and each.type is not GENERIC else each
        for each in scalars
    ]  # fmt: skip
    if type is None:
        lowering.external_call(name, arguments, None, **attributes)
        return None
    result = scalar_type(getattr(type, "element_type", type))
    if not isinstance(result, llvm.LLVMPointerType) or result is GENERIC:
        return lowering.external_call(name, arguments, result, **attributes)
    return emit.insert(llvm.AddrSpaceCastOp(lowering.external_call(name, arguments, GENERIC, **attributes), res=result))
