"""Mathematical functions of floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.dialects import math, nv_tileaa
from tileiras.ir import Operation, UnitAttr

from .arithmetic import rounded
from .rules import Rule, Table, flag, same

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter


def _function(target: type[Operation]) -> Rule:
    """Carry flushing over, and rounding `approx` as the permission to approximate."""

    def rule(op: cuda_tile.FloatUnary, args: tuple, rewriter: ConversionRewriter) -> Any:
        mode = getattr(op, "rounding_mode", None)
        attributes = {
            "flush_to_zero": flag(op, "flush_to_zero"),
            "approx": UnitAttr() if mode is not None and mode.value == "approx" else None,
        }
        return rewriter.insert(target(*args, **{key: value for key, value in attributes.items() if value is not None}))

    return rule


def patterns() -> Table:
    return {
        "atan2": same(math.Atan2Op),
        "ceil": _function(math.CeilOp),
        "cos": _function(math.CosOp),
        "cosh": _function(math.CoshOp),
        "exp": _function(math.ExpOp),
        "exp2": _function(math.Exp2Op),
        "floor": _function(math.FloorOp),
        "fpowf": same(math.PowFOp),
        "fpowi": same(math.FPowIOp),
        "log": _function(math.LogOp),
        "log2": _function(math.Log2Op),
        "pow": same(math.PowFOp),
        "rsqrt": _function(math.RsqrtOp),
        "sin": _function(math.SinOp),
        "sinh": _function(math.SinhOp),
        "sqrt": rounded(nv_tileaa.SqrtOp),
        "tan": _function(math.TanOp),
        "tanh": _function(math.TanhOp),
    }
