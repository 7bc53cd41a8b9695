"""Selects dots with accumulators in tensor memory if it does not hold those of all.

An accumulator takes its columns from the dot, or from the loop that carries it, to the first use of the result after
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, TensorType, Value
from tileiras.layout.accumulators import continues
from tileiras.layout.tensor_memory import COLUMNS, LANES, LEAST_COLUMNS, scale_columns, scale_places
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target, mma_atom

from .dot_plans import DotPlans
from .tensor_operands import operand_columns, source_dot

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

_DOTS = (aa.DotOp, aa.BlockScaledMmaOp)


class _Held(NamedTuple):
    """A dot, its columns, and the operations of the function's block between which it has them."""

    dot: aa.Dot
    columns: int
    first: int
    last: int


def keep_within_tensor_memory(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> None:
    """Leave dots to warps, the largest first, until tensor memory holds the accumulators of all others."""
    _leave_what_exceeds(COLUMNS // (func.kernel_spec.occupancy or 1), dots, plans, func)


class FitTensorMemory(FunctionPass):
    name = "tileas-fit-tensor-memory"
    optional = True
    of_nv_tileaa = True
    needs = "a number of warps"
    establishes = "an occupancy in `kernel_spec` that leaves a CTA the columns of its accumulators"
    keeps = "operations"

    warpgroups: bool = True

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if self.warpgroups and (func.kernel_spec.occupancy or 1) > 1 and gpu.has("tcgen05"):
            fit_tensor_memory(func, gpu, context.engine)


def fit_tensor_memory(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Lower the number of CTAs on an SM that a kernel requests, in place, if tensor memory holds the accumulators of
    fewer; a remark reports it.  Dots of warps, which use no tensor memory, cost more than CTAs side by side gain."""
    occupancy = func.kernel_spec.occupancy or 1
    dots = [op for op in func.walk() if isinstance(op, _DOTS)]
    if occupancy == 1 or not dots or not target.has("tcgen05"):
        return
    spec = func.kernel_spec
    func.attributes["kernel_spec"] = spec.with_occupancy(1)
    plans = DotPlans(target, spec.num_warps, func)
    _leave_what_exceeds(COLUMNS // occupancy, dots, plans, func, only_a=True)
    columns = _leave_what_exceeds(COLUMNS, dots, plans, func)
    # A CTA allocates a power of two.
    ctas = min(occupancy, COLUMNS // max(LEAST_COLUMNS, 1 << max(columns - 1, 0).bit_length()))
    func.attributes["kernel_spec"] = spec.with_occupancy(ctas)
    if ctas < occupancy and engine is not None:
        cause = Reason("kernel.columns-needed", columns=columns)
        engine.emit(Remark(Reason("kernel.fewer-ctas", ctas=ctas, asked=occupancy, cause=cause), func.location))


def _leave_what_exceeds(
    limit: int, dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp, only_a: bool = False
) -> int:
    """Take columns from dots until those that are in use at a time are no more than `limit`; return their number.
    First dots read A in shared memory where threads would store it in tensor memory, then, unless `only_a`, dots are
    left to warps."""
    block = func.body.blocks[0]
    places = {op: number for number, op in enumerate(block.operations)}
    intervals = [_interval(op, plans, block, places) for op in dots if _is_into(op, plans)]
    while intervals:
        group = max((_beside(each, intervals) for each in intervals), key=_sum)
        columns = _sum(group)
        if columns <= limit:
            return columns
        movable = next((each for each in group if _has_own_a(each.dot, plans)), None)
        if movable is not None:
            plans.keep_a_in_shared(movable.dot)
            intervals[intervals.index(movable)] = _interval(movable.dot, plans, block, places)
            continue
        if only_a:
            return columns
        largest = max(group, key=lambda each: each.columns)
        plans.refuse_asynchronous(largest.dot, Reason("dots.columns-in-use", columns=columns, most=limit))
        intervals.remove(largest)
    return 0


def _is_into(op: aa.Dot, plans: DotPlans) -> bool:
    return plans.plan(op).atom.startswith("tcgen05_")


def _interval(op: aa.Dot, plans: DotPlans, block: Block, places: dict[Operation, int]) -> _Held:
    rows = min(LANES, mma_atom(plans.plan(op).atom).cta_rows)
    size = op.c.type.num_elements // rows + _beside_accumulator(op, plans)
    outer = block.find_ancestor_op(op)
    assert outer is not None, "a dot of the function"
    return _Held(op, size, places[outer], max(places[outer], _end(op, outer, plans, block, places)))


def _end(op: aa.Dot, outer: Operation, plans: DotPlans, block: Block, places: dict[Operation, int]) -> int:
    """The last operation of the function's block at which a dot's accumulator has its columns."""
    value: Value = op.result
    while value.parent_block is not block:
        loop: Any = value.parent_block.parent_op
        if not isinstance(loop, scf.ForOp):
            return max((_first_use(result, block, places) for result in outer.results), default=0)
        if value not in loop.yield_op.operands:
            return places[outer]  # loaded in its iteration
        value = loop.results[loop.yield_op.operands.index(value)]
    end = _first_use(value, block, places)
    for user in value.users:
        if isinstance(user, scf.ForOp) and value in user.init_args and places.get(user) == end:
            number = user.init_args.index(value)
            if continues(user, number, lambda dot: isinstance(dot, _DOTS) and _is_into(dot, plans)) is op:
                return end - 1  # that loop's dot has them from there on
    return end


def _beside_accumulator(op: aa.Dot, plans: DotPlans) -> int:
    """Columns of scales, and of an A that cannot reuse those of the accumulator that it is computed from."""
    if isinstance(op, aa.BlockScaledMmaOp):
        plan, runs = plans.plan(op), op.scale_a.type.shape[1]
        counts = scale_places(op.c.type.shape, mma_atom(plan.atom).is_spread, plan.exchanged)
        return 2 * sum(scale_columns(count, runs) for count in counts)
    if not plans.plan(op).atom.endswith("_ts"):
        return 0
    source = source_dot(op.a)
    shares = source is not None and plans.plan(source).atom.startswith("tcgen05_")
    return 0 if shares else operand_columns(op.a.type)


def _has_own_a(op: aa.Dot, plans: DotPlans) -> bool:
    """Whether A has columns that could be saved: it is not computed from another dot's accumulator in tensor memory."""
    return plans.plan(op).atom.endswith("_ts") and source_dot(op.a) is None


def _first_use(value: Value, block: Block, places: dict[Operation, int]) -> int:
    if not isinstance(value.type, TensorType):
        return 0
    users = (block.find_ancestor_op(user) for user in value.users)
    return min((places[user] for user in users if user is not None), default=0)


def _beside(each: _Held, intervals: list[_Held]) -> list[_Held]:
    """The accumulators whose columns are in use when this one gets its own."""
    return [other for other in intervals if other.first <= each.first <= other.last]


def _sum(group: list[_Held]) -> int:
    return sum(each.columns for each in group)
