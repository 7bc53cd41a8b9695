"""`convert-debuginfo-to-llvm`: variables of the source to LLVM's debug records.

    debuginfo.value %x, #x : i32     ->   %pin = nvvm.move %x : i32
                                          llvm.intr.dbg.value #x = %pin : i32
                                          llvm.intr.fake.use %pin : i32

The pin is a copy that LLVM neither propagates through nor, having a use, removes: the record's register holds only the
variable.  Integers and floats of 16 (as integers), 32 and 64 bits and all pointers are copied as they are; narrower
values in 16 bits, wider integers in several words.  Vectors, arrays and structs are copied leaf by leaf, each as the
fragment of the variable that it fills.  The only added instructions are pins and the extraction of leaves.

A variable without a type gets the type of its value (`dialects/debuginfo/value_types.py`).

A value of a type that no debugger can show is an error, as documented.  A variable of a function other than that of its
value is shown there, with a warning; if the function has no scope, the operation is removed with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.diagnostics import Diagnostic
from tileiras.dialects import debuginfo, llvm, nvvm
from tileiras.dialects.cuda_tile.debug_info import subprogram_of
from tileiras.dialects.debuginfo import (
    DIExpressionAttr,
    DILocalVariableAttr,
    DIStructTypeAttr,
)
from tileiras.dialects.debuginfo.value_types import BYTE, debug_type
from tileiras.ir import (
    Attribute,
    DenseArrayAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    Operation,
    Pass,
    Type,
    UnitAttr,
    Value,
    VectorType,
    i16,
    i32,
    i64,
)
from tileiras.ir.pass_manager import PassContext


class ConvertDebugInfoToLLVM(Pass):
    name = "convert-debuginfo-to-llvm"
    needs = "`llvm` with `debuginfo.value`"
    establishes = "debug records of LLVM; no `debuginfo`"
    keeps = "the executed code, except copies of watched values"

    def run(self, op: Operation, context: PassContext) -> None:
        for function in [item for item in op.walk() if isinstance(item, llvm.LLVMFuncOp)]:
            types: dict[Any, Any] = {}
            for inner in [result for result in function.walk() if result.dialect == "debuginfo"]:
                _convert(inner, function, types, context)
                inner.erase()


def _convert(
    op: debuginfo.AddrOp | debuginfo.DeclareOp | debuginfo.ValueOp,
    function: Operation,
    types: dict[Any, Any],
    context: PassContext,
) -> None:
    """`types` maps the variables of the function to their types: a variable keeps the type of its first value."""
    variable = _resolve(op.variable, op, function, context)
    if variable is None:
        return
    if isinstance(op, debuginfo.DeclareOp):
        _before(op, llvm.DbgDeclareOp(op.address, var_info=_typed(variable, BYTE, types), expression=op.expression))
    elif isinstance(op, debuginfo.AddrOp):
        pin = _pin(op.address, op)
        record = llvm.DbgValueOp(
            pin, var_info=_typed(variable, BYTE, types), expression=_program(op), fragment=_fragment(op),
            deref=UnitAttr(),
        )  # fmt: skip
        _before(op, record)
        _keep(pin, op)
    else:
        result = debug_type(op.value.type)
        if result is None:
            note = Diagnostic.note(op.location, f"of the variable '{variable.variable_name}'")
            context.engine.error(op.location, f"unsupported debug type '{op.value.type}'", [note])
            return
        _value(op, _typed(variable, result, types), result, context)


def _resolve(variable: DILocalVariableAttr, op: Operation, function: Operation, context: PassContext) -> Any:
    """The variable with a scope inside the function; None if the function lacks one."""
    own = subprogram_of(function.location)
    name = variable.variable_name
    if own is None:
        context.engine.warning(op.location, f"no debug information for '{name}': its function has no debug scope")
        return None
    scope = variable.scope
    while scope is not own and scope.name == "cuda_tile.di_lexical_block":
        scope = scope.scope
    if scope is own:
        return variable
    context.engine.warning(
        op.location, f"'{name}' is a variable of '{scope.subprogram_name}'; it is shown in '{own.subprogram_name}'"
    )
    return DILocalVariableAttr(name, own, variable.line, variable.arg, variable.type)


def _typed(variable: DILocalVariableAttr, type: Attribute, types: dict[Any, Any]) -> Any:
    if variable.type is not None:
        return variable
    typed = DILocalVariableAttr(variable.variable_name, variable.scope, variable.line, variable.arg, type)
    return types.setdefault(variable, typed)


def _value(
    op: debuginfo.ValueOp, variable: DILocalVariableAttr, of_value: debuginfo.DebugTypeAttr, context: PassContext
) -> None:
    part = _fragment(op)
    start = part.elements[0] if part is not None else 0
    # A debugger reads as many bits of a register as the variable's type has.
    single = _in_one_register(op.value.type)
    whole = of_value.size if single else variable.type.size
    if not single and start + of_value.size > whole:
        context.engine.warning(
            op.location,
            f"no debug information for '{variable.variable_name}': its type has {whole} bits, its value "
            f"{of_value.size}",
        )
        return
    for offset, size, leaf in list(_leaves(op.value, of_value, start, op)):
        pin = _pin(leaf, op)
        # LLVM drops the debug information of a module with a fragment that is all of its variable.
        fragment = DenseArrayAttr(i64, (offset, size)) if size < whole else part
        _before(op, llvm.DbgValueOp(pin, var_info=variable, expression=_program(op), fragment=fragment))
        _keep(pin, op)


def _program(op: debuginfo.AddrOp | debuginfo.ValueOp) -> DIExpressionAttr | None:
    """An operation's expression without the part of the variable that it names."""
    program = op.expression.program if op.expression is not None else ()
    return DIExpressionAttr(program) if program else None


def _fragment(op: debuginfo.AddrOp | debuginfo.ValueOp) -> DenseArrayAttr | None:
    """The part of the variable that an operation's expression names."""
    fragment = op.expression.fragment if op.expression is not None else None
    return DenseArrayAttr(i64, fragment) if fragment is not None else None


def _leaves(
    value: Value, type: debuginfo.DebugTypeAttr, offset: int, op: Operation
) -> Iterator[tuple[int, int, Value]]:
    """The leaves of a value of a debug type, extracted from it: (offset in bits, size, a value for one register)."""
    kind: Any = value.type
    if isinstance(kind, VectorType):
        for number in range(kind.shape[0]):
            position = _before(op, llvm.ConstantOp(IntegerAttr(number, i32), i32)).results[0]
            element = _before(op, llvm.ExtractElementOp(value, position)).results[0]
            yield from _leaves(element, type.element, offset + type.offset(number), op)
    elif isinstance(kind, (llvm.LLVMArrayType, llvm.LLVMStructType)):
        for number in range(kind.count if isinstance(kind, llvm.LLVMArrayType) else len(kind.elements)):
            member = llvm.ExtractValueOp(value, position=DenseArrayAttr(i64, (number,)))
            inner = type.members[number] if isinstance(type, DIStructTypeAttr) else type.element
            yield from _leaves(_before(op, member).results[0], inner, offset + type.offset(number), op)
    elif isinstance(kind, IntegerType) and kind.width > WORD:
        # Several registers: the low bits first.
        for start in range(0, kind.width, WORD):
            bits = value
            if start:
                distance = _before(op, llvm.ConstantOp(IntegerAttr(start, kind), kind)).results[0]
                bits = _before(op, llvm.LShrOp(value, distance)).results[0]
            part = min(WORD, kind.width - start)
            yield offset + start, part, _before(op, llvm.TruncOp(bits, res=IntegerType(part))).results[0]
    else:
        yield offset, type.size, value


WORD = 64
"""Bits of the widest register that a pin can copy."""


def _in_one_register(type: Type) -> bool:
    whole = (VectorType, llvm.LLVMArrayType, llvm.LLVMStructType)
    return not isinstance(type, whole) and not (isinstance(type, IntegerType) and type.width > WORD)


def _pin(value: Value, op: Operation) -> Value:
    """A copy of the value that is the variable's, with the bits of the register that the value is in."""
    type: Any = value.type
    if isinstance(type, FloatType) and not nvvm.MoveOp.has(type):
        value = _before(op, llvm.BitcastOp(value, res=IntegerType(type.width))).results[0]
        type = value.type
    if isinstance(type, IntegerType) and not nvvm.MoveOp.has(type):
        # Predicates and bytes are shown in a register of 16 bits, other widths in the next wider register.
        wider = next(integer for integer in (i16, i32, i64) if integer.width > type.width)
        value = _before(op, llvm.ZExtOp(value, res=wider)).results[0]
    return _before(op, nvvm.MoveOp(value)).results[0]


def _keep(pin: Value, op: Operation) -> None:
    _before(op, llvm.FakeUseOp(pin))


def _before(op: Operation, new: llvm.LLVMOp) -> Any:
    new.location = op.location
    op.parent.insert_before(new, op)  # type: ignore[union-attr]
    return new
