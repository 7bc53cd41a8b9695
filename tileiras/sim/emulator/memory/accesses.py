"""Memory accesses of the threads of a group.

An access resolves each thread's address to bytes of a backing array: the global memory of the launch, the shared memory
of the thread's block, the thread's local memory. Every access is checked against the bounds of its memory and for
natural alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...memory import MemoryAccessError
from ..order.memory_order import WEAK, Order
from ..ptx.module import Instruction

if TYPE_CHECKING:
    from ...memory import Allocation
    from ..launch.warps import WarpGroup

#: Windows of the generic address space (PTX ISA, "Generic Addressing"); global, const and param are at their own
#: addresses, which are above.
SHARED_WINDOW = 1 << 32
LOCAL_WINDOW = 1 << 34
WINDOW_END = 1 << 36


#: Position of the block's rank in a shared address; addresses of a block's own variables contain it as well, so that
#: clearing its lowest bit names the even block of a pair (as code for sm_100 does).
RANK_BIT = 24
RANK = 1 << RANK_BIT


class Access:
    """Resolved addresses: ``data`` as elements of the access's size, an element index per thread of ``threads`` (None:
    all of the group), and the memory: the batch's ``shared`` memory or an ``allocation`` of global memory, with the
    ``address`` of its first element.

    ``ordered``: all writes of its shared memory with a stamp up to this one (`happens_before.Clocks.stamp`) happen
    before the present accesses of its threads, as the race checker has determined at the read."""

    __slots__ = ("address", "allocation", "data", "index", "ordered", "shared", "threads")

    def __init__(
        self, data: np.ndarray, index: np.ndarray, threads: np.ndarray | None, shared: bool = False,
        allocation: Allocation | None = None,
        address: int = 0,
    ) -> None:  # fmt: skip
        self.data = data
        self.index = index
        self.threads = threads
        self.shared = shared
        self.allocation = allocation
        self.address = address
        self.ordered = 0

    def part(self, selection: np.ndarray) -> Access:
        """The ``selection`` elements of an access by given threads."""
        return Access(
            self.data, self.index[selection], self.threads[selection], self.shared, self.allocation, self.address
        )

    def store(self, group: WarpGroup, item: Instruction, values: np.ndarray, order: Order = WEAK) -> None:
        """Write ``values``, one per thread of the group."""
        if self.threads is not None:
            values = values[self.threads]
        if group.launch.watch is not None:
            group.launch.watch.before_store(self, values)
        races = group.launch.races
        if races is not None:
            races.write(group, item, self, values, order)
        else:
            self.data[self.index] = values


def merge(accesses: Sequence[Access]) -> list[Access]:
    """Merge accesses by given threads to one memory with one size."""
    result: dict[tuple, list[Access]] = {}
    for each in accesses:
        result.setdefault((each.shared, id(each.allocation), each.data.dtype, each.address), []).append(each)
    return [
        parts[0] if len(parts) == 1 else Access(
            parts[0].data, np.concatenate([each.index for each in parts]),
            np.concatenate([each.threads for each in parts]), *key[:1], parts[0].allocation, parts[0].address,
        )
        for key, parts in result.items()
    ]  # fmt: skip


def _first(bad: np.ndarray, threads: np.ndarray | None) -> tuple[int, int]:
    """(position, thread) of the first true element."""
    position = int(bad.argmax())
    return position, position if threads is None else int(threads[position])


def resolve(
    group: WarpGroup,
    item: Instruction,
    space: str,
    addresses: np.ndarray,
    dtype: np.dtype,
    write: bool | None,
    threads: np.ndarray | None,
    alignment: int,
) -> list[Access]:
    """Resolve ``addresses`` (uint64, one per thread of ``threads``, or per thread of the group).

    ``write`` is None for shared memory that is neither read nor written yet.

    Raises EmulationError for the first thread whose access is outside memory or misaligned, or reads shared memory that
    was never written.
    """
    size = dtype.itemsize
    if alignment > 1 and (bad := (addresses & np.uint64(alignment - 1)) != 0).any():
        position, thread = _first(bad, threads)
        address = int(addresses[position])
        group.fault(f"address {address:#x} is not aligned to {alignment} bytes", item, thread, address)
    if space == "generic":
        low = addresses < WINDOW_END
        if not low.any():
            return resolve(group, item, "global", addresses, dtype, write, threads, 1)
        return _resolve_generic(group, item, addresses, dtype, write, threads, low)
    if space == "shared":
        access = resolve_shared(group, item, addresses, dtype, write, threads)
        if group.launch.banks is not None:
            lanes = np.arange(group.n) if threads is None else threads
            group.launch.banks.count(item.line, access.index * size, lanes, size)
        return [access]
    if space == "local":
        stride = group.launch.local_stride
        bad = addresses > stride - size if stride >= size else np.ones(addresses.shape, bool)
        if bad.any():
            position, thread = _first(bad, threads)
            address = int(addresses[position])
            group.fault(
                f"local address {address:#x} is outside the {stride} bytes of the thread", item, thread, address
            )
        base = (np.arange(group.n) if threads is None else threads) * stride
        return [Access(group.local.view(dtype), (base + addresses.astype(np.int64)) // size, threads)]
    return _resolve_global(group, item, addresses, dtype, write, threads)


def _resolve_generic(
    group: WarpGroup, item: Instruction, addresses: np.ndarray, dtype: np.dtype, write: bool,
    threads: np.ndarray | None, low: np.ndarray,
) -> list[Access]:  # fmt: skip
    accesses = []
    numbers = np.arange(group.n) if threads is None else threads
    shared = low & (addresses >= SHARED_WINDOW) & (addresses < LOCAL_WINDOW)
    local = low & (addresses >= LOCAL_WINDOW)
    parts = (("global", ~(shared | local), 0), ("shared", shared, SHARED_WINDOW), ("local", local, LOCAL_WINDOW))
    for space, of_space, base in parts:
        if of_space.any():
            where = numbers[of_space] if addresses.size > 1 or threads is not None else numbers
            part = addresses[of_space] - np.uint64(base)
            if part.size == 1 and where.size > 1:
                part = np.broadcast_to(part, where.shape)
            accesses += resolve(group, item, space, part, dtype, write, where, 1)
    return accesses


def resolve_shared(
    group: WarpGroup, item: Instruction, addresses: np.ndarray, dtype: np.dtype, write: bool | None,
    threads: np.ndarray | None, own: bool = False,
) -> Access:  # fmt: skip
    """Resolve addresses in shared memory of the blocks that their ranks name, or of the threads' ``own`` blocks."""
    batch, size = group.batch, dtype.itemsize
    limit = group.launch.shared_bytes
    offsets = addresses
    base = group.shared_base if threads is None else group.shared_base[threads]
    members = group.launch.members
    if members > 1 and not own:
        offsets = addresses & np.uint64(RANK - 1)
        blocks = (group.cta if threads is None else group.cta[threads]) // members * members
        rank = (addresses >> np.uint64(RANK_BIT)).view(np.int64)
        if (bad := rank >= members).any():
            position, thread = _first(np.broadcast_to(bad, base.shape), threads)
            group.fault("a shared::cluster address outside the cluster", item, thread, int(addresses.flat[0]))
        blocks = blocks + rank
        if (not batch.live_threads.all() and (ended := batch.live_threads[blocks] == 0).any()
                and "ended-block" not in group.launch.waived):  # fmt: skip
            position, thread = _first(np.broadcast_to(ended, base.shape), threads)
            position_of_block = tuple(int(v) for v in batch.ctaid[:, np.broadcast_to(blocks, base.shape)[position]])
            group.fault(f"shared memory of block {position_of_block}, which has ended", item, thread)
        base = blocks * batch.shared_stride
    bad = (offsets > limit - size) | (offsets < 1024)
    if bad.any():
        position, thread = _first(np.broadcast_to(bad, base.shape), threads)
        address = int(np.broadcast_to(addresses, base.shape)[position])
        group.fault(
            f"shared address {address:#x} ({size} bytes) is outside the block's shared memory, [0x400, {limit:#x})",
            item,
            thread,
            address,
        )
    index = (base + offsets.astype(np.int64)) // size
    init_bits = batch.shared_written
    if init_bits is not None and write is not None:
        if write:
            init_bits.reshape(-1, size)[index] = True
    access = Access(batch.shared.view(dtype), index, threads, shared=True)
    if write is False:
        check_written(group, item, access)
    return access


def check_written(group: WarpGroup, item: Instruction, access: Access) -> None:
    """Check that the read shared memory has been written, and that no copy to it is in flight."""
    init_bits, size = group.batch.shared_written, access.data.itemsize
    if init_bits is None:
        return
    is_ready = init_bits.reshape(-1, size)[access.index]
    if is_ready.all():
        return
    position, thread = _first(~is_ready.all(1), access.threads)
    offset = int(access.index[position]) * size % group.batch.shared_stride
    group.fault(f"shared address {offset:#x} is read before it is written", item, thread, offset)


def _resolve_global(
    group: WarpGroup, item: Instruction, addresses: np.ndarray, dtype: np.dtype, write: bool, threads: np.ndarray | None
) -> list[Access]:
    memory, size = group.launch.memory, dtype.itemsize
    signed = addresses.view(np.int64)
    low, high = int(signed.min()), int(signed.max())
    result = memory.find(low, size)
    if result is not None and high + size <= result.address + result.size and (result.writable or not write):
        shift = low % size
        if (result.address % size, shift) == (0, 0):
            data = result.data[: result.size // size * size].view(dtype)
            if write and memory.journal is not None:
                memory.journal.keep(result, signed - result.address, size)
            return [Access(data, (signed - result.address) // size, threads, False, result, result.address)]
    accesses = []
    try:
        for view, offsets, where in memory.accesses(signed, dtype, None, 1, write=write):
            owners = (np.arange(group.n) if threads is None else threads)[where]
            first = int(signed.reshape(-1)[where][0])
            place = (memory.find(first, size), first - int(offsets[0]) * size)
            if addresses.size == 1:
                return [Access(view, offsets, threads, False, *place)]
            accesses.append(Access(view, offsets, owners, False, *place))
    except MemoryAccessError as error:
        thread = error.index if threads is None else int(threads[error.index])
        if addresses.size == 1 and threads is None:
            thread = int(group.active()[0])
        group.fault(error.reason, item, thread, error.address)
    return accesses


def read(
    group: WarpGroup, item: Instruction, accesses: list[Access], order: Order = WEAK, whole_warp: bool = False
) -> None:
    """Check loads for races before their values are used."""
    races = group.launch.races
    if races is not None:
        for access in accesses:
            races.read(group, item, access, order, whole_warp)


def gather(accesses: list[Access], n: int, dtype: np.dtype) -> np.ndarray:
    """Loaded elements: one per thread of the group, or a single one for a uniform address."""
    if len(accesses) == 1 and accesses[0].threads is None:
        return accesses[0].data[accesses[0].index]
    result = np.zeros(n, dtype)
    for access in accesses:
        result[access.threads] = access.data[access.index]
    return result


def read_generic(group: WarpGroup, item: Instruction, address: int, size: int, thread: int) -> bytes:
    """Bytes that one thread reads at a generic address."""
    addresses = np.arange(address, address + size, dtype=np.uint64)
    result = bytearray()
    for each in addresses:
        (access,) = resolve(group, item, "generic", np.array([each]), np.dtype(np.uint8), False, np.array([thread]), 1)
        result += bytes(access.data[access.index])
    return bytes(result)


def read_string(group: WarpGroup, item: Instruction, address: int, thread: int) -> str:
    text = bytearray()
    while (byte := read_generic(group, item, address + len(text), 1, thread)) != b"\0":
        text += byte
    return text.decode("utf-8", "replace")
