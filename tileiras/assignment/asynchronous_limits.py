"""Which dots are left to warps because the memories that asynchronous ones need do not hold what all of them have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tileiras.analysis.copied_loads import is_zero
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, Value
from tileiras.layout.linear_layout import SHARED_DIMS
from tileiras.resources.limits import LEAST_RESERVE, threads_of
from tileiras.resources.shared_memory import SCRATCH_BYTES, shared_budget
from tileiras.targets import Fragment, mma_atom, registers_per_thread

from .dot_plans import DotPlans, is_linked
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
    of one operation of the function's block, of which loops that follow each other in it take turns."""
    target = plans.target
    groups: dict[Operation, list[aa.Dot]] = {}
    for op in dots:
        if _in_shared(op, plans):
            groups.setdefault(func.body.blocks[0].find_ancestor_op(op), []).append(op)
    ctas = _ctas_with_registers(dots, plans, func)
    for around, group in groups.items():
        while group:
            held = _held_at_a_time(func.body.blocks[0], group, plans)
            needed = _total(held)
            limit = shared_budget(func, target, ctas) - SCRATCH_BYTES[0]
            if needed <= limit:
                break
            if ctas > 1 and isinstance(around, scf.ForOp):
                # Two stages of a ring would take more than these: CTAs yield to it as well.
                ctas -= 1
                continue
            there = [op for op in group if held.keys() >= set(_in_shared(op, plans))]
            largest = max(there, key=lambda op: sum(map(_bytes, _in_shared(op, plans))))
            reader = "wgmma" if target.has("wgmma") else "tcgen05.mma"
            reason = f"{needed} bytes of operands do not fit into the {limit} of shared memory that {reader} reads"
            plans.refuse_asynchronous(largest, reason)
            group.remove(largest)


def _held_at_a_time(block: Block, dots: Iterable[aa.Dot], plans: DotPlans) -> dict[Value, None]:
    """The operands in shared memory of dots in a block, and in loops and branches in it: of these, the ones that take
    most; what comes from outside of them is there all the time."""
    held: dict[Value, None] = {}
    inside: dict[Block, list[aa.Dot]] = {}
    for dot in dots:
        values = _in_shared(dot, plans)
        if dot.parent is not block:
            op = block.find_ancestor_op(dot)
            assert op is not None, "a dot of the block"
            (own,) = (inner for region in op.regions for inner in region.blocks if inner.find_ancestor_op(dot))
            inside.setdefault(own, []).append(dot)
            values = [value for value in values if not _is_made_in(value, op)]
        held.update(dict.fromkeys(values))
    most = max((_held_at_a_time(own, there, plans) for own, there in inside.items()), key=_total, default={})
    return held | most


def _is_made_in(value: Value, op: Operation) -> bool:
    around = value.parent_block
    while around is not None and around.parent_op is not op:
        around = around.parent_op.parent if around.parent_op is not None else None
    return around is not None


def _total(values: Iterable[Value]) -> int:
    return sum(map(_bytes, values))


def registers_of_warpgroups(dots: Iterable[aa.Dot], plans: DotPlans, threads: int) -> int:
    """Registers of a thread for what the dots of warpgroups in a loop have there at a time, at most: all that they add
    to, the largest result that begins with zeros, and the largest operand that is made of it."""
    found: dict[Block, list[aa.Dot]] = {}
    for dot in dots:
        if plans.plan(dot).atom.startswith("wgmma"):
            assert dot.parent is not None
            found.setdefault(dot.parent, []).append(dot)
    most = 0
    for group in found.values():
        added, made, operand = 0, 0, 0
        for dot in group:
            taken = _registers(dot.result, threads)
            added, made = (added, max(made, taken)) if is_zero(dot.c) else (added + taken, made)
            if isinstance(mma_atom(plans.plan(dot).atom).a, Fragment) and is_linked(dot):
                operand = max(operand, _registers(dot.a, threads))
        most = max(most, added + made + operand)
    return most


def _registers(value: Value, threads: int) -> int:
    return -(-value.type.num_elements * value.type.element_type.width // (32 * threads))


def _ctas_with_registers(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> int:
    """CTAs on an SM, no more than a function asks for, that leave warpgroups the registers for their accumulators;
    `tileas-lower-occupancy` will see the same."""
    ctas = func.kernel_spec.occupancy or 1
    if ctas > 1:
        threads = threads_of(func)
        needed = registers_of_warpgroups(dots, plans, threads) + LEAST_RESERVE
        while ctas > 1 and registers_per_thread(threads, ctas) < needed:
            ctas -= 1
    return ctas


def _in_shared(op: aa.Dot, plans: DotPlans) -> list[Value]:
    """The operands of a dot that its instruction reads from shared memory."""
    plan = plans.plan(op)
    return [value for value, layout in ((op.a, plan.a), (op.b, plan.b)) if layout.dims == SHARED_DIMS]


def _bytes(value: Value) -> int:
    return value.type.num_elements * value.type.element_type.width // 8
