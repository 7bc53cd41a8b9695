"""Exchanges between the lanes of a warp (PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", ...)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group, Sink
from ..ptx.types import B32, PRED, U32
from . import rounding

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup
    from ..ptx.module import Immediate, Register


def mask_operand(decoder: Decoder, operand: Immediate | Register) -> int:
    """The member mask of a `.sync` instruction, which makes it wait for the lanes named."""
    position = len(decoder.block.steps)
    slot = decoder.src(operand, U32)
    if len(decoder.block.steps) != position:
        raise decoder.unsupported("a member mask that is not a 32-bit register or constant")
    decoder.begin_collective(slot)
    return slot


def _results(decoder: Decoder, operand: Group | Register) -> tuple:
    if isinstance(operand, Group) and operand.form == "|":
        return operand.items[0], operand.items[1]
    return operand, None


def check_members(group: WarpGroup, item: Instruction, slot: int) -> None:
    members = group.full(slot).reshape(-1, 32)
    lane_bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    outside = group.active_lanes() & ((members & lane_bits) == 0)
    if outside.any():
        group.fault("the executing lane is not in the member mask", item, int(outside.reshape(-1).argmax()))


@instruction("shfl")
def decode_shfl(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if not modifiers.take("sync"):
        raise decoder.unsupported("shfl without .sync")
    mode = modifiers.take("up", "down", "bfly", "idx")
    modifiers.types()
    d, a, b, c, members_operand = decoder.operands(5)
    members = mask_operand(decoder, members_operand)
    value, predicate = _results(decoder, d)
    x, lane_slot, clamp_slot = decoder.src(a, B32), decoder.src(b, U32), decoder.src(c, U32)
    slot = decoder.dst(value, B32)
    flag = decoder.dst(predicate, PRED) if predicate is not None else None
    lanes = np.arange(32)

    def step(group: WarpGroup) -> None:
        check_members(group, item, members)
        control, offset = group.R[clamp_slot], group.R[lane_slot]
        # Operand c: bits 0-4 clamp value, bits 8-12 mask of the lane bits that stay (PTX ISA, shfl.sync).
        control = np.broadcast_to(control, (group.n,)).reshape(-1, 32) if control.size > 1 else control
        offset = np.broadcast_to(offset, (group.n,)).reshape(-1, 32) if offset.size > 1 else offset
        clamp = (control & np.uint32(31)).astype(np.int64)
        segment = (control >> np.uint32(8) & np.uint32(31)).astype(np.int64)
        offset = (offset & np.uint32(31)).astype(np.int64)
        highest = (lanes & segment) | (clamp & ~segment)
        lowest = lanes & segment
        if mode == "up":
            source = lanes - offset
            inside = source >= highest
        elif mode == "down":
            source = lanes + offset
            inside = source <= highest
        elif mode == "bfly":
            source = lanes ^ offset
            inside = source <= highest
        else:
            source = lowest | (offset & ~segment)
            inside = source <= highest
        source = np.where(inside, source, lanes)
        values = group.R[x]
        if values.size > 1 or group.mask is not None:
            rows = np.broadcast_to(values, (group.n,)).reshape(-1, 32)
            if source.ndim == 1 or source.shape[0] == 1:
                exchange = rows[:, source.reshape(-1)]
            else:
                exchange = np.take_along_axis(rows, np.broadcast_to(source, rows.shape), 1)
            if group.mask is not None:
                _check_source(group, item, source, rows.shape)
            values = np.ascontiguousarray(exchange).reshape(-1)
        if slot is not None:
            group.write(slot, values)
        if flag is not None:
            group.write(flag, np.ascontiguousarray(np.broadcast_to(inside, (group.n // 32, 32))).reshape(-1))

    decoder.emit(step)


def _check_source(group: WarpGroup, item: Instruction, source: np.ndarray, shape: Sequence[int]) -> None:
    """A value read from an inactive lane is undefined."""
    active = group.active_lanes()
    sources = np.take_along_axis(active, np.broadcast_to(source, shape), 1)
    bad = active & ~sources
    if bad.any() and group.launch.check_uninitialised:
        group.fault("shfl reads from a lane that does not take part", item, int(bad.reshape(-1).argmax()))


def _ballots(group: WarpGroup, predicate: np.ndarray) -> np.ndarray:
    """(warps,) uint32: a bit per active lane with a true predicate."""
    voters = np.broadcast_to(predicate, (group.n,)).reshape(-1, 32) & group.active_lanes()
    return np.packbits(voters, axis=1, bitorder="little").view(np.uint32).reshape(-1)


def _per_member_set(group: WarpGroup, members: int, compute, dtype) -> np.ndarray:
    """``compute(lanes)`` for every set of lanes that shares a member mask, its results spread over all lanes.

    ``lanes`` is (warps, 32) bool; compute returns (warps,) values.
    """
    masks = group.R[members]
    active = group.active_lanes()
    if masks.size == 1 or (masks == masks[0]).all():
        return np.repeat(compute(active).astype(dtype), 32)
    masks = np.broadcast_to(masks, (group.n,)).reshape(-1, 32)
    result = np.zeros(masks.shape, dtype)
    for mask in np.unique(masks):
        lanes_of_mask = active & (masks == mask)
        values = compute(lanes_of_mask)
        result = np.where(lanes_of_mask, values[:, None], result)
    return result.reshape(-1).astype(dtype)


@instruction("vote")
def decode_vote(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    if not modifiers.take("sync"):
        raise decoder.unsupported("vote without .sync")
    mode = modifiers.take("all", "any", "uni", "ballot")
    types = modifiers.types()
    d, a, members_operand = decoder.operands(3)
    members = mask_operand(decoder, members_operand)
    x = decoder.src(a, PRED)
    slot = decoder.dst(d, types[0])

    def step(group: WarpGroup) -> None:
        check_members(group, item, members)
        predicate = np.broadcast_to(group.R[x], (group.n,)).reshape(-1, 32)

        def compute(lanes: np.ndarray):
            voters = predicate & lanes
            if mode == "ballot":
                return np.packbits(voters, axis=1, bitorder="little").view(np.uint32).reshape(-1)
            every, some = (voters == lanes).all(1), voters.any(1)
            return {"all": every, "any": some, "uni": every | ~some}[mode]

        group.write(slot, _per_member_set(group, members, compute, np.uint32 if mode == "ballot" else bool))

    decoder.emit(step)


@instruction("activemask")
def decode_activemask(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.types()
    slot = decoder.dst(decoder.operands(1)[0], B32)
    decoder.emit(lambda group: group.write(slot, np.repeat(_ballots(group, np.ones(1, bool)), 32)))


@instruction("match")
def decode_match(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("sync")
    every = modifiers.take("any", "all") == "all"
    (type_,) = modifiers.types()
    d, a, members_operand = decoder.operands(3)
    members = mask_operand(decoder, members_operand)
    value, predicate = _results(decoder, d)
    x, slot = decoder.src(a, type_), decoder.dst(value, B32)
    flag = decoder.dst(predicate, PRED) if predicate is not None else None

    def step(group: WarpGroup) -> None:
        check_members(group, item, members)
        rows = group.full(x).reshape(-1, 32)
        active = group.active_lanes()
        masks = group.full(members).reshape(-1, 32)
        taking = active[:, None, :] & (masks[:, None, :] == masks[:, :, None])
        equal = (rows[:, :, None] == rows[:, None, :]) & taking
        bits = np.packbits(equal, axis=2, bitorder="little").view(np.uint32).reshape(-1)
        if every:
            same = (equal == taking).all(2).reshape(-1)
            bits = np.where(same, bits, np.uint32(0))
            if flag is not None:
                group.write(flag, same)
        if slot is not None:
            group.write(slot, bits)

    decoder.emit(step)


_REDUCTIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@instruction("redux")
def decode_redux(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("sync")
    operation = modifiers.take(*_REDUCTIONS)
    magnitude, keep_nan = modifiers.take("abs"), modifiers.take("NaN")
    (type_,) = modifiers.types()
    d, a, members_operand = decoder.operands(3)
    members = mask_operand(decoder, members_operand)
    x, slot, value = decoder.src(a, type_), decoder.dst(d, type_), type_.value
    combine = _REDUCTIONS[operation]
    if type_.name == "f32":
        combine = (np.minimum if keep_nan else np.fmin) if operation == "min" else (np.maximum if keep_nan else np.fmax)
        identity = np.nan if not keep_nan else (np.inf if operation == "min" else -np.inf)
    elif operation in ("min", "max"):
        limits = np.iinfo(value)
        identity = limits.max if operation == "min" else limits.min
    else:
        identity = -1 if operation == "and" else 0

    def step(group: WarpGroup) -> None:
        if "redux-members" not in group.launch.waived:
            check_members(group, item, members)
        rows = group.full(x).reshape(-1, 32).view(value)
        if magnitude:
            rows = np.abs(rows)
        fill = np.array(identity).astype(value)

        def compute(lanes: np.ndarray):
            return combine.reduce(np.where(lanes, rows, fill), axis=1, dtype=value)

        bits = _per_member_set(group, members, compute, value).view(type_.storage)
        if type_.name == "f32":
            bits = rounding.canonical_nan(bits, np.isnan(bits.view(np.float32)), "f32")
        group.write(slot, bits)

    decoder.emit(step)


@instruction("elect")
def decode_elect(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """The hardware may elect any lane of the member mask, but the same one for equal masks."""
    modifiers.take("sync")
    d, members_operand = decoder.operands(2)
    members = mask_operand(decoder, members_operand)
    value, predicate = _results(decoder, d)
    slot = None if isinstance(value, Sink) else decoder.dst(value, B32)
    flag = decoder.dst(predicate, PRED)

    def step(group: WarpGroup) -> None:
        check_members(group, item, members)
        first = group.launch.leader

        def lead(lanes: np.ndarray) -> np.ndarray:
            return (np.roll(lanes, -first, axis=1).argmax(1) + first) % 32

        leader = _per_member_set(group, members, lead, np.uint32)
        if slot is not None:
            group.write(slot, leader)
        group.write(flag, leader == group.lane)

    decoder.emit(step)
