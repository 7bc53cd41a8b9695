"""Branches and loops: scalars are carried as values, tiles in memory that the next iteration overwrites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import Operation, Value

from .elements import Lanes, kind_of
from .plan import is_tile
from .tiles import At, Tile

if TYPE_CHECKING:
    from .lower import Lowering


def _is_scalar(low: Lowering, op: Operation, value: Value) -> bool:
    """Whether a carried value is a number; tiles and tokens are not."""
    if is_tile(value) or value.type.name == "nv_tileaa.mem_token":
        return False
    low.require(op, value.type.name in _NUMBERS, f"a carried value of type {value.type}")
    return True


_NUMBERS = ("builtin.integer_type", "builtin.float_type", "nv_tileaa.ptr", "builtin.index")


def _branch_values(low: Lowering, op: Any, end: Operation, places: dict[int, Tile]) -> dict[int, str]:
    """Write the tiles that a branch yields; the numbers that it yields, by position."""
    numbers: dict[int, str] = {}
    for position, value in enumerate(end.operands):
        if position in places:
            low.materialize(value, places[position])
        elif _is_scalar(low, op, value):
            numbers[position] = low.scalar(value)
    return numbers


def if_(low: Lowering, op: Any) -> None:
    code = low.code
    places = {
        position: low.allocate(value.type.shape, value.type.element_type)
        for position, value in enumerate(op.results) if is_tile(value)
    }  # fmt: skip
    labels, after = (code.label("then"), code.label("else")), code.label("fi")
    code.branch(low.scalar(op.condition), *labels)
    incoming: list[tuple[dict[int, str], str]] = []
    for label, region in zip(labels, op.regions):
        code.start(label)
        numbers: dict[int, str] = {}
        if region.blocks:
            end = low.run(region.block)
            numbers = _branch_values(low, op, end, places)
            low.finish()
        incoming.append((numbers, code.block))
        code.jump(after)
    code.start(after)
    for position, value in enumerate(op.results):
        if position in places:
            low.hold(value, places[position])
        elif _is_scalar(low, op, value):
            kind = kind_of(value.type)
            name = code.phi(kind.number, [(numbers[position], block) for numbers, block in incoming])
            low.values[value] = Lanes(kind, 1, name)


class _Carried:
    """The values that a loop carries: holes for the numbers, memory for the tiles."""

    def __init__(self, low: Lowering, op: Operation, inits: Sequence[Value]) -> None:
        """Before the loop."""
        self.low, self.op = low, op
        self.places: dict[int, Tile] = {}
        self.first: dict[int, str] = {}
        for position, value in enumerate(inits):
            if is_tile(value):
                self.places[position] = self._place(value)
            elif _is_scalar(low, op, value):
                self.first[position] = low.scalar(value)
        for tile in self.places.values():
            tile.root.pins += 1

    def _place(self, value: Value) -> Tile:
        """Memory for a tile: its own if nothing else needs it."""
        # A value that two arguments begin with has two holders at least.
        existing = self.low.values.get(value)
        if isinstance(existing, Tile) and not existing.as_numbers and list(self.op.operands).count(value) == 1:
            tile = self.low.take(value, self.op)
            if tile is not None:
                return tile
        fresh = self.low.allocate(value.type.shape, value.type.element_type)
        return self.low.materialize(value, fresh)

    def begin(self, arguments: Sequence[Value]) -> None:
        """At the head of the loop."""
        self.before, self.holes = self.low.code.block, {}
        self._arguments = arguments

    def open(self) -> None:
        """In the first block of the loop: its arguments."""
        for position, argument in enumerate(self._arguments):
            if position in self.places:
                self.low.values[argument] = self.places[position]
            elif position in self.first:
                hole = self.holes[position] = self.low.code.hole()
                self.low.values[argument] = Lanes(kind_of(argument.type), 1, hole[0])

    def own(self) -> None:
        """After the body has begun: tiles are held by the arguments up to their last uses."""
        for position, argument in enumerate(self._arguments):
            if position in self.places:
                self.low.hold(argument, self.places[position])

    def close(self, numbers: dict[int, str]) -> None:
        """At the end of the last block, from which the head is entered again."""
        code = self.low.code
        for position, hole in self.holes.items():
            kind = kind_of(self._arguments[position].type)
            incoming = f"[ {self.first[position]}, %{self.before} ], [ {numbers[position]}, %{code.block} ]"
            code.fill(hole, f"phi {kind.number} {incoming}")

    def unpin(self) -> None:
        for tile in self.places.values():
            tile.root.pins -= 1
            self.low.release(tile)


def pass_on(low: Lowering, op: Operation, values: Sequence[Value], places: dict[int, Tile]) -> dict[int, str]:
    """Write the tiles of the next iteration over those of this one; the numbers, by position.

    A tile is written in place if no other tile that is still to be written reads the memory, and the tile itself reads
    only the element that it writes; others are written elsewhere first.
    """
    numbers: dict[int, str] = {}
    pending: dict[int, Value] = {}
    for position, value in enumerate(values):
        if position not in places:
            if _is_scalar(low, op, value):
                numbers[position] = low.scalar(value)
            continue
        existing = low.values.get(value)
        if not (isinstance(existing, Tile) and existing.root is places[position].root):
            pending[position] = value
    aside: dict[int, Tile] = {}
    for position, value in pending.items():
        root = places[position].root
        others = [other for number, other in pending.items() if number != position]
        if low.reads(value, root, False) or any(low.reads(other, root) for other in others):
            aside[position] = low.materialize(value, low.allocate(value.type.shape, value.type.element_type))
    for position, value in pending.items():
        if position not in aside:
            low.materialize(value, places[position])
    for position, tile in aside.items():
        with low.each(tile.shape) as at:
            low.store(places[position], at, low.load(tile, at))
        low.release(tile)
    return numbers


def for_(low: Lowering, op: Any) -> None:
    code = low.code
    lower, upper, step = (_wide(low, value, "unsignedCmp" in op.attributes) for value in op.operands[:3])
    carried = _Carried(low, op, op.operands[3:])
    kind = kind_of(op.operands[0].type)
    # Trips are counted, since the counter may overflow behind the last iteration.
    runs = code.value(f"icmp {'ult' if 'unsignedCmp' in op.attributes else 'slt'} i64 {lower}, {upper}")
    distance = code.value(f"sub i64 {upper}, {lower}")
    room = code.value(f"add i64 {distance}, {code.value(f'sub i64 {step}, 1')}")
    positive = code.value(f"call i64 @llvm.smax.i64(i64 {step}, i64 1)")
    code.declarations["llvm.smax.i64"] = "declare i64 @llvm.smax.i64(i64, i64)"
    trips = code.value(f"udiv i64 {room}, {positive}")
    trips = code.value(f"select i1 {runs}, i64 {trips}, i64 0")
    block = op.regions[0].block
    head, body, after = code.label("for"), code.label("body"), code.label("end")
    carried.begin(block.arguments[1:])
    code.jump(head)
    code.start(head)
    trip = code.hole()
    carried.open()
    code.branch(code.value(f"icmp ult i64 {trip[0]}, {trips}"), body, after)
    code.start(body)
    number = code.value(f"add i64 {lower}, {code.value(f'mul i64 {trip[0]}, {step}')}")
    if kind.width < 64:
        number = code.value(f"trunc i64 {number} to {kind.number}")
    low.values[block.arguments[0]] = Lanes(kind, 1, number)
    end = low.run(block, carried.own)
    numbers = pass_on(low, op, end.operands, carried.places)
    low.finish()
    following = code.value(f"add i64 {trip[0]}, 1")
    code.fill(trip, f"phi i64 [ 0, %{carried.before} ], [ {following}, %{code.block} ]")
    carried.close(numbers)
    code.jump(head)
    code.start(after)
    _leave(low, op.results, block.arguments[1:], carried)


def _leave(low: Lowering, results: Sequence[Value], arguments: Sequence[Value], carried: _Carried) -> None:
    """The values that a loop leaves."""
    for position, (value, argument) in enumerate(zip(results, arguments, strict=True)):
        if position in carried.places:
            low.hold(value, carried.places[position])
        elif position in carried.first:
            low.values[value] = low.values[argument]
    carried.unpin()


def _wide(low: Lowering, value: Value, unsigned: bool) -> str:
    lanes = low.lanes(value, At(()))
    number = lanes.number(low.code)
    if lanes.kind.width == 64:
        return number
    return low.code.value(f"{'zext' if unsigned else 'sext'} {lanes.type} {number} to i64")


def while_(low: Lowering, op: Any) -> None:
    """The first region, which ends with a condition; the second one, which passes its values on to the first."""
    code = low.code
    before, after = (region.block for region in op.regions)
    carried = _Carried(low, op, op.operands)
    end = list(before.operations)[-1]
    initial = {
        position: _shared(carried, after, value, position)
        for position, value in enumerate(end.operands[1:]) if is_tile(value)
    }  # fmt: skip
    result = {position: low.allocate(*place) for position, place in initial.items() if not isinstance(place, Tile)}
    places: dict[int, Tile] = {**{p: t for p, t in initial.items() if isinstance(t, Tile)}, **result}
    for tile in places.values():
        tile.root.pins += 1
    head, body, leave = code.label("while"), code.label("do"), code.label("done")
    carried.begin(before.arguments)
    code.jump(head)
    code.start(head)
    carried.open()
    low.run(before, carried.own)
    numbers = pass_on(low, op, end.operands[1:], places)
    condition = low.scalar(end.operands[0])
    low.finish()
    code.branch(condition, body, leave)
    code.start(body)
    for position, argument in enumerate(after.arguments):
        if position in numbers:
            low.values[argument] = Lanes(kind_of(argument.type), 1, numbers[position])

    def own() -> None:
        for position, argument in enumerate(after.arguments):
            if position in places:
                low.hold(argument, places[position])

    last = low.run(after, own)
    again = pass_on(low, op, last.operands, carried.places)
    low.finish()
    carried.close(again)
    code.jump(head)
    code.start(leave)
    for position, value in enumerate(op.results):
        if position in places:
            low.hold(value, places[position])
        elif position in numbers:
            low.values[value] = Lanes(kind_of(value.type), 1, numbers[position])
    for tile in places.values():
        tile.root.pins -= 1
        low.release(tile)
    carried.unpin()


def _shared(carried: _Carried, after: Any, value: Value, position: int) -> Any:
    """The memory of a tile that the second region hands back unchanged; the shape and type of another one."""
    last = list(after.operations)[-1]
    for number, operand in enumerate(last.operands):
        if operand is after.arguments[position] and number in carried.places:
            if list(last.operands).count(operand) == 1:
                return carried.places[number]
    return value.type.shape, value.type.element_type


FAMILY = {"scf.if": if_, "scf.for": for_, "scf.while": while_}
