"""Leaves dots to warps if the memories of asynchronous dots do not hold the operands and accumulators of all of
them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tileiras.analysis.copied_loads import is_zero
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.ir import Block, Operation, TensorType, Value
from tileiras.layout.linear_layout import SHARED_DIMS
from tileiras.reasons import Reason
from tileiras.resources.limits import LEAST_RESERVE, threads_of
from tileiras.resources.shared_memory import SCRATCH_BYTES, shared_budget
from tileiras.targets import Fragment, mma_atom, registers_per_thread

from .chained_dots import is_chained
from .dot_plans import DotPlans
from .tensor_columns import keep_within_tensor_memory

_LOADS = (aa.LoadOp, aa.TiledLoadOp)


def leave_what_does_not_fit(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> None:
    """Leave dots of a function to warps until shared memory holds the operands, and tensor memory the accumulators, of
    all asynchronous ones that are live at a time; their plans record the reason."""
    target = plans.target
    if target.has("wgmma") or target.has("tcgen05"):
        _keep_within_shared_memory(dots, plans, func)
    if target.has("tcgen05"):
        keep_within_tensor_memory(dots, plans, func)


def _keep_within_shared_memory(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> None:
    """Leave dots to warps where shared memory does not hold the operands of all that would be in it at a time: those
    of one operation of the function's block; successive loops in it use the memory in turn."""
    target = plans.target
    groups: dict[Operation, list[aa.Dot]] = {}
    for op in dots:
        if _in_shared(op, plans):
            groups.setdefault(func.body.blocks[0].find_ancestor_op(op), []).append(op)
    ctas = _ctas_with_registers(dots, plans, func)
    for group in groups.values():
        while group:
            limit = shared_budget(func, target, ctas) - SCRATCH_BYTES[0]
            operands = _held_at_a_time(func.body.blocks[0], group, plans)
            total = _total(operands)
            if total <= limit:
                break
            if ctas > 1 and any(_is_in_loop(op) for op in group):
                # Two stages of a ring would take more than these: CTAs yield to it as well.
                ctas -= 1
                continue
            # Loads that do not run ahead fill a dot's operands only when it is its turn.
            operands = _held_at_a_time(func.body.blocks[0], group, plans, in_turn=True)
            if _total(operands) <= limit:
                break
            there = [op for op in group if operands.keys() >= set(_in_shared(op, plans))]
            largest = max(there, key=lambda op: sum(map(_bytes, _in_shared(op, plans))))
            reader = "wgmma" if target.has("wgmma") else "tcgen05.mma"
            reason = Reason("dots.operand-bytes", bytes=total, most=limit, instruction=reader)
            plans.refuse_asynchronous(largest, reason)
            group.remove(largest)


def _held_at_a_time(
    block: Block, dots: Iterable[aa.Dot], plans: DotPlans, in_turn: bool = False
) -> dict[Value, None]:
    """The operands in shared memory of dots in a block, and of that nested loop or branch which takes most; operands
    from outside of a loop or branch are held during all of it.

    The operands of dots of one block are held together, as where their loads run ahead; `in_turn`: each from its load
    to its last dot.
    """
    operations = list(block.operations)
    places = {op: place for place, op in enumerate(operations)}
    uses: dict[Value, list[int]] = {}
    inside: dict[int, dict[Block, list[aa.Dot]]] = {}
    for dot in dots:
        op = block.find_ancestor_op(dot)
        assert op is not None, "a dot of the block"
        values = _in_shared(dot, plans)
        if op is not dot:
            (own,) = (inner for region in op.regions for inner in region.blocks if inner.find_ancestor_op(dot))
            inside.setdefault(places[op], {}).setdefault(own, []).append(dot)
            values = [value for value in values if not op.is_ancestor_of(value.parent_block.parent_op)]
        for value in values:
            uses.setdefault(value, []).append(places[op])
    nested = {
        place: max((_held_at_a_time(own, there, plans, in_turn) for own, there in blocks.items()), key=_total)
        for place, blocks in inside.items()
    }
    if not in_turn:
        return dict.fromkeys(uses) | max(nested.values(), key=_total, default={})

    def there(place: int) -> dict[Value, None]:
        own = (value for value, all in uses.items() if _begin(value, places) <= place <= max(all))
        return dict.fromkeys(own) | nested.get(place, {})

    # The largest set is reached at the last use of an operand.
    return max(map(there, sorted({*nested, *(max(all) for all in uses.values())})), key=_total, default={})


def _begin(value: Value, places: dict[Operation, int]) -> int:
    """The place in a block of the first load that a tile is computed from; -1 if that is outside of it."""
    first, todo, seen = len(places), [value], {value}
    while todo:
        op = todo.pop().defining_op
        place = -1 if op is None else places.get(op, -1)
        first = min(first, place)
        if op is not None and place >= 0 and not isinstance(op, _LOADS):
            tiles = [each for each in op.operands if isinstance(each.type, TensorType) and each not in seen]
            todo += tiles
            seen.update(tiles)
    return first


def _total(values: Iterable[Value]) -> int:
    return sum(map(_bytes, values))


def _is_in_loop(op: Operation) -> bool:
    around = op.parent_op
    while around is not None and not isinstance(around, scf.ForOp):
        around = around.parent_op
    return around is not None


def registers_of_warpgroups(dots: Iterable[aa.Dot], plans: DotPlans, threads: int) -> int:
    """The most registers of a thread for the dots of warpgroups in a loop at a time: all accumulators, the largest
    result that begins with zeros, and the largest operand that is computed from it."""
    result: dict[Block, list[aa.Dot]] = {}
    for dot in dots:
        if plans.plan(dot).atom.startswith("wgmma"):
            assert dot.parent is not None
            result.setdefault(dot.parent, []).append(dot)
    most = 0
    for group in result.values():
        added, value, operand = 0, 0, 0
        for dot in group:
            registers = _registers(dot.result, threads)
            added, value = (added, max(value, registers)) if is_zero(dot.c) else (added + registers, value)
            plan = plans.plan(dot)
            if isinstance(mma_atom(plan.atom).a, Fragment) and is_chained(dot):
                operand = max(operand, _registers(dot.b if plan.exchanged else dot.a, threads))
        most = max(most, added + value + operand)
    return most


def _registers(value: Value, threads: int) -> int:
    return -(-value.type.num_elements * value.type.element_type.width // (32 * threads))


def _ctas_with_registers(dots: Sequence[aa.Dot], plans: DotPlans, func: aa.FuncOp) -> int:
    """CTAs on an SM, no more than a function requests, that leave warpgroups the registers for their accumulators, as
    `tileas-lower-occupancy` determines them."""
    ctas = func.kernel_spec.occupancy or 1
    if ctas > 1:
        threads = threads_of(func)
        required = registers_of_warpgroups(dots, plans, threads) + LEAST_RESERVE
        while ctas > 1 and registers_per_thread(threads, ctas) < required:
            ctas -= 1
    return ctas


def _in_shared(op: aa.Dot, plans: DotPlans) -> list[Value]:
    """The operands of a dot that its instruction reads from shared memory."""
    plan = plans.plan(op)
    return [value for value, layout in ((op.a, plan.a), (op.b, plan.b)) if layout.dims == SHARED_DIMS]


def _bytes(value: Value) -> int:
    return value.type.num_elements * value.type.element_type.width // 8
