"""Which loops over tiles two groups of warps can take alternately, each with the accumulators of a whole tile.

    tile      0          1          2          3
    group 0   |dots 0|epilogue 0|dots 2|epilogue 2|
    group 1              |dots 1|epilogue 1|dots 3| ...

Both run the whole loop.  In a round of its own a group does all that the round does; in one of the other group it only
moves its iterators past the stages that this one uses, whose number follows from trip counts.  Values that rounds carry
are numbers, which both groups compute, iterators, and tokens, which order accesses after those of the round before.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.analysis.pipes import agent_of, pipe_of, protocol_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp, YieldOp
from tileiras.dialects.nv_tileas.pipes import CreatePipelineOp, PipelineIteratorType
from tileiras.ir import Block, MemoryRead, MemoryWrite, Operation, Region, TensorType, Terminator, Value
from tileiras.schedule.agents.slice import AgentSlice, CannotSpecialize
from tileiras.support.named_tuple import NamedTuple

_ON_PIPES = (
    tileas.ConsumerWaitOp, tileas.ConsumerReleaseOp, tileas.ProducerAcquireOp, tileas.ProducerCommitOp,
    tileas.ProducerWriteOp,
)  # fmt: skip
_OF_TILES = (
    tileas.CopyOp, tileas.AsyncDotOp, tileas.CommitDotsOp, tileas.FutureWaitOp, tileas.ToAsyncOp, tileas.AllocTensorOp,
    tileas.DeallocTensorOp, tileas.StoreTensorOp, tileas.FenceProxyOp,
)  # fmt: skip
_ACCESSES = (tileas.TiledLoadOp, tileas.TiledStoreOp, tileas.LoadOp, tileas.StoreOp)


class AlternatePlan(NamedTuple):
    """The loop over tiles of an agent that computes.

    `tile`: its body, which is one round; `slice`: the operations that both groups execute in each round; `runs`: the
    inner loops that use stages, and how many of each pipe in an iteration; `dots`: the first and the last operation
    of the body that wait for stages; `ordered`: the first and the last one that fill stages, or that tokens order after
    the previous round; None if absent; `stores`: stores of tiles that tokens order so; `pipes`: those whose stages both
    groups use alternately; `iterators`: the pipe of each iterator.
    """

    loop: scf.ForOp
    tile: Block
    slice: AgentSlice
    runs: dict[Operation, dict[CreatePipelineOp, int]]
    dots: tuple[Operation, Operation]
    ordered: tuple[Operation, Operation] | None
    stores: list[tileas.TiledStoreOp]
    pipes: list[CreatePipelineOp]
    iterators: dict[Value, CreatePipelineOp]


def plan_alternate_tiles(switch: AgentSwitchOp, agent: Region, outside: set[Operation]) -> AlternatePlan:
    """The plan for one agent of a switch, which computes.  `outside`: operations before the agents.

    Raises CannotSpecialize, with the reason.
    """
    program = agent.block
    loop = _tile_loop(program)
    before = set()
    for op in program.operations:
        if op is loop:
            continue
        if _touches(op):
            raise CannotSpecialize(op, "turns.executes-once", op=op.name)
        before.add(op)
    tile = loop.body.block
    _check_round(loop, tile)
    address_slice = AgentSlice(switch, outside | before)
    address_slice.subject = "the tiles of an agent"
    runs: dict[Operation, dict[CreatePipelineOp, int]] = {}
    for op in (inner for outer in tile.operations for inner in outer.walk()):
        if isinstance(op, tileas.IncIterOp) and op.parent_op not in runs:
            if op.by is not None:
                raise CannotSpecialize(op, "turns.stages-skipped")
            around = op.parent_op
            if around is not loop and isinstance(around, scf.ForOp):
                runs[around] = _stages_of(around)
                address_slice.take(around, (around.lower_bound, around.upper_bound, around.step))
            else:
                address_slice.take(op, ())
    end: Any = tile.last
    address_slice.take(end, [value for value in end.operands if not is_of_round(value)])
    address_slice.close()
    for op, handed_on in address_slice.handed_on.items():
        if op is not loop and handed_on:
            raise CannotSpecialize(op, "turns.next-tile-unknown")
    waits = [op for op in tile.operations if any(isinstance(inner, tileas.ConsumerWaitOp) for inner in op.walk())]
    by_tokens = _ordered_by_tokens(loop, tile)
    stores = [inner for op in by_tokens for inner in op.walk() if isinstance(inner, tileas.TiledStoreOp)]
    ends = tileas.ProducerAcquireOp, tileas.ProducerCommitOp
    fills = {op for op in tile.operations if any(isinstance(inner, ends) for inner in op.walk())}
    ordered = [op for op in tile.operations if op in fills or op in by_tokens]
    return AlternatePlan(
        loop, tile, address_slice, runs, (waits[0], waits[-1]), (ordered[0], ordered[-1]) if ordered else None, stores,
        _pipes_of(agent), _iterators(tile),
    )  # fmt: skip


def tile_loops(program: Block) -> list[scf.ForOp | scf.WhileOp]:
    """The outermost loops of a program in which other loops wait for stages."""
    return [op for op in program.operations if isinstance(op, (scf.ForOp, scf.WhileOp)) and any(
        isinstance(inner, tileas.ConsumerWaitOp) and inner.parent_op is not op for inner in op.walk())]  # fmt: skip


def _tile_loop(program: Block) -> scf.ForOp:
    """Raise CannotSpecialize where a program is not one loop over tiles."""
    loops = tile_loops(program)
    if len(loops) != 1:
        first = program.first
        assert first is not None
        raise CannotSpecialize(loops[1] if loops else first, "turns.loops", loops=len(loops))
    (loop,) = loops
    if not isinstance(loop, scf.ForOp):
        raise CannotSpecialize(loop, "turns.no-counter")
    return loop


def _touches(op: Operation) -> bool:
    """Whether an operation outside of the loop over tiles has effects, which must not happen in both groups."""
    if isinstance(op, (YieldOp, tileas.CreateMemTokenOp, tileas.JoinMemTokenOp)):
        return False
    return any(inner.has_trait(MemoryRead) or inner.has_trait(MemoryWrite) for inner in op.walk())


def _check_round(loop: scf.ForOp, tile: Block) -> None:
    """Raise CannotSpecialize where something other than pipes, tokens and numbers ties a round to the one before."""
    for op in (inner for outer in tile.operations for inner in outer.walk()):
        semantic = getattr(op, "mem_semantic", None)
        if isinstance(op, _ACCESSES):
            if semantic is not None and semantic.value != "weak":
                raise CannotSpecialize(op, "turns.ordered", op=op.name)
        elif isinstance(op, scf.WhileOp) and any(isinstance(inner, _ON_PIPES) for inner in op.walk()):
            raise CannotSpecialize(op, "turns.while-waits")
        elif isinstance(op, (*_ON_PIPES, *_OF_TILES, scf.ForOp, scf.IfOp, scf.WhileOp, Terminator)):
            continue
        elif op.has_trait(MemoryRead) or op.has_trait(MemoryWrite):
            raise CannotSpecialize(op, "turns.in-order", op=op.name)
        if tileas.AWS_STAGE in op.attributes:
            raise CannotSpecialize(op, "turns.iterations-overlap")
    for value in loop.init_args:
        if isinstance(value.type, (TensorType, tileas.InFlightType)):
            raise CannotSpecialize(loop, "turns.tile-carried")
        if isinstance(value.type, (tileas.ConsumerTokenType, tileas.ProducerTokenType)):
            raise CannotSpecialize(loop, "turns.stage-carried")


def is_of_round(value: Value) -> bool:
    """Whether a value that rounds carry, an iterator or a token, depends on which group does the round."""
    return isinstance(value.type, (aa.MemTokenType, PipelineIteratorType))


def _stages_of(run: scf.ForOp) -> dict[CreatePipelineOp, int]:
    """How many stages of each pipe an iteration of a loop uses.  Raises CannotSpecialize where that is not known."""
    stages: dict[CreatePipelineOp, int] = {}
    for argument, last in zip(run.iter_args, run.yield_op.operands):
        if not isinstance(argument.type, PipelineIteratorType):
            continue
        count, value = 0, last
        while value is not argument:
            op = value.defining_op
            if not isinstance(op, tileas.IncIterOp) or op.by is not None:
                raise CannotSpecialize(run, "turns.unequal-stages")
            count, value = count + 1, op.iterator
        pipe = pipe_of(argument)
        if pipe is None or pipe in stages:
            raise CannotSpecialize(run, "turns.several-stages")
        stages[pipe] = count
    return stages


def _iterators(tile: Block) -> dict[Value, CreatePipelineOp]:
    """The pipe of each iterator that a round moves on or carries.  Raises CannotSpecialize where one may be of
    several."""
    end: Any = tile.last
    advanced = (op.iterator for outer in tile.operations for op in outer.walk() if isinstance(op, tileas.IncIterOp))
    iterators: dict[Value, CreatePipelineOp] = {}
    for value in (*advanced, *(value for value in end.operands if isinstance(value.type, PipelineIteratorType))):
        pipe = pipe_of(value)
        if pipe is None:
            raise CannotSpecialize(end, "turns.iterators-exchanged")
        iterators[value] = pipe
    return iterators


def _pipes_of(agent: Region) -> list[CreatePipelineOp]:
    """The pipes that an agent fills or drains.  Raises CannotSpecialize where turns cannot be taken at one of them."""
    pipes: dict[CreatePipelineOp, None] = {}
    for op in (inner for outer in agent.operations for inner in outer.walk()):
        if isinstance(op, (tileas.ConsumerWaitOp, tileas.ProducerAcquireOp)):
            pipe = pipe_of(op.token)
            if pipe is None:
                raise CannotSpecialize(op, "turns.pipe-unknown")
            pipes[pipe] = None
        elif isinstance(op, (tileas.ProducerTailOp, tileas.ConsumerTailOp)):
            raise CannotSpecialize(op, "turns.pipe-drained")
    for pipe in pipes:
        if protocol_of(pipe).is_in_tensor_memory or pipe.groups is not None or agent_of(pipe) is not None:
            raise CannotSpecialize(pipe, "turns.not-of-warpgroups")
    return list(pipes)


# ---- tokens ----------------------------------------------------------------------------------------------------------


def _ordered_by_tokens(loop: scf.ForOp, tile: Block) -> set[Operation]:
    """The operations of a round that tokens order after the round before, or before the next one."""
    operations: set[Operation] = set()
    for begin, end in zip(loop.iter_args, loop.yield_op.operands):
        if isinstance(begin.type, aa.MemTokenType):
            operations |= _accesses_behind(begin, tile) | _accesses_before(end, begin, tile)
    return operations


def _accesses_behind(token: Value, tile: Block) -> set[Operation]:
    result, seen, pending = set(), {token}, [token]
    while pending:
        for user in pending.pop().users:
            op = tile.find_ancestor_op(user)
            if op is None or op is tile.last:
                continue
            if not isinstance(op, tileas.JoinMemTokenOp):
                result.add(op)
            for value in op.results:
                if isinstance(value.type, aa.MemTokenType) and value not in seen:
                    seen.add(value)
                    pending.append(value)
    return result


def _accesses_before(token: Value, begin: Value, tile: Block) -> set[Operation]:
    accesses: set[Operation] = set()
    seen, pending = {begin}, [token]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending += [each.value for each in incoming(value) or ()]
        producer = value.defining_op
        op = None if producer is None else tile.find_ancestor_op(producer)
        if op is None:
            continue
        if not isinstance(op, (tileas.JoinMemTokenOp, tileas.CreateMemTokenOp)):
            accesses.add(op)
        for inner in op.walk():
            pending += [each for each in inner.operands if isinstance(each.type, aa.MemTokenType)]
    return accesses
