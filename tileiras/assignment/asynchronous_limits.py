"""Which dots are left to warps because the memories that asynchronous ones need do not hold what all of them have."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, Value
from tileiras.layout.linear_layout import SHARED_DIMS
from tileiras.resources.shared_memory import SCRATCH_BYTES, shared_budget

from .dot_plans import DotPlans
from .tensor_columns import keep_within_tensor_memory


def leave_what_does_not_fit(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> None:
    """Leaves dots of a function to warps until shared memory holds the operands, and tensor memory the accumulators, of
    all asynchronous ones that are there at a time; their plans say why."""
    target = plans.target
    if target.has("wgmma") or target.has("tcgen05"):
        _keep_within_shared_memory(dots, plans, func)
    if target.has("tcgen05"):
        keep_within_tensor_memory(dots, plans, func)


def _keep_within_shared_memory(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> None:
    """Leaves dots to warps where shared memory does not hold the operands of all that would be in it at a time: those
    of one operation of the function's block, loops with what is in them."""
    target = plans.target
    groups: dict[Operation, list[aa.Dot]] = {}
    for op in dots:
        if _in_shared(op, plans):
            groups.setdefault(func.body.blocks[0].find_ancestor_op(op), []).append(op)
    limit = shared_budget(func, target) - SCRATCH_BYTES[0]
    for group in groups.values():
        while group:
            held = {value: None for op in group for value in _in_shared(op, plans)}
            needed = sum(map(_bytes, held))
            if needed <= limit:
                break
            largest = max(group, key=lambda op: sum(map(_bytes, _in_shared(op, plans))))
            reader = "wgmma" if target.has("wgmma") else "tcgen05.mma"
            reason = f"{needed} bytes of operands do not fit into the {limit} of shared memory that {reader} reads"
            plans.refuse_asynchronous(largest, reason)
            group.remove(largest)


def _in_shared(op: aa.Dot, plans: DotPlans) -> list[Value]:
    """The operands of a dot that its instruction reads from shared memory."""
    plan = plans.plan(op)
    return [value for value, layout in ((op.a, plan.a), (op.b, plan.b)) if layout.dims == SHARED_DIMS]


def _bytes(value: Value) -> int:
    return value.type.num_elements * value.type.element_type.width // 8
