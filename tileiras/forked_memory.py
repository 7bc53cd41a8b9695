"""The memory that a child of the service shares with it, and the pages of it that requests write to.

A forked child has its parent's pages until it writes to them, and Python writes to every object that it looks at: each
first write makes the system copy 4 KB, 1,500 times for a hit of the store and 4,000 times for a small kernel, which is
a third of what they take.  Which pages that are is nearly the same every time.  So a child that has answered a request
tells the zygote which pages it has written to, and children that wait for the next one copy those while nobody else
waits for anything.

All of this only takes time away: on a system that does not tell, or does not copy, nothing is different.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import mmap
import resource
from collections.abc import Callable, Iterable, Iterator

Range = tuple[int, int]
"""The first address, and the one behind the last."""

MOST_PAGES = 8_192
"""Of a request, that children copy ahead of it: 32 MB for each that waits."""

FEW_FAULTS = 400
"""Pages that a request may write to first without being asked which: looking for them takes as long as 1,000 do."""

_COLLAPSE, _POPULATE_WRITE = 25, 23
"""MADV_COLLAPSE and MADV_POPULATE_WRITE of linux/mman.h, since Linux 6.1 and 5.14."""

_HUGE = 2 << 20
"""Bytes of a huge page on x86-64, and on AArch64 with pages of 4 KB."""

_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56
"""Bits of /proc/PID/pagemap: in memory, and in that of no other process (Documentation/admin-guide/mm/pagemap.rst)."""


def collapse() -> None:
    """Has the system keep this process's own memory in huge pages, as far as it can.

    A fork copies an entry for each page, of which 80 MB have 20,000: with huge pages it takes 0.1 ms instead of 2, and
    the child's end 2 ms less.  What a child writes to is copied in small pages as before.
    """
    advise = _madvise()
    for start, end, name in _private():
        if (not name or name == "[heap]") and end - start >= _HUGE:
            advise(start, end - start, _COLLAPSE)  # refused by older systems: nothing is different then


def _madvise() -> Callable[[int, int, int], int]:
    # Of this object alone the function has these types.
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _private() -> Iterator[tuple[int, int, str]]:
    """Start, end and name of what this process can write to and shares with nobody: its own memory, and the variables
    of its libraries."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        lines = file.read().splitlines()
    for line in lines:
        # Addresses, permissions, offset, device, inode, and what it is of, which is nothing or the heap (proc(5)).
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        if permissions == "rw-p":
            start, end = (int(address, 16) for address in addresses.split("-"))
            yield start, end, name[0] if name else ""


class SharedPages:
    """The pages that the zygote shares with its children, and those of them that processes of one kind write to.

    The zygote learns of them.  A child has the object as it was at the fork: it copies what is known, and says what it
    has written to after all.
    """

    def __init__(self) -> None:
        self._regions: list[Range] = []
        with contextlib.suppress(OSError, ValueError):
            self._regions = [(start, end) for start, end, _ in _private()]
        self._known: set[int] = set()
        self._faults: int | None = None
        """Pages that this process had met when it had copied those that are known."""
        self.ranges = b""
        """What is known, for a child that was forked before it was; empty where nothing is."""

    def __len__(self) -> int:
        """How many pages are known to be written to."""
        return len(self._known)

    def learn(self, ranges: bytes) -> None:
        """Takes what `written` has found in a child; raises ValueError for what is nothing of that."""
        pages = {page for start, end in _unpacked(ranges) for page in range(start, end, mmap.PAGESIZE)}
        if pages <= self._known or len(pages | self._known) > MOST_PAGES:
            return
        self._known |= pages
        self.ranges = _packed(sorted(self._known))

    def copy(self) -> None:
        """Makes the pages that are known this process's own, as writing to them would."""
        advise = _madvise()
        for start, end in _unpacked(self.ranges):
            if advise(start, end - start, _POPULATE_WRITE):
                break  # an older system, or one that is short of memory
        self._faults = faults()

    def written(self) -> bytes:
        """Where this process has written to what it shared with its parent; empty where it has met few pages since it
        copied those that are known, or had no time for that.  Raises OSError."""
        if self.ranges and self._faults is None or faults() - (self._faults or 0) <= FEW_FAULTS:
            return b""
        pages: list[int] = []
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            for start, end in self._regions:
                file.seek(start // mmap.PAGESIZE * 8)
                entries = array.array("Q")
                data = file.read((end - start) // mmap.PAGESIZE * 8)
                entries.frombytes(data[: len(data) // 8 * 8])
                pages += [
                    start + number * mmap.PAGESIZE for number, entry in enumerate(entries)
                    if entry & _EXCLUSIVE and entry & _PRESENT
                ]  # fmt: skip
        return _packed(pages)


def faults() -> int:
    """Pages that this process has met for the first time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _packed(pages: Iterable[int]) -> bytes:
    """Pages in order as ranges, as bytes."""
    found = array.array("Q")
    for page in pages:
        if found and found[-1] == page:
            found[-1] = page + mmap.PAGESIZE
        else:
            found.extend((page, page + mmap.PAGESIZE))
    return found.tobytes()


def _unpacked(ranges: bytes) -> Iterator[Range]:
    numbers = array.array("Q")
    numbers.frombytes(ranges)
    if len(numbers) % 2:
        raise ValueError("a range has no end")
    return zip(numbers[::2], numbers[1::2])
