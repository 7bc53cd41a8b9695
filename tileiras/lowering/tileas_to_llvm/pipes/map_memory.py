"""Tensor maps that the kernel builds: a slot of the module's memory, and maps assembled in shared memory.

    variable of the module: maps of slot 0, of slot 1, ...; a word for each slot, 1 where a CTA has it

Fields are replaced in 128 bytes of zeros, as Triton makes descriptors on the device (TMAToLLVM.cpp): the PTX ISA speaks
of fields of a map that is there, and ptxas makes of each instruction a change of the field's own bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tileiras.analysis.tensor_map_rules import UNIT, memref_of
from tileiras.dialects import llvm, nvvm, scf
from tileiras.dialects.nv_tileas.map_memory import (
    MAP_BYTES,
    MapAssembleOp,
    MapBuildOp,
    MapOpenOp,
    MapReleaseOp,
    MapReserveOp,
)
from tileiras.dialects.nv_tileas.tensor_maps import SWIZZLES, TmaDescType
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.dialects.nvvm.tensor_maps import ATOMICITY
from tileiras.ir import (
    DenseElementsAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    Value,
    VerifyError,
    i8,
    i32,
    i64,
)
from tileiras.layout.arena import AREA_ALIGNMENT
from tileiras.targets.sm import WARP_SIZE
from tileiras.targets.tensor_maps import ELEMENT_TYPES

from ..emit.emitter import FULL_WARP
from ..emit.function import FunctionLowering
from ..emit.types import vector_of
from ..tensor_core.warpgroup_dot import uniform_warp
from .agents import by_one_thread, elected

_WORD = 4
_GENERIC, _GLOBAL = llvm.LLVMPointerType(0), llvm.LLVMPointerType(1)

_GOLDEN = -1640531527
"""2**32 over the golden ratio, as a signed number: multiples of it lie far apart (Knuth, "The Art of Computer
Programming", 6.4), so CTAs of neighbouring SMs begin to look at slots that are far apart."""


def _variable(memory: MapReserveOp, lowering: FunctionLowering) -> Value:
    """The address of the maps of all slots; the words of the slots follow."""
    name = f"{lowering.func.sym_name.value}_tensor_maps"
    emit = lowering.emit

    def make() -> Value:
        count = memory.slots.value * (memory.maps.value * MAP_BYTES + _WORD)
        zeros = DenseElementsAttr(TensorType((count,), i8), b"\0", True)
        lowering.module_memory.append(
            llvm.GlobalOp(
                sym_name=StringAttr(name), global_type=llvm.LLVMArrayType(count, i8),
                linkage=llvm.LinkageAttr("internal"), value=zeros, addr_space=1, alignment=MAP_BYTES,
                location=memory.location,
            )
        )  # fmt: skip
        return emit.insert(llvm.AddressOfOp(global_name=SymbolRefAttr(name), res=_GLOBAL))

    return emit.once("tensor maps", make)


def _word(memory: MapReserveOp, slot: Value, lowering: FunctionLowering) -> Value:
    """The address of the word that says whether a CTA has a slot."""
    emit = lowering.emit
    words = emit.gep(_variable(memory, lowering), memory.slots.value * memory.maps.value * MAP_BYTES)
    return emit.gep(words, emit.zext(emit.value(emit.mul(slot, _WORD)), i64))


def _first_thread(lowering: FunctionLowering) -> Value | None:
    return lowering.emit.thread_is_elected(*lowering.thread_masks)


def reserve(op: MapReserveOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """From a place on that depends on the SM, the first slot that no CTA has: as a rule the first one looked at."""
    emit, slots = lowering.emit, op.slots.value
    place = lowering.buffer(op)
    taker = _first_thread(lowering)
    if op.warp is not None:
        taker = emit.icmp("eq", emit.thread, emit.integer(WARP_SIZE * op.warp.value))
    with elected(lowering, taker):
        start = emit.integer(0)
        if slots > 1:
            spread = emit.value(emit.mul(emit.register("smid"), _GOLDEN))
            start = emit.lshr(spread, 32 - (slots.bit_length() - 1))
        again, exit_block = lowering.new_block([i32]), lowering.new_block()
        emit.insert(llvm.BrOp([start], dest=again))
        emit.block = again
        slot = again.arguments[0]
        before = emit.insert(
            nvvm.AtomOp(
                _word(op, slot, lowering), emit.integer(1), emit.integer(0), op=nvvm.AtomicOpAttr("cas"),
                order=nvvm.MemOrderAttr("acquire"), scope=nvvm.MemScopeAttr("gpu"),
            )
        )  # fmt: skip
        following = emit.and_(emit.value(emit.add(slot, 1)), slots - 1)
        free = emit.icmp("eq", before, emit.integer(0))
        emit.insert(llvm.CondBrOp(free, [], [following], trueDest=exit_block, falseDest=again))
        emit.block = exit_block
        emit.insert(llvm.StoreOp(slot, place, alignment=_WORD))
    return place


def open(op: MapOpenOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return lowering.emit.insert(llvm.LoadOp(args[0], alignment=_WORD, res=i32))


def release(op: MapReleaseOp, args: Sequence[Value], lowering: FunctionLowering) -> None:
    memory = op.memory.defining_op
    if not isinstance(memory, MapReserveOp):
        raise VerifyError(f"expects a result of '{MapReserveOp.name}'")
    emit = lowering.emit
    # The thread that has waited until its copies to global memory have read their map: others know it behind a barrier.
    with by_one_thread(lowering):
        word = _word(memory, args[1], lowering)
        emit.assembly("st.release.gpu.global.b32 [$0], 0;", "l,~{memory}", [word])


# ---- maps ------------------------------------------------------------------------------------------------------------


def assemble(op: MapAssembleOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """The address of the map in shared memory."""
    emit, shared = lowering.emit, lowering.buffer(op)
    warp = 0 if op.warp is None else op.warp.value
    with elected(lowering, _is_warp(warp, lowering)):
        if _follows_another(op, lowering):
            # All lanes have copied the map that was put together there before.
            emit.insert(THREAD["warp.barrier"](emit.integer(FULL_WARP)))
        with elected(lowering, emit.icmp("eq", emit.lane, emit.integer(0))):
            _put_together(op, shared, lowering)
        if op.warp is None:
            # All lanes copy the map that one thread wrote.
            emit.insert(THREAD["warp.barrier"](emit.integer(FULL_WARP)))
    return shared


def build(op: MapBuildOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """The generic address of the map."""
    emit, memory = lowering.emit, op.memory
    slot, shared = lowering.value(op.slot), lowering.value(op.image)
    offset = emit.zext(emit.value(emit.mul(slot, memory.maps.value * MAP_BYTES)), i64)
    place = emit.gep(emit.gep(_variable(memory, lowering), offset), op.number.value * MAP_BYTES)
    generic = emit.insert(llvm.AddrSpaceCastOp(place, res=_GENERIC))
    with elected(lowering, _is_warp(0, lowering)):
        emit.insert(THREAD["tma.publish_descriptor"](place, shared))
        emit.insert(THREAD["tma.fence.descriptor"](generic))
    return generic


def _is_warp(number: int, lowering: FunctionLowering) -> Value | None:
    """Whether the thread is of a warp; None if there is one only."""
    emit = lowering.emit
    return emit.icmp("eq", uniform_warp(lowering), emit.integer(number)) if lowering.num_warps > 1 else None


def _follows_another(op: MapAssembleOp, lowering: FunctionLowering) -> bool:
    """Whether a map, perhaps an earlier one of the operation itself, was put together in the same place before."""
    first = next(each for each in lowering.func.walk() if isinstance(each, MapAssembleOp) and each.offset is op.offset)
    return first is not op or any(isinstance(around, (scf.ForOp, scf.WhileOp)) for around in _around(op))


def _around(op: Operation) -> Iterator[Operation]:
    while op.parent_op is not None:
        op = op.parent_op
        yield op


def _put_together(op: MapAssembleOp, shared: Value, lowering: FunctionLowering) -> None:
    """Emit zeros, and the replacement of every field of a map."""
    emit, desc = lowering.emit, op.result.type.desc
    zeros, width = emit.zeros(vector_of(i32, 4)), 16
    for offset in range(0, MAP_BYTES, width):
        emit.insert(llvm.StoreOp(zeros, emit.gep(shared, offset), alignment=min(width, AREA_ALIGNMENT)))

    def replace(field: str, value: Value | int, dim: int | None = None, type: IntegerType = i32) -> None:
        number = None if dim is None else IntegerAttr(dim, i32)
        value = emit.value(value, type)
        emit.insert(THREAD["tma.replace"](shared, value, field=StringAttr(field), ord=number))

    memref = _memref(op)
    address = emit.insert(llvm.PtrToIntOp(lowering.value(memref.base), res=i64))
    replace("global_address", address, type=i64)
    replace("rank", len(desc.order) - 1)
    size = desc.view.element_type.width // 8
    for number, dim in enumerate(desc.order):
        source = desc.view.dim_map[dim]
        replace("box_dim", desc.box[dim], number)
        replace("global_dim", _size(memref.size(source), lowering), number)
        replace("element_stride", 1, number)
        if number:
            replace("global_stride", _stride(memref, source, size, lowering), number - 1, i64)
    fill = desc.view.padding is not None and desc.view.padding.value == "nan"
    modes = [("elemtype", _element(desc)), ("interleave_layout", 0),
             ("swizzle_mode", SWIZZLES.index(desc.swizzle)), ("fill_mode", int(fill))]  # fmt: skip
    if ATOMICITY[desc.atom]:
        modes.append(("swizzle_atomicity", ATOMICITY[desc.atom]))
    for field, mode in modes:
        value = IntegerAttr(mode, i32)
        emit.insert(THREAD["tma.replace_mode"](shared, field=StringAttr(field), value=value))


def _stride(memref: Any, dim: int, size: int, lowering: FunctionLowering) -> Value | int:
    """A stride in bytes.  cuTile Python assumes that of a dimension of one element to be aligned like any other; maps
    take multiples of 16 only, and no element lies a stride away."""
    emit, stride, extent = lowering.emit, memref.stride(dim), memref.size(dim)
    stride = stride if isinstance(stride, int) else emit.zext(lowering.value(stride), i64)
    wide = emit.mul(stride, size, i64)
    if isinstance(extent, int) and extent > 1:
        return wide
    rounded = emit.add(wide, UNIT - 1, i64)
    return rounded & -UNIT if isinstance(rounded, int) else emit.and_(rounded, -UNIT, i64)


def _memref(op: MapAssembleOp) -> Any:
    memref = memref_of(op.view)
    if memref is None:
        raise VerifyError("expects a view whose memref is known here")
    return memref


def _size(extent: Value | int, lowering: FunctionLowering) -> Value | int:
    """Elements along a dimension.  A map cannot be empty: it has one element then, and copies use coordinates behind
    it."""
    if isinstance(extent, int):
        return extent
    emit = lowering.emit
    value = emit.zext(lowering.value(extent), i32)
    if lowering.ranges.range(extent).low >= 1:
        return value
    return emit.intrinsic("umax", value, emit.integer(1))


def _element(desc: TmaDescType) -> int:
    """The number of the type of elements; they are moved as bits, and their type matters where padding is NaN."""
    element = desc.element
    name = str(element)
    return ELEMENT_TYPES[name] if name in ELEMENT_TYPES else ELEMENT_TYPES[f"i{element.width}"]
