"""Chained dots, as attention's: an operand of one is computed from the result of another; element-wise operations."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.derivations import is_derived
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, Pure, TensorType, Value


def is_chained(op: aa.DotOp) -> bool:
    """Whether the result of one dot becomes an operand of another, and `op` is either: rows then stay in their warp
    between the dots, as do computations on whole rows."""
    return _becomes_factor(op.result) or comes_from_dot(op.a) or comes_from_dot(op.b)


def comes_from_dot(value: Value) -> bool:
    """Whether a tile is the result of a dot, or computed from one, without the passage of a loop or branch."""

    def sources(value: Value) -> Sequence[Value] | None:
        op = value.defining_op
        if isinstance(op, aa.DotOp):
            return None
        return () if op is None or op.regions else [v for v in op.operands if isinstance(v.type, TensorType)]

    return not is_derived((value,), sources)


def _becomes_factor(value: Value) -> bool:
    """Whether a tile, or one computed from it, is A or B of a dot."""

    def results(value: Value) -> Sequence[Value] | None:
        if any(isinstance(user, aa.DotOp) and (value is user.a or value is user.b) for user in value.users):
            return None
        users = [user for user in value.users if not isinstance(user, aa.DotOp) and not user.regions]
        return [each for user in users for each in user.results if isinstance(each.type, TensorType)]

    return not is_derived((value,), results)


def is_element_wise(op: Operation | None) -> bool:
    """Whether an operation computes each element of its tiles from those at the same place."""
    if op is None or op.regions or not op.has_trait(Pure) or isinstance(op, _MOVES) or not op.results:
        return False
    shapes = {value.type.shape for value in (*op.operands, *op.results) if isinstance(value.type, TensorType)}
    return len(shapes) == 1 and all(isinstance(value.type, TensorType) for value in op.results)


_MOVES = (
    aa.DotOp, aa.BlockScaledMmaOp, aa.ViewOp, aa.PermuteOp, aa.BroadcastOp, aa.SplatOp, aa.MakeRangeOp, aa.CatOp,
    aa.ExtractSliceOp, aa.InsertSliceOp,
)  # fmt: skip
