"""The smallest module that still fails: operations, regions, carried values and parameters are removed one by one.

Each attempt changes a copy, which replaces the module if it verifies and fails in the same way.  A removed value is
replaced by another of its type: an operand, the initial value of a loop, a value of a branch, a fresh token or zero.
Every accepted attempt leaves fewer operations, carried values or parameters, so the search ends by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tileiras.diagnostics import CompileError
from tileiras.dialects.cuda_tile import ops_control_flow as flow
from tileiras.dialects.cuda_tile.ops_core import ConstantOp
from tileiras.dialects.cuda_tile.ops_memory import MakeTokenOp
from tileiras.dialects.cuda_tile.types import TileType, is_number
from tileiras.ir import (
    Builder,
    DenseElementsAttr,
    FunctionType,
    Operation,
    Region,
    Value,
    VerifyError,
    remove_dead_operations,
    verify,
)
from tileiras.ir.traits import Terminator
from tileiras.sim.interpreter.values import width_of
from tileiras.stages.units import entries_of

Fails = Callable[[Operation, Sequence[Any]], bool]
"""Whether a module fails on a launch with these arguments as the whole one does."""
Edit = Callable[[Operation], bool]
"""A change of an entry; false where it does not apply."""
_KEPT = ("cuda_tile.constant", "cuda_tile.make_token")
"""Operations that stand for removed ones."""


def size(module: Operation) -> int:
    """Operations inside of the entries that are more than constants and tokens."""
    return sum(len(_removable(entry)) for entry in entries_of(module))


def reduced(
    module: Operation, arguments: Sequence[Any], fails: Fails, seconds: float = float("inf")
) -> tuple[Operation, list[Any]]:
    """The module of one entry, and its arguments, when no single removal fails in the same way, or time is up."""
    search = _Search(module, list(arguments), fails, time.monotonic() + seconds)
    before = None
    while before != (size(search.module), len(search.arguments)) and not search.is_late:
        before = size(search.module), len(search.arguments)
        search.without_regions()
        search.without_operations()
        search.without_carried_values()
    search.without_parameters()
    return search.module, search.arguments


class _Search:
    def __init__(self, module: Operation, arguments: list[Any], fails: Fails, deadline: float) -> None:
        self.module, self.arguments, self.fails, self.deadline = module, arguments, fails, deadline

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self.deadline

    def attempt(self, edit: Edit, dropped: int | None = None) -> bool:
        """Keep a copy with the edit if it fails in the same way; `dropped` is a parameter that it has no more."""
        if self.is_late:
            return False
        copy = self.module.clone({})
        arguments = [value for number, value in enumerate(self.arguments) if number != dropped]
        try:
            if not edit(next(iter(entries_of(copy)))):
                return False
            remove_dead_operations(copy)
            verify(copy)
        except (VerifyError, CompileError, ValueError):
            return False
        if not self.fails(copy, arguments):
            return False
        self.module, self.arguments = copy, arguments
        return True

    def entry(self) -> Operation:
        return next(iter(entries_of(self.module)))

    def without_regions(self) -> None:
        """Loops and branches go: wholly, or all but one execution of their body.  Outer ones first."""
        number = 0
        while number < len(_regional(self.entry())) and not self.is_late:
            edits = [_of(_regional, number, _drop), *(_of(_regional, number, each) for each in _INLINED)]
            if not any(self.attempt(edit) for edit in edits):
                number += 1

    def without_operations(self) -> None:
        """Runs of operations go, from the last one backwards; runs are halved down to single operations."""
        length = max(1, len(_removable(self.entry())) // 2)
        while length and not self.is_late:
            end = len(_removable(self.entry()))
            while end > 0:
                self.attempt(_dropped_run(max(0, end - length), end))
                end = min(end - length, len(_removable(self.entry())))
            length //= 2

    def without_carried_values(self) -> None:
        for number in range(len(_regional(self.entry()))):
            carried = 0
            while carried < len(_carried(_regional(self.entry())[number])) and not self.is_late:
                if not self.attempt(_of(_regional, number, lambda loop, at=carried: _drop_carried(loop, at))):
                    carried += 1

    def without_parameters(self) -> None:
        for number in reversed(range(len(self.arguments))):
            self.attempt(lambda entry, at=number: _drop_parameter(entry, at), dropped=number)


# -- the parts of an entry -------------------------------------------------------------------------------------------


def _removable(entry: Operation) -> list[Operation]:
    return [op for op in entry.walk() if op is not entry and op.name not in _KEPT and not op.has_trait(Terminator)]


def _regional(entry: Operation) -> list[Operation]:
    return [op for op in entry.walk() if isinstance(op, (flow.ForOp, flow.LoopOp, flow.IfOp))]


def _of(parts: Callable[[Operation], list[Operation]], number: int, edit: Edit) -> Edit:
    def change(entry: Operation) -> bool:
        there = parts(entry)
        return number < len(there) and edit(there[number])

    return change


# -- edits -----------------------------------------------------------------------------------------------------------


def _dropped_run(start: int, end: int) -> Edit:
    def change(entry: Operation) -> bool:
        # An operation inside of one that is removed goes with it; users go before their operands.
        run = _removable(entry)[start:end]
        inner = {each for op in run for each in op.walk() if each is not op}
        return any([_drop(op) for op in reversed(run) if op not in inner])

    return change


def _drop(op: Operation) -> bool:
    values = [_substitute(result, op) if result.has_uses else result for result in op.results]
    if any(value is None for value in values):
        return False
    for result, value in zip(op.results, values, strict=True):
        if value is not result:
            result.replace_all_uses_with(value)
    op.erase()
    return True


def _substitute(result: Value, op: Operation) -> Value | None:
    """A value in the place of a result."""
    if isinstance(op, flow.ForOp):
        return op.initValues[result.index]
    same = next((operand for operand in reversed(op.operands) if operand.type is result.type), None)
    if same is not None:
        return same
    type_ = result.type
    builder = Builder.before(op)
    if not isinstance(type_, TileType):
        return builder.insert(MakeTokenOp()).results[0] if str(type_).endswith("token") else None
    if not is_number(type_.element_type) or width_of(type_.element_type) < 8:
        return None
    zero = DenseElementsAttr(type_, bytes(width_of(type_.element_type) // 8), True)
    return builder.insert(ConstantOp(value=zero)).results[0]


def _inlined(op: Operation, region: int, with_counter: bool) -> bool:
    """One execution of a region in the place of its operation."""
    if len(op.regions) <= region or not op.regions[region].blocks:
        return False
    body = op.regions[region].block
    end = body.terminator
    entry = [op.operands[0], *op.initValues] if with_counter else list(getattr(op, "initValues", ()))
    if end is None or [value.type for value in end.operands] != [result.type for result in op.results]:
        return False
    for argument, value in zip(body.arguments, entry, strict=True):
        argument.replace_all_uses_with(value)
    left = list(end.operands)
    end.erase()
    for inner in list(body.operations):
        inner.move_before(op)
    op.replace_all_uses_with(left)
    op.erase()
    return True


_INLINED: tuple[Edit, ...] = (
    lambda op: isinstance(op, flow.ForOp) and _inlined(op, 0, True),
    lambda op: isinstance(op, flow.LoopOp) and _inlined(op, 0, False),
    lambda op: isinstance(op, flow.IfOp) and _inlined(op, 0, False),
    lambda op: isinstance(op, flow.IfOp) and _inlined(op, 1, False),
)


def _carried(op: Operation) -> Sequence[Value]:
    return op.initValues if isinstance(op, flow.ForOp) else ()


def _drop_carried(loop: Operation, number: int) -> bool:
    """The loop reads the initial value in each iteration and hands on one value less."""
    if not isinstance(loop, flow.ForOp):
        return False
    initial, body = loop.initValues[number], loop.regions[0].block
    loop.results[number].replace_all_uses_with(initial)
    body.arguments[number + 1].replace_all_uses_with(initial)
    for exit_ in list(_exits(loop)):
        exit_.operands = [value for at, value in enumerate(exit_.operands) if at != number]
    body.erase_argument(number + 1)
    region = loop.regions[0]
    fewer = flow.ForOp.create(
        [value for at, value in enumerate(loop.operands) if at != number + 3],
        [result.type for at, result in enumerate(loop.results) if at != number],
        dict(loop.attributes), [Region()], location=loop.location,
    )  # fmt: skip
    fewer.regions[0].take_blocks(region)
    assert loop.parent is not None
    loop.parent.insert_before(fewer, loop)
    results = [result for at, result in enumerate(loop.results) if at != number]
    for old, new in zip(results, fewer.results, strict=True):
        old.replace_all_uses_with(new)
    loop.erase()
    return True


def _exits(loop: Operation) -> Iterator[Operation]:
    """The `continue` operations of a loop, not those of loops in it."""
    for op in loop.walk():
        if isinstance(op, flow.ContinueOp):
            around = op.parent_op
            while not isinstance(around, (flow.ForOp, flow.LoopOp)):
                around = around.parent_op
            if around is loop:
                yield op


def _drop_parameter(entry: Operation, number: int) -> bool:
    body = entry.regions[0].block
    if body.arguments[number].has_uses:
        return False
    body.erase_argument(number)
    entry.attributes["function_type"] = FunctionType([each.type for each in body.arguments], [])
    return True
