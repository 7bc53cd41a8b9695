"""Checks of a function's pipes that concern single operations.

`model.py` checks the order in which agents acquire and release stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.dots_in_flight import kind_of_readers
from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileaa import function_of
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.bulk_copies import (
    STAGE_ATOMS,
    BulkLoadOp,
    BulkStoreOp,
    OnBuffer,
    OnToken,
    StageAccess,
    TmaLoadOp,
    TmaStoreStageOp,
)
from tileiras.dialects.nv_tileas.pipes import (
    ConsumeOneOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerTailOp,
    ConsumerTokenType,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    DestroyPipelineOp,
    IncIterOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerTailOp,
    ProducerTokenType,
    ProducerWriteOp,
)
from tileiras.dialects.nv_tileas.tensor_maps import TmaDescType
from tileiras.dialects.nv_tileas.tensor_memory import allocation_of
from tileiras.ir import Operation, Region, TensorType, Terminator, Type, Value
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.layout.tensor_box import UNIT, alignment_of, tensor_boxes
from tileiras.targets import Target
from tileiras.targets.pipe_protocol import MOST_TRANSACTION_BYTES, PAIR, TENSOR_MEMORY, WARPGROUPS
from tileiras.targets.requirements import spell
from tileiras.targets.sm import WARPGROUP

from ..places import stage_error
from . import FILLS, ON_TOKENS, Finding, PipeUses, agent_of, pipe_of, protocol_of, sources

_WRITES = (tileas.StoreTensorOp, tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp)
_ON_BUFFERS = (*_WRITES, tileas.CopyOp)
_ON_ACCUMULATORS = (names.TENSOR_DOT, names.TENSOR_LOAD, names.TENSOR_SCALE, names.TENSOR_STORE)


def pipe_errors(func: Operation, uses: PipeUses, gpu: Target) -> Iterator[Finding]:
    """The errors in the pipes of a function, except for the order of events of agents."""
    for op in uses.strays:
        yield op, "expects an end of one pipe, which is known here"
    for pipe, operations in uses.pipes.items():
        yield from _ends_errors(pipe, uses, func)
        yield from _kind_errors(pipe, operations, gpu)
        yield from _tail_errors(pipe, operations, uses)
        yield from _group_errors(pipe, operations)
        for op in operations:
            wrong = _unpaired(op) or _iterator_error(op, pipe) or _tile_error(op, pipe)
            if wrong:
                yield op, wrong
    for op in func.walk():
        if isinstance(op, _ON_BUFFERS) and op.buffer in uses.buffers:
            wrong = _outside_error(op, uses)
        elif op.name in _ON_ACCUMULATORS:
            wrong = _accumulator_error(op, uses)
        else:
            continue
        if wrong:
            yield op, wrong


def _ends_errors(pipe: CreatePipelineOp, uses: PipeUses, func: Operation) -> Iterator[Finding]:
    filling, draining = uses.filling(pipe), uses.draining(pipe)
    ends = [user for user in pipe.producer.users if isinstance(user, DestroyPipelineOp)]
    if pipe.parent_op is not func and [end.parent for end in ends] != [pipe.parent]:
        yield pipe, "expects to stand in the function's own block, or to be destroyed in the block that it stands in"
    if draining and not filling:
        yield pipe, "is a pipe that an agent waits for and none fills"
    if filling and not draining:
        yield pipe, "is a pipe that an agent fills and none drains"
    if pipe.by_turns is None and len(filling) > 1 and not protocol_of(pipe).is_filled_by_threads:
        yield pipe, "is a pipe that two agents fill"
    if pipe.by_turns is not None:
        yield from _turns_errors(pipe, filling, draining, uses)
    switches = {None if agent is None else agent.parent for agent in (*filling, *draining)}
    if len(switches) > 1:
        yield pipe, "is a pipe between agents that do not run beside each other"


def _turns_errors(
    pipe: CreatePipelineOp, filling: list[Region | None], draining: list[Region | None], uses: PipeUses
) -> Iterator[Finding]:
    """Whether agents that take turns at the stages of a pipe arrive with equal numbers of warps, and every phase is
    waited for."""
    for agents, do in ((filling, "fill"), (draining, "drain")):
        operations = {agent: op for op in uses.pipes[pipe] if (agent := agent_of(op)) in agents}
        counts = sorted({_warps_around(op) for op in operations.values()})
        if len(counts) > 1:
            yield pipe, f"is a pipe that agents {do} by turns, of {' and '.join(map(str, counts))} warps"
    tails = [user for user in pipe.producer.users if isinstance(user, ProducerTailOp)]
    if protocol_of(pipe).is_in_tensor_memory or tails and not pipe.is_freed_by_all:
        yield pipe, "is a pipe whose agents cannot take turns: it is in tensor memory, or waited for at the end"


def _tail_errors(pipe: CreatePipelineOp, operations: list[Any], uses: PipeUses) -> Iterator[Finding]:
    """Whether an agent with a consumer tail, which takes the memory of a pipe, is the only one that drains the pipe,
    and does not use it afterwards."""
    for tail in pipe.consumer.users:
        if not isinstance(tail, ConsumerTailOp):
            continue
        agent = agent_of(tail)
        if agent is None or tail.parent is not agent.block or uses.draining(pipe) != [agent]:
            yield tail, "expects to stand in the block of the only agent that drains the pipe"
            continue
        own = (agent.block.find_ancestor_op(op) for op in operations if agent_of(op) is agent)
        if not all(op is not None and op.is_before_in_block(tail) for op in own):
            yield tail, "says that no stage is waited for any more, and one is used behind it"


def _group_errors(pipe: CreatePipelineOp, operations: list[Any]) -> Iterator[Finding]:
    """Whether single threads name the group of warps to which they hand a stage or from which they take it, and other
    agents have as many warpgroups as the pipe has groups."""
    protocol, count = protocol_of(pipe), pipe.num_groups
    tails = [user for user in pipe.producer.users if isinstance(user, ProducerTailOp)]
    filling = {agent_of(op) for op in operations if isinstance(op, FILLS)}
    for op in (*operations, *tails):
        if not isinstance(op, (*_BY_GROUP, ProducerTailOp)):
            continue
        produces = isinstance(op, ProducerTailOp) and agent_of(op) in filling or isinstance(op, _BY_GROUP[:2])
        alone = protocol.is_filled_by_one_thread if produces else protocol.is_drained_by_one_thread
        group = None if op.group is None else op.group.value
        if (group is not None) is not (pipe.groups is not None and alone):
            yield op, "names a group of warps where one thread hands stages to several, and only there"
        elif group is not None and not 0 <= group < count:
            yield op, f"names group {group}, on a pipe of {count}"
        elif pipe.groups is not None and group is None and (warps := _warps_around(op)) != count * WARPGROUP:
            yield op, f"is on a pipe of {count} groups of warps, in an agent of {warps} warps"


_BY_GROUP = (ProducerAcquireOp, ProducerCommitOp, ConsumerWaitOp, ConsumerReleaseOp)


def _warps_around(op: Operation) -> int:
    """The warps of the agent around an operation; those of the kernel outside of agents, or if the agent has no number.
    """
    region, func = agent_of(op), function_of(op)
    if region is not None:
        switch: Any = region.parent
        return switch.warps_in(region)
    return 0 if func is None else func.kernel_spec.num_warps


def _kind_errors(pipe: CreatePipelineOp, operations: list[Any], gpu: Target) -> Iterator[Finding]:
    protocol, (producer, consumer) = protocol_of(pipe), pipe.kinds
    if not gpu.meets(protocol.requires):
        needs = spell(protocol.requires)
        yield pipe, f"is filled by '{producer}' and drained by '{consumer}', which needs {needs}, not {gpu.name}"
    if protocol.counts_bytes and pipe.stage_bytes > MOST_TRANSACTION_BYTES:
        yield pipe, f"moves {pipe.stage_bytes} bytes a stage; an mbarrier counts at most {MOST_TRANSACTION_BYTES}"
    for op in operations:
        kind = _kind_of(op)
        required = producer if isinstance(op.token.type, ProducerTokenType) else consumer
        if kind is not None and kind != required:
            yield op, _other_kind(kind, required)
        if isinstance(op, ProducerAcquireOp) and protocol.counts_bytes:
            loads = [user.buffer.value if user.buffer is not None else 0 for user in op.result.users
                     if isinstance(user, (BulkLoadOp, TmaLoadOp))]  # fmt: skip
            if sorted(loads) != list(range(len(pipe.buffers))):
                yield op, (
                    f"expects one bulk copy into the stage for each of {len(pipe.buffers)} buffers, whose bytes the "
                    f"consumer waits for, but got {len(loads)}"
                )


def _kind_of(op: Operation) -> str | None:
    """The kind by which an operation fills or drains a stage; None for other operations."""
    if isinstance(op, tileas.CopyOp) and is_in_shared(op.result.type):
        return kind_of_readers(op, lambda user: isinstance(user, tileas.VIEW_LIKE))
    return STAGE_ATOMS.get(type(op))


def _other_kind(kind: str | None, required: str) -> str:
    return f"is of kind '{kind}', on a pipe of '{required}'"


def warpgroup_errors(pipe: CreatePipelineOp, agent: int, first: int, count: int) -> Iterator[Finding]:
    """Whether `agent`, which drains the pipe with `count` warps from warp `first` on, consists of warpgroups if it has
    to."""
    if pipe.kinds[1] == WARPGROUPS and (first % WARPGROUP or count % WARPGROUP):
        yield pipe, f"is drained by warpgroups, in agent {agent} of {count} warps from warp {first} on"


_OPENED: dict[type[Operation], tuple[type[Operation] | None, str]] = {
    ProducerAcquireOp: (ProducerCommitOp, "acquires a stage that it never commits"),
    ConsumerWaitOp: (ConsumerReleaseOp, "waits for a stage that it never releases"),
}
_ON_STAGE: dict[type[Operation], tuple[type[Operation] | None, str]] = {
    ProducerCommitOp: (ProducerAcquireOp, "commits a stage that it has not acquired"),
    ProducerWriteOp: (ProducerAcquireOp, "writes to a stage that it has not acquired"),
    BulkLoadOp: (ProducerAcquireOp, "writes to a stage that it has not acquired"),
    TmaLoadOp: (ProducerAcquireOp, "writes to a stage that it has not acquired"),
    ConsumerReleaseOp: (ConsumerWaitOp, "releases a stage that it has not waited for"),
    ConsumerReadOp: (ConsumerWaitOp, "reads a stage that it has not waited for"),
    BulkStoreOp: (ConsumerWaitOp, "reads a stage that it has not waited for"),
    TmaStoreStageOp: (ConsumerWaitOp, "reads a stage that it has not waited for"),
}


def _unpaired(op: OnToken) -> str:
    closing, text = _OPENED.get(type(op), (None, ""))
    if closing is not None:
        return "" if any(isinstance(user, closing) for user in _users(op.results[0])) else text
    opening, text = _ON_STAGE.get(type(op), (None, ""))
    return "" if opening is None or any(isinstance(source, opening) for source in sources(op.token)) else text


def _users(token: Value) -> Iterator[Operation]:
    """The users of a token, through loops and branches."""
    seen = {token}
    pending = [token]
    while pending:
        current = pending.pop()
        for user in current.users:
            yield user
            if isinstance(user, ON_TOKENS):
                continue
            around = user.parent_op if user.has_trait(Terminator) else user
            for value in _carried(around) if around is not None else ():
                carried = incoming(value)
                if value not in seen and carried and any(each.value is current for each in carried):
                    seen.add(value)
                    pending.append(value)


def _carried(op: Operation) -> list[Value]:
    """The tokens that a loop or branch has as results or as block arguments."""
    blocks = [block for region in op.regions for block in region.blocks]
    values = [*op.results, *(argument for block in blocks for argument in block.arguments)]
    return [value for value in values if isinstance(value.type, (ProducerTokenType, ConsumerTokenType))]


def _iterator_error(op: OnToken, pipe: CreatePipelineOp) -> str:
    iterator = getattr(op, "iterator", None)
    if iterator is None:
        return ""
    if pipe_of(iterator) is not pipe:
        return "goes by the iterator of another pipe"
    foreign = [source for source in _beginnings(iterator) if source.token.type is not op.token.type]
    return "goes by the iterator of the other end" if foreign else ""


def _beginnings(iterator: Value) -> list[CreateIteratorOp]:
    beginnings: dict[CreateIteratorOp, None] = {}
    seen: set[Value] = set()
    pending = [iterator]
    while pending:
        for op in sources(pending.pop()):
            if isinstance(op, CreateIteratorOp):
                beginnings[op] = None
            elif isinstance(op, IncIterOp) and op.iterator not in seen:
                seen.add(op.iterator)
                pending.append(op.iterator)
    return list(beginnings)


def _tile_error(op: OnToken, pipe: CreatePipelineOp) -> str:
    """Whether an operation moves a tile like that in the buffer of its stage."""
    if isinstance(op, (ProduceOneOp, ConsumeOneOp)):
        types = list(op.producer_types if isinstance(op, ProduceOneOp) else op.consumer_types)
        if len(types) != len(pipe.buffers):
            return f"has {len(types)} tiles, on a pipe of {len(pipe.buffers)} buffers"
        pairs = list(zip(types, pipe.buffers))
    elif isinstance(op, (ProducerWriteOp, ConsumerReadOp, BulkLoadOp, TmaLoadOp, BulkStoreOp, TmaStoreStageOp)):
        number = 0 if op.buffer is None else op.buffer.value
        if not 0 <= number < len(pipe.buffers):
            return f"names buffer {number}, on a pipe of {len(pipe.buffers)}"
        if isinstance(op, TmaLoadOp):
            parts = 1 if op.multicast is None else pipe.num_ctas
            return stages_of_boxes_error(op.desc.type, pipe.buffers[number], parts)
        if isinstance(op, TmaStoreStageOp):
            return stages_of_boxes_error(op.desc.type, pipe.buffers[number])
        if isinstance(op, (BulkLoadOp, BulkStoreOp)):
            wrong = stage_error(pipe.buffers[number], UNIT, "bulk copies begin")
            if wrong:
                return wrong
        pairs = [(_tile_type(op), pipe.buffers[number])]
    else:
        return ""
    for type, buffer in pairs:
        tile = buffer.type.tile
        if not hasattr(type, "shape") or (type.shape, type.element_type) != (tile.shape, tile.element_type):
            return f"expects a tile like {tile}, got {type}"
        if isinstance(type, TensorType) and not isinstance(type.encoding, tileas.LinearLayoutAttr):
            return f"expects a tile in registers, got {type}"
    return ""


def _tile_type(op: OnBuffer) -> Type:
    if isinstance(op, ProducerWriteOp):
        return op.tensor.type
    return op.result.type if isinstance(op, ConsumerReadOp) else op.view.type


def boxes_error(desc: TmaDescType, tile: TensorType, parts: int = 1) -> str:
    """Whether the boxes of a descriptor compose a tile in its layout in shared memory, and can be divided among `parts`
    CTAs."""
    view = desc.view
    if (view.shape, desc.element) != (tile.shape, tile.element_type):
        return f"expects a tile like {tile}, got {view}"
    result = tensor_boxes(layout_of(tile), desc.order[0], tile.element_type.width, parts)
    if result is None:
        return f"has no boxes that lie as {tile} does"
    if (result.box, result.order, result.swizzle, result.atom) != (desc.box, desc.order, desc.swizzle, desc.atom):
        boxes = f"box = {list(result.box)}, order = {list(result.order)}, swizzle = {result.swizzle}"
        boxes += f", atom = {result.atom}" if result.atom != desc.atom else ""
        return f"expects a descriptor of {boxes} for {tile}, got {desc}"
    return ""


def stages_of_boxes_error(desc: TmaDescType, buffer: Value, parts: int = 1) -> str:
    """Likewise for the tiles of a buffer, whose stages must also have the alignment of boxes with the swizzle."""
    wrong = boxes_error(desc, buffer.type.tile, parts)
    return wrong or stage_error(buffer, alignment_of(desc.swizzle), "its boxes begin")


def _outside_error(op: StageAccess, uses: PipeUses) -> str:
    """The error in an agent's access to the buffer of a pipe whose stages it does not acquire or wait for, or ""."""
    pipe = uses.buffers[op.buffer]
    writes = isinstance(op, _WRITES)
    kind, required = _kind_of(op), pipe.kinds[0 if writes else 1]
    if kind != required:
        return _other_kind(kind, required)
    return _agent_error(op, pipe, uses, writes)


def _accumulator_error(op: Any, uses: PipeUses) -> str:
    """The error in an access to a buffer of a pipe in tensor memory, or "".

    Accumulators are filled by dots and drained by loads only; tiles that threads store for dots are filled by threads
    and drained by dots.
    """
    pipe = uses.buffers.get(allocation_of(op.buffer))
    if pipe is None:
        return ""
    if protocol_of(pipe).is_stored:
        return _agent_error(op, pipe, uses, op.name != names.TENSOR_DOT)
    if op.name not in (names.TENSOR_DOT, names.TENSOR_LOAD):
        return f"touches an accumulator of a pipe, which '{names.TENSOR_DOT}' fills and '{names.TENSOR_LOAD}' drains"
    if op.name == names.TENSOR_DOT and op.atom.is_of_pair is not protocol_of(pipe).is_of_pair:
        return _other_kind(PAIR if op.atom.is_of_pair else TENSOR_MEMORY, pipe.kinds[0])
    return _agent_error(op, pipe, uses, op.name == names.TENSOR_DOT)


def _agent_error(op: Operation, pipe: CreatePipelineOp, uses: PipeUses, writes: bool) -> str:
    if agent_of(op) in (uses.filling(pipe) if writes else uses.draining(pipe)):
        return ""
    does, not_ = ("writes to", "fill") if writes else ("reads", "drain")
    return f"{does} a pipe's buffer in an agent that does not {not_} it"
