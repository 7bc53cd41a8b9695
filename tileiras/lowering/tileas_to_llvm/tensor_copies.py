"""Tiles that the tensor memory accelerator moves in boxes: coordinates, and one copy for each box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.pipes import boxes_error
from tileiras.dialects import llvm, nvvm
from tileiras.dialects.nv_tileas.pipes import TmaLoadOp
from tileiras.dialects.nv_tileas.tensor_maps import MakeTmaDescOp, TmaStoreOp
from tileiras.ir import IntegerAttr, StringAttr, TensorType, Value, VerifyError, i32, i64
from tileiras.layout.encoding import layout_of
from tileiras.layout.tensor_box import Piece, tensor_boxes
from tileiras.targets import CopyAtom
from tileiras.targets.atoms.bulk_copies import BOX_LOAD, BOX_REDUCE, BOX_STORE, BULK_COPY_ATOMS, REDUCTIONS

from .agents import by_one_thread
from .builder import Number
from .function import FunctionLowering
from .pipes import number_of_buffer, pipe_on
from .staging import stage_place

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
    atom = BULK_COPY_ATOMS[BOX_LOAD]
    with by_one_thread(lowering):
        mbarrier = pipe.full(stage, lowering)
        place = stage_place(lowering.value(buffer), stage, lowering)
        start = emit.gep(place.base, place.start)
        for piece in _pieces(op, buffer.type.tile):
            copy = nvvm.CpAsyncBulkTensorLoadOp(
                emit.gep(start, piece.offset),
                lowering.value(op.desc),
                mbarrier,
                _coordinates(op, piece, corners, lowering),
                instruction=StringAttr(atom.instruction),
                syntax=StringAttr(atom.syntax),
            )
            emit.insert(copy)


def tma_store(op: TmaStoreOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """One thread copies, and waits until what it copied is in memory: other threads see it behind a barrier."""
    emit = lowering.emit
    corners = _corners(op, lowering)
    atom, syntax = _store_atom(op)
    with by_one_thread(lowering):
        place = stage_place(lowering.value(op.buffer), lowering.value(op.stage), lowering)
        start = emit.gep(place.base, place.start)
        for piece in _pieces(op, op.buffer.type.tile):
            copy = nvvm.CpAsyncBulkTensorStoreOp(
                lowering.value(op.desc),
                emit.gep(start, piece.offset),
                _coordinates(op, piece, corners, lowering),
                instruction=StringAttr(atom.instruction),
                syntax=StringAttr(syntax),
            )
            emit.insert(copy)
        emit.insert(nvvm.CpAsyncBulkCommitGroupOp())
        emit.insert(nvvm.CpAsyncBulkWaitGroupOp(group=IntegerAttr(0, i32)))
    return [None]


def _store_atom(op: TmaStoreOp) -> tuple[CopyAtom, str]:
    """The atom of a store or an update, and the operands of its instruction."""
    if op.rmw_mode is None:
        atom = BULK_COPY_ATOMS[BOX_STORE]
        return atom, atom.syntax
    atom, mode, element = BULK_COPY_ATOMS[BOX_REDUCE], op.rmw_mode.value, op.desc.type.view.element_type
    operation = REDUCTIONS.get((mode, str(element)))
    if operation is None:
        raise VerifyError(f"has no instruction that combines {element} by '{mode}'")
    return atom, atom.syntax.replace("{operation}", operation)


BoxCopy = TmaLoadOp | TmaStoreOp


def _pieces(op: BoxCopy, tile: TensorType) -> tuple[Piece, ...]:
    wrong = boxes_error(op.desc.type, tile)
    found = tensor_boxes(layout_of(tile), op.desc.type.order[0], tile.element_type.width)
    if wrong or found is None:
        raise VerifyError(wrong)
    return found.pieces


def _corners(op: BoxCopy, lowering: FunctionLowering) -> list[Number]:
    """The tile's first element along each of its dimensions, as i64 where i32 might not hold it."""
    emit, view = lowering.emit, op.desc.type.view
    found: list[Number] = []
    for coordinate, step, extent in zip(op.coords, view.traversal_strides, view.shape):
        low, high = lowering.ranges.range(coordinate)
        value = lowering.value(coordinate)
        if -_LAST <= low * step and high * step + extent <= _LAST:
            narrow = value if value.type is i32 else emit.insert(llvm.TruncOp(value, res=i32))
            found.append(emit.mul(narrow, step))
        else:
            found.append(emit.mul(emit.sext(value, i64), step, i64))
    return found


def _coordinates(op: BoxCopy, piece: Piece, corners: list[Number], lowering: FunctionLowering) -> list[Value]:
    """The corner of a box, innermost dimension first."""
    return [_coordinate(corners[dim], piece.corner[dim], lowering) for dim in op.desc.type.order]


def _coordinate(corner: Number, added: int, lowering: FunctionLowering) -> Value:
    """What lies beyond the numbers of 32 bits lies beyond every tensor, as the last of them does."""
    emit = lowering.emit
    if isinstance(corner, int) or corner.type is i32:
        return emit.value(emit.add(corner, added))
    wide = emit.value(emit.add(corner, added, i64), i64)
    wide = emit.intrinsic("smin", wide, emit.integer(_LAST, i64))
    wide = emit.intrinsic("smax", wide, emit.integer(-_LAST, i64))
    return emit.insert(llvm.TruncOp(wide, res=i32))
