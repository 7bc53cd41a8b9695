"""Sources of the values that structured control flow passes to blocks and results."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import scf
from tileiras.ir import Value
from tileiras.support.named_tuple import NamedTuple


class Incoming(NamedTuple):
    """A value that another one may be equal to; `around`: its value in the previous or in the last iteration."""

    value: Value
    around: bool = False


def incoming(value: Value) -> list[Incoming] | None:
    """The possible sources of a result of a loop or branch of scf, or of an argument in a loop; None for other values,
    among them the induction variable of a loop, which no operation yields.
    """
    op: Any = value.defining_op
    if op is not None and not op._regions:
        return None
    is_argument = op is None
    if is_argument:
        op = value.block.parent_op  # type: ignore[attr-defined]
    number: int = value.index  # type: ignore[attr-defined]
    if isinstance(op, scf.ForOp):
        if is_argument and value is op.induction_variable:
            return None
        number -= is_argument
        return [Incoming(op.init_args[number]), Incoming(op.yield_op.operands[number], True)]
    if isinstance(op, scf.IfOp):
        return [Incoming(region.block.last.operands[number]) for region in op.regions]  # type: ignore[union-attr]
    if isinstance(op, scf.WhileOp):
        if is_argument and value.block is op.before.block:  # type: ignore[attr-defined]
            return [Incoming(op.inits[number]), Incoming(op.after.block.last.operands[number], True)]
        # Operands of the condition go to the second part of the same iteration, or in the last one out of the loop.
        return [Incoming(op.before.block.last.args[number], not is_argument)]
    return None
