"""Dots into tensor memory become asynchronous: buffers for accumulators, groups, waits, and loads of what is used.

    %d = for %i ... (%acc = %zero):            %m = reserve;  %base = open %m;  %t = alloc %base
      %n = dot %a, %b, %acc                    %c = for %i ... (%count = 0):
      yield %n                           ->      dot %a, %b into %t if %i != lower;  %next = commit %m, %count
    use %d                                       wait %m, %next {pending = 1};  yield %next
                                               wait %m, %c {pending = 0};  %d = load %t;  dealloc %t
                                               use %d
                                               release %m

An accumulator that nothing else in its loop uses stays in its buffer.  Any other is stored before its dot unless it is
zero, and its result is loaded before the first use.  A first dot that adds to zero overwrites what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.copied_loads import is_zero
from tileiras.analysis.dots_in_flight import accumulated_in_place, is_of_tensor_memory
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import compare, integer
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Block, Builder, DenseElementsAttr, IntegerAttr, Operation, Region, TensorType, Value, i1, i32
from tileiras.layout.encoding import with_layout
from tileiras.layout.linear_layout import log2_exact
from tileiras.layout.tensor_memory import accumulator_layout
from tileiras.schedule.induction_variable import LoopCounter, trip_count
from tileiras.targets import mma_atom

from .dot_counts import thread_counts
from .dot_waits import Future, blocks_around, commits_behind, ends_of, is_left_alone, kept_attributes, waits_of


def materialize_tensor_dots(func: aa.FuncOp) -> None:
    """Rewrites the dots into tensor memory of a function of nv_tileas, in place.  Tiles that they read in shared memory
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
        """These dots."""
        self._buffers: dict[Any, Value] = {}
        """Dot -> the buffer that it adds to."""
        self._added: set[Operation] = set()
        """Dots whose results another one adds to in the same block."""
        start = Builder.at_start(func.body.blocks[0])
        start.location = dots[0].location
        self._reserve = start.insert(tileas.TensorReserveOp(commits=IntegerAttr(1, i32)))
        self._memory = self._reserve.results[0]
        self._base = start.insert(tileas.TensorOpenOp(self._memory)).results[0]
        self._repeats = any(any(scf.loops_around(dot)) for dot in dots)
        """Whether there may be more groups than dots."""
        self._none = integer(start, 0)
        """Groups before the first one; which there are elsewhere is said when all are there."""

    def run(self) -> None:
        for loop in dict.fromkeys(op.parent_op for op in self._dots if isinstance(op.parent_op, scf.ForOp)):
            found = accumulated_in_place(loop)
            if found:
                self._in_place[loop] = found
                self._stays.update(dot for dots in found.values() for dot in dots)
        for dot in self._dots:
            self._start(dot)
        pending = [self._wait(b) for b in dict.fromkeys(b for dot in self._dots for b in blocks_around(dot))]
        for loop, found in self._in_place.items():
            end = loop.yield_op
            end.operands = [loop.iter_args[n] if n in found else v for n, v in enumerate(end.operands)]
        for dot in reversed(self._dots):
            dot.erase()
        for loop, found in self._in_place.items():
            loop.without_carried(found)
        self._free_rest()
        # Warps are apart by what stands between two barriers, each commit at most once.
        commits = len(self._dots) + (max(pending) + 1 if self._repeats else 0)
        self._reserve.attributes["commits"] = IntegerAttr(1 << (commits - 1).bit_length(), i32)
        thread_counts(self._func.body.blocks[0], self._none)

    # -- dots ----------------------------------------------------------------------------------------------------------

    def _start(self, dot: tileas.DotOp) -> None:
        """Inserts the dot into its buffer, as a group; the old one stays until its uses have a load."""
        builder = Builder.before(dot)
        builder.location = dot.location
        buffer, adds = self._accumulator(dot, builder)
        self._buffers[dot] = buffer
        named = kept_attributes(dot)
        builder.insert(tileas.TensorDotOp(dot.a, dot.b, buffer, adds, **named))
        builder.insert(tileas.TensorCommitOp(self._memory, self._none))

    def _accumulator(self, dot: tileas.DotOp, builder: Builder) -> tuple[Value, Value]:
        """The buffer of a dot, and whether it adds to what is there."""
        before = dot.c.defining_op
        if before in self._buffers and before.parent is dot.parent and dot.c.has_one_use:
            self._added.add(before)
            return self._buffers[before], integer(builder, 1, i1)
        if dot not in self._stays:
            return self._filled(dot, dot.c, builder), integer(builder, int(not is_zero(dot.c)), i1)
        loop: Any = dot.parent_op
        init = loop.init_args[loop.iter_args.index(dot.c)]
        outside = Builder.before(loop)
        outside.location = loop.location
        buffer = self._filled(dot, init, outside)
        if is_zero(init):
            return buffer, compare(builder, "ne", loop.induction_variable, loop.lower_bound)
        return buffer, integer(builder, 1, i1)

    def _filled(self, dot: tileas.DotOp, value: Value, builder: Builder) -> Value:
        """A buffer with what a dot adds to, unless that is zero."""
        rows = mma_atom(dot.atom.atom).shape[0]
        layout = accumulator_layout(value.type.shape, rows, dot.exchanged is not None)
        type = tileas.TensorBufferType(with_layout(value.type, layout))
        buffer = builder.insert(tileas.TensorAllocOp(self._base, result=type)).results[0]
        if not is_zero(value):
            builder.insert(tileas.TensorStoreOp(value, buffer))
        return buffer

    # -- waits ---------------------------------------------------------------------------------------------------------

    def _wait(self, block: Block) -> int:
        """The waits of a block; returns how many groups one of them leaves under way at most."""

        def in_flight(places: dict[Operation, int], committed: list[int]) -> Iterator[Future]:
            return self._in_flight(block, places, committed)

        found = waits_of(block, in_flight, tileas.TensorCommitOp, self._users, tileas.MOST_COMMITS // 2)
        for wait in found:
            builder = Builder.before(wait.before)
            builder.location = wait.before.location
            builder.insert(tileas.TensorWaitOp(self._memory, self._none, pending=IntegerAttr(wait.pending, i32)))
            for future in wait.futures:
                self._load(future, builder)
        return max((wait.pending for wait in found), default=0)

    def _load(self, future: Future, builder: Builder) -> None:
        """What uses a tile gets it from its buffer, whose life ends."""
        tile, buffer = future.tile, future.value
        assert tile is not None and buffer is not None, "a tile that is used"
        users = self._users(tile)
        slices: list[Any] = [user for user in users if isinstance(user, tileas.ExtractSliceOp)]
        loop: Any = tile.defining_op
        runs = None
        if isinstance(loop, scf.ForOp) and is_zero(loop.init_args[tile.index]) and not trip_count(loop):  # type: ignore[attr-defined]
            runs = LoopCounter(loop).runs(builder)
        if len(slices) < len(users):
            loaded = _loaded(buffer, tile.type, runs, builder)
            tile.replace_uses_in(loaded, [user for user in users if user not in slices])
        places = {op: number for number, op in enumerate(builder.block.operations)}
        around = [builder.block.find_ancestor_op(part) for part in slices]
        last = max(around, key=lambda op: places[op], default=None)
        for part in slices:
            _load_slice(part, buffer, runs)
        end = builder if last is None else Builder.after(last)
        end.insert(tileas.TensorDeallocOp(buffer))

    def _users(self, tile: Value) -> list[Operation]:
        """Operations that use a tile in registers."""
        return [user for user in tile.users if user not in self._old]

    def _in_flight(self, block: Block, places: dict[Operation, int], committed: list[int]) -> Iterator[Future]:
        """What is under way in a block: what its loop carries, results of its dots and of the loops in it."""
        last = len(places) - 1
        loop: Any = block.parent_op
        for dots in self._in_place.get(loop, {}).values():
            if all(is_left_alone(dot, loop) for dot in dots):
                yield Future(None, None, 0, committed[-1] - committed[places[dots[-1]]], (last,))
            else:
                for dot in dots:
                    yield Future(None, None, places[dot], 0, (*ends_of(dot, block, places), last))
        for op in places:
            if op in self._old and op not in self._stays:
                tile = None if op in self._added else op.results[0]
                yield Future(self._buffers[op], tile, places[op], 0, (*ends_of(op, block, places), last))
            for number, dots in self._in_place.get(op, {}).items():
                tail = commits_behind(dots[-1], tileas.TensorCommitOp)
                ends = [end for dot in dots for end in ends_of(dot, block, places)]
                yield Future(self._buffers[dots[-1]], op.results[number], places[op] + 1, tail, (*ends, last))

    # -- the end -------------------------------------------------------------------------------------------------------

    def _free_rest(self) -> None:
        """Ends the lives of buffers that nothing loads, and behind all of them that of the columns."""
        for buffer in dict.fromkeys(self._buffers.values()):
            if not any(isinstance(user, tileas.TensorDeallocOp) for user in buffer.users):
                Builder.before(buffer.parent_block.last).insert(tileas.TensorDeallocOp(buffer))
        block = self._func.body.blocks[0]
        places = {op: number for number, op in enumerate(block.operations)}
        last = max(
            (block.find_ancestor_op(op) for op in self._func.walk() if op.name.startswith(names.TENSOR_MEMORY)),
            key=lambda op: places[op],
        )
        behind = Builder.before(last.next)
        behind.location = last.location
        behind.insert(tileas.TensorReleaseOp(self._memory))


def _load_slice(part: tileas.ExtractSliceOp, buffer: Value, runs: Value | None) -> None:
    """A slice of a tile comes from its part of the buffer."""
    builder = Builder.before(part)
    whole = buffer.type.tile
    columns = log2_exact(part.result.type.num_elements * buffer.type.columns // whole.num_elements)
    encoding = whole.encoding
    layout = tileas.TensorLayoutAttr(encoding.lane, encoding.column[:columns])
    type = tileas.TensorBufferType(TensorType(part.result.type.shape, whole.element_type, layout))
    slice = builder.insert(tileas.TensorSliceOp(buffer, list(part.coords), result=type)).results[0]
    inner: list[Any] = [user for user in part.result.users if isinstance(user, tileas.ExtractSliceOp)]
    for each in inner:
        _load_slice(each, slice, runs)
    if part.result.has_uses:
        part.result.replace_all_uses_with(_loaded(slice, part.result.type, runs, builder))
    part.erase()


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
