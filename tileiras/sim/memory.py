"""Global memory of a simulated device: bounds-checked allocations in one flat 64-bit address space.

Shared by the interpreter and the emulator, and independent of the compiler. An allocation is backed by the caller's
NumPy array, so that kernels update it in place and two views of one array are two pointers into one allocation.
Addresses never depend on the host's: allocations start at fixed multiples of 4 GiB, so that a pointer that has left its
allocation by any offset that a 32-bit index can express points to a hole instead of a neighbour.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import weakref
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from .errors import SimulationError

#: Lower addresses are never allocated: the emulator keeps its shared and local windows there, and small integers
#: mistaken for pointers fault.
LOWEST_ADDRESS = 1 << 40
_SPACING = 1 << 32
#: cudaMalloc's guarantee (CUDA C++ Programming Guide, "Device Memory Accesses").
DEFAULT_ALIGNMENT = 256
#: Byte of uninitialised memory: large in every integer type and an improbable number in every float type.
UNINITIALISED = 0xCD


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The distinct integers of an array, in order. `np.unique` loads `numpy.ma`, which takes as long as the emulation
    of a small launch."""
    ordered = np.sort(numbers, axis=None)
    first = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


class MemoryAccessError(SimulationError):
    """An access that no allocation covers, that is misaligned, or that writes read-only memory.

    ``index`` is the position of the first offending element in the flattened address array, ``address`` and ``size``
    its bytes, ``reason`` the sentence without position.
    """

    def __init__(self, reason: str, address: int, size: int, index: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.address = address
        self.size = size
        self.index = index


class Allocation:
    """``size`` bytes at ``address``; ``data`` is a flat uint8 view of the bytes of ``owner``."""

    __slots__ = ("address", "data", "host", "name", "owner", "size", "writable")

    def __init__(self, address: int, data: np.ndarray, owner: np.ndarray, name: str, writable: bool, host: int):
        self.address = address
        self.size = data.size
        self.data = data
        self.owner = owner
        self.name = name
        self.writable = writable
        self.host = host

    def __repr__(self) -> str:
        return f"<allocation {self.name}: {self.size} bytes at {self.address:#x}>"


def _root(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of ``array`` (or the outermost array over a foreign buffer)."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _raw_bytes(owner: np.ndarray) -> tuple[np.ndarray, int]:
    """A flat uint8 array over all of ``owner``'s memory, for any strides, and its host address."""
    low, high = np.lib.array_utils.byte_bounds(owner) if owner.size else (owner.ctypes.data, owner.ctypes.data)
    return np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), dtype=np.uint8), low


class Journal:
    """Undo log of stores: pages of allocations that may outlive their `Memory`.

    As a context manager it undoes the stores at the end of the block.
    """

    _PAGE = 4096

    def __init__(self) -> None:
        self._pages: dict[int, tuple[Allocation, int, np.ndarray]] = {}  # by host address
        """Allocation, offset and content: the reference to the allocation prevents reuse of the host address."""

    def keep(self, allocation: Allocation, offsets: np.ndarray, size: int) -> None:
        """Save the content at ``offsets`` of an allocation, elements of ``size`` bytes, before it is overwritten."""
        ends = (offsets + (size - 1)) // self._PAGE
        for page in distinct(np.concatenate([offsets.reshape(-1) // self._PAGE, ends.reshape(-1)])).tolist():
            start = page * self._PAGE
            if allocation.host + start not in self._pages:
                content = allocation.data[start : start + self._PAGE].copy()
                self._pages[allocation.host + start] = allocation, start, content

    def forget(self, allocation: Allocation) -> None:
        """Drop the pages of a released allocation, whose stores need no undo."""
        for start in range(0, allocation.size, self._PAGE):
            self._pages.pop(allocation.host + start, None)

    def exchange(self) -> None:
        """Undo the stores, or redo them."""
        for host, (allocation, start, content) in self._pages.items():
            place = allocation.data[start : start + content.size]
            self._pages[host] = allocation, start, place.copy()
            place[:] = content

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def undo(self) -> None:
        for allocation, start, content in self._pages.values():
            allocation.data[start : start + content.size] = content
        self._pages.clear()


class Memory:
    """A set of allocations.

    ``Memory()`` allocates in one process-wide address space: pointers of any live ``Memory`` can be stored in tables
    and are valid in every later run. ``Memory.scratch()`` numbers its allocations from a fixed address again (runs are
    reproducible) and also accesses the allocations of all live ``Memory`` objects.
    """

    _cursor = LOWEST_ADDRESS << 7
    _live: ClassVar[list[weakref.ref]] = []

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._allocations: list[Allocation] = []
        self._by_owner: dict[int, Allocation] = {}
        self._private_cursor: int | None = None
        self._base_array: np.ndarray | None = None
        self.journal: Journal | None = None
        """Undo log for overwritten data."""
        self.watchers = 0
        """Loops that wait for stores to change memory."""
        self.changes = 0
        """Stores that have changed it while there were any."""
        Memory._live.append(weakref.ref(self))

    @classmethod
    def scratch(cls) -> Memory:
        memory = cls()
        Memory._live.pop()
        memory._private_cursor = LOWEST_ADDRESS
        return memory

    @classmethod
    def detached(cls) -> Memory:
        """A memory that is numbered from a fixed address, apart from that of `scratch`; others only reach it within
        `attached`."""
        memory = cls.scratch()
        memory._private_cursor = LOWEST_ADDRESS << 6
        return memory

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Pointers into this memory are valid in the runs of the block."""
        entry = weakref.ref(self)
        Memory._live.append(entry)
        try:
            yield
        finally:
            Memory._live = [each for each in Memory._live if each is not entry]

    @classmethod
    def _others(cls) -> Iterator[Memory]:
        Memory._live = [ref for ref in Memory._live if ref() is not None]
        return (memory for ref in Memory._live if (memory := ref()) is not None)

    # -- allocating ------------------------------------------------------------------------------------------------

    def allocate(
        self, source: int | np.ndarray, *, alignment: int = DEFAULT_ALIGNMENT, name: str | None = None,
        fill: int = UNINITIALISED,
    ) -> int:
        """Address of ``source``: fresh memory of that many bytes, or the place of an array's first element.

        The whole base of an array is made addressable once; a view of it gives an address inside that allocation. The
        first byte of the base is aligned to ``alignment`` (a power of two, in bytes).
        """
        if alignment <= 0 or alignment & (alignment - 1):
            raise ValueError(f"alignment must be a power of two, got {alignment}")
        if not isinstance(source, np.ndarray):
            size = int(source)
            if size < 0:
                raise ValueError(f"cannot allocate {size} bytes")
            source = np.full(size, fill, dtype=np.uint8)
        if source.dtype.hasobject:
            raise TypeError("an array of Python objects has no device representation")
        owner = _root(source)
        allocation = self._find_owner(owner)
        if allocation is None:
            allocation = self._add(owner, alignment, name)
        return allocation.address + (source.ctypes.data - allocation.host if source.size else 0)

    def _find_owner(self, owner: np.ndarray) -> Allocation | None:
        entry = self._by_owner.get(id(owner))
        if entry is None and self._private_cursor is not None:
            for other in Memory._others():
                if (entry := other._by_owner.get(id(owner))) is not None:
                    break
        return entry

    def _add(self, owner: np.ndarray, alignment: int, name: str | None) -> Allocation:
        data, host = _raw_bytes(owner)
        cursor = self.cursor
        address = -(-cursor // alignment) * alignment
        following = -(-(address + data.size + 1) // _SPACING) * _SPACING + _SPACING
        self.cursor = following
        name = name or f"allocation {len(self._allocations)}"
        allocation = Allocation(address, data, owner, name, owner.flags.writeable, host)
        at = bisect.bisect(self._bases, address)
        self._bases.insert(at, address)
        self._allocations.insert(at, allocation)
        self._by_owner[id(owner)] = allocation
        self._base_array = None
        return allocation

    def release(self, address: int) -> None:
        """End the allocation that starts at ``address``; later accesses to it are errors."""
        at = bisect.bisect_left(self._bases, address)
        if at == len(self._bases) or self._bases[at] != address:
            raise ValueError(f"no allocation starts at {address:#x}")
        if self.journal is not None:
            self.journal.forget(self._allocations[at])
        del self._by_owner[id(self._allocations[at].owner)]
        del self._bases[at], self._allocations[at]
        self._base_array = None

    @property
    def cursor(self) -> int:
        """Address of the next allocation; to be reset only when all later allocations have been released."""
        return Memory._cursor if self._private_cursor is None else self._private_cursor

    @cursor.setter
    def cursor(self, address: int) -> None:
        if self._private_cursor is None:
            Memory._cursor = address
        else:
            self._private_cursor = address

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(self._allocations)

    def reachable(self) -> list[Allocation]:
        """All allocations that pointers of this memory can reach, by address."""
        memories = (self, *(Memory._others() if self._private_cursor is not None else ()))
        return sorted((each for memory in memories for each in memory._allocations), key=lambda each: each.address)

    # -- looking up ------------------------------------------------------------------------------------------------

    def find(self, address: int, size: int = 1) -> Allocation | None:
        """The allocation that contains all of ``size`` bytes at ``address``, or None."""
        allocation = self._find_own(address, size)
        if allocation is None and self._private_cursor is not None:
            result = (other._find_own(address, size) for other in Memory._others())
            allocation = next((each for each in result if each is not None), None)
        return allocation

    def _find_own(self, address: int, size: int) -> Allocation | None:
        at = bisect.bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        allocation = self._allocations[at]
        return allocation if address + size <= allocation.address + allocation.size else None

    def view(self, address: int, dtype: np.dtype | type, count: int | None = None) -> np.ndarray:
        """``count`` elements (as many as fit if None) from ``address`` on, as a view of the memory."""
        dtype = np.dtype(dtype)
        allocation = self.find(address, dtype.itemsize if count is None else max(1, count * dtype.itemsize))
        if allocation is None:
            raise self._fault(address, dtype.itemsize if count is None else count * dtype.itemsize, 0)
        offset = address - allocation.address
        if count is None:
            count = (allocation.size - offset) // dtype.itemsize
        return allocation.data[offset : offset + count * dtype.itemsize].view(dtype)

    def _fault(self, address: int, size: int, index: int) -> MemoryAccessError:
        nearest, distance = None, _SPACING
        for memory in (self, *(Memory._others() if self._private_cursor is not None else ())):
            for allocation in memory._allocations:
                gap = max(allocation.address - address, address + size - allocation.address - allocation.size)
                if 0 < gap < distance:
                    nearest, distance = allocation, gap
        reason = f"address {address:#x} ({size} byte{'s' * (size != 1)}) is in no allocation"
        if nearest is not None:
            side = "before the start" if address < nearest.address else "past the end"
            far = nearest.address - address if address < nearest.address else distance
            reason += f"; it is {far} byte{'s' * (far != 1)} {side} of {nearest.name} ({nearest.size} bytes)"
        return MemoryAccessError(reason, address, size, index)

    def _group(self, addresses: np.ndarray, size: int, alignment: int):
        """Yield (allocation, positions or None for all) for a flat int64 array of non-masked addresses."""
        misaligned = addresses & (alignment - 1)
        if misaligned.any():
            index = int(np.flatnonzero(misaligned)[0])
            address = int(addresses[index])
            reason = f"address {address:#x} ({size} bytes) is not aligned to {alignment} bytes"
            raise MemoryAccessError(reason, address, size, index)
        low, high = int(addresses.min()), int(addresses.max())
        whole = self.find(low, size)
        if whole is not None and high + size <= whole.address + whole.size:
            yield whole, None
            return
        if self._base_array is None:
            self._base_array = np.array(self._bases, dtype=np.int64)
        at = np.searchsorted(self._base_array, addresses, side="right") - 1
        for group in distinct(at).tolist():
            positions = np.flatnonzero(at == group)
            members = addresses[positions]
            allocation = self._allocations[group] if group >= 0 else None
            inside = allocation is not None and int(members.max()) + size <= allocation.address + allocation.size
            if inside:
                yield allocation, positions
                continue
            # Rare: pointers of other Memory objects, or a fault; one by one, in element order.
            for position in positions.tolist():
                address = int(addresses[position])
                allocation = self.find(address, size)
                if allocation is None:
                    raise self._fault(address, size, position)
                yield allocation, np.array([position])

    # -- accessing -------------------------------------------------------------------------------------------------

    def load(
        self, addresses: int | np.ndarray, dtype: np.dtype | type, *, mask: np.ndarray | None = None,
        fill: int | None = None,
        alignment: int | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Load elements of ``dtype`` at ``addresses`` (any shape).

        Elements with a false ``mask`` are not read and are ``fill`` (uninitialised bytes if None). Every address must
        be a multiple of ``alignment`` (the element size by default). Raises MemoryAccessError, whose ``index`` is in
        the flattened ``addresses``.
        """
        dtype = np.dtype(dtype)
        addresses = np.asarray(addresses).astype(np.int64, copy=False)
        result = np.empty(addresses.shape, dtype)
        flat = result.reshape(-1)
        if fill is None:
            flat.view(np.uint8)[:] = UNINITIALISED
        else:
            flat[:] = fill
        for view, offsets, where in self.accesses(addresses, dtype, mask, alignment):
            flat[where] = view[offsets]
        return result

    def store(
        self, addresses: int | np.ndarray, values: float | int | np.ndarray, *, mask: np.ndarray | None = None,
        alignment: int | None = None,
    ) -> None:  # fmt: skip
        """Write ``values`` (broadcast to ``addresses``' shape) where ``mask`` is true.

        Of several elements for one address the last in flattened order wins. If any access is an error, no element is
        written.
        """
        values = np.asarray(values)
        addresses = np.asarray(addresses).astype(np.int64, copy=False)
        flat = np.broadcast_to(values, addresses.shape).reshape(-1)
        plan = list(self.accesses(addresses, values.dtype, mask, alignment, write=True))
        for view, offsets, where in plan:
            if self.watchers:
                self.changes += view[offsets].tobytes() != flat[where].tobytes()
            view[offsets] = flat[where]

    def accesses(
        self, addresses: np.ndarray, dtype: np.dtype, mask: np.ndarray | None, alignment: int | None,
        write: bool = False,
    ):  # fmt: skip
        """Yield (typed array over an allocation, element offsets into it, positions in the flattened addresses)."""
        flat = addresses.reshape(-1)
        positions_of_mask = None
        if mask is not None:
            positions_of_mask = np.flatnonzero(np.broadcast_to(np.asarray(mask, bool), addresses.shape).reshape(-1))
            if positions_of_mask.size < flat.size:
                flat = flat[positions_of_mask]
            else:
                positions_of_mask = None
        if not flat.size:
            return
        size = dtype.itemsize
        try:
            groups = list(self._group(flat, size, alignment or size))
        except MemoryAccessError as error:
            if positions_of_mask is not None:
                error.index = int(positions_of_mask[error.index])
            raise
        for allocation, positions in groups:
            if write and not allocation.writable:
                index = 0 if positions is None else int(positions[0])
                address = int(flat[index])
                index = index if positions_of_mask is None else int(positions_of_mask[index])
                raise MemoryAccessError(f"{allocation.name} is read-only", address, size, index)
            offsets = (flat if positions is None else flat[positions]) - allocation.address
            if write and self.journal is not None:
                self.journal.keep(allocation, offsets, size)
            if positions is None:
                where = slice(None) if positions_of_mask is None else positions_of_mask
            else:
                where = positions if positions_of_mask is None else positions_of_mask[positions]
            # Elements need not start at a multiple of their size from the allocation's first byte (a packed field,
            # an 8-byte value at 4-byte alignment): shift the typed view by the common remainder when there is one.
            shift = int(offsets[0]) % size
            if shift and not (offsets % size == shift).all() or not shift and (offsets % size).any():
                yield from self._unaligned(allocation, dtype, offsets, where, flat.size, positions_of_mask)
                continue
            count = (allocation.size - shift) // size
            yield allocation.data[shift : shift + count * size].view(dtype), (offsets - shift) // size, where

    @staticmethod
    def _unaligned(allocation: Allocation, dtype: np.dtype, offsets: np.ndarray, where: slice, total: int, positions):
        size = dtype.itemsize
        if isinstance(where, slice):
            where = np.arange(total)
        for shift in range(size):
            picked = np.flatnonzero(offsets % size == shift)
            if picked.size:
                count = (allocation.size - shift) // size
                view = allocation.data[shift : shift + count * size].view(dtype)
                yield view, (offsets[picked] - shift) // size, where[picked]
