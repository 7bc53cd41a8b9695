"""Selects operands of dots by multiply-adds that go to shared memory, from where loops over K read them.

A buffer lives from the first dot that reads its tile to the last one; dots without room for their operands stay
unrolled, or are executed a part after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileiras.analysis.derivations import uses_through
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import integer
from tileiras.ir import Block, Builder, Operation, Value
from tileiras.layout.encoding import layout_of
from tileiras.reasons import Reason
from tileiras.resources.large_dots import OPERAND_MAKERS, is_multiply_add
from tileiras.resources.shared_memory import buffer_bytes, scratch_bytes, shared_budget
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target

from .dot_k_loops import Dot, buffer_type, bytes_of, dot_of, make_loop

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext


class LegalizeFmaDot(FunctionPass):
    name = "tileas-legalize-fma-dot"
    optional = True
    requires = "LAYOUTS"
    needs = "layouts and atoms; loads that run ahead are in buffers already"
    establishes = "loops over K for large dots by multiply-adds, as far as shared memory goes"
    keeps = "values, the order of additions, other dots"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        loop_fma_dots(func, gpu, context.engine)


def loop_fma_dots(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Make loops of the large dots by multiply-adds of a function of nv_tileas, in place; a remark says which found no
    shared memory."""
    dots = [result for op in func.walk() if (result := dot_of(op, target)) is not None and is_multiply_add(op)]
    if not dots:
        return
    plan = _Plan(func, shared_budget(func, target))
    for dot in dots:
        if not any(map(plan.add, (dot, *dot.cut()))) and engine is not None:
            engine.emit(Remark(Reason("dots.fma-unrolled"), dot.op.location))
    plan.run()


class Stored(NamedTuple):
    """A tile that goes to shared memory, and the dots that read slices of it."""

    value: Value
    dots: list[Dot]

    def buffer_type(self) -> tileas.BufferType:
        readers = {}
        for dot in self.dots:
            for operand, types in zip(dot.operands, dot.slice_types()):
                if operand.smem_tile is self.value:
                    readers[layout_of(types[0])] = dot.iterations
        type = self.value.type
        return buffer_type(layout_of(type), type.element_type, readers)


class Span(NamedTuple):
    """Where in a block buffers live: numbers of operations, the last included."""

    first: int
    last: int
    tiles: tuple[Stored, ...]

    @property
    def bytes(self) -> int:
        return sum(bytes_of(each.value) for each in self.tiles)

    def joined(self, other: Span) -> Span:
        return Span(min(self.first, other.first), max(self.last, other.last), (*self.tiles, *other.tiles))

    def crosses(self, other: Span) -> bool:
        """Whether they overlap and neither is a part of the other."""
        if self.last < other.first or other.last < self.first:
            return False
        inside = self.first <= other.first and other.last <= self.last
        return not inside and not (other.first < self.first and self.last < other.last)


def _spans(block: Block, tiles: list[Stored]) -> list[Span]:
    """The lives of the buffers for these tiles, which are values of the block.  Those that overlap are one, and none
    ends within the life of another buffer that it began before: buffers end in the opposite order to that of their
    beginning."""
    order = {op: number for number, op in enumerate(block.operations)}
    spans = []
    for tile in tiles:
        places = [order[block.find_ancestor_op(dot.op)] for dot in tile.dots]  # type: ignore[index]
        spans.append(Span(min(places), max(places), (tile,)))
    others = []
    for op in order:
        if isinstance(op, tileas.AllocTensorOp):
            ends = [order[user] for user in op.result.users if isinstance(user, tileas.DeallocTensorOp)]
            others.append(Span(order[op], max(ends), ()))
    spans_so_far: list[Span] = []
    while spans:
        span = spans.pop()
        overlaps = [other for other in spans_so_far if not (other.last < span.first or span.last < other.first)]
        crossed = [other for other in others if span.crosses(other)]
        if not overlaps and not crossed:
            spans_so_far.append(span)
            continue
        spans_so_far = [other for other in spans_so_far if other not in overlaps]
        for other in (*overlaps, *crossed):
            span = span.joined(other)
        spans.append(span)
    return sorted(spans_so_far, key=lambda span: span.first)


class _Plan:
    """The operands that go to shared memory, as far as there is room."""

    def __init__(self, func: aa.FuncOp, budget: int) -> None:
        self._func = func
        self._budget = budget
        self._dots: list[Dot] = []
        self._used = self._required_bytes()

    def add(self, dot: Dot) -> bool:
        """Whether there is room for the operands of one more dot."""
        self._dots.append(dot)
        size = self._required_bytes()
        # An estimate that is above the budget already says nothing against a dot that adds nothing.
        if size > max(self._budget, self._used):
            self._dots.pop()
            return False
        self._used = size
        return True

    def _required_bytes(self) -> int:
        return self._most(self._func.body.block, self._smem_tiles(), self._unused_conversions())

    def _smem_tiles(self) -> dict[Block, list[Stored]]:
        """The tiles that go to shared memory, by the blocks that they are values of."""
        result: dict[Value, Stored] = {}
        for dot in self._dots:
            for value in dict.fromkeys(dot.smem_tiles if dot.parts == 1 else ()):
                result.setdefault(value, Stored(value, [])).dots.append(dot)
        by_block: dict[Block, list[Stored]] = {}
        for tile in result.values():
            by_block.setdefault(tile.value.parent_block, []).append(tile)  # type: ignore[arg-type]
        return by_block

    def _unused_conversions(self) -> set[Operation]:
        """Conversions that are no longer used."""
        ops = {dot.op for dot in self._dots}
        operands = (value for dot in self._dots for value in dot.op.operands[:2])
        makers = (op for value in operands for op in _makers(value))
        return {op for op in makers if isinstance(op, tileas.ConvertLayoutOp) and _users(op.result) <= ops}

    def _most(self, block: Block, tiles: dict[Block, list[Stored]], replaced: set[Operation]) -> int:
        """Most bytes of shared memory in use at a time in a block."""
        spans = _spans(block, tiles[block]) if block in tiles else []
        parts = {dot.op: dot.part_bytes for dot in self._dots}
        current = most = 0
        for number, op in enumerate(block.operations):
            current += sum(span.bytes for span in spans if span.first == number) + buffer_bytes(op)
            nested = max((self._most(b, tiles, replaced) for region in op.regions for b in region.blocks), default=0)
            nested += parts.get(op, 0)
            most = max(most, current + nested + (0 if op in replaced else scratch_bytes(op, self._budget)))
            current -= sum(span.bytes for span in spans if span.last == number)
        return most

    def run(self) -> None:
        buffers: dict[Value, Value] = {}
        for block, result in self._smem_tiles().items():
            operations = list(block.operations)
            for span in _spans(block, result):
                _store(operations, span, buffers)
        for dot in self._dots:
            make_loop(dot, buffers)


def _makers(value: Value) -> Iterator[Operation]:
    op = value.defining_op
    while isinstance(op, OPERAND_MAKERS):
        yield op
        op = op.operands[0].defining_op


def _users(value: Value) -> set[Operation]:
    """The users of a value, directly or through conversions and view-like operations."""
    return {user for user, _ in uses_through(value, lambda user: isinstance(user, OPERAND_MAKERS))}


def _store(operations: list[Operation], span: Span, buffers: dict[Value, Value]) -> None:
    """Allocate the buffers of a span, and store tiles to them before their first use: together, as far as they are
    there, so that one barrier serves them all."""
    before, after = Builder.before(operations[span.first]), Builder.after(operations[span.last])
    for tile in span.tiles:
        buffers[tile.value] = before.insert(tileas.AllocTensorOp(result=tile.buffer_type())).results[0]
    for tile in reversed(span.tiles):
        after.insert(tileas.DeallocTensorOp(buffers[tile.value]))
    stage = integer(before, 0)
    order = {op: number for number, op in enumerate(operations)}
    places: list[Operation] = []
    for tile in sorted(span.tiles, key=lambda tile: _first_use(tile, order)):
        origin = tile.value.defining_op
        result = (place for place in places if origin is None or origin.is_before_in_block(place))
        place = next(result, operations[_first_use(tile, order)])
        if place not in places:
            places.append(place)
        builder = Builder.before(place)
        builder.insert(tileas.StoreTensorOp(tile.value, buffers[tile.value], stage))


def _first_use(tile: Stored, order: dict[Operation, int]) -> int:
    """The number of the first operation of a block that reads a tile which is a value of the block."""
    block = tile.value.parent_block
    assert block is not None
    return min(order[block.find_ancestor_op(dot.op)] for dot in tile.dots)  # type: ignore[index]
