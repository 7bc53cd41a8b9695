"""Elementary functions: in f64 correctly rounded, in f32 computed in f64 and rounded once, in half precision through
f32.

The specification bounds the error of these functions only through the CUDA Math API's table; the interpreter returns
the nearest result, so that a comparison tests only the error of the compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tileiras.ir import IntegerType

from .arith import flushes
from .functions import PLAIN, evaluate
from .machine import meaning
from .rounding import flush, round_to
from .values import signed

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine


def _apply(
    machine: Machine, op: cuda_tile.TileOp, function: Callable[..., np.ndarray], *, half_through_f32: bool = True
):
    keyword = op.results[0].type.element_type.keyword
    types = [operand.type.element_type for operand in op.operands]
    operands = [
        signed(value, type.width) if isinstance(type, IntegerType) else value
        for value, type in zip(machine.operands(op), types)
    ]
    if flushes(op):
        operands = [flush(operand) for operand in operands]
    result = np.asarray(function(*(np.asarray(v).astype(np.float64) for v in operands)))
    if keyword in ("f16", "bf16") and half_through_f32:
        result = round_to(result, "f32").astype(np.float64)
    result = round_to(result, keyword)
    return flush(result) if flushes(op) else result


def _elementwise(mnemonic: str, name: str) -> None:
    @meaning(mnemonic, elementwise=True)
    def apply(machine: Machine, op: cuda_tile.FloatUnary):
        is_f64 = op.results[0].type.element_type.keyword == "f64"
        return _apply(machine, op, partial(evaluate, name) if is_f64 else PLAIN[name])


for _name in PLAIN:
    _elementwise(_name, _name)
_elementwise("fpowf", "pow")  # texts before 13.4 call it pow
_elementwise("fpowi", "pow")  # the exponent is signed


def _exact(mnemonic: str, function: Callable[..., np.ndarray]) -> None:
    @meaning(mnemonic, elementwise=True)
    def apply(machine: Machine, op: cuda_tile.CeilOp | cuda_tile.FloorOp | cuda_tile.RemFOp):
        return _apply(machine, op, function, half_through_f32=False)


for _mnemonic, _function in {"ceil": np.ceil, "floor": np.floor, "remf": np.fmod}.items():
    _exact(_mnemonic, _function)
