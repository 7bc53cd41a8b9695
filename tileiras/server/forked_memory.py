"""The memory that a child of the service shares with it, and the pages of it that requests meet.

A forked child has its parent's pages until it writes to them, and Python writes to every object that it looks at: each
first write makes the system copy 4 KB, 1,500 times for a hit of the store and 3,500 times for a small kernel, which is
a third of what they take.  Of files, the code of libraries above all, a child has no pages at first: the system gives
them to it when it reads there, 500 times for LLVM.  Which pages that are is nearly the same every time.  So children
that have answered tell the zygote which they have met, and those that wait for the next request meet what nearly all
have while nobody else waits for anything.  Pages that few requests need would take more processor time than the others
save.

All of this only takes time away: on a system that does not tell, or does not copy, nothing is different.
"""

from __future__ import annotations

import array
import collections
import contextlib
import ctypes
import io
import mmap
import resource
from collections.abc import Callable, Iterable, Iterator

Range = tuple[int, int]
"""The first address, and the one behind the last; both with `_READ` where they are of pages that are read."""

MOST_PAGES = 8_192
"""Of a request, that children copy ahead of it: 32 MB for each that waits."""

REPORTS = 6
"""The last children that have told what they met: what counts is what two thirds of them have.  A page that is met
ahead takes two thirds of the processor time of one that is not."""

_COLLAPSE, _POPULATE_READ, _POPULATE_WRITE = 25, 22, 23
"""MADV_COLLAPSE, since Linux 6.1, MADV_POPULATE_READ and MADV_POPULATE_WRITE, since 5.14, of linux/mman.h."""

_READ = 1
"""Added to the address of a page that is read."""

_AROUND = 64 << 10
"""Bytes that a process is given at once when it reads from a file that is in memory (`fault_around_bytes`)."""

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
    for start, end, permissions, name in _mapped():
        if permissions == "rw-p" and (not name or name == "[heap]") and end - start >= _HUGE:
            advise(start, end - start, _COLLAPSE)  # refused by older systems: nothing is different then


def _madvise() -> Callable[[int, int, int], int]:
    # Of this object alone the function has these types.
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _mapped() -> Iterator[tuple[int, int, str, str]]:
    """Start, end, permissions and name of the parts of this process's memory (proc(5))."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        lines = file.read().splitlines()
    for line in lines:
        # Addresses, permissions, offset, device, inode, and what it is of: nothing, the heap, a file.
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in addresses.split("-"))
        yield start, end, permissions, name[0] if name else ""


class SharedPages:
    """The pages that the zygote shares with its children, and those of them that processes of one kind meet: write to,
    or read from a file.

    The zygote learns of them.  A child has the object as it was at the fork: it meets what is known, and says what it
    has met after all.
    """

    def __init__(self) -> None:
        self._private: list[Range] = []
        """What this process alone writes to: its own memory, and the variables of its libraries."""
        self._files: list[Range] = []
        """Code and data of files."""
        with contextlib.suppress(OSError, ValueError):
            for start, end, permissions, name in _mapped():
                if permissions == "rw-p":
                    self._private.append((start, end))
                elif permissions[:2] == "r-" and name.startswith("/"):
                    self._files.append((start, end))
        self._reports: collections.deque[list[int]] = collections.deque(maxlen=REPORTS)
        self._count = 0
        self.ranges = b""
        """What is known, for a child that was forked before it was; empty where nothing is."""

    def __len__(self) -> int:
        """How many pages are known."""
        return self._count

    def learn(self, ranges: bytes) -> None:
        """Takes what `met` has found in a child; raises ValueError for what is nothing of that."""
        report = list(_pages(ranges))
        if sum(not page & _READ for page in report) > MOST_PAGES:
            return  # a request like few others
        self._reports.append(report)
        met = collections.Counter(page for pages in self._reports for page in pages)
        known = sorted(page for page, count in met.items() if 3 * count >= 2 * len(self._reports))
        self._count = len(known)
        self.ranges = _packed(known)

    def meet(self) -> None:
        """Makes the pages that are known this process's own, as writing to them or reading them would."""
        advise = _madvise()
        for start, end in _unpacked(self.ranges):
            address = start & ~_READ
            if advise(address, end - start, _POPULATE_READ if start & _READ else _POPULATE_WRITE):
                break  # an older system, or one that is short of memory

    def met(self) -> bytes:
        """Where this process has written to what it shared with its parent, and read from files; raises OSError."""
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            pages = [page for start, end in self._private for page in _with(file, start, end, _PRESENT | _EXCLUSIVE)]
            # One of those that have come at once.
            read = {
                page // _AROUND: page | _READ
                for start, end in self._files for page in _with(file, start, end, _PRESENT)
            }  # fmt: skip
        return _packed(sorted([*pages, *read.values()]))


def _with(file: io.FileIO, start: int, end: int, bits: int) -> list[int]:
    """The pages between two addresses whose entries in a pagemap have all of these bits."""
    file.seek(start // mmap.PAGESIZE * 8)
    entries = array.array("Q")
    data = file.read((end - start) // mmap.PAGESIZE * 8)
    entries.frombytes(data[: len(data) // 8 * 8])
    return [start + number * mmap.PAGESIZE for number, entry in enumerate(entries) if entry & bits == bits]


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


def _pages(ranges: bytes) -> Iterator[int]:
    for start, end in _unpacked(ranges):
        yield from range(start, end, mmap.PAGESIZE)


def _unpacked(ranges: bytes) -> Iterator[Range]:
    numbers = array.array("Q")
    numbers.frombytes(ranges)
    if len(numbers) % 2:
        raise ValueError("a range has no end")
    return zip(numbers[::2], numbers[1::2])
