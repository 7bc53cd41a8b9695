"""Block-scaled dots where the target has no instruction for them.

Each run of K has one scale for a row and one for a column, so the dot of the operands over the run is multiplied by
these two before it is added.  Operands of types that no instruction takes become f16, exactly, where one takes that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.assignment.dot_plans import DotPlans
from tileiras.assignment.tensor_dots import WARPS, takes_scales
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Builder, FloatType, Value, f8E8M0FNU, f16, f32
from tileiras.targets import Target

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class LegalizeScaledDot(FunctionPass):
    name = "tileas-legalize-scaled-dot"
    of_nv_tileaa = True
    needs = "`nv_tileaa` functions"
    establishes = "block-scaled dots whose operands the target multiplies"
    keeps = "values, other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        legalize_scaled_dots(func, gpu)


def legalize_scaled_dots(func: aa.FuncOp, target: Target) -> None:
    """Give the block-scaled dots of a function of nv_tileaa that no atom executes, in place, types that are
    multiplied run by run."""
    dots = DotPlans(target, 1)  # the instructions do not depend on the number of warps
    for op in [op for op in func.walk() if isinstance(op, aa.BlockScaledMmaOp)]:
        if dots.scaled_atom(op) is None and not _is_for_tensor_memory(op, func, target):
            _expand(op, dots)


def _is_for_tensor_memory(op: aa.BlockScaledMmaOp, func: aa.FuncOp, target: Target) -> bool:
    """Whether tcgen05.mma accepts operands and scales unchanged."""
    warps = func.kernel_spec.num_warps
    return target.has("tcgen05") and (warps is None or warps >= WARPS) and takes_scales(target, op)


def _expand(op: aa.BlockScaledMmaOp, dots: DotPlans) -> None:
    builder = Builder.before(op)

    def converted(value: Value, type: FloatType) -> Value:
        if value.type.element_type is type:
            return value
        return builder.insert(aa.FpToFpOp(value, result=value.type.with_element_type(type))).results[0]

    operands, scales = [op.a, op.b], [op.scale_a, op.scale_b]
    if dots.run_atom(op) is None and dots.run_atom(op, f16) is not None:
        operands = [converted(value, f16) for value in operands]
    # Two exponents are added before they are applied; other scales are numbers.
    if any(value.type.element_type is not f8E8M0FNU for value in scales):
        scales = [converted(value, f32) for value in scales]
    new = builder.insert(aa.BlockScaledMmaOp(*operands, op.c, *scales, result=op.result.type))
    op.replace_all_uses_with(new.results)
    op.erase()
