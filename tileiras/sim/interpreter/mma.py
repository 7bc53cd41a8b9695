"""Matrix multiply-accumulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .machine import attribute, meaning
from .rounding import round_to
from .values import signed, undefine, unsigned

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import Value

    from .machine import Machine


def tf32(values: np.ndarray) -> np.ndarray:
    """f32 numbers as a tensor core reads tf32: the lower 13 bits are ignored (PTX ISA, alternate floating point)."""
    return (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _operand(machine: Machine, value: Value) -> np.ndarray:
    tile = machine[value]
    if getattr(value.type.element_type, "keyword", "") == "tf32":
        tile = tf32(tile)
    return tile.astype(np.float64)


def _accumulate(lhs: np.ndarray, rhs: np.ndarray, acc: np.ndarray, keyword: str) -> np.ndarray:
    """The sum is computed in f64 and rounded once: the specification fixes neither order nor intermediate precision."""
    return round_to(np.matmul(lhs, rhs) + acc.astype(np.float64), keyword)


@meaning("mmaf")
def mmaf(machine: Machine, op: cuda_tile.MmaFOp):
    lhs, rhs, acc = op.operands
    keyword = acc.type.element_type.keyword
    return _accumulate(_operand(machine, lhs), _operand(machine, rhs), machine[acc], keyword)


@meaning("mmaf_scaled")
def mmaf_scaled(machine: Machine, op: cuda_tile.MmaFScaledOp):
    """Elements with a negative scale are undefined: matrix instructions read f8E4M3FN scales as `.ue4m3`, an unsigned
    type (PTX ISA, `.stype` of mma with `.block_scale`), and targets without such instructions multiply by the signed
    number."""
    lhs, rhs, acc, lhs_scale, rhs_scale = (machine[value] for value in op.operands)
    left, right = lhs.astype(np.float64), rhs.astype(np.float64)
    left = left * np.repeat(lhs_scale.astype(np.float64), lhs.shape[-1] // lhs_scale.shape[-1], axis=-1)
    right = right * np.repeat(rhs_scale.astype(np.float64), rhs.shape[-2] // rhs_scale.shape[-2], axis=-2)
    result = _accumulate(left, right, acc, op.operands[2].type.element_type.keyword)
    negative = [scale.astype(np.float64) < 0 for scale in (lhs_scale, rhs_scale)]
    if not any(each.any() for each in negative):
        return result
    rows, columns = negative[0].any(-1)[..., :, None], negative[1].any(-2)[..., None, :]
    return undefine(result, rows | columns, op.operands[2].type.element_type)


@meaning("mmai")
def mmai(machine: Machine, op: cuda_tile.MmaIOp):
    """Sums that may exceed 32 bits in some order of their terms are undefined.

    The specification does not define them; the vendor's code wraps in multiply-adds, and saturates after each matrix
    instruction, over its number of steps of K. If computed results are kept, these saturate at the end.
    """
    lhs, rhs, acc = op.operands
    sides = []
    for value, name in ((lhs, "signedness_lhs"), (rhs, "signedness_rhs")):
        convert = signed if attribute(op, name, "signed") == "signed" else unsigned
        sides.append(convert(machine[value], value.type.element_type.width).astype(np.int64))
    first = machine[acc].astype(np.int64)
    total, absolute = np.matmul(*sides), np.matmul(*map(np.abs, sides))
    limits = np.iinfo(np.int32)
    leaves = (first + (absolute + total) // 2 > limits.max) | (first - (absolute - total) // 2 < limits.min)
    saturated = np.clip(first + total, limits.min, limits.max).astype(np.int32)
    return undefine(saturated, leaves, acc.type.element_type)
