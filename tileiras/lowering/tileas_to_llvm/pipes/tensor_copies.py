"""Tiles that the tensor memory accelerator moves in boxes: coordinates, and one copy for each box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.pipes.errors import boxes_error
from tileiras.dialects import llvm
from tileiras.dialects.nv_tileas.bulk_copies import TmaLoadOp, TmaStoreStageOp
from tileiras.dialects.nv_tileas.tensor_maps import MakeTmaDescOp, TmaStoreOp, TmaStoreTailOp
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import IntegerAttr, StringAttr, TensorType, UnitAttr, Value, VerifyError, i1, i32, i64
from tileiras.layout.encoding import layout_of
from tileiras.layout.tensor_box import TensorBoxes, tensor_boxes
from tileiras.targets.atoms.bulk_copies import (
    BOX_LOAD,
    BOX_MULTICAST,
    BOX_REDUCE,
    BOX_STORE,
    PAIR_LOAD,
    REDUCTIONS,
)

from ..emit.builder import Number
from ..emit.function import FunctionLowering
from .agents import by_one_thread, copies_for_others, elected
from .pipes import number_of_buffer, pipe_on
from .staging import Place, stage_place

_LAST = (1 << 31) - 1
"""Coordinates are signed numbers of 32 bits (PTX ISA, "Tensors")."""


def make_tma_desc(op: MakeTmaDescOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """Not lowered: the pass that it names makes an argument of it."""
    raise VerifyError("has no tensor map: run 'tileas-attach-tma-desc-args' first")


def tma_load(op: TmaLoadOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    emit = lowering.emit
    pipe, stage = pipe_on(op, lowering), lowering.value(op.token)
    buffer = pipe.op.buffers[number_of_buffer(op)]
    corners = _corners(op, lowering)
    parts = pipe.op.num_ctas if op.multicast is not None else 1
    pair = pipe.protocol.is_of_pair
    with by_one_thread(lowering):
        full = pipe.full(stage, None, lowering)
        mbarrier = _of_first_cta(full, lowering) if pair else full
        place = stage_place(lowering.value(buffer), stage, lowering)
        start = emit.gep(place.base, place.start)

        def copy(atom: str, ctas: int) -> None:
            for offset, corner in _share(_boxes(op, buffer.type.tile, parts), parts, ctas, lowering):
                load = THREAD["tma.async.load"](
                    emit.gep(start, offset),
                    lowering.value(op.desc),
                    mbarrier,
                    _coordinates(op, corner, corners, lowering),
                    atom=StringAttr(atom),
                    multicastMask=IntegerAttr((1 << ctas) - 1, i32) if ctas > 1 else None,
                )
                emit.insert(load)

        together = copies_for_others(lowering) if parts > 1 else None
        if op.together is not None:
            together = emit.both(together, lowering.value(op.together))
        with elected(lowering, together):
            copy(BOX_MULTICAST if parts > 1 else PAIR_LOAD if pair else BOX_LOAD, parts)
        if together is not None:
            alone = emit.value(emit.xor(together, emit.integer(1, i1), i1))
            with elected(lowering, alone):
                copy(BOX_LOAD, 1)


def _share(
    boxes: TensorBoxes, parts: int, ctas: int, lowering: FunctionLowering
) -> list[tuple[Number, list[Number]]]:
    """The boxes that this CTA copies of a tile whose boxes `parts` CTAs can share, and `ctas` do, by its rank: their
    offsets and corners."""
    if ctas == 1:
        return [(piece.offset, list(piece.corner)) for piece in boxes.pieces]
    share = []
    for pieces in zip(*(boxes.share(parts, number) for number in range(parts))):
        corners = zip(*(piece.corner for piece in pieces))
        offset = _by_rank([piece.offset for piece in pieces], lowering)
        share.append((offset, [_by_rank(list(numbers), lowering) for numbers in corners]))
    return share


def _by_rank(numbers: Sequence[int], lowering: FunctionLowering) -> Number:
    """The number of this CTA, of a power of two of them to which each bit of the rank adds the same everywhere."""
    emit = lowering.emit
    rank, result = emit.register("cluster.ctarank"), numbers[0]
    total: Number = result
    for bit in range(len(numbers).bit_length() - 1):
        more = numbers[1 << bit] - result
        if more:
            total = emit.add(total, emit.mul(emit.and_(emit.lshr(rank, bit), 1), more))
    return total


_PEER_BIT = 1 << 24
"""Bit of an address in a cluster's shared memory: set for the CTA of odd rank (CUTLASS, Sm100MmaPeerBitMask)."""


def _of_first_cta(mbarrier: Value, lowering: FunctionLowering) -> Value:
    """The mbarrier in the same place of the pair's CTA of even rank."""
    emit = lowering.emit
    address = emit.and_(emit.insert(llvm.PtrToIntOp(mbarrier, res=i32)), ~_PEER_BIT)
    return emit.insert(llvm.IntToPtrOp(emit.value(address), res=mbarrier.type))


def tma_store(op: TmaStoreOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """Has one thread copy, and wait until the tile is in memory, where other threads see it after a barrier, or only
    until it has been read from shared memory."""
    emit = lowering.emit
    corners = _corners(op, lowering)
    with by_one_thread(lowering):
        place = stage_place(lowering.value(op.buffer), lowering.value(op.stage), lowering)
        _store_boxes(op, op.buffer.type.tile, place, corners, _combination(op), lowering)
        emit.insert(THREAD["tma.create_group"]())
        if not op.leaves_all:
            flag = None if op.unread is None else UnitAttr()
            emit.insert(THREAD["tma.wait_group"](numGroups=op.unread or IntegerAttr(0, i32), read=flag))
    return [None]


def tma_store_tail(op: TmaStoreTailOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """The thread that copies waits for all that it has copied."""
    with by_one_thread(lowering):
        lowering.emit.insert(THREAD["tma.wait_group"](numGroups=IntegerAttr(0, i32), read=UnitAttr()))


def tma_store_stage(op: TmaStoreStageOp, args: Sequence[Any], lowering: FunctionLowering) -> None:
    """One thread copies, after the copies of the stages before: their groups were committed when these were
    released."""
    pipe, stage = pipe_on(op, lowering), lowering.value(op.token)
    buffer = pipe.op.buffers[number_of_buffer(op)]
    corners = _corners(op, lowering)
    with by_one_thread(lowering):
        lowering.emit.insert(THREAD["tma.wait_group"](numGroups=IntegerAttr(0, i32)))
        place = stage_place(lowering.value(buffer), stage, lowering)
        _store_boxes(op, buffer.type.tile, place, corners, None, lowering)


def _store_boxes(
    op: TmaStoreOp | TmaStoreStageOp, tile: TensorType, place: Place, corners: list[Number],
    combines: str | None, lowering: FunctionLowering,
) -> None:  # fmt: skip
    """One copy for each box of a tile that lies at a place in shared memory, by an instruction that `combines` elements
    with those in memory if that is given."""
    emit = lowering.emit
    start = emit.gep(place.base, place.start)
    for piece in _boxes(op, tile).pieces:
        copy = THREAD["tma.async.store"](
            lowering.value(op.desc),
            emit.gep(start, piece.offset),
            _coordinates(op, list(piece.corner), corners, lowering),
            atom=StringAttr(BOX_STORE if combines is None else BOX_REDUCE),
            operation=None if combines is None else StringAttr(combines),
        )
        emit.insert(copy)


def _combination(op: TmaStoreOp) -> str | None:
    """The instruction's name of an update's operation; None for a store."""
    if op.rmw_mode is None:
        return None
    mode, element = op.rmw_mode.value, op.desc.type.view.element_type
    operation = REDUCTIONS.get((mode, str(element)))
    if operation is None:
        raise VerifyError(f"has no instruction that combines {element} by '{mode}'")
    return operation


BoxCopy = TmaLoadOp | TmaStoreOp | TmaStoreStageOp


def _boxes(op: BoxCopy, tile: TensorType, parts: int = 1) -> TensorBoxes:
    wrong = boxes_error(op.desc.type, tile, parts)
    boxes = tensor_boxes(layout_of(tile), op.desc.type.order[0], tile.element_type.width, parts)
    if wrong or boxes is None:
        raise VerifyError(wrong)
    return boxes


def _corners(op: BoxCopy, lowering: FunctionLowering) -> list[Number]:
    """The tile's first element along each of its dimensions, as i64 where i32 might not hold it.  A tile's number that
    is not negative is cut off first: i32 holds 2**31 and more as negative numbers, outside of every tensor."""
    emit, view = lowering.emit, op.desc.type.view
    corners: list[Number] = []
    for coordinate, step, extent in zip(op.coords, view.traversal_strides, view.shape):
        low, high = lowering.ranges.range(coordinate)
        value = lowering.value(coordinate)
        if -_LAST <= low * step and high * step + extent - 1 <= _LAST:
            narrow = value if value.type is i32 else emit.insert(llvm.TruncOp(value, res=i32))
            corners.append(emit.mul(narrow, step))
        elif low >= 0 and value.type is i32 and step + extent <= _LAST:
            corners.append(emit.mul(emit.intrinsic("umin", value, emit.integer(-(-(_LAST + 1) // step))), step))
        else:
            corners.append(emit.mul(emit.sext(value, i64), step, i64))
    return corners


def _coordinates(
    op: BoxCopy, inside: Sequence[Number], corners: list[Number], lowering: FunctionLowering
) -> list[Value]:
    """The corner of a box, innermost dimension first; `inside`: where it is in the tile."""
    return [_coordinate(corners[dim], inside[dim], lowering) for dim in op.desc.type.order]


def _coordinate(corner: Number, added: Number, lowering: FunctionLowering) -> Value:
    """Add coordinates, saturating: one that does not fit 32 bits is outside of every tensor, as is the largest one."""
    emit = lowering.emit
    if isinstance(corner, int) or corner.type is i32:
        return emit.value(emit.add(corner, added))
    wide = emit.value(emit.add(corner, emit.sext(added), i64), i64)
    wide = emit.intrinsic("smin", wide, emit.integer(_LAST, i64))
    wide = emit.intrinsic("smax", wide, emit.integer(-_LAST, i64))
    return emit.insert(llvm.TruncOp(wide, res=i32))
