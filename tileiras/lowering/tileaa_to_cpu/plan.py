"""Which tiles are computed where they are used, and how long the others live.

A tile without a place in memory is an expression: every use computes the elements that it needs, in its own loop.  So
chains of elementwise operations become one loop, and ranges, splats, broadcasts and masks cost no memory.  An
expression that is used more than once, or for several elements of the user, is computed once, unless it is made of
scalars by a few integer instructions.

A tile in memory whose first use is a reduction is sunk into it: the loops of the reduction compute the elements and
write them for the later uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.derivations import is_derived, settle
from tileiras.dialects.nv_tileaa import ReduceOp, ScanOp
from tileiras.ir import FloatType, Operation, TensorType, Value, element_type_of, has_no_effect

from .elementwise import ELEMENTWISE
from .shape import EXPRESSIONS, is_renaming

FREE = 0
CHEAP = 6
"""Integer operations that are repeated rather than kept."""


LOADS = ("nv_tileaa.load", "nv_tileaa.tiled_load")
SOURCES = ("nv_tileaa.splat", "nv_tileaa.make_range")
"""Operations whose elements cost nothing."""


def is_tile(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def is_single(value: Value) -> bool:
    """Whether a value is a tile with one element, which is held as a scalar is."""
    return is_tile(value) and all(size == 1 for size in value.type.shape)


class Plan:
    """Decisions about the tiles of one function."""

    def __init__(self, function: Operation) -> None:
        self._costs: dict[Operation, int | None] = {}
        self._expressions: set[Operation] = set()
        self._sunk: dict[Operation, Operation] = {}
        self._readers: dict[Value, list[Operation]] = {}
        self._ends: dict[Value, int] = {}
        self.positions: dict[Operation, int] = {}
        for op in function.walk():
            for region in op.regions:
                for block in region.blocks:
                    for position, inner in enumerate(block.operations):
                        self.positions[inner] = position
        for op in function.walk():
            if op.results and is_tile(op.results[0]) and self._is_expression(op):
                self._expressions.add(op)
        # A tile may be sunk through a later one that is sunk itself.
        for op in reversed(list(self.positions)):
            reduction = self._reduction(op)
            if reduction is not None:
                self._sunk[op] = reduction

    def is_expression(self, op: Operation) -> bool:
        """Whether uses compute the result of the operation."""
        return op in self._expressions

    # -- tiles that a reduction computes -----------------------------------------------------------------------------

    def sinks_into(self, op: Operation) -> Operation | None:
        """The reduction whose loops compute the tile of an operation; None for most operations."""
        return self._sunk.get(op)

    def _reduction(self, op: Operation) -> Operation | None:
        if not op.results or op in self._expressions or not is_tile(op.results[0]) or is_single(op.results[0]):
            return None
        if op.name not in LOADS and op.name not in ELEMENTWISE or not op.results[0].users:
            return None
        value, block = op.results[0], op.parent
        users = self._users(value)
        first = min(users, key=lambda user: self._position(block, user))
        if not isinstance(first, ReduceOp) or first.parent is not block or not _takes_vectors(first):
            return None
        if value.type.shape != first.operands[0].type.shape or not self._is_elementwise(value, first):
            return None
        if op.name in LOADS and not self._is_movable(op, first):
            return None
        return first

    def _users(self, value: Value) -> list[Operation]:
        """The operations whose loops read a value, with those that follow it already decided."""
        return settle(value, self._readers, [], self._expressions_of, self._readers_of)

    def _expressions_of(self, value: Value) -> list[Value]:
        """The results of the expressions that use a value."""
        return [user.results[0] for user in value.users if user in self._expressions]

    def _readers_of(self, value: Value, expressions: Sequence[Value]) -> list[Operation]:
        items: list[Operation] = []
        for user in value.users:
            inside = user in self._expressions
            items += self._readers[user.results[0]] if inside else [self._sunk.get(user, user)]
        return items

    def _is_elementwise(self, value: Value, reduction: Operation) -> bool:
        """Whether all uses of a value by the loops of a reduction are at the position that they compute."""
        worklist, seen = [value], {value}
        while worklist:
            for user in worklist.pop().users:
                if user is reduction or self._sunk.get(user) is reduction:
                    continue
                if user in self._expressions and reduction in self._users(user.results[0]):
                    if user.name in EXPRESSIONS:
                        return False
                    if user.results[0] not in seen:
                        seen.add(user.results[0])
                        worklist.append(user.results[0])
        return True

    def _is_movable(self, load: Operation, reduction: Operation) -> bool:
        """Whether a load may take place in the reduction: nothing in between writes."""
        op: Operation | None = load
        while op is not None and op is not reduction:
            if not has_no_effect(op) and not is_weak_load(op):
                return False
            op = op.next
        return True

    # -- expressions -------------------------------------------------------------------------------------------------

    def _is_expression(self, op: Operation) -> bool:
        if op.name in EXPRESSIONS:
            return is_renaming(op)
        if op.name not in ELEMENTWISE:
            return False
        if _is_in_combiner(op):
            return True
        cost = self._cost(op.results[0])
        if cost is not None and cost <= CHEAP:
            return True
        users = op.results[0].users
        if len(users) != 1:
            return False
        return self._uses_each_once(op, users[0])

    def _uses_each_once(self, op: Operation, user: Operation) -> bool:
        """Whether the only user computes each element once, in the same block."""
        if user.parent is not op.parent or user.regions and not isinstance(user, ReduceOp | ScanOp):
            return False
        if user.name in ("nv_tileaa.dot", "nv_tileaa.block_scaled_mma", "nv_tileaa.broadcast", "scf.yield"):
            return user.name == "scf.yield"
        if user.name in EXPRESSIONS:
            following = user.results[0].users
            return is_renaming(user) and len(following) == 1 and self._uses_each_once(user, following[0])
        return True

    def _cost(self, value: Value) -> int | None:
        """Integer operations on scalars that make an element; None for other expressions."""
        op = value.defining_op
        if not is_tile(value):
            return FREE
        if op is None:
            return None
        return settle(op, self._costs, None, _operations_behind, self._cost_of)

    def _cost_of(self, op: Operation, operations: Sequence[Operation]) -> int | None:
        if op.name in SOURCES:
            return FREE
        if op.name == "arith.constant":
            return FREE if op.attributes["value"].is_splat else None
        if not _has_cost_of_operands(op):
            return None
        own = 0 if op.name in EXPRESSIONS else 1
        costs = [self._cost(operand) for operand in op.operands]
        if any(cost is None for cost in costs):
            return None
        return own + sum(cost for cost in costs if cost is not None)

    # -- lifetimes ---------------------------------------------------------------------------------------------------

    def end(self, value: Value) -> int:
        """The position, in the block of the value, of the last operation that reads it; -1 without one."""
        return settle(value, self._ends, -1, self._expressions_of, self._end_of)

    def _end_of(self, value: Value, expressions: Sequence[Value]) -> int:
        block = value.parent_block
        result = -1
        for user in value.users:
            result = max(result, self._position(block, user))
            if user in self._expressions:
                result = max(result, self._end_in(block, user))
            elif user in self._sunk:
                result = max(result, self._position(block, self._sunk[user]))
        return result

    def is_used_inside(self, value: Value, op: Operation) -> bool:
        """Whether the regions of an operation read a value."""

        def expressions(value: Value) -> Sequence[Value] | None:
            is_inside = any(user is not op and self._is_inside(user, op) for user in value.users)
            return None if is_inside else self._expressions_of(value)

        return not is_derived((value,), expressions)

    @staticmethod
    def _is_inside(op: Operation, outer: Operation) -> bool:
        around = op.parent_op
        while around is not None and around is not outer:
            around = around.parent_op
        return around is outer

    def _end_in(self, block: Any, expression: Operation) -> int:
        """The end of an expression as a position of a block around it."""
        last = self.end(expression.results[0])
        if expression.parent is block:
            return last
        return self._position(block, expression)

    def _position(self, block: Any, op: Operation) -> int:
        around: Operation | None = op
        while around is not None and around.parent is not block:
            around = around.parent_op
        return -1 if around is None else self.positions[around]


def _takes_vectors(reduction: Operation) -> bool:
    """Whether the combiner of a reduction is made of operations on vectors."""
    return all(inner.name in (*ELEMENTWISE, "nv_tileaa.yield") for inner in reduction.regions[0].block.operations)


def is_weak_load(op: Operation) -> bool:
    """Whether an operation is a load that orders nothing."""
    return op.name in LOADS and op.mem_semantic.value == "weak"


def _is_in_combiner(op: Operation) -> bool:
    return isinstance(op.parent_op, ReduceOp | ScanOp)


def _is_simple(op: Operation) -> bool:
    """Whether an operation is an instruction or two on integers."""
    if op.name not in ELEMENTWISE or "div" in op.name or "rem" in op.name:
        return False
    return not any(isinstance(element_type_of(value.type), FloatType) for value in (*op.operands, *op.results))


def _has_cost_of_operands(op: Operation) -> bool:
    return is_renaming(op) if op.name in EXPRESSIONS else _is_simple(op)


def _operations_behind(op: Operation) -> list[Operation]:
    """The operations whose costs are in that of an operation."""
    if op.name in SOURCES or op.name == "arith.constant" or not _has_cost_of_operands(op):
        return []
    return [each.defining_op for each in op.operands if is_tile(each) and each.defining_op is not None]
