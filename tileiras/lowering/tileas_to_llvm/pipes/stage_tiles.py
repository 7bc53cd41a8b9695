"""Tiles in the stages of pipes: stores to them, loads from them, runs of bytes, and whole stages of `produce_one`.

How a stage is acquired, committed, waited for and released is in `pipes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects.nv_tileas.bulk_copies import BulkLoadOp, BulkStoreOp
from tileiras.dialects.nv_tileas.pipes import ConsumeOneOp, ConsumerReadOp, ProduceOneOp, ProducerWriteOp
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import IntegerAttr, TensorType, Value, VerifyError, i32
from tileiras.layout.encoding import layout_of, offsets_of
from tileiras.layout.staging import load_access, store_access
from tileiras.targets import matrix_loads

from ..collective.convert_layout import Place, StagedFragment, read_shared, shared_addresses
from ..emit.function import FunctionLowering
from ..emit.types import element_of, memory_type, scalar_type
from ..memory.access import as_data, from_memory, store_vector
from .agents import by_one_thread
from .bulk_copies import Run, runs
from .pipes import Pipe, acquire, commit, number_of_buffer, pipe_on, release, wait
from .staging import reads_steps, stage_place


def producer_write(op: ProducerWriteOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    _write(pipe_on(op, lowering), number_of_buffer(op), args[1], op.tensor, lowering)


def _write(pipe: Pipe, number: int, stage: Value, tensor: Value, lowering: FunctionLowering) -> None:
    """Each thread stores its elements of a tile to a stage of a buffer."""
    emit = lowering.emit
    data = as_data(lowering.value(tensor), lowering)
    size = element_of(data.type).width // 8
    buffer = pipe.op.buffers[number]
    access = _check(lambda: store_access(lowering.layout(tensor), offsets_of(buffer.type.tile), 8 * size))
    holder = emit.thread_is_elected(access.lane_mask, access.warp_mask)
    places = shared_addresses(access, size, stage_place(lowering.value(buffer), stage, lowering), lowering)
    for group, (pointer, offset) in zip(access.registers, places):
        store_vector(lowering, pointer, offset, emit.shuffle(data, group), holder)


def consumer_read(op: ConsumerReadOp, args: Sequence[Any], lowering: FunctionLowering) -> Value | list[StagedFragment]:
    pipe, number = pipe_on(op, lowering), number_of_buffer(op)
    if reads_steps(op, pipe.op.buffers[number]):
        access, place, element = _access(pipe, number, args[0], op.result.type, lowering)
        return [StagedFragment(access, place, element, lowering)]
    return _read(pipe, number, args[0], op.result.type, lowering)


def _access(
    pipe: Pipe, number: int, stage: Value, type: TensorType, lowering: FunctionLowering
) -> tuple[Any, Place, Any]:
    """How threads load the tile in a stage of a buffer, where it is, and the type of its elements in memory."""
    buffer = pipe.op.buffers[number]
    element, layout = memory_type(type.element_type), layout_of(type)
    forms = matrix_loads(lowering.target)
    access = _check(lambda: load_access(layout, offsets_of(buffer.type.tile), element.width, forms))
    return access, stage_place(lowering.value(buffer), stage, lowering), element


def _read(pipe: Pipe, number: int, stage: Value, type: TensorType, lowering: FunctionLowering) -> Value:
    """Each thread loads its elements of the tile in a stage of a buffer."""
    access, place, element = _access(pipe, number, stage, type, lowering)
    value = read_shared(access, element, place, layout_of(type).registers, lowering)
    return from_memory(value, scalar_type(type.element_type), lowering)


def _check(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ValueError as error:
        raise VerifyError(str(error)) from None


def bulk_load(op: BulkLoadOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    pipe, stage = pipe_on(op, lowering), lowering.value(op.token)
    with by_one_thread(lowering):
        mbarrier = pipe.full(stage, None, lowering)
        for run, shared in _runs(op, pipe, stage, lowering):
            size = IntegerAttr(run.bytes, i32)
            lowering.emit.insert(THREAD["tma.bulk.load"](shared, run.pointer, mbarrier, size=size))


def bulk_store(op: BulkStoreOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    pipe, stage = pipe_on(op, lowering), lowering.value(op.token)
    with by_one_thread(lowering):
        for run, shared in _runs(op, pipe, stage, lowering):
            lowering.emit.insert(THREAD["tma.bulk.store"](run.pointer, shared, size=IntegerAttr(run.bytes, i32)))


def _runs(
    op: BulkLoadOp | BulkStoreOp, pipe: Pipe, stage: Value, lowering: FunctionLowering
) -> list[tuple[Run, Value]]:
    """The runs of bytes of a tile, each with its place in the stage."""
    buffer = pipe.op.buffers[number_of_buffer(op)]
    place = stage_place(lowering.value(buffer), stage, lowering)
    start = lowering.emit.gep(place.base, place.start)
    return [(run, lowering.emit.gep(start, run.offset)) for run in runs(op, buffer.type.tile, lowering)]


# ---- a stage from beginning to end -----------------------------------------------------------------------------------


def produce_one(op: ProduceOneOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    pipe = pipe_on(op, lowering)
    stage = acquire(pipe, args[1], lowering)
    _bind(op, pipe, stage, lowering)
    for number, value in enumerate(_body(op, lowering)):
        _write(pipe, number, stage, value, lowering)
    commit(pipe, stage, lowering)
    return lowering.emit.integer(0)


def consume_one(op: ConsumeOneOp, args: Sequence[Value], lowering: FunctionLowering) -> list[Any]:
    pipe = pipe_on(op, lowering)
    stage = wait(pipe, args[1], lowering)
    _bind(op, pipe, stage, lowering)
    values = [lowering.values.get(value) for value in _body(op, lowering)]
    release(pipe, stage, lowering)
    return [lowering.emit.integer(0), *values]


def _bind(op: ProduceOneOp | ConsumeOneOp, pipe: Pipe, stage: Value, lowering: FunctionLowering) -> None:
    for number, argument in enumerate(op.body.block.arguments):
        if argument.users:
            lowering.values[argument] = _read(pipe, number, stage, argument.type, lowering)


def _body(op: ProduceOneOp | ConsumeOneOp, lowering: FunctionLowering) -> Sequence[Value]:
    block = op.body.block
    for inner in block.operations:
        if inner is not block.last:
            lowering.operation(inner)
    return block.last.operands
