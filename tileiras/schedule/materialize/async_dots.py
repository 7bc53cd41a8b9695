"""Dots of warpgroups become asynchronous, with waits as late and as weak as the uses of their results allow.

    %s = dot %q, %k, %zero                     %n = async.create_none
    %p = ... %s ...                            %f = async.dot %q, %k, %n {overwrites};  async.commit_dots
                                        ->     %s = async.future_wait %f {pending = 0}
                                               %p = ... %s ...

Each dot is a group.  A wait for a dot leaves as many groups in flight as are committed after it on every path to the
wait.  A result that is only the next iteration's accumulator is carried in flight, and waited for after the loop; the
stage of a ring that its dot reads is released an iteration later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.copied_loads import is_zero
from tileiras.analysis.dots_in_flight import buffers_read, carried_in_flight, chain_of, is_of_warpgroups
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Builder, IntegerAttr, Operation, UnitAttr, Value, i32
from tileiras.layout.encoding import is_in_shared
from tileiras.resources.limits import LEAST_RESERVE, threads_of
from tileiras.resources.registers import registers_behind, words
from tileiras.targets import registers_per_thread

from .dot_waits import (
    Future,
    blocks_around,
    commits_behind,
    ends_of,
    is_left_alone,
    kept_attributes,
    reads_ring,
    released_behind,
    waits_of,
)

MOST_PENDING = 7
"""The most pending groups that the counter of a warp distinguishes (PTX ISA, "wgmma.wait_group")."""


def materialize_async_dots(func: aa.FuncOp) -> None:
    """Rewrite the dots of warpgroups of a function of nv_tileas, in place.  Tiles that they read in shared memory are
    in buffers."""
    dots = [op for op in func.walk() if is_of_warpgroups(op)]
    if dots:
        there = registers_per_thread(threads_of(func), func.kernel_spec.occupancy or 1) - LEAST_RESERVE
        _Rewriting(dots, _freed_by(dots, there)).run()


def _freed_by(dots: list[Any], there: int) -> dict[Operation, Operation]:
    """The dots of loops that are to be complete before a later one of their block begins, each with the later one,
    since a thread has no registers for the result of this and for their A at a time.

    ptxas would keep other tiles in local memory; the wait costs the start of a dot.
    """
    result: dict[Operation, Operation] = {}
    for later in dots:
        if not isinstance(later.parent_op, scf.ForOp) or not is_zero(later.c):
            continue
        before = [dot for dot in dots if dot.parent is later.parent and dot.is_before_in_block(later)]
        before = [dot for dot in before if not is_in_shared(tileas.instruction_a(dot).type) and dot not in result]
        operands = sum(words(tileas.instruction_a(dot)) for dot in before)
        if before and registers_behind(later, later.parent_op) + operands > there:
            result.update(dict.fromkeys(before, later))
    return result


class _Rewriting:
    """The rewriting of the dots of a function."""

    def __init__(self, dots: list[Any], freed_by: dict[Operation, Operation]) -> None:
        self._dots = dots
        self._freed_by = freed_by
        """Dot -> the later one of its block before which it is to be complete."""
        self._old: set[Operation] = set(dots)
        self._carried: dict[Operation, dict[int, Any]] = {}
        """Loop -> number of each value carried in flight -> its dot."""
        self._futures: dict[Operation, Value] = {}
        """Dot -> its result in flight."""
        self._added: set[Operation] = set()
        """Dots whose results another one adds to."""

    def run(self) -> None:
        loops = dict.fromkeys(op.parent_op for op in self._dots if isinstance(op.parent_op, scf.ForOp))
        for loop in loops:
            result = {
                n: dot
                for n, dot in carried_in_flight(loop).items()
                if all(is_left_alone(each, loop) for each in chain_of(dot))
            }
            if result:
                self._carried[loop] = result
                _carry(loop, sorted(result))
                for dot in result.values():
                    _keep_buffers(loop, dot)
        for dot in self._dots:
            self._start(dot)
        for loop, result in self._carried.items():
            end: Any = loop.regions[0].block.last
            end.operands = [self._futures[result[n]] if n in result else v for n, v in enumerate(end.operands)]
        for block in dict.fromkeys(block for dot in self._dots for block in blocks_around(dot)):
            self._wait(block)
        for dot in reversed(self._dots):
            dot.erase()

    # -- dots ----------------------------------------------------------------------------------------------------------

    def _start(self, dot: tileas.DotOp) -> None:
        """Insert the asynchronous dot; the old one stays until its uses have a wait."""
        builder = Builder.before(dot)
        builder.location = dot.location
        if dot.promoted is not None:
            self._start_promoted(dot, builder)
            return
        overwrites = is_zero(dot.c)
        accumulator = self._accumulator_in_flight(dot)
        tiles = [] if overwrites or accumulator is not None else [dot.c]
        first = tileas.instruction_a(dot)
        if not is_in_shared(first.type):
            tiles.append(first)
        futures = _to_async(builder, tiles)
        if overwrites:
            none = tileas.CreateNoneOp(result=tileas.InFlightType(dot.c.type))
            accumulator = builder.insert(none).results[0]
        elif accumulator is None:
            accumulator = futures.pop(0)
        self._futures[dot] = _insert_dot(builder, dot, futures.pop() if futures else first, accumulator)
        builder.insert(tileas.CommitDotsOp())

    def _start_promoted(self, dot: tileas.DotOp, builder: Builder) -> None:
        """Likewise for a promoted dot: its instructions do not write to the accumulator, and it is complete behind
        itself."""
        (accumulator,) = _to_async(builder, [dot.c], UnitAttr())
        first = tileas.instruction_a(dot)
        first = first if is_in_shared(first.type) else _to_async(builder, [first])[0]
        future = _insert_dot(builder, dot, first, accumulator)
        builder.insert(tileas.CommitDotsOp(by_dot=UnitAttr()))
        attributes = {"pending": IntegerAttr(0, i32), "by_dot": UnitAttr()}
        wait = tileas.FutureWaitOp.create([future], [dot.c.type], attributes, location=dot.location)
        dot.result.replace_all_uses_with(builder.insert(wait).results[0])

    def _accumulator_in_flight(self, dot: tileas.DotOp) -> Value | None:
        """The accumulator of a dot when it is in flight already."""
        c = dot.c
        if isinstance(c.type, tileas.InFlightType):
            return c
        before = c.defining_op
        if before in self._futures and before.parent is dot.parent and c.has_one_use:
            self._added.add(before)
            return self._futures[before]
        return None

    # -- waits ---------------------------------------------------------------------------------------------------------

    def _wait(self, block: Block) -> None:
        """The waits of a block."""

        def in_flight(places: dict[Operation, int], committed: list[int]) -> Iterator[Future]:
            return self._in_flight(block, places, committed)

        for wait in waits_of(block, in_flight, tileas.CommitDotsOp, self._users, MOST_PENDING):
            self._insert(wait.before, wait.pending, wait.futures)

    def _insert(self, before: Operation, pending: int, futures: list[Future]) -> None:
        builder = Builder.before(before)
        builder.location = before.location
        users = [self._users(future.tile) for future in futures]
        wait = tileas.FutureWaitOp.create(
            [future.value for future in futures],
            [future.value.type.tile for future in futures],
            {"pending": IntegerAttr(pending, i32)},
            location=builder.location,
        )
        builder.insert(wait)
        for future, needing, value in zip(futures, users, wait.results):
            future.tile.replace_uses_in(value, needing)
            _add_to_awaited(future.value, value, wait)

    def _users(self, tile: Value) -> list[Operation]:
        """Operations that use a tile in registers."""
        threading = (tileas.AsyncDotOp, tileas.FutureWaitOp)
        return [user for user in tile.users if user not in self._old and not isinstance(user, threading)]

    def _in_flight(self, block: Block, places: dict[Operation, int], committed: list[int]) -> Iterator[Future]:
        """The tiles in flight in a block: those that its loop carries, results of its dots and of the loops in it."""
        last = len(places) - 1
        loop = block.parent_op
        carried = self._carried.get(loop, {}) if loop is not None else {}  # type: ignore[arg-type]
        for number, dot in carried.items():
            value = block.arguments[1 + number]
            tail = committed[-1] - committed[places[dot]]
            ends = [place for each in chain_of(dot) for place in released_behind(each, loop, places)]
            if any(reads_ring(each, loop) for each in chain_of(dot)):
                ends.append(last)
            if tileas.AWAITED_NEXT in dot.attributes:
                ends = [0]
            elif self._users(value) and any(isinstance(user, tileas.AsyncDotOp) for user in value.users):
                # ptxas waits there if the iteration reads registers that it also adds to, behind a branch or a dot of
                # its own (C7517).
                ends.append(0)
            yield Future(value, value, 0, tail, tuple(ends))
        for op in places:
            if op in self._freed_by:
                later: Any = self._futures[self._freed_by[op]].defining_op
                # Its accumulator is a fence, which the wait has to precede.
                yield Future(self._futures[op], None, places[op], 0, (places[later.c.defining_op],))
            if op in self._futures:
                future, start = self._futures[op], places[op]
                if op in self._added:
                    # Its tile has no use; the buffers that it reads may end before the wait for the dot that adds to
                    # it.
                    yield Future(future, op.results[0], start, 0, tuple(ends_of(op, block, places)))
                elif op not in carried.values():
                    yield Future(future, op.results[0], start, 0, (*ends_of(op, block, places), last))
            for number, dot in self._carried.get(op, {}).items():
                value = op.results[number]
                tail = commits_behind(dot, tileas.CommitDotsOp)
                yield Future(value, value, places[op] + 1, tail, (*ends_of(dot, block, places), last))


def _insert_dot(builder: Builder, dot: tileas.DotOp, first: Value, accumulator: Value) -> Value:
    """Insert the asynchronous form of a dot, with the instruction's A and accumulator, in flight; its result."""
    overwrites = UnitAttr() if is_zero(dot.c) else None
    attributes = kept_attributes(dot)
    a, b = (first, dot.b) if dot.exchanged is None else (dot.a, first)
    async_dot = tileas.AsyncDotOp(a, b, accumulator, overwrites=overwrites, result=accumulator.type, **attributes)
    return builder.insert(async_dot).results[0]


def _to_async(builder: Builder, tiles: list[Value], unread: UnitAttr | None = None) -> list[Value]:
    """Put tiles in flight, with one fence for all."""
    if not tiles:
        return []
    types = [v.type if isinstance(v.type, tileas.InFlightType) else tileas.InFlightType(v.type) for v in tiles]
    attributes = {} if unread is None else {"unused": unread}
    return list(builder.insert(tileas.ToAsyncOp.create(tiles, types, attributes)).results)


def _add_to_awaited(future: Value, tile: Value, wait: Operation) -> None:
    """Has dots after a wait add to the tile that it returns: as a use of the future they would need a copy of its
    registers before the wait, and ptxas serializes dots around it (C7517)."""
    for user in list(future.users):
        if isinstance(user, tileas.AsyncDotOp) and user.parent is wait.parent and wait.is_before_in_block(user):
            builder = Builder.before(user)
            builder.location = user.location
            (again,) = _to_async(builder, [tile])
            user.operands = [again if operand is future else operand for operand in user.operands]


def _keep_buffers(loop: scf.ForOp, dot: tileas.DotOp) -> None:
    """Has buffers of a loop that a dot reads, or a dot whose result it adds to, live as long as the dot may be in
    flight: into the next iteration, and up to the wait after the loop."""
    for buffer in (buffer for each in chain_of(dot) for buffer in buffers_read(each)):
        alloc = buffer.defining_op
        if alloc is None or alloc.parent is not loop.body.block:
            continue
        Builder.before(loop).insert(alloc.detach())
        for user in list(buffer.users):
            if isinstance(user, tileas.DeallocTensorOp):
                Builder.after(loop).insert(user.detach())


def _carry(loop: scf.ForOp, numbers: list[int]) -> None:
    """Make loop-carried values of a loop values in flight."""
    builder = Builder.before(loop)
    builder.location = loop.location
    operands = list(loop.operands)
    first = len(operands) - len(loop.init_args)
    of_warpgroups = [n for n in numbers if any(is_of_warpgroups(user) for user in loop.iter_args[n].users)]
    for group, flag in ((of_warpgroups, None), ([n for n in numbers if n not in of_warpgroups], UnitAttr())):
        for number, future in zip(group, _to_async(builder, [loop.init_args[n] for n in group], flag)):
            operands[first + number] = future
            loop.iter_args[number].type = loop.results[number].type = future.type
    loop.operands = operands
