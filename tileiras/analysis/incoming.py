"""Where the values that structured control flow passes to blocks and results come from."""

from __future__ import annotations

from typing import Any

from tileiras.dialects import scf
from tileiras.ir import BlockArgument, Value
from tileiras.named_tuple import NamedTuple


class Incoming(NamedTuple):
    """A value that another one may be; `around`: of an iteration before, or of whichever was a loop's last."""

    value: Value
    around: bool = False


def incoming(value: Value) -> list[Incoming] | None:
    """What a result of a loop or branch of scf, or an argument inside of a loop, may be; None for any other value.

    Not for the induction variable of a loop, which no operation yields.
    """
    is_argument = isinstance(value, BlockArgument)
    op: Any = value.block.parent_op if is_argument else value.defining_op  # type: ignore[attr-defined]
    number: int = value.index  # type: ignore[attr-defined]
    if isinstance(op, scf.ForOp):
        number -= is_argument  # the first argument is the counter
        return [Incoming(op.init_args[number]), Incoming(op.yield_op.operands[number], True)]
    if isinstance(op, scf.IfOp):
        return [Incoming(region.block.last.operands[number]) for region in op.regions]  # type: ignore[union-attr]
    if isinstance(op, scf.WhileOp):
        if is_argument and value.block is op.before.block:  # type: ignore[attr-defined]
            return [Incoming(op.inits[number]), Incoming(op.after.block.last.operands[number], True)]
        # The operands of the condition: to the second part of the same iteration, or out of the loop from the last one.
        return [Incoming(op.before.block.last.args[number], not is_argument)]
    return None
