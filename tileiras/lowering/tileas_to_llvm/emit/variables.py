"""Variables of the source: lowers the operations that bind them to values, for the fragment of one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras import dialects
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.debuginfo import DILocalVariableAttr, DIPointerTypeAttr, DIUnspecifiedTypeAttr, ValueOp
from tileiras.ir import i32

if TYPE_CHECKING:
    from tileiras.dialects import debuginfo

    from .function import FunctionLowering


def lower_variable(op: debuginfo.AddrOp | ValueOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """Nothing where variables are not asked for.  A token or view, which no thread holds, leaves a placeholder."""
    if not lowering.variables:
        return
    (value,) = args
    (operand,) = op.operands
    variable = op.variable
    type = variable.type
    if value is None:
        lowering.engine.warning(op.location, f"no debug information for values of type '{operand.type}'")
        value = lowering.emit.poison(i32)
        type = DIUnspecifiedTypeAttr(str(operand.type))
    elif type is None and isinstance(operand.type, aa.PtrType):
        pointee = dialects.debuginfo.value_types.debug_type(operand.type.pointee)
        if pointee is not None:
            type = DIPointerTypeAttr(pointee) if isinstance(op, ValueOp) else pointee
    if type is not variable.type:
        variable = DILocalVariableAttr(variable.variable_name, variable.scope, variable.line, variable.arg, type)
    lowering.emit.insert(op.__class__(value, variable=variable, expression=op.expression))
