"""Tiles in shared memory that asynchronous copies fill: buffers, copies, waits, and reading a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tileiras import analysis
from tileiras.analysis.dots import feeds_dots
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Value, VerifyError, element_type_of, i32
from tileiras.layout import LinearLayout
from tileiras.layout.convert import Condition
from tileiras.layout.encoding import is_in_shared, layout_of, offsets_of
from tileiras.layout.shared import SharedAccess
from tileiras.layout.staging import in_whole, load_access, part_of, slice_columns, store_access
from tileiras.support import gf2
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import matrix_loads

from ..collective.convert_layout import (
    Place,
    StagedFragment,
    elected_of,
    holds,
    read_shared,
    shared_addresses,
)
from ..emit.function import FunctionLowering, alignment_of
from ..emit.types import element_of, memory_type, scalar_type, vector_of
from ..memory.access import as_data, from_memory, load_vector, store_vector
from ..memory.masked_vectors import MaskedVectors
from ..memory.views import TileAddresses
from ..tensor_core.atoms import commit_copies, copy_async, wait_for_copies

if TYPE_CHECKING:
    from tileiras.dialects.nv_tileas.pipes import ConsumerReadOp


class Buffer(NamedTuple):
    """Where a buffer is in the arena; `alignment`: of every stage."""

    pointer: Value
    alignment: int
    stage_bytes: int


def alloc_tensor(op: tileas.AllocTensorOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Buffer]:
    type = op.result.type
    alignment = min(alignment_of(op.offset.value), type.alignment)
    return [Buffer(lowering.buffer(op), alignment, type.stage_bytes)]


def dealloc_tensor(op: tileas.DeallocTensorOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """No code: `tileas-optimize-alloc-tensor` has ensured that the place is free for others."""


def stage_place(buffer: Buffer, stage: Value, lowering: FunctionLowering) -> Place:
    """Where a stage of a buffer is."""
    return Place(buffer.pointer, buffer.alignment, lowering.emit.mul(stage, buffer.stage_bytes))


def _targets(
    op: tileas.AsyncLoadOp | tileas.AsyncTiledLoadOp, layout: LinearLayout, lowering: FunctionLowering
) -> tuple[Value | None, list[tuple[Sequence[int], Value, int]]]:
    """Whether this thread copies, and each vector of its part of a tile: registers, address in the stage, bytes to
    add."""
    emit = lowering.emit
    tile = op.buffer.type.tile
    buffer = lowering.value(op.buffer)
    size = tile.element_type.width // 8
    vector = op.atom.vector_size
    if op.buffer.type.is_of_registers:
        return None, _own_vectors(op, vector, lowering)
    try:
        access: SharedAccess | None = store_access(layout, offsets_of(tile), 8 * size, vector.bit_length() - 1)
    except ValueError:  # layouts that were written by hand
        access = None
    if access is None or access.vector != vector:
        raise VerifyError(f"expects {vector} neighbouring elements in shared memory")
    holder = emit.thread_is_elected(access.lane_mask, access.warp_mask)
    places = shared_addresses(access, size, stage_place(buffer, lowering.value(op.stage), lowering), lowering)
    return holder, [(group, *place) for group, place in zip(access.registers, places)]


def _copy_vector(
    op: tileas.AsyncLoadOp | tileas.AsyncTiledLoadOp,
    target: Value,
    pointer: Value,
    count: Value | None,
    holder: Value | None,
    lowering: FunctionLowering,
) -> None:
    """One copy, of the first `count` elements of a vector; of all for None."""
    size, vector = op.buffer.type.tile.element_type.width // 8, op.atom.vector_size
    emit = lowering.emit
    result = None if count is None else emit.value(emit.mul(count, size))
    if lowering.copies_exist is not None:
        whole = emit.integer(vector * size)
        result = emit.select(lowering.copies_exist, whole if result is None else result, emit.integer(0))
    copy_async(lowering, target, pointer, vector * size, result, holder)


def tiled_load(op: tileas.AsyncTiledLoadOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    layout = layout_of(op.buffer.type.tile.with_encoding(op.layout))
    addresses = TileAddresses(op, layout, lowering)
    axis = addresses.fastest() if addresses.rank else 0
    emit = lowering.emit
    with lowering.rematerialized():
        holder, targets = _targets(op, layout, lowering)
        vector = len(targets[0][0])
        counts = addresses.runs_inside([group[0] for group, *_ in targets], axis, vector)
        for (group, target, target_offset), count in zip(targets, counts):
            pointer, offset = addresses.address(group[0])
            _copy_vector(op, emit.gep(target, target_offset), emit.gep(pointer, offset), count, holder, lowering)


def load(op: tileas.AsyncLoadOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    emit = lowering.emit
    pointers = lowering.value(op.pointer)
    layout = lowering.layout(op.pointer)
    mask = MaskedVectors(op, layout, lowering)
    element = memory_type(op.buffer.type.tile.element_type)

    def copy(vectors: bool) -> None:
        holder, targets = _targets(op, layout, lowering)
        for group, target, target_offset in targets:
            if vectors:
                condition = mask.at(group[0], True)
                whole = emit.integer(len(group))
                count = None if condition is None else emit.select(condition, whole, emit.integer(0))
                pointer, _ = mask.address(pointers, group)
                _copy_vector(op, emit.gep(target, target_offset), pointer, count, holder, lowering)
                continue
            # Elements that a thread stores itself become visible at the same barrier.
            for number, register in enumerate(group):
                pointer, offset = mask.address(pointers, group, number)
                value = load_vector(lowering, pointer, offset, element, mask.at(register))
                store_vector(lowering, target, target_offset + number * element.width // 8, value, holder)

    mask.branched(copy)


def commit_group(op: tileas.AsyncCommitGroupOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    commit_copies(lowering)


def wait(op: tileas.AsyncWaitOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """Each thread waits for its own copies; the barrier that follows makes those of all threads visible."""
    wait_for_copies(op.pending, lowering)
    return [None]


def _own_places(
    op: tileas.CopyOp | tileas.StoreTensorOp | tileas.AsyncTiledLoadOp, lowering: FunctionLowering
) -> Iterator[tuple[list[int], Value]]:
    """Runs of up to four words of a thread's own place in a buffer, and their addresses.

    A run lies beside those of the other threads, so that no bank has two words of a wavefront.
    """
    emit = lowering.emit
    place = stage_place(lowering.value(op.buffer), lowering.value(op.stage), lowering)
    words, threads = op.buffer.type.thread_words, 32 * lowering.num_warps
    first = 0
    while first < words:
        count = min(4, 1 << (words - first).bit_length() - 1)
        start = emit.add(place.start, 4 * first * threads)
        yield list(range(first, first + count)), emit.gep(place.base, emit.add(emit.mul(emit.thread, 4 * count), start))
        first += count


def _own_vectors(
    op: tileas.AsyncTiledLoadOp, vector: int, lowering: FunctionLowering
) -> list[tuple[Sequence[int], Value, int]]:
    """The vectors that a thread copies into its own place: registers, address, bytes to add."""
    type = op.buffer.type
    size = type.tile.element_type.width // 8
    vectors: list[tuple[Sequence[int], Value, int]] = []
    for words, pointer in _own_places(op, lowering):
        first, count = 4 * words[0] // size, 4 * len(words) // size
        if count % vector:
            raise VerifyError(f"expects whole vectors of {vector} elements in the {count} that lie together")
        vectors += [
            (range(at, at + vector), pointer, (at - first) * size) for at in range(first, first + count, vector)
        ]
    return vectors


def _store_own(op: tileas.StoreTensorOp, lowering: FunctionLowering) -> None:
    """Store to a thread's own place, which no other thread reads: no barrier is needed."""
    words = lowering.emit.pack(as_data(lowering.value(op.tensor), lowering), i32)
    with lowering.rematerialized():
        for run, pointer in _own_places(op, lowering):
            store_vector(lowering, pointer, 0, lowering.emit.shuffle(words, run))


def _load_own(op: tileas.CopyOp, lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    with lowering.rematerialized():
        runs = [load_vector(lowering, p, 0, vector_of(i32, len(run))) for run, p in _own_places(op, lowering)]
    type = op.result.type
    return emit.unpack(emit.concat(runs), vector_of(scalar_type(type.element_type), layout_of(type).registers))


def store_tensor(op: tileas.StoreTensorOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    if op.buffer.type.is_of_registers:
        _store_own(op, lowering)
        return
    emit = lowering.emit
    buffer = lowering.value(op.buffer)
    data = as_data(lowering.value(op.tensor), lowering)
    size = element_of(data.type).width // 8
    layout, tile = lowering.layout(op.tensor), op.buffer.type.tile
    conditions: tuple[Condition, ...] = ()
    if op.part is not None:
        axis = tileas.cut_axis(op.tensor.type, tile)
        part = part_of(layout, axis, layout.shape[axis] // tile.shape[axis], op.part.value)
        if part is None:
            raise VerifyError("expects a layout in which a part of the tile is in registers or threads of its own")
        registers, conditions, layout = part
        data = emit.shuffle(data, registers)
    try:
        access = store_access(layout, offsets_of(tile), 8 * size)
    except ValueError as error:
        raise VerifyError(str(error)) from None
    holder = emit.both(elected_of(access, conditions, lowering), holds(conditions, lowering))
    places = shared_addresses(access, size, stage_place(buffer, lowering.value(op.stage), lowering), lowering)
    for group, (pointer, offset) in zip(access.registers, places):
        store_vector(lowering, pointer, offset, emit.shuffle(data, group), holder)


def reads_steps(op: tileas.CopyOp | ConsumerReadOp, buffer: Value) -> bool:
    """Whether dots read the tile of a buffer on demand: not if a pipe's stage is released meanwhile."""
    if not feeds_dots(op.result, op.parent):
        return False
    if tileas.pipe_of_buffer(buffer) is None:
        return True
    return analysis.pipes.is_held_by_dots(op)


def copy(
    op: tileas.CopyOp, args: Sequence[Any], lowering: FunctionLowering
) -> Value | list[StagedFragment] | list[Place]:
    if op.buffer.type.is_of_registers:
        return _load_own(op, lowering)
    if is_in_shared(op.result.type):
        return [stage_place(lowering.value(op.buffer), lowering.value(op.stage), lowering)]
    layout = lowering.layout(op.result)
    tile = op.buffer.type.tile
    buffer = lowering.value(op.buffer)
    element = memory_type(element_type_of(tile))
    place = stage_place(buffer, lowering.value(op.stage), lowering)
    try:
        forms = matrix_loads(lowering.target)
        access = load_access(in_whole(layout, tile.shape), offsets_of(tile), element.width, forms)
        if op.slice is not None:
            columns = slice_columns(layout, tile.shape, offsets_of(tile))
            slice_offset = lowering.emit.image(columns, lowering.value(op.slice))
            place = place._replace(mask=slice_offset, mask_bits=gf2.support(columns))
    except ValueError as error:
        raise VerifyError(str(error)) from None
    with lowering.rematerialized():
        if reads_steps(op, op.buffer):
            return [StagedFragment(access, place, element, lowering)]
        value = read_shared(access, element, place, layout.registers, lowering)
    return from_memory(value, scalar_type(tile.element_type), lowering)
