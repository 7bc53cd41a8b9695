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
from itertools import accumulate
from typing import Any

from tileiras.analysis.copied_loads import is_zero
from tileiras.analysis.dots_in_flight import carried_in_flight, chain_of, is_of_warpgroups
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, Builder, IntegerAttr, Operation, UnitAttr, Value, i32
from tileiras.layout.encoding import is_in_shared
from tileiras.named_tuple import NamedTuple

MOST_PENDING = 7
"""PTX ISA, "wgmma.wait_group": what the counter of a warp tells apart."""

_CREATE_PIPELINE = "nv_tileas.async.pipeline.create_pipeline"
_FILLS_PIPES = ("nv_tileas.async.bulk_load", "nv_tileas.async.tma_load", "nv_tileas.async.pipeline.producer_write")
"""By name: kernels without pipes do without the file that has them."""

_FILLS = (tileas.StoreTensorOp, tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp)


def materialize_async_dots(func: aa.FuncOp) -> None:
    """Rewrites the dots of warpgroups of a function of nv_tileas, in place.  Tiles that they read in shared memory are
    in buffers."""
    dots = [op for op in func.walk() if is_of_warpgroups(op)]
    if dots:
        _Rewriting(dots).run()


class _Future(NamedTuple):
    """A tile in flight in a block; places are numbers of operations in it.

    `value`: in flight; `tile`: the value whose uses need the wait, which may be the same; `start`: the first place at
    which it is in flight; `tail`: groups that were committed after its own before that.  `ends`: places at which its
    dot has to be complete although nothing there uses the tile.
    """

    value: Value
    tile: Value
    start: int
    tail: int
    ends: tuple[int, ...]


class _Rewriting:
    """The rewriting of the dots of a function."""

    def __init__(self, dots: list[Any]) -> None:
        self._dots = dots
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
            found = {
                n: dot
                for n, dot in carried_in_flight(loop).items()
                if all(_is_left_alone(each, loop) for each in chain_of(dot))
            }
            if found:
                self._carried[loop] = found
                _carry(loop, sorted(found))
        for dot in self._dots:
            self._start(dot)
        for loop, found in self._carried.items():
            end: Any = loop.regions[0].block.last
            end.operands = [self._futures[found[n]] if n in found else v for n, v in enumerate(end.operands)]
        for block in dict.fromkeys(block for dot in self._dots for block in _blocks_around(dot)):
            self._wait(block)
        for dot in reversed(self._dots):
            dot.erase()

    # -- dots ----------------------------------------------------------------------------------------------------------

    def _start(self, dot: tileas.DotOp) -> None:
        """Inserts the asynchronous dot; the old one stays until its uses have a wait."""
        builder = Builder.before(dot)
        builder.location = dot.location
        overwrites = is_zero(dot.c)
        accumulator = self._accumulator_in_flight(dot)
        tiles = [] if overwrites or accumulator is not None else [dot.c]
        if not is_in_shared(dot.a.type):
            tiles.append(dot.a)
        futures = _to_async(builder, tiles)
        if overwrites:
            none = tileas.CreateNoneOp(result=tileas.InFlightType(dot.c.type))
            accumulator = builder.insert(none).results[0]
        elif accumulator is None:
            accumulator = futures.pop(0)
        a = futures.pop() if futures else dot.a
        named = {name: dot.attributes[name] for name in _KEPT if name in dot.attributes}
        flag = UnitAttr() if overwrites else None
        started = tileas.AsyncDotOp(a, dot.b, accumulator, overwrites=flag, result=accumulator.type, **named)
        self._futures[dot] = builder.insert(started).results[0]
        builder.insert(tileas.CommitDotsOp())

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
        """The waits of a block, each before the first operation that uses a tile or frees what its dot reads; none
        where an earlier wait suffices."""
        operations = list(block.operations)
        places = {op: n for n, op in enumerate(operations)}
        committed = list(accumulate((isinstance(op, tileas.CommitDotsOp) for op in operations), initial=0))

        def behind(future: _Future, place: int) -> int:
            """Groups that are committed after that of a future at a place, at least."""
            return future.tail + committed[place] - committed[future.start]

        needs: dict[int, list[tuple[_Future, bool]]] = {}
        for future in self._in_flight(block, places, committed):
            uses = [places[op] for user in self._users(future.tile) if (op := block.find_ancestor_op(user)) is not None]
            for place in future.ends:
                needs.setdefault(place, []).append((future, False))
            if uses:
                needs.setdefault(min(uses), []).append((future, True))
        waits: list[tuple[int, int, list[_Future]]] = []
        for place in sorted(needs):
            for future, used in needs[place]:
                done = [w for w in waits if future.start <= w[0] and w[1] <= behind(future, w[0])]
                if not done:
                    done = [(place, min(MOST_PENDING, behind(future, place)), [])]
                    waits += done
                if used:
                    done[0][2].append(future)
        for place, pending, futures in waits:
            self._insert(operations[place], pending, futures)

    def _insert(self, before: Operation, pending: int, futures: list[_Future]) -> None:
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

    def _users(self, tile: Value) -> list[Operation]:
        """Operations that use a tile in registers."""
        threading = (tileas.AsyncDotOp, tileas.FutureWaitOp)
        return [user for user in tile.users if user not in self._old and not isinstance(user, threading)]

    def _in_flight(self, block: Block, places: dict[Operation, int], committed: list[int]) -> Iterator[_Future]:
        """The tiles in flight in a block: those that its loop carries, results of its dots and of the loops in it."""
        last = len(places) - 1
        loop = block.parent_op
        carried = self._carried.get(loop, {}) if loop is not None else {}  # type: ignore[arg-type]
        for number, dot in carried.items():
            value = block.arguments[1 + number]
            tail = committed[-1] - committed[places[dot]]
            ends = [place for each in chain_of(dot) for place in _released(each, block, places)]
            if any(_reads_ring(each, loop) for each in chain_of(dot)):
                ends.append(last)
            yield _Future(value, value, 0, tail, tuple(ends))
        for op in places:
            if op in self._old:
                future, start = self._futures[op], places[op]
                if op in self._added:
                    # Nothing uses its tile; what it reads may end before the dot that adds to it is waited for.
                    yield _Future(future, op.results[0], start, 0, tuple(_ends(op, block, places)))
                elif op not in carried.values():
                    yield _Future(future, op.results[0], start, 0, (*_ends(op, block, places), last))
            for number, dot in self._carried.get(op, {}).items():
                value = op.results[number]
                yield _Future(value, value, places[op] + 1, _tail(dot), (*_ends(dot, block, places), last))


CREATE_PIPELINE = "nv_tileas.async.pipeline.create_pipeline"
CONSUMER_RELEASE = "nv_tileas.async.pipeline.consumer_release"
"""By name: kernels without agents do without the file that has them."""

_KEPT = ("atom", "signedness_a", "signedness_b", "exchanged")


def _to_async(builder: Builder, tiles: list[Value], unused: UnitAttr | None = None) -> list[Value]:
    """Puts tiles in flight, with one fence for all."""
    if not tiles:
        return []
    types = [v.type if isinstance(v.type, tileas.InFlightType) else tileas.InFlightType(v.type) for v in tiles]
    attributes = {} if unused is None else {"unused": unused}
    return list(builder.insert(tileas.ToAsyncOp.create(tiles, types, attributes)).results)


def _carry(loop: scf.ForOp, numbers: list[int]) -> None:
    """Has a loop carry values in flight."""
    builder = Builder.before(loop)
    builder.location = loop.location
    operands = list(loop.operands)
    first = len(operands) - len(loop.init_args)
    taken = [n for n in numbers if any(is_of_warpgroups(user) for user in loop.iter_args[n].users)]
    for group, unused in ((taken, None), ([n for n in numbers if n not in taken], UnitAttr())):
        for number, future in zip(group, _to_async(builder, [loop.init_args[n] for n in group], unused)):
            operands[first + number] = future
            loop.iter_args[number].type = loop.results[number].type = future.type
    loop.operands = operands


def _tail(dot: Operation) -> int:
    """Groups that are committed after that of a dot in its block."""
    count = 0
    op = dot.next
    while op is not None:
        count += isinstance(op, tileas.CommitDotsOp)
        op = op.next
    return count


def _blocks_around(op: Operation) -> Iterator[Block]:
    """The block of a dot, and those around it, where values of its loops are."""
    block = op.parent
    while block is not None:
        yield block
        outer = block.parent_op
        block = outer.parent if isinstance(outer, scf.ForOp) else None


# ---- what dots read -------------------------------------------------------------------------------------------------


def _buffers(dot: tileas.DotOp) -> list[Value]:
    """The buffers in which a dot reads its operands."""
    found = []
    for value in (dot.a, dot.b):
        op = value.defining_op
        while isinstance(op, tileas.VIEW_LIKE):
            op = op.operand.defining_op
        if isinstance(op, tileas.CopyOp) and is_in_shared(op.result.type):
            found.append(op.buffer)
    return found


def _ends(dot: tileas.DotOp, block: Block, places: dict[Operation, int]) -> list[int]:
    """Where the buffers that a dot reads end, or their stage is released, in a block around it and behind it."""
    ends = (user for buffer in _buffers(dot) for user in buffer.users if isinstance(user, tileas.DeallocTensorOp))
    found = [places[end] for end in ends if end.parent is block]
    around = block.find_ancestor_op(dot)
    assert around is not None
    return found + [place for place in _released(dot, block, places) if place > places[around]]


def _released(dot: tileas.DotOp, block: Block, places: dict[Operation, int]) -> list[int]:
    """Where an operation of a block, or of a branch in it, releases a stage of a pipe through which a dot's operands
    come."""
    pipes = _pipes(dot)
    return [
        places[op]
        for op in (places if pipes else ())
        if not isinstance(op, scf.ForOp) and any(_releases(inner, pipes) for inner in op.walk())
    ]


def _pipes(dot: tileas.DotOp) -> set[Operation]:
    users = (user for buffer in _buffers(dot) for user in buffer.users)
    return {user for user in users if user.name == CREATE_PIPELINE}


def _releases(op: Operation, pipes: set[Operation]) -> bool:
    if op.name != CONSUMER_RELEASE:
        return False
    from tileiras.analysis.pipes import pipe_of

    return pipe_of(op.operands[0]) in pipes


def _fills(buffer: Value, loop: Operation) -> list[Operation]:
    """What writes to a buffer in a loop."""
    found = [user for user in buffer.users if isinstance(user, _FILLS) and loop.is_ancestor_of(user)]
    if any(user.name == _CREATE_PIPELINE for user in buffer.users):
        from tileiras.analysis.pipes import pipe_of

        copies = [op for op in loop.walk() if op.name in _FILLS_PIPES]
        found += [op for op in copies if buffer in getattr(pipe_of(op.token), "buffers", ())]  # type: ignore[attr-defined]
    return found


def _is_left_alone(dot: tileas.DotOp, loop: scf.ForOp) -> bool:
    """Whether nothing that a dot reads is written to before the dot of the next iteration has begun."""
    pipes = _pipes(dot)
    if pipes and any(_releases(op, pipes) for op in loop.body.block.operations):
        return False
    for buffer in _buffers(dot):
        if loop.is_ancestor_of(buffer.defining_op):
            return False
        fills = _fills(buffer, loop)
        if any(isinstance(op, tileas.StoreTensorOp) for op in fills):
            return False
        if fills and tileas.DOTS_IN_FLIGHT not in loop.attributes:
            return False
    return True


def _reads_ring(dot: tileas.DotOp, loop: scf.ForOp) -> bool:
    """Whether a dot reads what copies of the loop write to."""
    return any(_fills(buffer, loop) for buffer in _buffers(dot))
