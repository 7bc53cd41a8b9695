"""Bulk copies and reductions without tensors, and other operations that complete on an mbarrier (PTX ISA,
"cp.async.bulk", "cp.reduce.async.bulk", "st.async", "red.async", "st.bulk").

A bulk copy completes as late as possible: at the second query of the end of its phase, or at a wait for its group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..launch.recording import Commit, Copy, Place, WaitGroup, place
from ..memory.accesses import Access, resolve
from ..memory.atomics import operation_of
from ..memory.loads import address_slot, note_granule
from ..order.races import differ
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Group, Immediate
from ..ptx.types import TYPES, U16, U32, U64, PtxType
from .barrier_objects import barrier_cell, note_arrivals
from .landing import (
    BulkCopy,
    begin_landing,
    begin_reading,
    check_places,
    in_block,
    ranks_of,
    read_together,
)
from .tensor_copy import REDUCTIONS

if TYPE_CHECKING:
    from ..launch.warps import WarpGroup

_BYTE = np.dtype(np.uint8)
_CHUNK = 16
_SPACES = ("global", "shared::cta", "shared::cluster")
_SEMANTICS = ("weak", "relaxed")
_SCOPES = ("cta", "cluster", "gpu", "sys")


@instruction("cp.async.bulk.commit_group")
def decode_commit(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    decoder.program.bulk_copies = True
    decoder.emit(lambda group: _commit(group, item))


@instruction("cp.async.bulk.wait_group")
def decode_wait(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    decoder.program.bulk_copies = True
    only_read, pending = bool(modifiers.take("read")), decoder.group_count()
    decoder.emit(lambda group: _wait_group(group, item, pending, only_read))


@instruction("cp.async.bulk.prefetch")
def decode_prefetch(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """No effect without caches."""
    decoder.program.bulk_copies = True
    modifiers.names.clear()


Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The new elements of a reduction from the old ones and the operand."""


class _Form:
    """The operands of a bulk copy, as slots, and its spaces."""

    __slots__ = ("barrier", "byte_mask", "combine", "ignored", "mask", "size", "source", "spaces", "strict", "target",
                 "type")  # fmt: skip

    spaces: list[str]
    """Of the destination and the source."""
    target: int
    source: int
    size: int
    type: PtxType | None
    """Of a reduction, as `combine`."""
    combine: Combine | None
    ignored: list[int]
    barrier: int | None
    mask: int | None
    byte_mask: int | None
    strict: bool


@instruction("cp.async.bulk", "cp.reduce.async.bulk")
def decode_span(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    decoder.program.bulk_copies = True
    reduces = item.modifiers[0] == "reduce"
    form = _Form()
    order = [name for name in modifiers.names if name in _SPACES]
    modifiers.names = [name for name in modifiers.names if name not in order]
    on_barrier = bool(modifiers.take("mbarrier::complete_tx::bytes"))
    multicast = bool(modifiers.take("multicast::cluster"))
    hinted = bool(modifiers.take("L2::cache_hint"))
    ignores, masks = bool(modifiers.take("ignore_oob")), bool(modifiers.take("cp_mask"))
    if len(order) != 2 or not on_barrier and not modifiers.take("bulk_group"):
        raise decoder.unsupported()
    if ignores and order != ["shared::cta", "global"] or masks and order[0] != "global":
        raise decoder.unsupported()
    form.type, form.combine = _reduction(decoder, modifiers) if reduces else (None, None)
    if not reduces and modifiers.take(*_SEMANTICS):
        modifiers.take(*_SCOPES)
        modifiers.take("b128")
    operands = list(item.operands)
    if len(operands) != 3 + 2 * ignores + on_barrier + multicast + hinted + masks:
        raise decoder.error("the number of operands does not fit")
    form.spaces = ["global" if name == "global" else "shared" for name in order]
    form.strict = order == ["shared::cluster", "shared::cta"]
    form.target = address_slot(decoder, operands.pop(0), form.spaces[0])
    form.source = address_slot(decoder, operands.pop(0), form.spaces[1])
    form.size = decoder.src(operands.pop(0), U32)
    form.ignored = [decoder.src(operands.pop(0), U32) for _ in range(2 * ignores)]
    form.barrier = address_slot(decoder, operands.pop(0), "shared") if on_barrier else None
    form.mask = decoder.src(operands.pop(0), U16) if multicast else None
    if hinted:
        decoder.src(operands.pop(0), U64)
    form.byte_mask = decoder.src(operands.pop(0), U16) if masks else None
    for space in form.spaces:
        note_granule(decoder, space, form.type.bytes if form.type is not None else 1 if ignores or masks else _CHUNK)

    def step(group: WarpGroup) -> None:
        for thread in group.active().tolist():
            _begin(group, item, form, thread)

    decoder.emit(step)


def _reduction(decoder: Decoder, modifiers: Modifiers) -> tuple[PtxType, Combine]:
    name = modifiers.take(*REDUCTIONS)
    modifiers.take("noftz")
    types = modifiers.types()
    if name is None or len(types) != 1:
        raise decoder.unsupported()
    compute = operation_of(decoder, name, types[0])
    return types[0], lambda old, new: compute(old, new, None)


def _begin(group: WarpGroup, item: Instruction, form: _Form, thread: int) -> None:
    count = int(group.full(form.size)[thread])
    if count % _CHUNK:
        group.fault(f"a bulk copy of {count} bytes, not a multiple of 16", item, thread)
    if not count:
        return
    base, start = int(group.full(form.target)[thread]), int(group.full(form.source)[thread])
    selection = _byte_selection(group, item, form, count, thread)
    result = count if selection is None else selection.size
    loaded = _span(group, item, form.spaces[1], start, count, thread, False, selection)
    begin_reading(group, item, loaded)
    dtype = _BYTE if form.type is None else form.type.storage
    convert = None if form.type is None else lambda raw: raw.view(dtype)
    cells: list[Place] = []
    targets: list[int] = []
    for rank in ranks_of(None if form.mask is None else int(group.full(form.mask)[thread])):
        writes = form.spaces[0] == "global" or form.combine is None
        places = _span(group, item, form.spaces[0], in_block(base, rank), count, thread, writes, selection, dtype)
        cell = None
        if form.barrier is not None:
            signalled = in_block(int(group.full(form.barrier)[thread]), rank)
            cell = barrier_cell(group, item, "shared", signalled, thread, asynchronous=True)
            check_places(group, item, places, cell, thread, other=form.strict)
        begin_landing(group, item, places, reads=form.combine is not None)
        copy = BulkCopy(group, item, thread, loaded, places, cell, convert, form.combine)
        copy.missing = count - result if form.ignored else 0
        group.batch.bulk_copies.append(copy)
        if cell is not None:
            cells.append(place(group, cell))
            targets.append(cells[-1].cta)
    if group.launch.recorder is not None:
        direction = {("shared", "global"): "load", ("global", "shared"): "store"}.get(tuple(form.spaces), "shared")
        address = start if direction == "load" else base
        addresses = None if direction == "shared" else np.arange(address, address + count, _CHUNK, dtype=np.int64)
        value = Copy("bulk", direction, count, 1, tuple(targets), tuple(cells), addresses, _CHUNK)
        group.launch.recorder.operation(group, item, thread, value)


def _byte_selection(group: WarpGroup, item: Instruction, form: _Form, count: int, thread: int) -> np.ndarray | None:
    """Numbers of the bytes that are copied, None for all of them."""
    if form.ignored:
        left, right = (int(group.full(slot)[thread]) for slot in form.ignored)
        if max(left, right) >= _CHUNK:
            group.fault(f"{max(left, right)} bytes to ignore, and not 0 to 15", item, thread)
        return np.arange(left, count - right)
    if form.byte_mask is not None:
        bits = int(group.full(form.byte_mask)[thread])
        return np.flatnonzero([bits >> byte % _CHUNK & 1 for byte in range(count)])
    return None


def _span(
    group: WarpGroup, item: Instruction, space: str, address: int, count: int, thread: int, write: bool,
    selection: np.ndarray | None = None, dtype: np.dtype = _BYTE,
) -> list[Access]:  # fmt: skip
    if address % _CHUNK:
        group.fault(f"address {address:#x} of a bulk copy is not aligned to 16 bytes", item, thread, address)
    offsets = np.arange(0, count, dtype.itemsize, dtype=np.int64) if selection is None else selection
    addresses = (address + offsets).view(np.uint64)
    return resolve(group, item, space, addresses, dtype, write, np.full(addresses.size, thread), 1)


def _commit(group: WarpGroup, item: Instruction) -> None:
    group.bulk_groups[group.active()] += 1
    if group.launch.recorder is not None:
        for thread in group.active().tolist():
            group.launch.recorder.operation(group, item, thread, Commit("bulk"))


def _wait_group(group: WarpGroup, item: Instruction, pending: int, only_read: bool) -> None:
    active = set(group.active().tolist())
    if group.launch.recorder is not None:
        for thread in sorted({thread & ~31 for thread in active}):
            group.launch.recorder.operation(group, item, thread, WaitGroup("bulk", pending, only_read))
    rest, due = [], []
    for copy in group.batch.bulk_copies:
        waited = copy.cell is None and copy.group is group and copy.thread in active
        waited = waited and copy.number < group.bulk_groups[copy.thread] - pending
        if waited:
            due.append(copy)
        if not waited or only_read:
            rest.append(copy)
    read_together(due)
    if not only_read:
        # Bulk copies of a thread, of one group or several, are ordered only by a wait between them (PTX ISA, "Async
        # Operations"): completing them in reverse exposes code that relies on their order of issue.
        for copy in reversed(due):
            copy.land(group.batch)
    group.batch.bulk_copies = rest


# -- stores and reductions of single values --------------------------------------------------------------------------


@instruction("st.async", "red.async")
def decode_st_async(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`st.async` and `red.async`: values stored to shared memory of the cluster, which complete on a barrier there."""
    reduces = item.opcode == "red"
    modifiers.take("weak", "relaxed")
    modifiers.take("cluster")
    if not modifiers.take("mbarrier::complete_tx::bytes"):
        raise decoder.unsupported()
    space = "shared" if modifiers.take("shared::cluster", "shared::cta") else "generic"
    combine = None
    name = modifiers.take(*REDUCTIONS) if reduces else None
    vector = modifiers.take("v2", "v4")
    types = modifiers.types()
    if len(types) != 1 or reduces and name is None:
        raise decoder.unsupported()
    type_, count = types[0], int(vector[1:]) if vector else 1
    if name is not None:
        compute = operation_of(decoder, name, type_)

        def combine(old: np.ndarray, new: np.ndarray):
            return compute(old, new, None)

    target, value, barrier = decoder.operands(3)
    parts = value.items if isinstance(value, Group) else [value]
    if len(parts) != count:
        raise decoder.error(f"expected {count} source registers")
    slots = [decoder.src(part, type_) for part in parts]
    address, place = address_slot(decoder, target, space), address_slot(decoder, barrier, space)
    for each in ("shared", "generic") if space == "generic" else ("shared",):
        note_granule(decoder, each, type_.bytes)
    size = type_.bytes

    def step(group: WarpGroup) -> None:
        threads = group.active().tolist()
        words = [group.full(slot) for slot in slots]
        for thread in threads:
            base = int(group.full(address)[thread])
            if base % (size * count):
                group.fault(f"address {base:#x} is not aligned to {size * count} bytes", item, thread, base)
            addresses = np.arange(base, base + size * count, size, dtype=np.int64).view(np.uint64)
            places = resolve(group, item, space, addresses, type_.storage, combine is None, np.full(count, thread), 1)
            cell = barrier_cell(group, item, space, int(group.full(place)[thread]), thread)
            check_places(group, item, places, cell, thread)
            begin_landing(group, item, places, reads=combine is not None, generic=True)
            copy = BulkCopy(group, item, thread, [], places, cell, combine=combine, generic=True)
            copy.data = np.array([each[thread] for each in words], type_.storage)
            note_arrivals(group, item, [cell], [thread])
            group.batch.bulk_copies.append(copy)
            if group.launch.recorder is not None:
                where = place(group, cell)
                result = Copy("bulk", "shared", size * count, 1, (where.cta,), (where,), None, 0)
                group.launch.recorder.operation(group, item, thread, result)

    decoder.emit(step)


@instruction("st.bulk")
def decode_st_bulk(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """`st.bulk`: zeros to a span of the block's shared memory."""
    modifiers.take("weak")
    space = "shared" if modifiers.take("shared::cta") else "generic"
    target, size, value = decoder.operands(3)
    if not isinstance(value, Immediate) or value.value != 0:
        raise decoder.error("st.bulk stores zeros")
    address, count = address_slot(decoder, target, space), decoder.src(size, U64)
    note_granule(decoder, space, 8)
    word = TYPES["b64"].storage

    def step(group: WarpGroup) -> None:
        for thread in group.active().tolist():
            base, bytes_ = int(group.full(address)[thread]), int(group.full(count)[thread])
            if bytes_ % 8 or not bytes_:
                group.fault(f"st.bulk of {bytes_} bytes, not a multiple of 8", item, thread)
            addresses = np.arange(base, base + bytes_, 8, dtype=np.int64).view(np.uint64)
            for access in resolve(group, item, space, addresses, word, True, np.full(addresses.size, thread), 8):
                if not access.shared:
                    group.fault("st.bulk outside shared memory", item, thread, base)
                zeros = np.zeros(access.index.size, word)
                if group.launch.races is not None:
                    group.launch.races.write(group, item, access, zeros)
                elif differ(access.data[access.index], zeros).any():
                    access.data[access.index] = zeros

    decoder.emit(step)
