"""The scf dialect: structured control flow with values carried through regions.

`for` counts with an integer; `while` runs its "before" region until `condition` says no; `if` chooses a region.
Syntax is MLIR's.
"""

from .ops import ConditionOp, ForOp, IfOp, WhileOp, YieldOp, loops_around

__all__ = ["ConditionOp", "ForOp", "IfOp", "WhileOp", "YieldOp", "loops_around"]
