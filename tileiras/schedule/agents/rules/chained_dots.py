"""Which loops whose threads compute between their dots, as in attention, can leave the dots to an agent.

An iteration of such a loop executes a dot, has threads compute with its result, and executes a dot of the tile that
they have stored: in attention the scores, their exponentials, and the dot of these with V, which is added to the
result of the previous iterations after threads have rescaled it.  An agent of one warp issues the dots: the scores of
the next iteration before it waits for the exponentials of the current one, so that the threads find their scores
available.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tileiras.analysis.copied_loads import is_zero
from tileiras.analysis.pipes import pipe_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.dialects.nv_tileas.pipes import ConsumerReleaseOp, ConsumerWaitOp, IncIterOp
from tileiras.ir import Block, BlockArgument, Operation, TensorType, Value
from tileiras.layout.encoding import is_in_shared
from tileiras.layout.tensor_memory import COLUMNS, LANES
from tileiras.schedule.agents.held_stages import HeldStages, held_stages
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize, is_inside
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import mma_atom
from tileiras.targets.pipe_protocol import TENSOR_MEMORY
from tileiras.targets.sm import WARPGROUP

_FILLS = (tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp, tileas.StoreTensorOp)
"""Operations that write to a buffer in shared memory."""


class ChainedDot(NamedTuple):
    """A dot, the commit of its group unless that has been joined with a later one, and the threads' operations in
    its block on its accumulator, or on its A: from the first to the last of these operations the threads own the stage
    of a pipe."""

    dot: tileas.TensorDotOp
    commit: tileas.TensorCommitOp | None
    is_ahead: bool
    """Whether it uses no value that threads compute in its iteration."""
    first: Operation
    last: Operation
    buffers: list[Value]
    """The buffers shared by the dot and the threads: its accumulator, after A where threads store that."""


class ChainedLoop(NamedTuple):
    """A loop, its dots, and the operations of its block that leave with them."""

    loop: scf.ForOp
    dots: list[ChainedDot]
    moved: list[Operation]
    carried: list[int]
    """The numbers of the loop-carried values of these operations."""
    fixed: list[Operation]
    """The copies of operands that do not change in the loop."""

    @property
    def kind(self) -> tuple[Any, ...]:
        """A key that is equal for loops that share pipes."""
        return tuple((each.buffers[0].type, *each.buffers[1:]) for each in self.dots)


class FixedOperand(NamedTuple):
    """A buffer in shared memory with an operand of the dots of some loops of one block, the threads' operations
    that fill it, and the copies outside these loops through which dots read it."""

    buffer: Value
    fill: Operation
    copies: list[Operation]
    loops: list[scf.ForOp]


class ChainedPlan(NamedTuple):
    """The loops of a kernel whose dots move to the agent, the operands that threads fill, those in rings of outer
    loops, and the operations that the agent repeats."""

    loops: list[ChainedLoop]
    fixed: list[FixedOperand]
    held: HeldStages
    slice: AgentSlice
    shares_columns: bool
    """Whether the tiles that threads store for a dot occupy the columns of the scores that they are computed from."""
    groups: int
    """The number of warpgroups that compute, each with rows of its own."""


def plan_chained_dots(func: aa.FuncOp, switch: AgentSwitchOp, dots: list[Any]) -> ChainedPlan | None:
    """The plan for dots of the first agent of a switch, which computes; None where threads do not compute between them.
    Raises CannotSpecialize, with the reason."""
    inside = [op for outer in switch.agents[0].operations for op in outer.walk()]
    loops: dict[Any, list[Any]] = {}
    for dot in dots:
        loops.setdefault(dot.parent_op, []).append(dot)
    if not any(isinstance(dot.a.type, tileas.TensorBufferType) for dot in dots):
        return None
    for dot in dots:
        if not isinstance(dot.parent_op, scf.ForOp):
            raise CannotSpecialize(dot, "chained.no-loop")
    result = [_Loop(loop, own).plan() for loop, own in loops.items()]
    _check_waits(inside, result)
    fixed = _fixed_operands(result)
    copies = [op for each in result for op in (*each.fixed, *each.moved) if isinstance(op, tileas.CopyOp)]
    stages = held_stages(inside, loops, copies, {op for each in result for op in each.moved})
    groups = _groups(switch.warps(func.kernel_spec.num_warps)[0], result)
    shares_columns = _shares_columns(func, groups, result)
    agent_slice = AgentSlice(switch, set(func.body.blocks[0].operations))
    for each in result:
        agent_slice.take(each.loop, _operands_of(each))
    for operand in fixed:
        for copy in operand.copies:
            agent_slice.take(copy, [copy.stage])  # type: ignore[attr-defined]
    for wait in stages.waits:
        agent_slice.take(wait, [wait.iterator])
    for copy in stages.copies:
        agent_slice.take(copy, [copy.stage])
    for release in stages.releases:
        agent_slice.take(release, [])
    agent_slice.close()
    return ChainedPlan(result, fixed, stages, agent_slice, shares_columns, groups)


def _groups(warps: int, loops: list[ChainedLoop]) -> int:
    """The number of warpgroups, if each owns the rows of one instruction of every dot; 1 where rows are not divided in
    this way."""
    groups = warps // WARPGROUP
    for op in (dot.dot for each in loops for dot in each.dots):
        atom, rows = mma_atom(op.atom.atom), op.buffer.type.tile.shape[0]  # type: ignore[attr-defined]
        if op.exchanged is not None or atom.cta_rows != LANES or rows != groups * LANES:
            return 1
    return groups


def _shares_columns(func: aa.FuncOp, groups: int, loops: list[ChainedLoop]) -> bool:
    """Whether each A has to occupy the columns of the accumulator that it is computed from.  Both have columns for the
    whole kernel; loops of one kind share theirs.

    This requires several warpgroups: the dot of the scores follows the dot that reads the tile stored in their columns,
    and while one warpgroup waits for its scores the other computes.  Two CTAs of an SM would run in lockstep instead,
    the dot of one between the two dots of the other: causal attention, 128x128, then takes 546 us on B200 by our
    estimate, and 490 us without this agent.

    Raises CannotSpecialize where there are too few columns either way.
    """
    own: dict[Any, int] = {}
    operand_columns: dict[Any, int] = {}
    for each in loops:
        for number, dot in enumerate(each.dots):
            columns: int = dot.buffers[0].type.columns  # type: ignore[attr-defined]
            (own if dot.is_ahead else operand_columns)[each.kind, number] = columns
            own.update((buffer, buffer.type.columns) for buffer in dot.buffers[1:])  # type: ignore[attr-defined]
    columns_in_use = sum(own.values()) + sum(operand_columns.values())
    most = COLUMNS // (func.kernel_spec.occupancy or 1)
    if columns_in_use <= most:
        return False
    if sum(own.values()) > most or groups == 1 or not all(map(_overwrites_scores, loops)):
        raise CannotSpecialize(loops[0].loop, "chained.columns", taken=columns_in_use, most=most)
    return True


def _overwrites_scores(each: ChainedLoop) -> bool:
    """Whether a loop has two dots, and threads have loaded the result of the first before they store for the
    second, in no more columns."""
    if [dot.is_ahead for dot in each.dots] != [True, False]:
        return False
    scores, operand_buffer = (dot.buffers[0] for dot in each.dots)
    block = each.loop.body.block
    stores = [block.find_ancestor_op(user) for user in operand_buffer.users if isinstance(user, tileas.TensorStoreOp)]
    loaded = all(op is not None and each.dots[0].last.is_before_in_block(op) for op in stores)
    return loaded and operand_buffer.type.columns <= scores.type.columns  # type: ignore[attr-defined]


def _check_waits(inside: Iterable[Operation], loops: list[ChainedLoop]) -> None:
    """Raise CannotSpecialize unless threads wait for groups in these loops, or around them, and there are no other
    groups."""
    blocks: set[Block | None] = set()
    for each in loops:
        op: Operation | None = each.loop.body.block.first
        while op is not None and op.parent is not None:
            blocks.add(op.parent)
            op = op.parent_op
    commits = {dot.commit for each in loops for dot in each.dots}
    for op in inside:
        if isinstance(op, tileas.TensorCommitOp) and op not in commits:
            raise CannotSpecialize(op, "chained.several-dots-in-group")
        if isinstance(op, tileas.TensorWaitOp) and op.parent not in blocks:
            raise CannotSpecialize(op, "chained.wait-in-branch")


# ---- one loop --------------------------------------------------------------------------------------------------------


class _Loop:
    """The plan of a loop with dots.  Methods raise CannotSpecialize."""

    def __init__(self, loop: scf.ForOp, dots: list[tileas.TensorDotOp]) -> None:
        self._loop = loop
        self._block = loop.body.block
        self._dots = dots
        self._places = {op: number for number, op in enumerate(self._block.operations)}
        self._moved: dict[Operation, None] = {}
        self._fixed: dict[Operation, None] = {}
        self._carried: dict[int, None] = {}

    def plan(self) -> ChainedLoop:
        dots = [self._dot(dot) for dot in self._dots]
        if not any(each.is_ahead for each in dots) or all(each.is_ahead for each in dots):
            raise CannotSpecialize(self._loop, "chained.no-computation")
        for dot in self._dots:
            self._moved[dot] = None
            self._need(dot.adds)
            for value in (dot.a, dot.b):
                if isinstance(value.type, TensorType):
                    self._need(value)
        rings = {copy.buffer for copy in self._moved if isinstance(copy, tileas.CopyOp)}
        for op in self._loop.walk():
            if isinstance(op, (ConsumerWaitOp, ConsumerReleaseOp)):
                self._take_from_ring(op, rings)
        for op in self._block.operations:
            if isinstance(op, IncIterOp) and self._number(op.iterator) in self._carried:
                self._moved[op] = None
        for number in self._carried:
            end = self._block.last.operands[number]  # type: ignore[union-attr]
            if end.defining_op not in self._moved and is_inside(end, self._loop):
                raise CannotSpecialize(self._loop, "chained.carried-by-threads")
        self._check_stages(dots)
        ops = sorted(self._moved, key=lambda op: self._places[op])
        return ChainedLoop(self._loop, dots, ops, sorted(self._carried), list(self._fixed))

    def _check_stages(self, dots: list[ChainedDot]) -> None:
        """Raise CannotSpecialize where the next iteration's dots that come first would wait for a stage which this
        one's last dot still reads."""
        for wait in self._moved:
            if not isinstance(wait, ConsumerWaitOp):
                continue
            pipe: Any = pipe_of(wait.token)
            readers = {each.is_ahead for each in dots if reads_of(each.dot, pipe.buffers)}
            if len(readers) > 1 and pipe.num_stages.value < 2:
                raise CannotSpecialize(wait, "chained.single-stage")

    def _dot(self, dot: Any) -> ChainedDot:
        if dot.atom.is_of_pair or dot.scales:
            raise CannotSpecialize(dot, "chained.pair-or-scales")
        commit = dot.next if isinstance(dot.next, tileas.TensorCommitOp) else None
        place = self._places[dot]
        if isinstance(dot.a.type, tileas.TensorBufferType):
            touched = [*self._accesses_of(dot.a), *self._accesses_of(dot.buffer)]
            if not touched or any(self._places[op] > place for op in touched):
                raise CannotSpecialize(dot, "chained.used-at-once")
            if is_inside(dot.buffer, self._loop):
                raise CannotSpecialize(dot, "chained.accumulator-of-iteration")
            return ChainedDot(dot, commit, False, *self._ends(touched), [dot.a, dot.buffer])
        touched = self._accesses_of(dot.buffer)
        fresh = is_zero(dot.adds) and isinstance(dot.buffer.defining_op, tileas.TensorAllocOp)
        if not fresh or not is_inside(dot.buffer, self._loop):
            raise CannotSpecialize(dot, "chained.accumulator-outlives")
        if not touched or any(self._places[op] < place for op in touched):
            raise CannotSpecialize(dot, "chained.accumulator-written")
        return ChainedDot(dot, commit, True, *self._ends(touched), [dot.buffer])

    def _accesses_of(self, buffer: Value) -> list[Operation]:
        """The operations of the block in which threads load from a buffer, or store to it."""
        operations: list[Operation] = []
        for user in buffer.users:
            around = self._block.find_ancestor_op(user)
            if around is None:
                continue
            if isinstance(user, tileas.TensorSliceOp):
                operations += self._accesses_of(user.result)
            elif isinstance(user, tileas.TensorDotOp):
                if user.parent is not self._block or buffer is not user.buffer and user.a is not buffer:
                    raise CannotSpecialize(user, "chained.reads-result")
            elif not isinstance(user, tileas.TensorDeallocOp):
                operations.append(around)
        return operations

    def _ends(self, touched: list[Operation]) -> tuple[Operation, Operation]:
        ordered = sorted(touched, key=lambda op: self._places[op])
        return ordered[0], ordered[-1]

    def _number(self, value: Value) -> int | None:
        """The number of a loop-carried value."""
        is_carried = isinstance(value, BlockArgument) and value.block is self._block and value.index > 0
        return value.index - 1 if is_carried else None  # type: ignore[attr-defined]

    def _need(self, value: Value) -> None:
        """Follow an operand of a dot to the operations that its agent takes over."""
        number = self._number(value)
        if number is not None:
            if number not in self._carried:
                self._carried[number] = None
                self._need(self._block.last.operands[number])  # type: ignore[union-attr]
            return
        op: Any = value.defining_op
        if op is None or op in self._moved:
            return
        if isinstance(op, tileas.CopyOp) and _is_filled_before(op, self._loop):
            self._fixed[op] = None
            if is_inside(value, self._loop):  # a view of the buffer, which stands where it is read
                self._moved[op] = None
                self._need(op.stage)
            return
        if not is_inside(value, self._loop):
            if is_in_shared(value.type):  # a view of such a copy
                for operand in op.operands:
                    self._need(operand)
            return
        if op.parent is not self._block or op.regions:
            raise CannotSpecialize(op, "chained.operand-in-branch")
        if isinstance(op, tileas.CopyOp) and tileas.pipe_of_buffer(op.buffer) is None:
            raise CannotSpecialize(op, "chained.operand-by-threads")
        self._moved[op] = None
        for operand in op.operands:
            if not isinstance(operand.type, (tileas.BufferType, aa.MemTokenType)):
                self._need(operand)

    def _take_from_ring(self, op: Any, rings: set[Value]) -> None:
        """Take over a wait for a stage of a ring whose tiles dots read, or the release of one."""
        pipe = pipe_of(op.token)
        if pipe is None or not any(buffer in rings for buffer in pipe.buffers):
            return
        if op.parent is not self._block or pipe.kinds[1] != TENSOR_MEMORY:
            raise CannotSpecialize(op, "agents.stage-held")
        self._moved[op] = None
        if isinstance(op, ConsumerWaitOp):
            self._need(op.iterator)


def reads_of(dot: Operation, buffers: Collection[Value]) -> bool:
    """Whether a dot reads a tile of a ring with these buffers."""
    pending = list(dot.operands)
    while pending:
        op = pending.pop().defining_op
        if isinstance(op, tileas.CopyOp):
            if op.buffer in buffers:
                return True
        elif isinstance(op, tileas.VIEW_LIKE):
            pending += op.operands
    return False


def _is_filled_before(copy: tileas.CopyOp, loop: scf.ForOp) -> bool:
    """Whether a tile in shared memory is the same in all iterations of a loop: its buffer belongs to no pipe, and is
    only filled outside."""
    if not is_inside(copy.result, loop):
        return True
    is_ring = tileas.pipe_of_buffer(copy.buffer) is not None
    return not is_ring and not any(loop.is_ancestor_of(fill) for fill in _fills(copy.buffer))


def _fills(buffer: Value) -> list[Operation]:
    return [user for user in buffer.users if isinstance(user, _FILLS)]


def _operands_of(each: ChainedLoop) -> Iterator[Value]:
    """The values from outside that the dots of a loop use, tiles in memory apart."""
    loop = each.loop
    yield from (loop.lower_bound, loop.upper_bound, loop.step)
    yield from (loop.init_args[number] for number in each.carried)
    apart = (tileas.BufferType, tileas.TensorBufferType, aa.MemTokenType)
    for op in each.moved:
        yield from (value for value in op.operands if not isinstance(value.type, apart) and not is_inside(value, loop))


# ---- operands that do not change -------------------------------------------------------------------------------------


def _fixed_operands(loops: list[ChainedLoop]) -> list[FixedOperand]:
    """The buffers of operands that dots of loops read and threads have filled before."""
    result: dict[Value, FixedOperand] = {}
    for each in loops:
        for copy in each.fixed:
            buffer: Any = copy.buffer  # type: ignore[attr-defined]
            if tileas.pipe_of_buffer(buffer) is not None:
                continue
            fills = _fills(buffer)
            producer = buffer.defining_op
            ends = (*fills, *(user for user in buffer.users if isinstance(user, tileas.DeallocTensorOp)))
            beside = [user for user in buffer.users if user not in ends]
            is_allocated = producer is not None and producer.name == tileas.AllocTensorOp.name
            if not is_allocated or len(fills) != 1 or buffer.type.stages != 1:
                raise CannotSpecialize(copy, "chained.invariant-in-parts")
            if not all(isinstance(user, tileas.CopyOp) and is_in_shared(user.result.type) for user in beside):
                raise CannotSpecialize(copy, "chained.invariant-read-by-threads")
            if fills[0].parent is not each.loop.parent or not fills[0].is_before_in_block(each.loop):
                raise CannotSpecialize(copy, "chained.invariant-filled-elsewhere")
            operand = result.setdefault(buffer, FixedOperand(buffer, fills[0], [], []))
            if not is_inside(copy.result, each.loop):  # type: ignore[attr-defined]
                if operand.copies and copy.parent is not operand.copies[0].parent:
                    raise CannotSpecialize(copy, "chained.invariant-read-elsewhere")
                if copy not in operand.copies:
                    operand.copies.append(copy)
            if each.loop not in operand.loops:
                operand.loops.append(each.loop)
    return list(result.values())
