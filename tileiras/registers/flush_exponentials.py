"""Exponentials of a softmax flush subnormal results where the program cannot tell.

    %n = maxnumf %m, max of %x               m: the running maximum, l: the running sum of a row
    %p = exp2 (%x - %n)                  ->  %p = exp2 (%x - %n) {flush_to_zero}
    %l_1 = %l * exp2 (%m - %n) + sum of %p
    %a = fp_to_fp %p : f32 to f16

The machine's exponential flushes a subnormal result to zero; to keep it, ptxas scales the argument and the result under
a condition, three instructions for each element.  They are not needed for a result that is only

- converted to a type without numbers that small: both zero and the subnormal number become zero, and
- added to a sum that is at least 1, in which the sum of numbers below 2^-126 is lost in rounding.

The sum is at least 1 once the running maximum is the maximum of some %x, whose exponential is 1: from then on either
%n is the maximum of %x again, or %n is %m, and %l is kept whole.  Before, each %x is below the initial %m; this is
-inf, or so far from zero that the difference of two numbers there is zero or below -150, where the exponential is zero
in any case.

bf16 has numbers that small, and a dot multiplies them by factors of up to 2^127: a probability of 2^-127 may add 1 to
an output whose other terms are zero, and no bound of the factors is known.  Such exponentials flush only where the
program allows it (`flush_to_zero`), as the front end's samples do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tileiras.analysis.derivations import uses_through
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.arith.ops import splat_elements
from tileiras.ir import DenseElementsAttr, Operation, TensorType, UnitAttr, Value, element_type_of, f32
from tileiras.ir.types import FLOAT_SEMANTICS
from tileiras.support.named_tuple import NamedTuple

from .mask_bounds import Spread

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

_EXPONENTIAL = "math.exp2"
_MAXIMA = (arith.MaxNumFOp, arith.MaximumFOp)
_LEAST_NORMAL = -126
"""Exponent of the smallest normal f32."""
_FAR_BELOW = -(2.0**31)
"""Distances between neighbours of f32 below this are at least 256."""


class FlushExponentials(FunctionPass):
    name = "tileas-flush-exponentials"
    optional = True
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "`flush_to_zero` of exponentials whose subnormal results no other operation can tell from zero"
    keeps = "operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        flush_exponentials(func)


def flush_exponentials(func: aa.FuncOp) -> None:
    """Mark exponentials of a function of nv_tileaa, in place."""
    for op in func.walk():
        if op.name == _EXPONENTIAL and _is_tile(op.results[0]) and not op.attributes:
            difference = _difference(op.operands[0])
            if difference is not None and _absorbs(op.results[0], difference):
                op.attributes["flush_to_zero"] = UnitAttr()


class _Difference(NamedTuple):
    """`x - of_row`, of each element of a tile; `factors` are those of x, where it is a product."""

    x: Value | None
    factors: tuple[Spread, ...]
    of_row: Spread


def _is_tile(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.element_type is f32 and value.type.rank > 0


def _spread(value: Value) -> Spread:
    """A tile, or the smaller value that it repeats; a scalar, as the maximum of a tile of rank 1, is its own."""
    rank = value.type.rank if isinstance(value.type, TensorType) else 0
    return Spread(value, tuple(range(rank))).source()


def _factors(value: Value) -> tuple[Spread, ...]:
    op: Any = value.defining_op
    return (_spread(op.lhs), _spread(op.rhs)) if isinstance(op, aa.MulFOp) else ()


def _difference(value: Value) -> _Difference | None:
    op: Any = value.defining_op
    if isinstance(op, aa.SubFOp):
        return _Difference(op.lhs, _factors(op.lhs), _spread(op.rhs))
    if isinstance(op, aa.FmaOp) and isinstance(negated := op.acc.defining_op, arith.NegFOp):
        return _Difference(None, (_spread(op.lhs), _spread(op.rhs)), _spread(negated.operand))
    return None


# ---- uses of the exponential -----------------------------------------------------------------------------------------


def _absorbs(value: Value, difference: _Difference) -> bool:
    """Whether no use of an exponential tells a subnormal number from zero."""
    return bool(value.users) and all(
        _has_no_subnormals_of_f32(user)
        or isinstance(user, (aa.ViewOp, aa.PermuteOp)) and all(map(_has_no_subnormals_of_f32, user.results[0].users))
        or isinstance(user, aa.ReduceOp) and _is_at_least_one(user, difference)
        for user in value.users
    )


def _has_no_subnormals_of_f32(op: Operation) -> bool:
    """Whether it rounds every number below the normal ones of f32 to zero."""
    if not isinstance(op, aa.FpToFpOp) or op.rounding_mode.value not in ("nearest_even", "zero"):
        return False
    format = FLOAT_SEMANTICS[op.result.type.element_type.keyword]
    least = 1 - format.bias - format.mantissa_bits
    return format.has_zero and least - 1 >= _LEAST_NORMAL


def _combines(op: Operation | None, kinds: tuple[type[Operation], ...]) -> bool:
    """Whether an operation reduces one tile by an operation of these kinds."""
    if not isinstance(op, aa.ReduceOp) or len(op.inputs) != 1:
        return False
    block = op.body.block
    combined = block.last.operands[0].defining_op
    return isinstance(combined, kinds) and set(combined.operands) == set(block.arguments)


def _is_at_least_one(total: aa.ReduceOp, difference: _Difference) -> bool:
    """Whether the sum of an exponential over a row is at least 1, or is only added to such a sum."""
    if not _combines(total, (aa.AddFOp,)):
        return False
    if _is_maximum(difference.of_row.value, difference, total.dim.value):
        return True
    highest: Any = difference.of_row.value.defining_op
    if not isinstance(highest, _MAXIMA):
        return False
    for before, candidate in ((highest.lhs, highest.rhs), (highest.rhs, highest.lhs)):
        if _is_maximum(candidate, difference, total.dim.value) and _starts_far_below(before, highest):
            return all(_continues(user, value, before, highest) for user, value in _uses_of_rows(total.results[0]))
    return False


def _is_maximum(value: Value, difference: _Difference, dim: int) -> bool:
    """Whether a value is the maximum along a dimension of the tile whose difference with it is taken, or that of one
    factor times the other one: then it is an element of the product in either case."""
    result = _spread(value).value
    reduced: Any = result.defining_op
    if _combines(reduced, _MAXIMA):
        of, along = reduced.inputs[0], reduced.dim.value
        return along == dim and (of is difference.x or _is_product(_factors(of), difference.factors))
    if not isinstance(reduced, aa.MulFOp):
        return False
    for lhs, rhs in ((reduced.lhs, reduced.rhs), (reduced.rhs, reduced.lhs)):
        inner: Any = _spread(lhs).value.defining_op
        if _combines(inner, _MAXIMA) and inner.dim.value == dim:
            scale, tile = _spread(rhs), inner.inputs[0]
            is_one = not scale.along or _splat(scale.value) is not None
            return is_one and _is_product((_spread(tile), scale), difference.factors)
    return False


def _is_product(factors: tuple[Spread, ...], others: tuple[Spread, ...]) -> bool:
    """Whether two products have the same factors."""
    if len(factors) != 2 or len(others) != 2:
        return False
    return any(_is_same(factors[0], one) and _is_same(factors[1], other) for one, other in (others, others[::-1]))


def _is_same(one: Spread, other: Spread) -> bool:
    """Whether two factors are equal: one value, or one constant for all elements."""
    constant = _splat(one.value)
    return one.is_same(other) or constant is not None and constant == _splat(other.value)


def _splat(value: Value) -> float | None:
    """The number that is each element of a constant of f32."""
    op: Any = value.defining_op
    if not isinstance(op, arith.ConstantOp) or element_type_of(value.type) is not f32:
        return None
    elements = op.value
    if not isinstance(elements, DenseElementsAttr):
        elements = splat_elements(elements, TensorType((1,), f32))
    return struct.unpack("<f", elements.data[:4])[0] if elements.is_splat else None


# ---- running sums ----------------------------------------------------------------------------------------------------


def _uses_of_rows(value: Value) -> Iterator[tuple[Operation, Value]]:
    """The uses of a value, and of the values that only reshape it."""
    return uses_through(value, lambda user: isinstance(user, aa.ViewOp))


def _carried(value: Value, result: Value) -> scf.ForOp | None:
    """The loop that carries a value, and whose iteration ends with `result` as the next one."""
    loop = result.parent_block.parent_op if result.parent_block is not None else None
    if not isinstance(loop, scf.ForOp) or value not in loop.iter_args:
        return None
    return loop if loop.yield_op.operands[loop.iter_args.index(value)] is result else None


def _starts_far_below(before: Value, highest: Operation) -> bool:
    """Whether a running maximum begins with -inf, or with a number whose neighbours are far from it."""
    loop = _carried(before, highest.results[0])
    if loop is None:
        return False
    start = _splat(_spread(loop.init_args[loop.iter_args.index(before)]).value)
    return start is not None and start <= _FAR_BELOW


def _continues(user: Operation, total: Value, before: Value, highest: Operation) -> bool:
    """Whether an operation adds a sum to a running sum that is rescaled from the old maximum to the new one."""
    product: Any
    if isinstance(user, aa.FmaOp) and user.acc is total:
        product = user
    elif isinstance(user, aa.AddFOp):
        product = (user.rhs if user.lhs is total else user.lhs).defining_op
    else:
        return False
    if not isinstance(product, (aa.FmaOp, aa.MulFOp)):
        return False
    for old, factor in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
        scale: Any = factor.defining_op
        if _carried(old, user.results[0]) is None or scale is None or scale.name != _EXPONENTIAL:
            continue
        step: Any = scale.operands[0].defining_op
        if isinstance(step, aa.SubFOp) and step.lhs is before and step.rhs is highest.results[0]:
            return True
    return False
