"""Elementary functions: computed in f64 and rounded once, through f32 for the half-precision types.

The specification bounds the error of these functions only through the CUDA Math API's table; the interpreter gives the
nearest result it can, so that a comparison tests the compiled code's error alone.
"""

from __future__ import annotations

import numpy as np

from .arith import _ftz
from .machine import meaning
from .rounding import flush, round_to


def _apply(machine, op, function, *, half_through_f32: bool = True):
    keyword = op.results[0].type.element_type.keyword
    operands = machine.operands(op)
    if _ftz(op):
        operands = [flush(operand) for operand in operands]
    result = np.asarray(function(*(np.asarray(v).astype(np.float64) for v in operands)))
    if keyword in ("f16", "bf16") and half_through_f32:
        result = round_to(result, "f32").astype(np.float64)
    result = round_to(result, keyword)
    return flush(result) if _ftz(op) else result


def _elementwise(mnemonic: str, function) -> None:
    @meaning(mnemonic, elementwise=True)
    def apply(machine, op):
        return _apply(machine, op, function)


for _mnemonic, _function in {
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
    "pow": np.power,
    "fpowf": np.power,
    "atan2": np.arctan2,
}.items():
    _elementwise(_mnemonic, _function)


def _exact(mnemonic: str, function) -> None:
    @meaning(mnemonic, elementwise=True)
    def apply(machine, op):
        return _apply(machine, op, function, half_through_f32=False)


for _mnemonic, _function in {"ceil": np.ceil, "floor": np.floor, "remf": np.fmod}.items():
    _exact(_mnemonic, _function)


@meaning("fpowi", elementwise=True)
def fpowi(machine, op):
    """A float to an integer power; the exponent is signed."""
    return _apply(machine, op, np.power)
