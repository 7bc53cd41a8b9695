"""Which dots have their accumulators in tensor memory where it does not hold those of all.

An accumulator takes its columns from the dot, or from the loop that carries it, to the first use of the result behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Block, Operation, TensorType, Value
from tileiras.layout.tensor_memory import COLUMNS, LANES, scale_columns
from tileiras.named_tuple import NamedTuple
from tileiras.targets import mma_atom

from .dot_plans import DotPlans
from .tensor_operands import operand_columns, source_dot


class _Held(NamedTuple):
    """A dot, its columns, and the operations of the function's block between which it has them."""

    dot: aa.Dot
    columns: int
    first: int
    last: int


def keep_within_tensor_memory(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> None:
    """Leaves dots to warps, the largest first, until tensor memory holds the accumulators of all others."""
    block = func.body.blocks[0]
    places = {op: number for number, op in enumerate(block.operations)}
    limit = COLUMNS // (func.kernel_spec.occupancy or 1)
    held = [_held(op, plans, block, places) for op in dots if plans.plan(op).atom.startswith("tcgen05_")]
    while held:
        group = max((_beside(each, held) for each in held), key=_sum)
        needed = _sum(group)
        if needed <= limit:
            return
        largest = max(group, key=lambda each: each.columns)
        reason = f"{needed} columns of accumulators do not fit into the {limit} of tensor memory"
        plans.refuse_asynchronous(largest.dot, reason)
        held.remove(largest)


def _held(op: aa.Dot, plans: DotPlans, block: Block, places: dict[Operation, int]) -> _Held:
    rows = min(LANES, mma_atom(plans.plan(op).atom).cta_rows)
    size = op.c.type.num_elements // rows + _beside_accumulator(op, plans)
    outer = block.find_ancestor_op(op)
    assert outer is not None, "a dot of the function"
    last = max((_first_use(result, block, places) for result in outer.results), default=0)
    return _Held(op, size, places[outer], max(places[outer], last))


def _beside_accumulator(op: aa.Dot, plans: DotPlans) -> int:
    """Columns of scales, and of an A that cannot have those of what it is computed of."""
    if isinstance(op, aa.BlockScaledMmaOp):
        runs = op.scale_a.type.shape[1]
        return 2 * sum(scale_columns(count, runs) for count in op.c.type.shape)
    if not plans.plan(op).atom.endswith("_ts"):
        return 0
    source = source_dot(op.a)
    shares = source is not None and plans.plan(source).atom.startswith("tcgen05_")
    return 0 if shares else operand_columns(op.a.type)


def _first_use(value: Value, block: Block, places: dict[Operation, int]) -> int:
    if not isinstance(value.type, TensorType):
        return 0
    users = (block.find_ancestor_op(user) for user in value.users)
    return min((places[user] for user in users if user is not None), default=0)


def _beside(each: _Held, held: list[_Held]) -> list[_Held]:
    """What has its columns when this one gets them."""
    return [other for other in held if other.first <= each.first <= other.last]


def _sum(group: list[_Held]) -> int:
    return sum(each.columns for each in group)
