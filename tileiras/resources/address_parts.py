"""Operations that serve only one access through pointers, and the registers that each element takes.

LLVM computes all elements of one operation before those of the next one, and ptxas mostly keeps that order: a scatter
of 64 elements has 64 addresses and 64 conditions live before the first store.  If a few elements are computed at a
time, together with their access, only their registers are live.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileiras.dialects import arith
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation, Pure, TensorType, Value
from tileiras.layout.convert import NoConversion, RegisterPermutation, plan_conversion
from tileiras.layout.encoding import broadcast_layout, is_in_shared, layout_of, renamed_layout

from .live_values import is_elementwise, is_function, width_of

_RENAMES = (tileas.ViewOp, tileas.PermuteOp, tileas.BroadcastOp)


def can_be_in_parts(access: Operation) -> bool:
    """Whether an access through a tile of pointers can be made for some registers at a time: it moves elements one by
    one, in no order with others, and none twice."""
    if not isinstance(access, (tileas.LoadOp, tileas.StoreOp)) or not isinstance(access.pointer.type, TensorType):
        return False
    atom = access.atom
    if atom is None or atom.vector_size != 1 or access.mem_semantic.value != "weak":
        return False
    if isinstance(access, tileas.LoadOp) and any(isinstance(user, tileas.ShiftedOp) for user in access.data.users):
        return False
    return not layout_of(access.pointer.type).free_variable_masks()["register"]


def source_registers(op: Operation) -> tuple[int, ...] | None:
    """For each register of the result of a view, permutation or broadcast, the operand's register with that element;
    None if threads exchange elements."""
    operand, result = op.operands[0].type, op.results[0].type
    if is_in_shared(operand) or is_in_shared(result):
        return None
    if isinstance(op, tileas.BroadcastOp):
        layouts = layout_of(operand), broadcast_layout(op)
    else:
        layouts = renamed_layout(op), layout_of(result)
    plan = plan_conversion(*layouts, max(8, width_of(result)))
    if isinstance(plan, NoConversion):
        return tuple(range(layouts[1].registers))
    return plan.source if isinstance(plan, RegisterPermutation) else None


def made_for(access: Operation) -> Mapping[Operation, tuple[int, ...] | None]:
    """The operations that compute the operands of one access only, in order of definition; those that rename elements
    map to their `source_registers`.

    Ranges, and cheap arithmetic on them, are rematerialized regardless of position and other users: kept live through a
    loop, they take a register for each row or column.
    """
    whole = layout_of(access.operands[0].type).registers
    result: dict[Operation, tuple[int, ...] | None] = {}
    for op in _before(access):
        if len(op.results) != 1 or not op.results[0].has_uses or not isinstance(op.results[0].type, TensorType):
            continue
        if not all(user is access or user in result for user in op.results[0].users):
            continue
        if isinstance(op, _RENAMES):
            registers = source_registers(op)
            if registers is not None:
                result[op] = registers
        elif (is_elementwise(op) or isinstance(op, tileas.AddPtrOp)) and op.has_trait(Pure):
            # An expensive value shared by many elements is not recomputed for each part of them.
            if layout_of(op.results[0].type).registers == whole or not is_function(op):
                result[op] = None
    ranges, pending = _Ranges(), [value for op in result for value in op.operands]
    for value in pending:
        producer = value.defining_op
        if producer is not None and producer not in result and ranges.make(value):
            result[producer] = source_registers(producer) if isinstance(producer, _RENAMES) else None
            pending += producer.operands
    return dict(reversed(result.items()))


def _before(op: Operation) -> Iterator[Operation]:
    """The operations before one in its block, the nearest first."""
    before = op.prev
    while before is not None:
        yield before
        before = before.prev


class _Ranges:
    """Which tiles are computed from ranges; results are cached per tile."""

    def __init__(self) -> None:
        self._cheap: dict[Value, bool] = {}
        self._ranging: dict[Value, bool] = {}

    def make(self, value: Value) -> bool:
        """Whether a tile is computed from at least one range, from constants and from uniform values, in a few
        instructions."""
        return self._is_cheap(value) and self._has_range(value)

    def _is_cheap(self, value: Value) -> bool:
        result = self._cheap.get(value)
        if result is None:
            result = self._cheap[value] = self._find_cheap(value.defining_op)
        return result

    def _find_cheap(self, op: Operation | None) -> bool:
        if isinstance(op, (tileas.MakeRangeOp, arith.ConstantOp, tileas.SplatOp)):
            return True
        if op is None or not op.has_trait(Pure):
            return False
        if isinstance(op, _RENAMES):
            return source_registers(op) is not None and self._is_cheap(op.operands[0])
        return is_elementwise(op) and not is_function(op) and all(map(self._is_cheap, op.operands))

    def _has_range(self, value: Value) -> bool:
        """Of a tile that is made cheaply."""
        op = value.defining_op
        if not isinstance(value.type, TensorType) or op is None:
            return False
        result = self._ranging.get(value)
        if result is None:
            result = isinstance(op, tileas.MakeRangeOp) or any(map(self._has_range, op.operands))
            self._ranging[value] = result
        return result


def made_only_for(access: Operation, address_ops: Mapping[Operation, tuple[int, ...] | None]) -> list[Operation]:
    """The operations of `address_ops` whose results only the access uses, directly or through other such operations."""
    alone: dict[Operation, bool] = {access: True}

    def is_alone(op: Operation) -> bool:
        if op not in alone:
            alone[op] = op in address_ops and all(map(is_alone, op.results[0].users))
        return alone[op]

    return [op for op in address_ops if is_alone(op)]


def words_of_element(access: Operation, address_ops: Mapping[Operation, tuple[int, ...] | None]) -> int:
    """Maximum of live 32-bit registers per element of the values computed for an access; a condition counts as one,
    since all elements share seven predicates."""
    whole = layout_of(access.operands[0].type).registers
    order = {op: place for place, op in enumerate([*address_ops, access])}

    def words(value: Value) -> int:
        op = value.defining_op
        if op not in address_ops or isinstance(op, tileas.BroadcastOp) or layout_of(value.type).registers < whole:
            return 0
        return -(-width_of(value.type) // 32)

    ending: dict[Operation, list[Value]] = {}
    for op in address_ops:
        last = max((user for user in op.results[0].users if user in order), key=order.__getitem__)
        ending.setdefault(last, []).append(op.results[0])
    live = most = 0
    for op in address_ops:
        live += words(op.results[0])
        most = max(most, live)
        live -= sum(map(words, ending.get(op, ())))
    return most
