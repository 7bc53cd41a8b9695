"""nvvm operations to calls of intrinsics or inline assembly; element-wise ones on vectors to one call per element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects.llvm.types import element_type, llvm_text
from tileiras.dialects.nvvm.base import Assembly, NVVMOp
from tileiras.dialects.nvvm.intrinsics import Intrinsic
from tileiras.ir import Type, VectorType, VerifyError
from tileiras.targets.requirements import admits, spell

from .literals import assembly_text

if TYPE_CHECKING:
    from .function import FunctionTranslation

_POINTERS = {"p1": "ptr addrspace(1)", "p3": "ptr addrspace(3)"}
_THREAD_NUMBERS = {f"read.ptx.sreg.tid.{axis}": number for number, axis in enumerate("xyz")}


def write(fn: FunctionTranslation, op: NVVMOp) -> str:
    """The call; raises VerifyError when the module's chip does not have the instruction."""
    target = op.target()
    chip = fn.module.chip
    if chip is not None and not admits(target.sm, chip):
        raise VerifyError(f"needs {spell(target.sm)}, not {chip}")
    if isinstance(target, Assembly):
        fn.module.require(target.ptx, f"'{op.name}'", target.sm)
    values = op.call_operands()
    result = op.results[0].type if op.results else None
    if not (op.elementwise and isinstance(result, VectorType)):
        names = [v if isinstance(v, str) else fn.name(v) for v in values]
        return _call(fn, target, result, names, [v if isinstance(v, str) else v.type for v in values])
    element = element_type(result)
    whole = "poison"
    count = result.shape[0]
    for index in range(count):
        parts = [fn.emit(f"extractelement {fn.typed(v)}, i32 {index}") for v in values]
        part = fn.emit(_call(fn, target, element, parts, [element_type(v.type) for v in values]))
        text = f"insertelement {llvm_text(result)} {whole}, {llvm_text(element)} {part}, i32 {index}"
        if index + 1 == count:
            return text
        whole = fn.emit(text)
    raise VerifyError("has a result without elements")


def _call(
    fn: FunctionTranslation, target: Intrinsic | Assembly, result: Type | None, names: list[str], types: list[Any]
) -> str:
    result_text = llvm_text(result) if result is not None else "void"
    if isinstance(target, Assembly):
        arguments = ", ".join(f"{llvm_text(t)} {n}" for n, t in zip(names, types))
        return assembly_text(target.text, target.constraints, target.side_effects, result_text, arguments)
    operand_types = [_POINTERS.get(t, t) for t in target.operands]
    fn.module.declare("llvm.nvvm." + target.name, result_text, operand_types)
    arguments = ", ".join(f"{t} {n}" for n, t in zip(names, operand_types))
    # LLVM takes mma for a pure function of a thread's operands and would move one into a branch that only some lanes
    # of the warp take (PTX ISA, mma: all of them must execute it).
    convergent = " convergent" if target.effects == "convergent" else ""
    return f"call {_range(fn, target)}{result_text} @llvm.nvvm.{target.name}({arguments}){convergent}"


def _range(fn: FunctionTranslation, target: Intrinsic) -> str:
    """Between which numbers the thread's is, where the block's size is known."""
    axis = _THREAD_NUMBERS.get(target.name)
    size: Any = fn.op.attributes.get("nvvm.reqntid") if axis is not None else None
    if size is None:
        return ""
    elements = size.elements
    return f"range(i32 0, {elements[axis] if axis < len(elements) else 1}) "
