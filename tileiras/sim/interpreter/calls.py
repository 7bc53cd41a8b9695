"""Calls of functions of the user's own, which are given as functions of NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .machine import Undefined, meaning
from .values import TOKEN, dtype_of

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine


@meaning("preview$call")
def preview_call(machine: Machine, op: cuda_tile.PreviewCallOp) -> tuple:
    function = machine.functions.get(op.callee.root)
    if function is None:
        raise Undefined(f"calls '@{op.callee.root}', which is not among the functions of the interpreter")
    operands = [value for value in op.operands if value.type.name != "cuda_tile.token"]
    results = [result.type for result in op.results if result.type.name != "cuda_tile.token"]
    if len(operands) < len(op.operands):
        operands = operands[: len(operands) - len(results)]  # the last ones are destinations of the results
    value = function(*(machine[operand] for operand in operands))
    values = iter([np.asarray(value, dtype_of(type.element_type)).reshape(type.shape) for type in results])
    return tuple(TOKEN if result.type.name == "cuda_tile.token" else next(values) for result in op.results)
