"""Tensor memory: columns, mbarriers for groups of dots, loads and stores of accumulators.

The value of a buffer is its address.  A count of groups gives the mbarrier and the phase at which the last of them
arrives: as the number of mbarriers is a power of two, its lowest bits and the bit above them.  Before the first group
the count denotes the phase before the first, which is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from tileiras.analysis.one_thread import is_done_by_one_thread
from tileiras.dialects import llvm, nvvm, scf
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.delays import DelayOp
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import (
    Attribute,
    IntegerAttr,
    Pure,
    StringAttr,
    TensorType,
    UnitAttr,
    Value,
    VerifyError,
    f32,
    i32,
)
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import layout_of
from tileiras.layout.tensor_memory import (
    HALVES,
    SCALED_AT_ONCE,
    access_of,
    column_of,
    is_spread,
    own_columns,
    warp_offsets,
)

from ..emit.builder import Number
from ..emit.function import FunctionLowering
from ..emit.types import count_of, element_of, scalar_type, vector_of
from ..pipes.agents import by_thread_of_pair, elected, in_first_warp
from ..pipes.mbarriers import arrive_behind_dots, is_fenced, wait_for_phase
from .warpgroup_dot import uniform_warp

BYTES = tileas.TensorReserveOp.MBARRIER_BYTES

# ---- resources of the CTA --------------------------------------------------------------------------------------------


def reserve(op: tileas.TensorReserveOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    base = lowering.buffer(op)
    commits = op.commits.value
    with elected(lowering, in_first_warp(lowering)):
        emit.insert(THREAD["tcgen05.alloc"](emit.gep(base, BYTES * commits), columns=_columns(op), pair=op.pair))
        emit.insert(THREAD["tcgen05.relinquish_alloc_permit"](pair=op.pair))
    with elected(lowering, emit.thread_is_elected(*lowering.thread_masks)) if commits else nullcontext():
        for number in range(commits):
            emit.insert(THREAD["mbarrier.init"](emit.gep(base, BYTES * number), emit.integer(1)))
        if commits and is_fenced(op):
            emit.insert(THREAD["fence.mbarrier_init"]())
    return base


def _columns(op: tileas.TensorReserveOp) -> IntegerAttr:
    if op.columns is None:
        raise VerifyError("has no columns: run 'tileas-optimize-alloc-tensor' first")
    return op.columns


def _reservation(op: Any) -> tileas.TensorReserveOp:
    producer = op.memory.defining_op
    if not isinstance(producer, tileas.TensorReserveOp):
        raise VerifyError("expects a result of 'nv_tileas.tensor_memory.reserve'")
    return producer


def _address(op: Any, base: Value, lowering: FunctionLowering) -> Value:
    """The address of the CTA's columns, as stored in shared memory."""
    emit = lowering.emit
    place = emit.gep(base, BYTES * _reservation(op).commits.value)
    return emit.insert(llvm.LoadOp(place, alignment=4, res=i32))


def open(op: tileas.TensorOpenOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return _address(op, args[0], lowering)


def release(op: tileas.TensorReleaseOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    emit, reserve = lowering.emit, _reservation(op)
    with elected(lowering, in_first_warp(lowering)):
        address = _address(op, args[0], lowering)
        emit.insert(THREAD["tcgen05.dealloc"](address, columns=_columns(reserve), pair=reserve.pair))


def alloc(op: tileas.TensorAllocOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    if op.column is None:
        raise VerifyError("has no columns: run 'tileas-optimize-alloc-tensor' first")
    return lowering.emit.value(lowering.emit.add(args[0], op.column.value))


def slice(op: tileas.TensorSliceOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    layout, part = layout_of(op.buffer.type.tile), op.result.type.tile.shape
    address: Number = args[0]
    for dim, coordinate in enumerate(args[1:]):
        if part[dim] < layout.shape[dim]:
            columns = column_of(layout, tuple(part[dim] if d == dim else 0 for d in range(len(part))))
            address = emit.add(address, emit.mul(coordinate, columns))
    return emit.value(address)


def dealloc(op: tileas.TensorDeallocOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    pass


# ---- tiles -----------------------------------------------------------------------------------------------------------


def _part(buffer: tileas.TensorBufferType, fragment: TensorType, address: Value, lowering: FunctionLowering) -> Value:
    """The address of the warp's part of a tile, whose fragments have to be those that a warp reaches."""
    layout, warps = layout_of(buffer.tile), lowering.num_warps
    layout_of_fragment = layout_of(fragment)
    if layout_of_fragment.warps != warps or access_of(layout, layout_of_fragment, fragment.element_type.width) is None:
        raise VerifyError(f"moves a tile whose elements its threads do not reach in tensor memory: {fragment}")
    emit = lowering.emit
    return emit.value(emit.add(address, emit.image(warp_offsets(layout, warps), uniform_warp(lowering))))


def load(op: tileas.TensorLoadOp, args: Sequence[Value], lowering: FunctionLowering) -> list[Value]:
    emit = lowering.emit
    layout, type = layout_of(op.buffer.type.tile), op.result.type
    address = _part(op.buffer.type, type, args[0], lowering)
    registers = layout_of(type).registers
    if op.behind is None:
        emit.insert(THREAD["tcgen05.fence.after"]())
    if op.reduction is None:
        result = [_load(address, layout, type, registers, lowering)]
    else:
        result = _reduce(op.reduction.value, address, layout, type, lowering)
    if op.fenced is not None:
        emit.insert(THREAD["tcgen05.fence.before"]())
    return result


def _reduce(
    reduction: str, address: Value, layout: LinearLayout, type: TensorType, lowering: FunctionLowering
) -> list[Value]:
    """A thread's fragment of f32, and the result of its reduction."""
    emit, registers = lowering.emit, layout_of(type).registers
    struct = llvm.LLVMStructType([i32] * (registers + 1))
    attributes = {**_form(layout, type), "reduction": StringAttr(reduction), "res": struct}
    result = emit.insert(THREAD["tcgen05.ld"](address, **attributes))
    words = emit.build([emit.member(result, i) for i in range(registers)])
    return [emit.unpack(words, vector_of(f32, registers)), emit.bitcast(emit.member(result, registers), f32)]


def _form(layout: LinearLayout, type: TensorType) -> dict[str, Attribute]:
    """The form of loads and stores of a tile with this layout."""
    fragment, bits = layout_of(type), type.element_type.width
    shape = access_of(layout, fragment, bits)
    assert shape is not None, "checked with the address of the warp's part"
    form: dict[str, Attribute] = {
        "shape": StringAttr(shape), "packed": IntegerAttr(int(is_spread(layout, bits)), i32),
    }  # fmt: skip
    if shape == HALVES:
        form["split"] = IntegerAttr(own_columns(layout, fragment.warps) // 2, i32)
    return form


def _load(
    address: Value, layout: LinearLayout, type: TensorType, registers: int, lowering: FunctionLowering
) -> Value:
    """So many elements of a thread's fragment."""
    emit = lowering.emit
    count = registers * type.element_type.width // 32
    struct = llvm.LLVMStructType([i32] * count) if count > 1 else i32
    result = emit.insert(THREAD["tcgen05.ld"](address, **_form(layout, type), res=struct))
    words = emit.build([emit.member(result, i) for i in range(count)] if count > 1 else [result])
    return emit.unpack(words, vector_of(scalar_type(type.element_type), registers))


def scale(op: tileas.TensorScaleOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    emit = lowering.emit
    layout, type = layout_of(op.buffer.type.tile), op.factor.type
    address = _part(op.buffer.type, type, args[1], lowering)
    registers = layout_of(type).registers
    step = min(registers, SCALED_AT_ONCE if op.at_once is None else op.at_once.value)
    form = _form(layout, type)
    columns = own_columns(layout, lowering.num_warps) * step // registers // (2 if "split" in form else 1)
    flushing = {"rounding": nvvm.FPRoundingModeAttr("rn"), "ftz": UnitAttr()}
    if op.behind is None:
        emit.insert(THREAD["tcgen05.fence.after"]())
    for part in range(registers // step):
        at = emit.value(emit.add(address, part * columns))
        tile = _load(at, layout, type, step, lowering)
        factor = emit.shuffle(args[0], range(part * step, (part + 1) * step)) if registers > step else args[0]
        if op.flush_to_zero is None:
            scaled = emit.insert(llvm.FMulOp(tile, factor))
        else:
            scaled = emit.insert(nvvm.MulFOp(tile, factor, **flushing))
        packed = emit.pack(scaled, i32)
        words = [emit.extract(packed, i) for i in range(step)]
        goes_on = UnitAttr() if part + 1 < registers // step or _is_before_store(op) else None
        emit.insert(THREAD["tcgen05.st"](at, words, **form, goes_on=goes_on))
    if op.fenced is not None:
        emit.insert(THREAD["tcgen05.fence.before"]())


def store(op: tileas.TensorStoreOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    emit = lowering.emit
    layout = layout_of(op.buffer.type.tile)
    address = _part(op.buffer.type, op.tile.type, args[1], lowering)
    value = args[0] if element_of(args[0].type) is i32 else emit.pack(args[0], i32)
    words = [emit.extract(value, i) for i in range(count_of(value.type))]
    if op.overwrites is not None:
        emit.insert(THREAD["tcgen05.fence.after"]())
    goes_on = UnitAttr() if _is_before_store(op) else None
    emit.insert(THREAD["tcgen05.st"](address, words, **_form(layout, op.tile.type), goes_on=goes_on))
    if op.fenced is not None:
        emit.insert(THREAD["tcgen05.fence.before"]())


def _is_before_store(store: tileas.TensorStoreOp | tileas.TensorScaleOp) -> bool:
    """Whether the next memory operation of a thread is another store, whose wait serves both, and the readers of both
    are after the other's fence."""
    op = store.next if store.fenced is None else None
    while op is not None and (op.has_trait(Pure) or isinstance(op, (tileas.BarrierOp, tileas.TensorAllocOp))):
        op = op.next
    return isinstance(op, tileas.TensorStoreOp)


# ---- order -----------------------------------------------------------------------------------------------------------


def _mbarrier(op: Any, base: Value, number: Value, lowering: FunctionLowering) -> Value:
    """The mbarrier of a group, counted from 0."""
    emit = lowering.emit
    commits = _reservation(op).commits.value
    return base if commits == 1 else emit.gep(base, emit.mul(emit.and_(number, commits - 1), BYTES))


def commit(op: tileas.TensorCommitOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    mbarrier = _mbarrier(op, args[0], args[1], lowering)
    # tcgen05.commit tracks the operations issued by the executing thread (PTX ISA, "tcgen05.commit").
    before, pair = op.prev, _reservation(op).pair is not None
    while isinstance(before, DelayOp):
        before = before.prev
    meeting = isinstance(before, scf.ForOp) and is_done_by_one_thread(before)
    with by_thread_of_pair(lowering, pair, meeting):
        arrive_behind_dots(mbarrier, pair, lowering)
    return emit.value(emit.add(args[1], 1))


def wait(op: tileas.TensorWaitOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    emit = lowering.emit
    number = emit.value(emit.sub(args[1], 1 + op.pending.value))
    shift = _reservation(op).commits.value.bit_length() - 1
    parity = emit.and_(emit.lshr(number, shift), 1)
    wait_for_phase(_mbarrier(op, args[0], number, lowering), parity, lowering)
