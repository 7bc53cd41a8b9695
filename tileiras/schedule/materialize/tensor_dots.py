"""Dots into tensor memory become asynchronous: buffers for accumulators, groups, waits, and loads of results.

    %d = for %i ... (%acc = %zero):            %m = reserve;  %base = open %m;  %t = alloc %base
      %n = dot %a, %b, %acc                    %c = for %i ... (%count = 0):
      yield %n                           ->      dot %a, %b into %t if %i != lower;  %next = commit %m, %count
    use %d                                       wait %m, %next {pending = 1};  yield %next
                                               wait %m, %c {pending = 0};  %d = load %t;  dealloc %t
                                               use %d
                                               release %m

An accumulator without other uses in its loop stays in its buffer.  Any other is stored before its dot unless it is
zero, and its result is loaded before the first use.  A first dot that adds to zero overwrites the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.copied_loads import is_zero
from tileiras.analysis.dots_in_flight import accumulated_in_place, is_of_tensor_memory
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith import constant_integer
from tileiras.dialects.arith.build import binary, compare, integer
from tileiras.dialects.nv_tileas import names
from tileiras.ir import (
    Block,
    BlockArgument,
    Builder,
    DenseElementsAttr,
    IntegerAttr,
    Operation,
    Region,
    TensorType,
    UnitAttr,
    Value,
    i1,
    i32,
)
from tileiras.layout.accumulators import continues, reads_a_in_tensor_memory, rescaled_in_place, scaling_of
from tileiras.layout.linear_layout import log2_exact
from tileiras.layout.tensor_memory import COLUMNS
from tileiras.schedule.induction_variable import LoopCounter, trip_count

from .dot_counts import thread_counts
from .dot_waits import (
    Future,
    blocks_around,
    commits_behind,
    ends_of,
    is_left_alone,
    kept_attributes,
    reads_ring,
    refilled_of,
    waits_of,
)
from .scale_columns import ScaleTurns, columns_of_scales, scale_turns, words
from .tensor_buffers import accumulator_type, columns_taken, operand_type, program_of
from .tensor_groups import MOST_PENDING, await_groups, most_pending


def materialize_tensor_dots(func: aa.FuncOp) -> None:
    """Rewrite the dots into tensor memory of a function of nv_tileas, in place.  Tiles that they read in shared memory
    are in buffers."""
    dots = [op for op in func.walk() if is_of_tensor_memory(op)]
    if dots:
        _Rewriting(func, dots).run()


class _Rewriting:
    """The rewriting of the dots of a function."""

    def __init__(self, func: aa.FuncOp, dots: list[Any]) -> None:
        self._func = func
        self._dots = dots
        self._old: set[Operation] = set(dots)
        self._in_place: dict[Any, dict[int, list[Any]]] = {}
        """Loop -> number of each accumulator that stays in its buffer -> its dots."""
        self._stays: set[Operation] = set()
        """These dots, and those of `_rescaled`."""
        self._rescaled: dict[Any, dict[int, Any]] = {}
        """Loop -> number of each value loaded from the buffer that its dot fills in the previous iteration -> the
        dot."""
        self._homes: dict[Any, Value] = {}
        """Dot -> the buffer in which it leaves such a value."""
        self._scales: dict[Any, Operation] = {}
        """Dot -> the factor of such a value, if the multiplication is its only use."""
        self._multiplied: list[Operation] = []
        """The multiplications that these replace."""
        self._continued: dict[Any, Operation] = {}
        """Dot of a loop -> the later loop that continues with its result in the buffer."""
        self._overwrites: dict[Any, Operation] = {}
        """Dot -> the first operation of its iteration that writes there."""
        self._buffers: dict[Any, Value] = {}
        """Dot -> the buffer that it adds to."""
        self._stored: dict[Any, Operation] = {}
        """Dot -> the operation that stores its A in tensor memory."""
        self._for_scales: dict[Any, list[Value]] = {}
        """Dot -> the buffers of its scales."""
        self._turns: dict[Any, ScaleTurns] = {}
        """Dot -> stages of a pipe by which its scales have columns in turn."""
        self._added: set[Operation] = set()
        """Dots whose results another one adds to in the same block."""
        self._one_group: dict[Operation, None] = {}
        """Loops whose dots are one group, committed after them."""
        self._program = program_of(dots[0])
        """The block that the multiplying threads execute: of the function, or of one of its agents."""
        pair = dots[0].atom.is_of_pair  # as all are, or none
        # Of a pair of CTAs, all threads of both wait for it: not those of an agent.
        entry = Builder.at_start(func.body.blocks[0] if pair else self._program)
        entry.location = dots[0].location
        tensor_reserve = tileas.TensorReserveOp(commits=IntegerAttr(1, i32), pair=UnitAttr() if pair else None)
        self._reserve = entry.insert(tensor_reserve)
        self._memory = self._reserve.results[0]
        start = Builder.at_start(self._program) if pair else entry
        start.location = dots[0].location
        # As late as may be: a barrier for another reason may come before it.
        first = Builder.before(self._program.find_ancestor_op(dots[0]))
        first.location = dots[0].location
        self._base = first.insert(tileas.TensorOpenOp(self._memory)).results[0]
        columns_in_use, most = columns_taken(dots), COLUMNS // (func.kernel_spec.occupancy or 1)
        self._has_columns = columns_in_use <= most
        """Whether tensor memory has columns for each accumulator and each A."""
        turns = {dot: result for dot in dots if (result := scale_turns(dot)) is not None}
        if columns_in_use + sum(item.columns for item in turns.values()) <= most:
            self._turns = turns
        self._none = integer(start, 0)
        """The number of groups before the first one; other numbers are set once all groups exist."""

    def run(self) -> None:
        for loop in dict.fromkeys(op.parent_op for op in self._dots if isinstance(op.parent_op, scf.ForOp)):
            result = accumulated_in_place(loop)
            if result:
                self._in_place[loop] = result
                self._stays.update(dot for dots in result.values() for dot in dots)
            rescaled = rescaled_in_place(loop)
            if rescaled:
                self._rescaled[loop] = rescaled
                self._stays.update(rescaled.values())
                self._begin(loop, rescaled)
        self._one_group = {loop: None for loop in self._in_place if self._needs_no_wait(loop)}
        for dot in self._dots:
            self._start(dot)
        for loop in self._one_group:
            behind = Builder.after(loop)
            behind.location = loop.location
            behind.insert(tileas.TensorCommitOp(self._memory, self._none))
        for block in dict.fromkeys(block for dot in self._dots for block in blocks_around(dot)):
            self._wait(block)
        value = {loop: {*self._in_place.get(loop, ()), *self._rescaled.get(loop, ())} for loop in self._loops()}
        for loop, numbers in value.items():
            end = loop.yield_op
            end.operands = [loop.iter_args[n] if n in numbers else v for n, v in enumerate(end.operands)]
        for op in (*reversed(self._dots), *self._multiplied):
            op.erase()
        for loop, numbers in reversed(value.items()):  # an inner loop uses the carried values of its outer loop
            loop.without_carried(numbers)
        self._free_rest()
        await_groups(self._program)
        # Warps are apart by at most the operations between two barriers, each commit at most once.
        inside = (op for each in self._program.operations for op in each.walk())
        groups = [op for op in inside if isinstance(op, tileas.TensorCommitOp)]
        more = most_pending(self._program) + 1 if any(any(scf.loops_around(op)) for op in groups) else 0
        commits = len(groups) + more
        self._reserve.attributes["commits"] = IntegerAttr(1 << (commits - 1).bit_length(), i32)
        thread_counts(self._program, self._none)

    # -- dots ----------------------------------------------------------------------------------------------------------

    def _start(self, dot: tileas.DotOp) -> None:
        """Insert the dot into its buffer, as a group; the old one stays until its uses have a load."""
        builder = Builder.before(_before_arrivals(dot))
        builder.location = dot.location
        buffer, adds = self._accumulator(dot, builder)
        self._buffers[dot] = buffer
        a = self._operand(dot, builder) if reads_a_in_tensor_memory(dot) else dot.a
        builder = Builder.before(dot)
        builder.location = dot.location
        attributes = kept_attributes(dot)
        scales = self._scale_operands(dot, builder) if isinstance(dot, tileas.BlockScaledMmaOp) else []
        tensor_dot = builder.insert(tileas.TensorDotOp(a, dot.b, buffer, adds, scales, **attributes))
        if dot in self._homes:
            self._overwrites.setdefault(dot, tensor_dot)
        if dot.parent_op not in self._one_group:
            builder.insert(tileas.TensorCommitOp(self._memory, self._none))

    def _needs_no_wait(self, loop: scf.ForOp) -> bool:
        """Whether no thread has to wait for the dots of a loop before its end: all add to accumulators that stay in
        place, and their operands are not overwritten until they are complete."""
        there = {dot for dots in self._in_place[loop].values() for dot in dots}
        dots = [op for op in loop.walk() if op in self._old]
        return all(op in there and self._writes_no_columns(op) and _frees_by_itself(op, loop) for op in dots)

    def _writes_no_columns(self, dot: Any) -> bool:
        """Whether neither threads nor copies write, for a dot, to columns that an earlier one may still read."""
        if isinstance(dot, tileas.BlockScaledMmaOp) and dot not in self._turns:
            return False
        return not reads_a_in_tensor_memory(dot)

    def _accumulator(self, dot: tileas.DotOp, builder: Builder) -> tuple[Value, Value]:
        """The buffer of a dot, and whether it adds to the buffer's contents."""
        before = dot.c.defining_op
        if before in self._buffers and before.parent is dot.parent and dot.c.has_one_use:
            self._added.add(before)
            return self._buffers[before], integer(builder, 1, i1)
        if dot in self._homes:
            home = self._homes[dot]
            scaling = scaling_of(dot)
            if scaling is not None:
                multiplication, factor = scaling
                self._multiplied.append(multiplication)
                attributes = {"flush_to_zero": multiplication.flush_to_zero, "location": multiplication.location}
                scale = tileas.TensorScaleOp(factor, home, **attributes)
                self._overwrites[dot] = self._scales[dot] = builder.insert(scale)
            elif not is_zero(dot.c):
                self._overwrites[dot] = builder.insert(tileas.TensorStoreOp(dot.c, home))
            return home, integer(builder, int(not is_zero(dot.c)), i1)
        if dot not in self._stays:
            return self._fill(dot, dot.c, builder), integer(builder, int(not is_zero(dot.c)), i1)
        loop: Any = dot.parent_op
        init = loop.init_args[loop.iter_args.index(dot.c)]
        outside = Builder.before(loop)
        outside.location = loop.location
        buffer = self._fill(dot, init, outside)
        if is_zero(init):
            return buffer, compare(builder, "ne", loop.induction_variable, loop.lower_bound)
        return buffer, integer(builder, 1, i1)

    def _fill(self, dot: tileas.DotOp, value: Value, builder: Builder) -> Value:
        """A buffer with the accumulator of a dot, which is stored unless it is zero."""
        buffer = self._buffer(accumulator_type(dot), builder)
        if not is_zero(value):
            builder.insert(tileas.TensorStoreOp(value, buffer))
        return buffer

    def _buffer(self, type: tileas.TensorBufferType, builder: Builder) -> Value:
        return builder.insert(tileas.TensorAllocOp(self._base, result=type)).results[0]

    def _loops(self) -> list[Any]:
        """The loops that carry accumulators in buffers."""
        return list(dict.fromkeys((*self._in_place, *self._rescaled)))

    def _begin(self, loop: scf.ForOp, rescaled: dict[int, Any]) -> None:
        """Allocate the buffers of accumulators that iterations rescale, with their initial values."""
        outside = Builder.before(loop)
        outside.location = loop.location
        for number, dot in rescaled.items():
            before = continues(loop, number)
            if before in self._homes and accumulator_type(before) == accumulator_type(dot):
                self._homes[dot] = self._homes[before]
                self._continued[before] = loop
                continue
            self._homes[dot] = self._buffer(accumulator_type(dot), outside)
            outside.insert(tileas.TensorStoreOp(loop.init_args[number], self._homes[dot]))

    def _operand(self, dot: tileas.DotOp, builder: Builder) -> Value:
        """A buffer with A of a dot.  In columns of its own, which outlive its loop, the next iteration's dots may begin
        while this one reads it; in the columns of the tile that it is computed from they have to wait."""
        type = operand_type(dot)
        place = builder
        if self._has_columns and isinstance(dot.parent_op, scf.ForOp):
            place = Builder.before(dot.parent_op)
            place.location = dot.location
        buffer = self._buffer(type, place)
        self._stored[dot] = builder.insert(tileas.TensorStoreOp(dot.a, buffer))
        return buffer

    def _scale_operands(self, dot: tileas.BlockScaledMmaOp, builder: Builder) -> list[Value]:
        """The tiles of scales, and columns for them: in a loop for those of each stage of a pipe, or of two iterations,
        in turn, so that copies do not overwrite the scales of an earlier dot."""
        loop: Any = dot.parent_op
        turns = self._turns.get(dot)
        in_turn = _counts_by_one(loop)
        places = turns.places if turns is not None else 1 + in_turn
        place = Builder.before(loop if isinstance(loop, scf.ForOp) else dot)
        place.location = dot.location
        columns = columns_of_scales(dot)
        buffers = [self._buffer(words(size * places), place) for size in columns]
        self._for_scales[dot] = buffers
        if places > 1:
            if turns is not None:
                turn = turns.stage
            else:
                distance = binary(builder, arith.SubIOp, loop.induction_variable, loop.lower_bound)
                turn = binary(builder, arith.AndIOp, distance, integer(builder, 1, distance.type))
            coords = [integer(builder, 0, turn.type), turn]
            slices = [tileas.TensorSliceOp(b, coords, result=words(size)) for b, size in zip(buffers, columns)]
            buffers = [builder.insert(slice).results[0] for slice in slices]
        return [dot.scale_a, dot.scale_b, *buffers]

    # -- waits ---------------------------------------------------------------------------------------------------------

    def _wait(self, block: Block) -> None:
        """Insert the waits of a block."""

        def in_flight(places: dict[Operation, int], committed: list[int]) -> Iterator[Future]:
            return self._in_flight(block, places, committed)

        waits = waits_of(block, in_flight, tileas.TensorCommitOp, self._users, MOST_PENDING)
        for wait in waits:
            builder = Builder.before(wait.before)
            builder.location = wait.before.location
            builder.insert(tileas.TensorWaitOp(self._memory, self._none, pending=IntegerAttr(wait.pending, i32)))
            for future in wait.futures:
                self._load(future, builder)
        self._load_what_is_complete(block)

    def _load(self, future: Future, builder: Builder) -> None:
        """Load a tile for its users from its buffer, whose life ends unless the next iteration uses it again."""
        tile, buffer = future.tile, future.value
        assert tile is not None and buffer is not None, "a tile that is used"
        users = self._users(tile)
        if isinstance(tile, BlockArgument):
            self._load_argument(tile, buffer, users)
            return
        slices = [user for user in users if _is_slice(user, buffer)]
        loop: Any = tile.defining_op
        runs = None
        place: int = tile.index  # type: ignore[attr-defined]
        in_place = place in self._in_place.get(loop, ())
        if in_place and is_zero(loop.init_args[place]) and not trip_count(loop):
            runs = LoopCounter(loop).runs(builder)
        if len(slices) < len(users):
            loaded = _loaded(buffer, tile.type, runs, builder)
            tile.replace_uses_in(loaded, [user for user in users if user not in slices])
        loads = [builder.block.find_ancestor_op(load) for part in slices for load in _load_slice(part, buffer, runs)]
        last = max(loads, key=list(builder.block.operations).index, default=None)
        end = builder if last is None else Builder.after(last)
        end.insert(tileas.TensorDeallocOp(buffer))

    def _load_argument(self, tile: BlockArgument, buffer: Value, users: list[Operation]) -> None:
        """Load the previous iteration's result from a buffer at its first use, before this iteration overwrites it."""
        places = {op: number for number, op in enumerate(tile.block.operations)}
        around = [op for user in users if (op := tile.block.find_ancestor_op(user)) is not None]
        dot = next(dot for dot, home in self._homes.items() if home is buffer)
        if dot in self._scales:
            return
        if around:
            builder = Builder.before(min((*around, self._overwrites[dot]), key=lambda op: places[op]))
            tile.replace_uses_in(_loaded(buffer, tile.type, None, builder), users)

    def _users(self, tile: Value) -> list[Operation]:
        """Operations that use a tile in registers."""
        return [user for user in tile.users if user not in self._old]

    def _in_flight(self, block: Block, places: dict[Operation, int], committed: list[int]) -> Iterator[Future]:
        """The tiles in flight in a block: those that its loop carries, results of its dots and of the loops in it."""
        last = len(places) - 1
        loop: Any = block.parent_op
        for dots in self._carried(loop) if loop not in self._one_group else ():
            tail = committed[-1] - committed[places[dots[-1]]]
            writers = [self._stored[dot] for dot in dots if dot in self._stored]
            writers += [self._overwrites[dot] for dot in dots if dot in self._overwrites]
            refilled = [place for dot in dots for place in refilled_of(dot, block, places)]
            ends = (*(places[op] for op in writers), *refilled, last)
            if not all(self._may_fly(dot, loop) for dot in dots):
                for dot in dots:
                    yield Future(None, None, places[dot], 0, (*ends_of(dot, block, places), last))
            elif dots[0] in self._homes:
                number = next(n for n, dot in self._rescaled[loop].items() if dot is dots[0])
                yield Future(self._homes[dots[0]], loop.iter_args[number], 0, tail, ends, True)
            else:
                yield Future(None, None, 0, tail, ends, True)
        for op in places:
            if op in self._old and op not in self._stays:
                tile = None if op in self._added else op.results[0]
                yield Future(self._buffers[op], tile, places[op], 0, (*ends_of(op, block, places), last))
            for number, dots in self._carried_by(op).items():
                whole = op in self._one_group
                tail = 0 if whole else commits_behind(dots[-1], tileas.TensorCommitOp)
                ends = [end for dot in dots for end in ends_of(dot, block, places)]
                start = places[op] + 1 + whole
                if dots[-1] in self._continued:
                    # The loop that continues with it counts its own groups only.
                    yield Future(None, None, start, tail, (*ends, places[self._continued[dots[-1]]], last))
                    continue
                yield Future(self._buffers[dots[-1]], op.results[number], start, tail, (*ends, last))

    def _carried_by(self, loop: Any) -> dict[int, list[Any]]:
        """The dots that leave each value that a loop carries in a buffer."""
        return self._in_place.get(loop, {}) | {n: [dot] for n, dot in self._rescaled.get(loop, {}).items()}

    def _carried(self, loop: Any) -> list[list[Any]]:
        return list(self._carried_by(loop).values())

    def _may_fly(self, dot: tileas.DotOp, loop: scf.ForOp) -> bool:
        """Whether no operand of a dot of a loop is overwritten before the dot of the next iteration has begun, except
        its own A and its scales in tensor memory."""
        in_turn = dot in self._turns or _counts_by_one(loop)
        own = in_turn if dot in self._for_scales else dot not in self._stored or self._has_columns
        return own and is_left_alone(dot, loop)

    def _load_what_is_complete(self, block: Block) -> None:
        """Load at the head of an iteration the results that the previous one has waited for."""
        loop: Any = block.parent_op
        for number, dot in self._rescaled.get(loop, {}).items():
            tile = loop.iter_args[number]
            if not self._may_fly(dot, loop):
                self._load_argument(tile, self._homes[dot], self._users(tile))

    # -- the end -------------------------------------------------------------------------------------------------------

    def _free_rest(self) -> None:
        """Deallocate buffers that nothing loads, and release the columns after all of them."""
        operands = [op.buffer for op in self._stored.values()]  # type: ignore[attr-defined]
        scales = [buffer for buffers in self._for_scales.values() for buffer in buffers]
        for buffer in dict.fromkeys((*self._buffers.values(), *operands, *scales)):
            if not any(isinstance(user, tileas.TensorDeallocOp) for user in buffer.users):
                Builder.before(buffer.parent_block.last).insert(tileas.TensorDeallocOp(buffer))
        block = self._program
        places = {op: number for number, op in enumerate(block.operations)}
        users = (op for op in self._func.walk() if op.name.startswith(names.TENSOR_MEMORY) and op is not self._reserve)
        last = max((block.find_ancestor_op(op) for op in users), key=lambda op: places[op])
        behind = Builder.before(last.next)
        behind.location = last.location
        behind.insert(tileas.TensorReleaseOp(self._memory))


def _before_arrivals(dot: Operation) -> Operation:
    """A dot, or the wait for copies immediately before it: the barrier after that wait then also serves the tiles that
    threads store for the dot."""
    while isinstance(dot.prev, (tileas.AsyncWaitOp, tileas.FenceProxyOp)) or _waits_for_stage(dot.prev):
        dot = dot.prev
    return dot


def _waits_for_stage(op: Operation | None) -> bool:
    return op is not None and op.name == names.CONSUMER_WAIT


def _counts_by_one(loop: Operation | None) -> bool:
    """Whether the iterations of a loop are even and odd in turn, as their counters are."""
    return isinstance(loop, scf.ForOp) and constant_integer(loop.step) == 1


def _load_slice(part: tileas.ExtractSliceOp, buffer: Value, runs: Value | None) -> list[Any]:
    """A slice of a tile comes from its part of the buffer; gives the operations that load it, or slices of it."""
    builder = Builder.before(part)
    whole, layout = buffer.type.tile, _first_columns(part, buffer)
    type = tileas.TensorBufferType(TensorType(part.result.type.shape, whole.element_type, layout))
    slice = builder.insert(tileas.TensorSliceOp(buffer, list(part.coords), result=type)).results[0]
    inner = [user for user in part.result.users if _is_slice(user, slice)]
    loads = [load for each in inner for load in _load_slice(each, slice, runs)]
    if part.result.has_uses:
        loaded = _loaded(slice, part.result.type, runs, builder)
        part.result.replace_all_uses_with(loaded)
        loads.append(loaded.defining_op)
    part.erase()
    return loads


def _first_columns(part: tileas.ExtractSliceOp, buffer: Value) -> tileas.TensorLayoutAttr:
    """The layout of the first columns of a buffer, as many as hold the elements of a part."""
    whole = buffer.type.tile
    columns = part.result.type.num_elements * buffer.type.columns // whole.num_elements
    return tileas.TensorLayoutAttr(whole.encoding.lane, whole.encoding.column[: log2_exact(max(columns, 1))])


def _is_slice(user: Any, buffer: Value) -> bool:
    """Whether an operation takes a part of the tile in a buffer that lies in neighbouring columns of all its lanes.

    Parts along lanes, which programs cut, come from the loaded tile.
    """
    if not isinstance(user, tileas.ExtractSliceOp):
        return False
    layout, shape = _first_columns(user, buffer), user.result.type.shape
    bases = [basis for basis in (*layout.lane, *layout.column) if any(basis)]
    is_inside = all(at < n for basis in bases for at, n in zip(basis, shape))
    return is_inside and 1 << len(bases) == user.result.type.num_elements


def _frees_by_itself(dot: Any, loop: scf.ForOp) -> bool:
    """Whether no operand of a dot is overwritten before its completion has been signalled: either by no operation in
    the loop, or by operations that wait for a stage of a pipe."""
    return is_left_alone(dot, loop) and not reads_ring(dot, loop)


def _loaded(buffer: Value, type: TensorType, runs: Value | None, builder: Builder) -> Value:
    """The tile in a buffer; zeros, and nothing from the buffer, unless the loop that fills it `runs`."""
    load = tileas.TensorLoadOp(buffer, result=type, location=builder.location)
    if runs is None:
        return builder.insert(load).results[0]
    size = max(1, type.element_type.width // 8)
    zero = arith.ConstantOp(DenseElementsAttr(type, bytes(size), True), location=builder.location)
    regions = []
    for op in (load, zero):
        block = Block()
        inner = Builder.at_end(block)
        inner.location = builder.location
        inner.insert(scf.YieldOp.create((inner.insert(op).results[0],)))
        regions.append(Region([block]))
    return builder.insert(scf.IfOp.create((runs,), (type,), {}, regions)).results[0]
