"""Non-bulk asynchronous copies (PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group").

A copy completes when the issuing thread waits for it: the source is read and the destination written as late as the ISA
allows, and the destination counts as unwritten until then, so that a missing wait is detected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..launch.recording import Arrive, Commit, Copy, WaitGroup, each_warp, place, warp_parts
from ..memory.accesses import Access, gather, resolve
from ..memory.loads import address_slot, note_granule
from ..order.races import differ
from ..ptx.decoder import Decoder, Instruction, Modifiers, instruction
from ..ptx.module import Immediate, Register
from ..ptx.types import PRED, U32, U64
from .barrier_objects import barriers_at, change_counts, check_initialised, complete, state_at

if TYPE_CHECKING:
    from ..launch.scheduler import Batch
    from ..launch.warps import WarpGroup

_BY_SIZE = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64), 16: np.dtype(np.complex128)}


class AsyncCopy:
    """One cp.async of many threads; ``numbers`` is each thread's commit group."""

    __slots__ = ("destination", "item", "kept", "numbers", "size", "sources", "threads")

    def __init__(
        self,
        item: Instruction,
        destination: Access,
        sources: list[Access],
        threads: np.ndarray,
        numbers: np.ndarray,
        size: int,
        byte_counts: np.ndarray,
    ) -> None:
        self.item = item
        self.destination = destination
        self.sources = sources
        self.threads = threads
        self.numbers = numbers
        self.size = size
        self.kept = byte_counts  # bytes that are copied per thread; the rest of the destination becomes zero

    def values(self, group: WarpGroup) -> np.ndarray:
        """Values that the copies would write now, one element for each of their threads."""
        dtype = _BY_SIZE[self.size]
        values = np.zeros(group.n, dtype)
        for access in self.sources:
            values[access.threads] = gather([access], group.n, dtype)[access.threads]
        values = values[self.threads]
        if (self.kept < self.size).any():
            raw = values.view(np.uint8).reshape(-1, self.size)
            raw[np.arange(self.size) >= self.kept[:, None]] = 0
        return values

    def land(self, group: WarpGroup, mask: np.ndarray | None, before: np.ndarray | None = None) -> bool:
        """Complete the copies of the threads in ``mask`` and of groups numbered under ``before``; True if all are
        complete."""
        if not self.threads.size:
            return True
        selection = np.ones(self.threads.size, bool) if mask is None else mask[self.threads]
        if before is not None:
            selection = selection & (self.numbers < np.broadcast_to(before, (group.n,))[self.threads])
        if not selection.any():
            return False
        dtype = _BY_SIZE[self.size]
        for access in self.sources:
            if group.launch.races is not None and access.allocation is not None:
                landing = access if selection.all() else access.part(np.isin(access.threads, self.threads[selection]))
                if landing.index.size:
                    group.launch.races.read(group, self.item, landing)
        values = self.values(group)
        every = bool(selection.all())
        landing = self.destination if every else self.destination.part(selection)
        spread = np.zeros(group.n, dtype)
        spread[self.threads] = values
        landing.store(group, self.item, spread)
        init_bits = group.batch.shared_written
        if init_bits is not None:
            init_bits.reshape(-1, self.size)[landing.index] = True
        if every:
            self.threads = self.threads[:0]
            return True
        rest = ~selection
        self.threads, self.numbers, self.kept = self.threads[rest], self.numbers[rest], self.kept[rest]
        self.destination = Access(self.destination.data, self.destination.index[rest], self.threads, shared=True)
        return not rest.any()


class CopyArrival:
    """Arrival of threads of a warp at a barrier after the completion of all their earlier copies; ``cell`` is the
    element of shared memory that holds the barrier."""

    __slots__ = ("cell", "copies", "group", "item", "seen", "thread", "threads")

    def __init__(self, group: WarpGroup, item: Instruction, threads: list[int], cell: int) -> None:
        self.group = group
        self.item = item
        self.thread = threads[0]
        self.threads = threads
        self.cell = cell
        self.seen = False
        self.copies = list(group.async_copies)

    def later(self, pending: int) -> CopyArrival | None:
        """The arrival of the threads that a phase with so many pending arrivals does not need; the others stay."""
        if not 0 < pending < len(self.threads):
            return None
        rest = CopyArrival(self.group, self.item, self.threads[pending:], self.cell)
        rest.copies, rest.seen, self.threads = self.copies, self.seen, self.threads[:pending]
        return rest

    def land(self, batch: Batch) -> None:
        group = self.group
        mask = np.zeros(group.n, bool)
        mask[self.threads] = True
        for copy in self.copies:
            copy.land(group, mask)
        group.async_copies = [copy for copy in group.async_copies if copy.threads.size]
        for thread in self.threads:
            # Each may be the last of a phase.
            complete(group, thread, self.cell)
            change_counts(group, self.item, thread, self.cell, pending=-1)


def land(group: WarpGroup, before: np.ndarray | None) -> None:
    group.async_copies = [each for each in group.async_copies if not each.land(group, group.mask, before)]


@instruction("cp.async.commit_group")
def decode_commit(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    decoder.operands(0)
    decoder.emit(lambda group: _commit(group, item))


@instruction("cp.async.wait_all")
def decode_wait_all(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    decoder.operands(0)
    decoder.emit(lambda group: _wait(group, item, None, 0))


@instruction("cp.async.wait_group")
def decode_wait_group(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    pending = decoder.group_count()
    decoder.emit(lambda group: _wait(group, item, group.async_groups - pending, pending))


@instruction("cp.async.mbarrier.arrive")
def decode_arrival(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    """PTX ISA, "cp.async.mbarrier.arrive": without `.noinc` the phase waits for one more arrival."""
    adds_arrival = not modifiers.take("noinc")
    modifiers.take("b64")
    space = "shared" if modifiers.take("shared", "shared::cta") else "generic"
    note_granule(decoder, "shared", 8)
    address = address_slot(decoder, decoder.operands(1)[0], space)

    def step(group: WarpGroup) -> None:
        cells, elements, threads = barriers_at(group, item, address, space)
        check_initialised(group, item, elements, threads)
        together: dict[tuple[int, int], list[int]] = {}
        for element, thread in zip(elements, threads):
            together.setdefault((thread // 32, element), []).append(thread)
        for (_, element), own in together.items():
            state_at(group, item, cells, element, own[0])  # raises an error for an object that is no barrier
            if adds_arrival:
                change_counts(group, item, own[0], element, pending=len(own))
            if group.launch.recorder is not None:
                barrier = place(group, element)
                if adds_arrival:
                    group.launch.recorder.operation(group, item, own[0], Arrive(barrier, -len(own), 0))
                group.launch.recorder.operation(group, item, own[0], Commit("cp.async", (barrier,), len(own)))
        group.batch.bulk_copies += [CopyArrival(group, item, own, cell) for (_, cell), own in together.items()]
        group.launch.fruitless_waits = 0

    decoder.emit(step)


def _wait(group: WarpGroup, item: Instruction, before: np.ndarray | None, pending: int) -> None:
    if group.launch.recorder is not None:
        each_warp(group, item, WaitGroup("cp.async", pending, uncommitted=before is None))
    land(group, before)


def _commit(group: WarpGroup, item: Instruction) -> None:
    mask = group.mask
    if group.launch.recorder is not None:
        each_warp(group, item, Commit("cp.async"))
    if mask is None or group.live is not None and np.array_equal(mask, group.live):
        group.async_groups = group.async_groups + 1
    else:
        group.async_groups = np.where(mask, group.async_groups + 1, group.async_groups)


@instruction("cp.async")
def decode_copy(decoder: Decoder, item: Instruction, modifiers: Modifiers) -> None:
    modifiers.take("ca", "cg")
    if not modifiers.take("shared", "shared::cta", "shared::cluster") or not modifiers.take("global"):
        raise decoder.unsupported()
    hinted = modifiers.take("L2::cache_hint")
    modifiers.take("L2::64B", "L2::128B", "L2::256B")
    operands = list(item.operands)
    if hinted:
        decoder.src(operands.pop(), U64)
    if len(operands) not in (3, 4) or not isinstance(operands[2], Immediate):
        raise decoder.error("expected a destination, a source, a size and perhaps a source size")
    size = int(operands[2].value)
    if size not in _BY_SIZE:
        raise decoder.error(f"cp.async copies 4, 8 or 16 bytes, not {size}")
    note_granule(decoder, "shared", size)
    note_granule(decoder, "global", size)
    target, source = address_slot(decoder, operands[0], "shared"), address_slot(decoder, operands[1], "global")
    is_idle = decoder.is_idle
    kept_slot = ignored_slot = None
    if len(operands) == 4:
        if isinstance(operands[3], Register) and operands[3].type is PRED:
            ignored_slot = decoder.src(operands[3], PRED)
        else:
            kept_slot = decoder.src(operands[3], U32)

    def step(group: WarpGroup) -> None:
        threads = group.active()
        sizes = np.full(threads.size, size)
        if kept_slot is not None:
            sizes = group.full(kept_slot)[threads].astype(np.int64)
            if (bad := sizes > size).any():
                group.fault(
                    f"the source size {int(sizes.max())} exceeds the copy's {size} bytes",
                    item,
                    int(threads[bad.argmax()]),
                )
        elif ignored_slot is not None:
            sizes = np.where(group.full(ignored_slot)[threads], 0, size)
        dtype = _BY_SIZE[size]
        if group.launch.recorder is not None:
            _tell(group, item, threads, group.full(source)[threads], group.full(target)[threads], sizes, size)
        (destination,) = resolve(group, item, "shared", group.full(target)[threads], dtype, None, threads, size)
        sources = _sources(group, item, group.full(source)[threads], threads, sizes, size)
        if is_idle:
            return
        numbers = np.broadcast_to(group.async_groups, (group.n,))[threads]
        copy = AsyncCopy(item, destination, sources, threads, numbers, size, sizes)
        init_bits = group.batch.shared_written
        if group.launch.races is not None or init_bits is not None:
            # Threads may all copy equal data to one place: a write of the present value changes nothing.
            changes = differ(destination.data[destination.index], copy.values(group))
            if init_bits is not None:
                changes |= ~init_bits.reshape(-1, size)[destination.index].all(1)
            changed = destination.part(changes)
            if group.launch.races is not None:
                group.launch.races.begin_copy(group, item, changed)
            if init_bits is not None:
                init_bits.reshape(-1, size)[changed.index] = False
        group.async_copies.append(copy)

    decoder.emit(step)


def _tell(
    group: WarpGroup, item: Instruction, threads: np.ndarray, sources: np.ndarray, targets: np.ndarray,
    byte_counts: np.ndarray, size: int,
) -> None:  # fmt: skip
    recorder = group.launch.recorder
    addresses, places, lanes = sources.astype(np.int64), targets.astype(np.int64), threads & 31
    is_whole = bool((byte_counts == size).all())
    blocks = group.warp_cta.tolist()
    for warp, part in warp_parts(threads):
        if is_whole:
            own, count, total = addresses[part], part.stop - part.start, (part.stop - part.start) * size
        else:
            counts = byte_counts[part]
            own, count, total = addresses[part][counts > 0], counts.size, int(counts.sum())
        result = Copy("cp.async", "load", total, count, (blocks[warp],), (), own, size, places[part], lanes[part])
        recorder.operation(group, item, warp * 32, result)


def _sources(
    group: WarpGroup, item: Instruction, addresses: np.ndarray, threads: np.ndarray, byte_counts: np.ndarray, size: int
) -> list[Access]:
    whole = byte_counts == size
    dtype = _BY_SIZE[size]
    if whole.all():
        return resolve(group, item, "global", addresses, dtype, False, threads, size)
    accesses: list[Access] = []
    if whole.any():
        accesses += resolve(group, item, "global", addresses[whole], dtype, False, threads[whole], size)
    for count in np.unique(byte_counts[(byte_counts > 0) & ~whole]).tolist():
        part = byte_counts == count
        # Only the bytes that are kept need to be inside an allocation.
        buffer = np.zeros((int(part.sum()), size), np.uint8)
        for byte in range(count):
            at = addresses[part] + np.uint64(byte)
            for access in resolve(group, item, "global", at, np.dtype(np.uint8), False, threads[part], 1):
                buffer[np.searchsorted(threads[part], access.threads), byte] = access.data[access.index]
        accesses.append(Access(buffer.view(dtype)[:, 0], np.arange(len(buffer)), threads[part]))
    return accesses
