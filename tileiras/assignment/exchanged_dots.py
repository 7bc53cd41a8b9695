"""Dots that compute their transposed result, since a tile computed from it, transposed, is a factor of another dot.

    S = Q K^T,   P = f(S),   W = P^T D        as the gradients of keys and values in attention

With the operands exchanged, S^T = K Q^T, a thread has P^T in the registers in which the dot of W takes its A.  Without,
P^T goes through shared memory.  Numbers of rows of S are then numbers of columns of S^T, of which a thread has more:
the sum of both costs decides, for all dots whose results are combined element by element at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tileiras.analysis.copied_loads import is_zero
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.convert import plan_conversion
from tileiras.layout.linear_layout import SHARED_DIMS
from tileiras.layout.memory import contiguous_registers
from tileiras.layout.reduce import mixes_axes, plan_reduction
from tileiras.layout.shared import BARRIER_COST, INSTRUCTION_COST, VECTOR_BITS
from tileiras.layout.staging import access_cost, store_access
from tileiras.support.named_tuple import NamedTuple

from .chained_dots import is_element_wise

if TYPE_CHECKING:
    from .warpgroup_dots import WarpgroupPlan

_TURN = (1, 0)


class _Factor(NamedTuple):
    """An operand of another dot; `turned`: it is computed from the transposed tile."""

    dot: aa.Dot
    value: Value
    turned: bool


class _Group(NamedTuple):
    """Dots whose results are combined element by element, and all uses of the tiles computed from these: the factors
    of other dots, the smaller tiles that are broadcast to theirs, and the dimensions along which theirs are reduced."""

    dots: list[aa.Dot]
    factors: list[_Factor]
    broadcast: list[Value]
    reduced: list[int]


class ExchangedDots:
    """The dots of a function whose operands are exchanged.

    `plan(dot, exchanged)` is the plan of a dot in either form; `taken(dot)`, the layouts in which a dot takes A and B.
    """

    def __init__(
        self,
        plan: Callable[[aa.Dot, bool], WarpgroupPlan | None],
        operand_layouts: Callable[[aa.Dot], tuple[LinearLayout, LinearLayout] | None],
    ) -> None:
        self._plan = plan
        self._taken = operand_layouts
        self._decided: dict[aa.Dot, bool] = {}

    def includes(self, op: aa.Dot) -> bool:
        """Whether the operands of a dot are exchanged because this costs less."""
        if op not in self._decided:
            group = _group(op)
            dots = [op] if group is None else group.dots
            self._decided.update(dict.fromkeys(dots, False))
            if group is not None and any(map(self._is_in_registers, group.factors)):
                self._decided.update(dict.fromkeys(dots, self._is_cheaper(group)))
        return self._decided[op]

    def _is_in_registers(self, factor: _Factor) -> bool:
        """Whether a dot takes a transposed tile in registers: in shared memory it may as well be stored transposed."""
        layouts = self._taken(factor.dot) if factor.turned and factor.value is factor.dot.a else None
        return layouts is not None and layouts[0].dims != SHARED_DIMS

    def _is_cheaper(self, group: _Group) -> bool:
        costs = []
        for exchanged in (False, True):
            plans = [self._plan(dot, exchanged) for dot in group.dots]
            # A in registers has to go to shared memory in the other form.
            if any(plan is None or plan.a.dims != SHARED_DIMS or plan.c != plans[0].c for plan in plans):  # type: ignore[union-attr]
                return False
            cost = self._cost(group, plans[0].c)  # type: ignore[union-attr]
            if cost is None:
                return False
            costs.append(cost)
        return costs[1] < costs[0]

    def _cost(self, group: _Group, layout: LinearLayout) -> float | None:
        """Wavefronts of a warp, in an iteration, for the movement of elements between threads and for
        broadcast tiles; None where a dot takes its operands in no layout of a thread or of shared memory."""
        cost = 0.0
        for factor in group.factors:
            layouts = self._taken(factor.dot)
            if layouts is None:
                return None
            source = layout.permute(_TURN) if factor.turned else layout
            cost += _exchange_cost(source, layouts[0 if factor.value is factor.dot.a else 1], factor.value)
        cost += sum(_read(layout.shrink(value.type.shape), value) for value in group.broadcast)
        for axis in group.reduced:
            if mixes_axes(layout, axis):
                return None
            plan = plan_reduction(layout, axis)
            cost += len(plan.lane_bits) * plan.result.registers + (2 * BARRIER_COST if plan.shared else 0.0)
        return cost


def _exchange_cost(source: LinearLayout, target: LinearLayout, value: Value) -> float:
    bits = value.type.element_type.width
    if target.dims == SHARED_DIMS:
        return access_cost(store_access(source, target.bases("offset"), bits), bits) + BARRIER_COST
    return plan_conversion(source, target, bits).cost(bits)


def _read(layout: LinearLayout, value: Value) -> float:
    """The cost of accesses by which each thread reads its elements of a tile; lanes repeat each other's."""
    vector = max(1 << len(contiguous_registers(layout, axis)) for axis in range(len(layout.shape)))
    bits = max(8, getattr(value.type.element_type, "width", 8))
    return max(1, layout.registers // min(vector, VECTOR_BITS // bits)) * (1 + INSTRUCTION_COST)


# ---- groups ----------------------------------------------------------------------------------------------------------


def _group(op: aa.Dot) -> _Group | None:
    """The dots that are combined with one; None where another use keeps a tile as it is: a store, a loop that carries
    it, the sum of another dot."""
    group = _Group([], [], [], [])
    tiles, todo = {op.result}, [op.result]
    while todo:
        value = todo.pop()
        producer: Any = value.defining_op
        if isinstance(producer, aa.DotOp):
            if not is_zero(producer.c):
                return None
            group.dots.append(producer)
        elif isinstance(producer, aa.BroadcastOp):
            if producer.operand not in group.broadcast:
                group.broadcast.append(producer.operand)
            continue
        elif isinstance(producer, (aa.SplatOp, arith.ConstantOp)):
            continue
        elif not is_element_wise(producer):
            return None
        else:
            _add((each for each in producer.operands if isinstance(each.type, TensorType)), tiles, todo)
        for user in value.users:
            if is_element_wise(user):
                _add(user.results, tiles, todo)
            elif not _ends(user, value, group):
                return None
    return None if any(factor.dot in group.dots for factor in group.factors) else group


def _add(values: Any, tiles: set[Value], todo: list[Value]) -> None:
    new = [each for each in values if each not in tiles]
    tiles.update(new)
    todo += new


def _ends(user: Operation, value: Value, group: _Group) -> bool:
    """Add a use that is not element by element to those of a group; false for one that a group does not have."""
    if isinstance(user, aa.ReduceOp) and len(user.inputs) == 1:
        group.reduced.append(user.dim.value)
        return True
    factors = list(_factors(user, value, False))
    group.factors.extend(each for each in factors if each is not None and each not in group.factors)
    return None not in factors


def _factors(user: Operation, value: Value, turned: bool) -> Iterator[_Factor | None]:
    """The operands of dots that a use leads to; None for another use."""
    if isinstance(user, aa.DotOp):
        yield None if value is user.c else _Factor(user, value, turned)
    elif isinstance(user, aa.PermuteOp) and tuple(user.permutation.elements) == _TURN and not turned:
        for each in user.result.users:
            yield from _factors(each, user.result, True)
    elif turned and is_element_wise(user) and len(user.operands) == 1:
        for each in user.results[0].users:
            yield from _factors(each, user.results[0], True)
    else:
        yield None
