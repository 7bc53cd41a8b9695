"""Tensor maps that a kernel creates or modifies (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy",
"fence.proxy").

Copies read maps through the tensormap proxy, which has its own synchronisation with writes of threads: the writer
releases the map (by `tensormap.cp_fenceproxy` or `fence.proxy.tensormap::generic.release`), and the user then acquires
these 128 bytes (`fence.proxy.tensormap::generic.acquire`). A copy that uses a map without it is an error if races are
checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import tensor_map
from ..memory.accesses import WINDOW_END, Access, read, resolve
from ..memory.loads import address_slot, note_granule, take_space
from ..order.memory_order import SCOPES
from ..order.races import differ
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Immediate
from ..ptx.types import U32, U64

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_BYTE = np.dtype(np.uint8)
_WORD = np.dtype(np.uint32)

#: Field of `tensormap.replace` -> (first byte, bytes, whether the fields of five dimensions follow each other).
_WORDS = {"global_address": (0, 8, False), "global_dim": (32, 4, True), "box_dim": (55, 1, True)}
#: Field -> (first bit of the 64 bits at byte 8, bits).
_FLAGS = {
    "rank": (4, 3),
    "elemtype": (7, 4),
    "swizzle_mode": (13, 2),
    "fill_mode": (15, 1),
    "swizzle_atomicity": (19, 1),
}
_STRIDE = "global_stride"
#: `.elemtype` of tf32.
_TF32 = 11


class Acquired(NamedTuple):
    """A map that a thread acquired at its clock."""

    thread: int
    clock: int
    content: bytes


class MapSnapshot(NamedTuple):
    """A map with its content when a copy that reads it was issued."""

    address: int
    content: bytes | None


class MapProxy:
    """Maps acquired by the tensormap proxy of a launch, by address, and the threads that released writes to it."""

    def __init__(self) -> None:
        self.acquired: dict[int, list[Acquired]] = {}
        self.released: dict[int, int] = {}  # warp -> its clock at its last release

    def acquire(self, group: WarpGroup, address: int, thread: int) -> None:
        number, clock = _now(group, thread)
        content = map_bytes(group, address)
        entries = self.acquired.setdefault(address, [])
        entries[:] = [each for each in entries if each.thread >> 5 != number >> 5]
        entries.append(Acquired(number, clock, content))

    def release(self, group: WarpGroup) -> None:
        races = group.launch.races
        if races is not None:
            for number in group.numbers[group.active()].tolist():
                self.released[number >> 5] = int(races.clocks.own[(number >> 5) - races.clocks.first])

    def check(self, group: WarpGroup, item: Instruction, address: int, thread: int) -> None:
        """Check before a thread uses a map that all writes of it are visible to the proxy."""
        races = group.launch.races
        if races is None:
            return
        access = _bytes(group, item, address, tensor_map.BYTES, thread)
        last_write = races.last_writes(access)
        if last_write is None:
            return
        writer, clock, earlier = last_write
        races.read(group, item, access)
        number, _ = _now(group, thread)
        where = f"the tensor map at {address:#x} was written at line {earlier.line} ({earlier.text})"
        if earlier.opcode != "tensormap" or "cp_fenceproxy" not in earlier.modifiers:
            warp = writer >> 5 if writer >= 0 else -2 - writer
            if self.released.get(warp, -1) < clock:
                group.fault(f"{where}, and no fence.proxy.tensormap::generic.release since", item, thread, address)
        content = map_bytes(group, address)
        for each in self.acquired.get(address, ()):
            ordered = each.thread >> 5 == number >> 5 or not races.clocks.unordered(
                np.array([number]), np.array([each.thread]), np.array([each.clock])
            ).any()
            if ordered and each.content == content:
                return
        group.fault(f"{where}, and no fence.proxy.tensormap::generic.acquire since", item, thread, address)

    def check_unchanged(self, group: WarpGroup, item: Instruction, snapshot: MapSnapshot, thread: int) -> None:
        """Check when a copy has read its sources that its map is that of the copy's issue: a copy may read its map
        until then (PTX ISA, "cp.async.bulk.wait_group": `.read` waits for the reads of the tensormap as well)."""
        races = group.launch.races
        if races is None:
            return
        access = _bytes(group, item, snapshot.address, tensor_map.BYTES, thread)
        last_write = races.last_writes(access)
        if last_write is None:
            return
        if map_bytes(group, snapshot.address) != snapshot.content:
            earlier = last_write[2]
            group.fault(
                f"the tensor map at {snapshot.address:#x} was written at line {earlier.line} ({earlier.text}) before a "
                "wait for this copy, which may read it until then", item, thread, snapshot.address,
            )  # fmt: skip
        races.read(group, item, access)


def _now(group: WarpGroup, thread: int) -> tuple[int, int]:
    """(number in the launch, clock) of a thread; zeros if races are not checked."""
    races = group.launch.races
    if races is None:
        return 0, 0
    number = int(group.numbers[thread])
    return number, int(races.clocks.own[(number >> 5) - races.clocks.first])


def map_bytes(group: WarpGroup, address: int) -> bytes | None:
    """The 128 bytes of global memory at an address; None if it is outside all allocations."""
    result = group.launch.memory.find(address, tensor_map.BYTES)
    if result is None:
        return None
    return result.data[address - result.address :][: tensor_map.BYTES].tobytes()


def _bytes(
    group: WarpGroup, item: Instruction, address: int, count: int, thread: int, space: str = "global",
    write: bool = False,
) -> Access:  # fmt: skip
    addresses = np.arange(address, address + count, dtype=np.int64).view(np.uint64)
    (access,) = resolve(group, item, space, addresses, _BYTE, write, np.full(count, thread), 1)
    return access


def map_at(group: WarpGroup, item: Instruction, address: int, thread: int) -> tensor_map.TensorMap:
    """The map operand of a copy of ``thread``. Raises EmulationError if the place does not contain a map."""
    if address % 64 or address < WINDOW_END:
        group.fault(f"address {address:#x} of a tensor map is not aligned to 64 bytes of global memory or parameters",
                    item, thread, address)  # fmt: skip
    raw = map_bytes(group, address)
    if raw is None:
        group.fault(f"the tensor map at {address:#x} is in no allocation", item, thread, address)
    group.launch.maps.check(group, item, address, thread)
    try:
        return tensor_map.decode(raw)
    except ValueError as error:
        group.fault(f"no tensor map that is known at {address:#x}: {error}", item, thread, address)


@instruction("fence.proxy.tensormap::generic")
def decode_map_fence(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`fence.proxy.tensormap::generic`."""
    acquires = modifiers.take("acquire")
    if not acquires and not modifiers.take("release"):
        raise decoder.unsupported()
    scope = SCOPES[modifiers.take(*SCOPES) or "sys"]
    if not acquires:
        decoder.operands(0)

        def release(group: WarpGroup) -> None:
            group.launch.maps.release(group)
            if group.launch.races is not None:
                group.launch.races.clocks.fence(group, scope)

        decoder.emit(release)
        return
    where, size = decoder.operands(2)
    if not isinstance(size, Immediate) or size.value != tensor_map.BYTES:
        raise decoder.error("fence.proxy.tensormap acquires 128 bytes")
    address = address_slot(decoder, where, "generic")

    def acquire(group: WarpGroup) -> None:
        if group.launch.races is not None:
            group.launch.races.clocks.fence(group, scope, releases=False)
        addresses = group.full(address)
        for thread in group.active().tolist():
            place = int(addresses[thread])
            if map_bytes(group, place) is None:
                group.fault(f"the tensor map at {place:#x} is in no allocation", item, thread, place)
            group.launch.maps.acquire(group, place, thread)

    decoder.emit(acquire)


@instruction("tensormap.cp_fenceproxy")
def decode_copy(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`tensormap.cp_fenceproxy`: a map from shared to global memory, and its release to the tensormap proxy."""
    modifier_names = ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned")
    if not all(modifiers.take(name) for name in modifier_names):
        raise decoder.unsupported()
    scope = SCOPES[modifiers.take(*SCOPES) or "sys"]
    decoder.begin_collective(None)
    target, source, size = decoder.operands(3)
    if not isinstance(size, Immediate) or size.value != tensor_map.BYTES:
        raise decoder.error("tensormap.cp_fenceproxy copies 128 bytes")
    to, start = address_slot(decoder, target, "global"), address_slot(decoder, source, "shared")
    note_granule(decoder, "shared", 4)
    note_granule(decoder, "global", 4)

    def step(group: WarpGroup) -> None:
        group.check_whole_warps(item)
        lanes = group.active_lanes()
        for warp in np.flatnonzero(lanes.any(1)).tolist():
            thread = warp * 32
            for slot in (to, start):
                words = group.full(slot)[thread : thread + 32]
                if (words != words[0]).any():
                    group.fault("the lanes of a warp name different tensor maps", item, thread)
            places = [int(group.full(slot)[thread]) for slot in (to, start)]
            for place in places:
                if place % tensor_map.BYTES:
                    group.fault(f"address {place:#x} of a tensor map is not aligned to 128 bytes", item, thread, place)
            spans = [np.arange(place, place + tensor_map.BYTES, 4, dtype=np.int64).view(np.uint64) for place in places]
            # Each lane copies a word, and all release the map together.
            lanes = np.arange(thread, thread + 32)
            loaded = resolve(group, item, "shared", spans[1], _WORD, None, lanes, 4)
            # The last 64 bytes have no known content, and public code leaves them uninitialised.
            word_count = tensor_map.USED // 4
            resolve(group, item, "shared", spans[1][:word_count], _WORD, False, lanes[:word_count], 4)
            read(group, item, loaded)
            # In global memory each lane has copied all of it (PTX ISA, "tensormap.cp_fenceproxy"); two lanes represent
            # them.
            writers = np.repeat(lanes[:2], lanes.size)
            (target,) = resolve(group, item, "global", np.tile(spans[0], 2), _WORD, True, writers, 4)
            values = np.tile(np.concatenate([each.data[each.index] for each in loaded]), 2)
            if group.launch.races is not None:
                # The tile blocks of another launch have other maps in the same place.
                group.launch.races.write(group, item, target, values, unchanged=True)
            else:
                target.data[target.index] = values
        if group.launch.races is not None:
            group.launch.races.clocks.fence(group, scope)

    decoder.emit(step)


@instruction("tensormap.replace")
def decode_replace(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`tensormap.replace`: one field of a map in global or shared memory.

    Dimensions and boxes are given as sizes, strides in bytes, and the rank minus one.
    """
    field = modifiers.take(*_WORDS, *_FLAGS, _STRIDE, "element_stride", "interleave_layout")
    if not modifiers.take("tile") or field is None or not modifiers.take("b1024"):
        raise decoder.unsupported()
    space = take_space(modifiers)
    (type_,) = modifiers.types()
    operands = list(item.operands)
    ordinal = 0
    if field in ("box_dim", "global_dim", "element_stride", _STRIDE):
        if len(operands) != 3 or not isinstance(operands[1], Immediate):
            raise decoder.error("expected a map, the number of a dimension and a value")
        ordinal = int(operands.pop(1).value)
        if not 0 <= ordinal < (4 if field == _STRIDE else 5):
            raise decoder.error(f"a tensor map has no {field} {ordinal}")
    if len(operands) != 2:
        raise decoder.error("expected a map and a value")
    address = address_slot(decoder, operands[0], space)
    value = decoder.src(operands[1], U64 if type_.bits == 64 else U32)
    for each in ("shared", "global"):
        note_granule(decoder, each, 1)

    def step(group: WarpGroup) -> None:
        for thread in group.active().tolist():
            place, new = int(group.full(address)[thread]), int(group.full(value)[thread])
            if place % 64:
                group.fault(f"address {place:#x} of a tensor map is not aligned to 64 bytes", item, thread, place)
            try:
                first, raw = _replace(group, item, field, ordinal, new, space, place, thread)
            except ValueError as error:
                group.fault(f"{error}", item, thread)
            if raw:
                access = _bytes(group, item, place + first, len(raw), thread, space, write=True)
                values = np.frombuffer(raw, np.uint8)
                if group.launch.races is not None:
                    group.launch.races.write(group, item, access, values)
                elif differ(access.data[access.index], values).any():
                    access.data[access.index] = values

    decoder.emit(step)


def _replace(
    group: WarpGroup, item: Instruction, field: str, ordinal: int, new: int, space: str, place: int, thread: int
) -> tuple[int, bytes]:
    """(first byte, new bytes) of a field. Raises ValueError for a value that is invalid here."""
    if field in _WORDS:
        first, size, several = _WORDS[field]
        if several:
            if not 1 <= new <= (256 if field == "box_dim" else 1 << 32):
                raise ValueError(f"{field} {ordinal} cannot be {new}")
            new -= 1
        return first + ordinal * size, new.to_bytes(size, "little")
    if field == _STRIDE:
        if new % 16 or new >> 36:
            raise ValueError(f"a stride of {new} bytes is not a multiple of 16 below 2**36")
        return 12 + 4 * ordinal, (new >> 4).to_bytes(4, "little")
    if field == "element_stride":
        if new != 1:
            raise ValueError(f"element strides other than 1 are not supported, {new}")
        return 0, b""
    if field == "interleave_layout":
        if new:
            raise ValueError("interleaved layouts are not supported")
        return 0, b""
    start, bits = _FLAGS[field]
    if new >> bits:
        raise ValueError(f"{field} {new} is not supported")
    access = _bytes(group, item, place + 8, 8, thread, space)
    read(group, item, [access])
    flags = int.from_bytes(access.data[access.index].tobytes(), "little")
    if field == "elemtype" and new == _TF32:
        # An f32 converted to tf32 is a separate bit, in accordance with the code of ptxas 13.5 for the instruction.
        new, flags = tensor_map.ELEMENTS["f32"][0], flags | tensor_map.TO_TF32
    flags = flags & ~(((1 << bits) - 1) << start) | new << start
    return 8, flags.to_bytes(8, "little")
