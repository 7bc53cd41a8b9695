"""Where waits for asynchronous dots stand: as late and as weak as the uses of their results allow.

Each dot is a group of its own.  A wait for a dot leaves as many groups in flight as are committed after it on every
path to the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from tileiras import analysis
from tileiras.analysis.dots_in_flight import buffers_read, copies_read
from tileiras.analysis.stage_numbers import StageNumbers
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Attribute, Block, Operation, Value
from tileiras.support.named_tuple import NamedTuple

_FILLS_PIPES = ("nv_tileas.async.bulk_load", "nv_tileas.async.tma_load", "nv_tileas.async.pipeline.producer_write")
"""Names of operations: kernels without pipes do not load the file that declares them."""

_FILLS = (tileas.StoreTensorOp, tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp)


class Future(NamedTuple):
    """A dot's result in flight in a block; places are numbers of operations in it.

    `value`: the future; `tile`: the value whose uses need the wait, None if no use does; `start`: the first place at
    which it is in flight; `tail`: the groups that were committed after its own before that place.  `ends`: places at
    which its dot has to be complete although no operation there uses the tile.  `exactly`: a wait for a later group
    does not suffice, since operations after the block wait for this one, and the phases of an mbarrier have to be
    observed one by one.
    """

    value: Value | None
    tile: Value | None
    start: int
    tail: int
    ends: tuple[int, ...]
    exactly: bool = False


class Wait(NamedTuple):
    """A wait that leaves `pending` groups in flight; `futures` are those whose tiles are used after it."""

    before: Operation
    pending: int
    futures: list[Future]


def waits_of(
    block: Block,
    in_flight: Callable[[dict[Operation, int], list[int]], Iterator[Future]],
    commit: type[Operation],
    users_of: Callable[[Value], list[Operation]],
    most: int,
) -> list[Wait]:
    """The waits of a block, each before the first operation that uses a tile or frees an operand of its dot, unless an
    earlier wait suffices.

    `in_flight(places, committed)`: the futures, given the number of each operation and the groups committed before
    each; `commit` closes a group, `users_of(tile)` use a tile, and at most `most` groups are left in flight.
    """
    operations = list(block.operations)
    places = {op: n for n, op in enumerate(operations)}
    committed = list(accumulate((isinstance(op, commit) for op in operations), initial=0))

    def behind(future: Future, place: int) -> int:
        """The least number of groups committed after that of a future, at a place."""
        return future.tail + committed[place] - committed[future.start]

    needs: dict[int, list[tuple[Future, bool]]] = {}
    for future in in_flight(places, committed):
        users = [] if future.tile is None else users_of(future.tile)
        uses = [places[op] for user in users if (op := block.find_ancestor_op(user)) is not None]
        for place in future.ends:
            needs.setdefault(place, []).append((future, False))
        if uses:
            needs.setdefault(min(uses), []).append((future, True))
    waits: list[tuple[int, int, list[Future]]] = []
    for place in sorted(needs):
        for future, is_use in needs[place]:
            waits_here = [
                w
                for w in waits
                if future.start <= w[0]
                and (w[1] == behind(future, w[0]) if future.exactly else w[1] <= behind(future, w[0]))
            ]
            if not waits_here:
                waits_here = [(place, min(most, behind(future, place)), [])]
                waits += waits_here
            if is_use:
                waits_here[0][2].append(future)
    return [Wait(operations[place], pending, futures) for place, pending, futures in waits]


def kept_attributes(dot: tileas.DotOp) -> dict[str, Attribute]:
    """The attributes of a dot that its asynchronous form keeps."""
    result = ("atom", "signedness_a", "signedness_b", "exchanged", "promoted")
    return {name: dot.attributes[name] for name in result if name in dot.attributes}


def commits_behind(dot: Operation, commit: type[Operation]) -> int:
    """The number of groups committed after that of a dot in its block."""
    count = 0
    op = dot.next
    while op is not None:
        count += isinstance(op, commit)
        op = op.next
    return count


def blocks_around(op: Operation) -> Iterator[Block]:
    """The block of a dot, and those around it, where values of its loops are."""
    block = op.parent
    while block is not None:
        yield block
        outer = block.parent_op
        block = outer.parent if isinstance(outer, scf.ForOp) else None


# ---- operands in memory ---------------------------------------------------------------------------------------------


def ends_of(dot: tileas.DotOp, block: Block, places: dict[Operation, int]) -> list[int]:
    """Where the buffers that a dot reads end, or their stage is released, in a block around it and after it."""
    ends = (user for buffer in buffers_read(dot) for user in buffer.users if isinstance(user, tileas.DeallocTensorOp))
    result = [places[end] for end in ends if end.parent is block]
    around = block.find_ancestor_op(dot)
    assert around is not None
    behind = [*released_of(dot, block, places), *refilled_of(dot, block, places)]
    return result + [place for place in behind if place > places[around]]


def refilled_of(dot: tileas.DotOp, block: Block, places: dict[Operation, int]) -> list[int]:
    """The places in a block of the copies that overwrite an operand of a dot once it is complete."""
    copies = (user for buffer in buffers_read(dot) for user in buffer.users if tileas.BEHIND_READERS in user.attributes)
    return [places[op] for copy in copies if (op := block.find_ancestor_op(copy)) is not None]


def released_of(dot: tileas.DotOp, block: Block, places: dict[Operation, int]) -> list[int]:
    """Where an operation of a block, or of a branch in it, releases a stage of a pipe through which a dot's operands
    come."""
    return [place for place, _ in _releases_of(dot, places)]


def _releases_of(dot: tileas.DotOp, places: dict[Operation, int]) -> Iterator[tuple[int, list[Operation]]]:
    """The same places, each with its releases."""
    pipes = _pipes(dot)
    for op, place in places.items() if pipes else ():
        releases = [] if isinstance(op, scf.ForOp) else [inner for inner in op.walk() if _releases(inner, pipes)]
        if releases:
            yield place, releases


def released_behind(dot: tileas.DotOp, loop: scf.ForOp, places: dict[Operation, int]) -> list[int]:
    """Where an iteration may release a stage that the dot of the previous one reads.

    A release before the dot whose stage is another one is that of an earlier iteration: its dot is complete where each
    iteration ends by waiting for the previous dot, as one whose operands are in a ring does.
    """
    numbers = StageNumbers()
    stages_of_reads = [numbers.advanced(numbers.number_of(stage), loop) for stage in _stages_read(dot)]

    def is_earlier(release: Operation) -> bool:
        number, pipe = numbers.of(release.operands[0]), analysis.pipes.pipe_of(release.operands[0])
        stages = pipe.num_stages.value  # type: ignore[union-attr]
        return number is not None and all(number.is_apart(stage, stages) for stage in stages_of_reads)

    result = []
    for place, releases in _releases_of(dot, places):
        if place > places[dot] or not reads_ring(dot, loop) or not all(map(is_earlier, releases)):
            result.append(place)
    return result


def _stages_read(dot: tileas.DotOp) -> list[Value]:
    """The stages of pipes in which a dot reads its operands."""
    copies = copies_read(dot)
    return [copy.stage for copy in copies if tileas.pipe_of_buffer(copy.buffer) is not None]


def _pipes(dot: tileas.DotOp) -> set[Operation]:
    """The pipes whose stages must not be released before the dot is complete."""
    pipes = (tileas.pipe_of_buffer(buffer) for buffer in buffers_read(dot))
    return {pipe for pipe in pipes if pipe is not None and not _frees_by_commit(pipe)}


def _frees_by_commit(pipe: Operation) -> bool:
    return analysis.pipes.protocol_of(pipe).frees_by_commit  # type: ignore[arg-type]


def _releases(op: Operation, pipes: set[Operation]) -> bool:
    if op.name != names.CONSUMER_RELEASE:
        return False
    return analysis.pipes.pipe_of(op.operands[0]) in pipes


def _fills(buffer: Value, loop: Operation) -> list[Operation]:
    """The operations that write to a buffer in a loop, and do not wait for the dots by themselves."""
    fills = [user for user in buffer.users if isinstance(user, _FILLS) and loop.is_ancestor_of(user)]
    fills = [user for user in fills if tileas.BEHIND_READERS not in user.attributes]
    pipe = tileas.pipe_of_buffer(buffer)
    if pipe is not None and not _frees_by_commit(pipe):
        copies = [op for op in loop.walk() if op.name in _FILLS_PIPES]
        fills += [op for op in copies if buffer in getattr(analysis.pipes.pipe_of(op.token), "buffers", ())]  # type: ignore[attr-defined]
    return fills


def is_left_alone(dot: tileas.DotOp, loop: scf.ForOp) -> bool:
    """Whether no operand of a dot is overwritten before the dot of the next iteration has begun."""
    if tileas.AWAITED_NEXT in dot.attributes:
        return True
    pipes = _pipes(dot)
    if pipes and any(_releases(op, pipes) for op in loop.body.block.operations):
        return False
    for buffer in buffers_read(dot):
        if loop.is_ancestor_of(buffer.defining_op):
            return False
        fills = _fills(buffer, loop)
        if any(isinstance(op, tileas.StoreTensorOp) for op in fills) and buffer.type.stages == 1:  # type: ignore[attr-defined]
            return False
        if fills and tileas.DOTS_IN_FLIGHT not in loop.attributes:
            return False
    return True


def reads_ring(dot: tileas.DotOp, loop: scf.ForOp) -> bool:
    """Whether copies of the loop write to an operand of a dot."""
    return any(_fills(buffer, loop) for buffer in buffers_read(dot))
