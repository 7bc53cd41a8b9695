"""Loads and stores of tiles, through views and through tiles of pointers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.dialects import llvm, memref
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import FloatType, IntegerType, Operation, SymbolRefAttr, Type, Value, element_type_of, i8
from tileiras.layout import LinearLayout
from tileiras.layout.memory import register_groups

from ..elementwise.conversions import round_to_tf32
from ..elementwise.shape import held_elsewhere
from ..emit.function import FunctionLowering
from ..emit.types import (
    as_integer,
    element_of,
    fragment_type,
    held_bits,
    memory_type,
    points_to_half_bytes,
    scalar_type,
    vector_of,
)
from .access import as_data, from_memory, load_vector, ordering_of, store_vector
from .masked_vectors import MaskedVectors, by_bounds, vector_bits
from .replicas import from_elected, representative
from .views import TileAddresses

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa

# ---- through views --------------------------------------------------------------------------------------------------


def _padding(view: aa.TiledViewType, count: int, element: FloatType | IntegerType, lowering: FunctionLowering) -> Value:
    """`count` elements of the view's padding, as the bits of an LLVM type."""
    type, pattern = view.element_type, 0
    if view.padding is not None and isinstance(type, FloatType):
        pattern = held_bits(type, view.padding.of(type).bits)
    return lowering.emit.bits([pattern] * count, element)


def _element_type(view: aa.TiledViewType) -> Any:
    """The LLVM type of an element on its way from or to memory; half a byte travels in a byte."""
    return i8 if view.element_type.width == 4 else memory_type(view.element_type)


def _addresses(
    op: tileas.TiledLoadOp | tileas.TiledStoreOp, layout: LinearLayout, lowering: FunctionLowering
) -> TileAddresses:
    if op.view.type.element_type.width == 4:
        return tileiras.lowering.tileas_to_llvm.memory.sub_byte.NibbleAddresses(op, layout, lowering)
    return TileAddresses(op, layout, lowering)


def tiled_load(op: tileas.TiledLoadOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    layout = lowering.layout(op.data)
    addresses = _addresses(op, layout, lowering)
    element = _element_type(addresses.view)
    element_type = scalar_type(addresses.view.element_type)
    size = op.atom.vector_size
    axis = addresses.fastest() if addresses.rank else 0
    ordering = ordering_of(op)
    acting = representative(layout, lowering) if ordering else None
    access: Any = load_vector
    if op.reduction is not None:
        access = tileiras.lowering.tileas_to_llvm.memory.multimem.load(op.reduction.value)
    elif addresses.view.element_type.width == 4:
        access = tileiras.lowering.tileas_to_llvm.memory.sub_byte.load_vector

    def load(width: int, masked: bool) -> Value:
        groups = register_groups(layout.registers, vector_bits(layout, axis, width) if width > 1 else ())
        masked = masked and not addresses.surely_inside()
        # Predicated PTX has integers in its registers: as such they are put together, and then reinterpreted at once.
        travelling = as_integer(element) if access is load_vector and (masked or ordering) else element
        type = vector_of(travelling, width)
        padding = _padding(addresses.view, width, travelling, lowering) if masked else None
        parts = []
        for group in groups:
            pointer, offset = addresses.address(group[0])
            mask = emit.both(acting, addresses.mask(group[0]) if masked else None)
            parts.append(access(lowering, pointer, offset, type, mask, padding, ordering))
        whole = emit.assemble(groups, parts, layout.registers)
        return emit.bitcast(whole, vector_of(element, layout.registers))

    value = by_bounds(addresses, axis, size, load, lowering)
    if ordering:
        value = from_elected(value, layout, lowering)
    value = from_memory(value, element_type, lowering)
    return [round_to_tf32(value, lowering) if op.rounds else value, None]


def tiled_store(op: tileas.TiledStoreOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    emit = lowering.emit
    layout = lowering.layout(op.data)
    addresses = _addresses(op, layout, lowering)
    value = as_data(args[0], lowering)
    free = layout.free_variable_masks()
    acting = representative(layout, lowering)
    size = op.atom.vector_size
    axis = addresses.fastest() if addresses.rank else 0
    ordering = ordering_of(op)
    access: Any = store_vector
    if op.multicast is not None:
        access = tileiras.lowering.tileas_to_llvm.memory.multimem.store_vector
    elif addresses.view.element_type.width == 4:
        access = tileiras.lowering.tileas_to_llvm.memory.sub_byte.store_vector

    def store(width: int, masked: bool) -> None:
        groups = register_groups(layout.registers, vector_bits(layout, axis, width) if width > 1 else ())
        masked = masked and not addresses.surely_inside()
        travelling = value
        if access is store_vector and (masked or acting is not None or ordering):
            travelling = emit.bitcast(value, vector_of(as_integer(element_of(value.type)), layout.registers))
        for group in groups:
            if group[0] & free["register"]:
                continue
            pointer, offset = addresses.address(group[0])
            mask = addresses.mask(group[0]) if masked else None
            access(lowering, pointer, offset, emit.shuffle(travelling, group), emit.both(acting, mask), ordering)

    by_bounds(addresses, axis, size, store, lowering)
    return [None]


# ---- through tiles of pointers --------------------------------------------------------------------------------------


def load(op: tileas.LoadOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    if tileas.PARTS in op.attributes and not lowering.narrow:
        return tileiras.lowering.tileas_to_llvm.memory.parts.access_in_parts(op, lowering)
    emit = lowering.emit
    layout = lowering.layout(op.data)
    type = element_type_of(op.data.type)
    element, element_type = i8 if type.width == 4 else memory_type(type), scalar_type(type)
    access: Any = load_vector
    if type.width == 4:
        access = tileiras.lowering.tileas_to_llvm.memory.sub_byte.load_vector
    pointers = lowering.value(op.pointer)
    other = as_data(lowering.value(op.other), lowering) if op.other is not None else None
    ordering = ordering_of(op)
    acting = representative(layout, lowering) if ordering else None
    travelling = element
    if access is load_vector and (op.mask is not None or ordering):
        travelling = as_integer(element)
        other = None if other is None else emit.bitcast(other, vector_of(travelling, layout.registers))
    mask = MaskedVectors(op, layout, lowering)
    replaced_registers = _unused_registers(op, lowering)

    def move(group: Sequence[int], number: int, type: Type, condition: Value | None, padding: Value | None) -> Value:
        pointer, offset = mask.address(pointers, group, number)
        return access(lowering, pointer, offset, type, emit.both(acting, condition), padding, ordering)

    def loaded(vectors: bool) -> Value:
        parts = []
        for group in mask.groups:
            if replaced_registers.issuperset(group):
                parts.append(emit.poison(vector_of(travelling, len(group))))
                continue
            value = None if other is None else emit.shuffle(other, group)
            whole = mask.at(group[0], True) if vectors else mask.whole(group)
            if vectors or whole is not None:
                value = move(group, 0, vector_of(travelling, len(group)), whole, value)
            if not vectors:
                before = [None if value is None else emit.extract(value, i) for i in range(len(group))]
                condition = [mask.alone(register, whole) for register in group]
                value = emit.build([move(group, i, travelling, *both) for i, both in enumerate(zip(condition, before))])
            parts.append(value)
        return emit.assemble(mask.groups, parts, layout.registers)

    value = emit.bitcast(mask.branched(loaded), vector_of(element, layout.registers))
    if ordering:
        value = from_elected(value, layout, lowering)
    return [from_memory(value, element_type, lowering), None]


def _unused_registers(op: tileas.LoadOp, lowering: FunctionLowering) -> frozenset[int]:
    """The registers whose elements all users of a load take from another load."""
    if op.mem_semantic.value != "weak" or not all(isinstance(user, tileas.ShiftedOp) for user in op.data.users):
        return frozenset()
    registers = [
        {n for n, other in enumerate(held_elsewhere(user, lowering)) if other is not None and user.known is not op.data}
        for user in op.data.users
    ]
    return frozenset(set.intersection(*registers)) if registers else frozenset()


def store(op: tileas.StoreOp, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    if tileas.PARTS in op.attributes and not lowering.narrow:
        return tileiras.lowering.tileas_to_llvm.memory.parts.access_in_parts(op, lowering)
    emit = lowering.emit
    layout = lowering.layout(op.data)
    pointers = lowering.value(op.pointer)
    value = as_data(lowering.value(op.data), lowering)
    free = layout.free_variable_masks()
    acting = representative(layout, lowering)
    ordering = ordering_of(op)
    access: Any = store_vector
    if points_to_half_bytes(op.pointer.type):
        access = tileiras.lowering.tileas_to_llvm.memory.sub_byte.store_vector
    elif op.mask is not None or acting is not None or ordering:
        value = emit.bitcast(value, vector_of(as_integer(element_of(value.type)), layout.registers))
    mask = MaskedVectors(op, layout, lowering)

    def move(group: Sequence[int], number: int, data: Value, condition: Value | None) -> None:
        pointer, offset = mask.address(pointers, group, number)
        access(lowering, pointer, offset, data, emit.both(acting, condition), ordering)

    def write(vectors: bool) -> None:
        for group in mask.groups:
            if group[0] & free["register"]:
                continue
            whole = mask.at(group[0], True) if vectors else mask.whole(group)
            if vectors or whole is not None:
                move(group, 0, emit.shuffle(value, group), whole)
            for number, register in enumerate(() if vectors else group):
                move(group, number, emit.extract(value, register), mask.alone(register, whole))

    mask.branched(write)
    return [None]


# ---- pointers -------------------------------------------------------------------------------------------------------


def addptr(op: tileas.AddPtrOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    pointer, offset = lowering.matched(args)
    if points_to_half_bytes(op.pointer.type):
        return _add_half_bytes(pointer, offset, lowering)
    pointee = memory_type(element_type_of(op.pointer.type).pointee)
    offset = lowering.emit.index(offset)
    return lowering.emit.insert(llvm.GEPOp.at(pointer, [offset], pointee, inbounds=False, res=pointer.type))


def _add_half_bytes(pointer: Value, offset: Value, lowering: FunctionLowering) -> Value:
    """A pointer alone moves by whole bytes; an odd number of elements has no meaning."""
    emit = lowering.emit
    if not isinstance(pointer.type, llvm.LLVMPointerType):
        return emit.insert(llvm.AddOp(pointer, offset))
    bytes_ = emit.insert(llvm.AShrOp(offset, emit.integer(1, offset.type)))
    return emit.insert(llvm.GEPOp.at(pointer, [bytes_], i8, inbounds=False, res=pointer.type))


def ptr_to_int(op: tileas.PtrToIntOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return lowering.emit.insert(llvm.PtrToIntOp(args[0], res=lowering.like(args[0], op.result.type)))


def int_to_ptr(op: tileas.IntToPtrOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return lowering.emit.insert(llvm.IntToPtrOp(args[0], res=lowering.like(args[0], op.result.type)))


def bitcast(op: Any, args: Sequence[Any], lowering: FunctionLowering) -> Any:
    return args[0]


def nothing(op: Operation, args: Sequence[Any], lowering: FunctionLowering) -> list[Any]:
    """Views, memrefs and tokens: read from the operation where they are used."""
    return [None] * len(op.results)


make_memref = block_tile = create_mem_token = join_mem_token = nothing


def get_dim_size(op: tileas.GetDimSizeOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    emit = lowering.emit
    memref: Any = op.source.defining_op
    size = memref.size(op.dim.value)
    type = scalar_type(op.result.type)
    if isinstance(size, int):
        return emit.integer(size, type)
    value = lowering.value(size)
    return emit.value(emit.zext(value, type), type)


def get_global(op: tileas.GetGlobalOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    return lowering.emit.insert(
        memref.GetGlobalOp(symbol=SymbolRefAttr(op.symbol.root), result=fragment_type(op.result.type))
    )
