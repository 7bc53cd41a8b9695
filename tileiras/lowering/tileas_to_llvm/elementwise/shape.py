"""Operations that make and reshape tensors, and the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tileiras
from tileiras.dialects import llvm
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import IntegerType, Value, i32
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import broadcast_layout, is_in_shared, renamed_layout
from tileiras.layout.memory import moved_registers
from tileiras.support import gf2

from ..emit.function import FunctionLowering
from ..emit.types import points_to_half_bytes, scalar_type


def splat(op: tileas.SplatOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    scalar = args[0]
    if points_to_half_bytes(op.result.type):
        scalar = tileiras.lowering.tileas_to_llvm.memory.sub_byte.half_byte_address(scalar, lowering)
    return lowering.emit.splat(scalar, lowering.layout(op.result).registers)


def unsplat(op: tileas.UnsplatOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    return lowering.emit.extract(args[0], 0)


def shifted(op: tileas.ShiftedOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    count = lowering.layout(op.result).registers
    places = [count + n if other is None else other for n, other in enumerate(held_elsewhere(op, lowering))]
    return lowering.emit.shuffle(lowering.emit.concat(args), places)


def held_elsewhere(op: tileas.ShiftedOp, lowering: FunctionLowering) -> Sequence[int | None]:
    """For each register of a shifted tile the one of `known` that has its element."""
    return moved_registers(lowering.layout(op.result), op.dim.value, op.by.value)


def coordinate(
    layout: LinearLayout, axis: int, type: IntegerType, lowering: FunctionLowering, registers: tuple[int, ...] = ()
) -> Value:
    """The coordinate along `axis` of the elements of these registers, or of all: the thread's part once, the registers'
    as constants."""
    emit, registers = lowering.emit, registers or tuple(range(layout.registers))
    lanes, warps = layout.coordinate_columns("lane", axis), layout.coordinate_columns("warp", axis)

    def make() -> Value:
        thread = emit.linear(lanes, warps)
        constants = [layout.coordinates(layout.apply(register=r))[axis] for r in registers]
        if isinstance(thread, int):
            return emit.dense(constants, type)
        occupied = gf2.support((*lanes, *warps))
        if type.width > 32:
            thread = emit.insert(llvm.ZExtOp(thread, res=type))
        elif type.width < 32:
            thread = emit.insert(llvm.TruncOp(thread, res=type))
        spread = emit.splat(thread, len(registers))
        if not any(constants):
            return spread
        if any(c & occupied for c in constants):
            return emit.insert(llvm.XOrOp(spread, emit.dense(constants, type)))
        return added(spread, thread, constants)

    def added(spread: Value, thread: Value, constants: Sequence[int]) -> Value:
        places = emit.insert(llvm.AddOp(spread, emit.dense(constants, type)))
        if layout.shape[axis] <= 1 << type.width - 1:
            emit.has_spans(places, thread, [(constant, constant) for constant in constants])
        return places

    return emit.by_thread(("coordinate", layout, axis, type, registers), make)


def make_range(op: tileas.MakeRangeOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    with lowering.rematerialized():
        return coordinate(lowering.layout(op.result), 0, scalar_type(op.result.type.element_type), lowering)


def rename(op: tileas.PermuteOp | tileas.ViewOp, args: Sequence[Any], lowering: FunctionLowering) -> Any:
    """Views and permutations: the same elements under other coordinates."""
    if isinstance(args[0], tileiras.lowering.tileas_to_llvm.collective.convert_layout.StagedFragment) or is_in_shared(
        op.result.type
    ):
        return args  # in the result's layout already
    return tileiras.lowering.tileas_to_llvm.collective.convert_layout.convert(
        args[0], renamed_layout(op), lowering.layout(op.result), lowering
    )


view = permute = unpack = rename


def broadcast(op: tileas.BroadcastOp, args: Sequence[Value], lowering: FunctionLowering) -> Value:
    """Each element of the result is the one whose coordinate is 0 along the broadcast dimensions."""
    return tileiras.lowering.tileas_to_llvm.collective.convert_layout.convert(
        args[0], lowering.layout(op.operand), broadcast_layout(op), lowering
    )


def get_program_id(op: tileas.GetProgramIdOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    """A tile block is a CTA, or a cluster of several."""
    register = "ctaid" if lowering.num_ctas == 1 else "clusterid"
    own = lowering.emit.register(f"{register}.{op.axis.value}")
    return _resize(own if op.neighbor is None else _neighbor(own, op.neighbor.value, lowering), op, lowering)


def number_of_neighbor(rank: int, lowering: FunctionLowering) -> Value:
    """The number of the tile block of a rank in the cluster along x; the own number without a cluster."""
    return _neighbor(lowering.emit.register("ctaid.x"), rank, lowering)


def _neighbor(own: Value, rank: int, lowering: FunctionLowering) -> Value:
    """The number of the tile block of a rank in the cluster of tile blocks along x; grids are multiples of clusters."""
    together, emit = tileiras.lowering.tileas_to_llvm.pipes.agents.copies_for_others(lowering), lowering.emit
    if together is None:
        return own
    blocks = tileas.number_of(lowering.func, tileas.CLUSTER_BLOCKS) or 1
    first = emit.and_(own, ~(blocks - 1))
    return emit.select(together, emit.value(emit.add(first, rank)), own)


def get_num_programs(op: tileas.GetNumProgramsOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    register = "nctaid" if lowering.num_ctas == 1 else "nclusterid"
    return _resize(lowering.emit.register(f"{register}.{op.axis.value}"), op, lowering)


def get_cta_rank(op: tileas.GetCtaRankOp, args: Sequence[Any], lowering: FunctionLowering) -> Value:
    return lowering.emit.register("cluster.ctarank") if lowering.is_in_cluster else lowering.emit.integer(0)


def _resize(value: Value, op: tileas.GetNumProgramsOp | tileas.GetProgramIdOp, lowering: FunctionLowering) -> Value:
    type = scalar_type(op.result.type)
    if type is i32:
        return value
    cls = llvm.ZExtOp if type.width > 32 else llvm.TruncOp
    return lowering.emit.insert(cls(value, res=type))
