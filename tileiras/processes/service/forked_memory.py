"""Memory that a child of the service shares with it, and the pages of it that requests touch (page faults).

A forked child shares its parent's pages copy-on-write, and Python writes to every object that it accesses (reference
counts).  The first write to a page copies 4 KB: 1,500 times for a hit of the store and 3,500 times for a small kernel,
a third of their time.  Pages of files, mostly code of libraries, are not mapped in the child at first: the first read
of a page faults, 500 times for LLVM.  The set of pages is nearly the same for every request.  Children that have
answered therefore report the touched pages to the zygote, and waiting children populate the pages common to nearly all
requests while the service is idle.  Populating pages that few requests need would cost more than it saves.

This is an optimization only: on a system without the needed interfaces, behavior is the same.
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
"""The first address, and the address behind the last; both with `_READ` set for pages that are read."""

MOST_PAGES = 8_192
"""Maximum number of pages that a waiting child copies ahead of a request: 32 MB."""

REPORTS = 6
"""Number of last reports that are kept; pages in two thirds of them are populated ahead.  Populating a page takes two
thirds of the processor time of a fault."""

_COLLAPSE, _POPULATE_READ, _POPULATE_WRITE = 25, 22, 23
"""MADV_COLLAPSE, since Linux 6.1, MADV_POPULATE_READ and MADV_POPULATE_WRITE, since 5.14, of linux/mman.h."""

_READ = 1
"""Bit set in the address of a page that is read."""

_AROUND = 64 << 10
"""Bytes that the kernel maps at a read fault on a cached file (`fault_around_bytes`)."""

_HUGE = 2 << 20
"""Bytes of a huge page on x86-64, and on AArch64 with pages of 4 KB."""

_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56
"""Bits of /proc/PID/pagemap: present, and mapped exclusively (Documentation/admin-guide/mm/pagemap.rst)."""


def collapse() -> None:
    """Collapse this process's private memory into huge pages, as far as the system can.

    A fork copies one page table entry per page, 20,000 for 80 MB: with huge pages it takes 0.1 ms instead of 2, and the
    child's exit 2 ms less.  Writes of a child still copy small pages.
    """
    advise = _madvise()
    for start, end, permissions, name in _mapped():
        if permissions == "rw-p" and (not name or name == "[heap]") and end - start >= _HUGE:
            advise(start, end - start, _COLLAPSE)  # refused by older systems, without effect


def _madvise() -> Callable[[int, int, int], int]:
    # A separate CDLL object: the argument types apply to its function only.
    function = ctypes.CDLL(None).madvise
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _mapped() -> Iterator[tuple[int, int, str, str]]:
    """Yield start, end, permissions and name of the mappings of this process (proc(5))."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        lines = file.read().splitlines()
    for line in lines:
        # Addresses, permissions, offset, device, inode, and name: empty, the heap, or a file.
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in addresses.split("-"))
        yield start, end, permissions, name[0] if name else ""


class SharedPages:
    """The pages that the zygote shares with its children, and those that requests touch: write to, or read from a file.

    The zygote collects the reports.  A child has the object as of its fork: it populates the known pages, or reports
    the pages that its request touched.
    """

    def __init__(self) -> None:
        self._private: list[Range] = []
        """Private writable mappings: this process's memory, and the variables of its libraries."""
        self._files: list[Range] = []
        """Mappings of files: code and read-only data."""
        with contextlib.suppress(OSError, ValueError):
            for start, end, permissions, name in _mapped():
                if permissions == "rw-p":
                    self._private.append((start, end))
                elif permissions[:2] == "r-" and name.startswith("/"):
                    self._files.append((start, end))
        self._reports: collections.deque[list[int]] = collections.deque(maxlen=REPORTS)
        self._count = 0
        self.ranges = b""
        """The known pages, to be sent to children forked before they were known; empty if none are."""

    def __len__(self) -> int:
        """The number of known pages."""
        return self._count

    def learn(self, ranges: bytes) -> None:
        """Add a report, the result of `met` in a child; raises ValueError if it is malformed."""
        report = list(_pages(ranges))
        if sum(not page & _READ for page in report) > MOST_PAGES:
            return  # an untypically large request
        self._reports.append(report)
        met = collections.Counter(page for pages in self._reports for page in pages)
        known = sorted(page for page, count in met.items() if 3 * count >= 2 * len(self._reports))
        self._count = len(known)
        self.ranges = _packed(known)

    def meet(self) -> None:
        """Populate the known pages in this process, as a write or a read of each would."""
        advise = _madvise()
        for start, end in _unpacked(self.ranges):
            address = start & ~_READ
            if advise(address, end - start, _POPULATE_READ if start & _READ else _POPULATE_WRITE):
                break  # an older system, or one that is short of memory

    def met(self) -> bytes:
        """Return the pages that this process has written to, of those shared with its parent, and the pages of files
        that it has read; raises OSError."""
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            pages = [page for start, end in self._private for page in _with(file, start, end, _PRESENT | _EXCLUSIVE)]
            # One page of each block of `_AROUND` bytes: the kernel maps the others with it.
            read = {
                page // _AROUND: page | _READ
                for start, end in self._files for page in _with(file, start, end, _PRESENT)
            }  # fmt: skip
        return _packed(sorted([*pages, *read.values()]))


def _with(file: io.FileIO, start: int, end: int, bits: int) -> list[int]:
    """List the pages between two addresses whose pagemap entries have all of these bits."""
    file.seek(start // mmap.PAGESIZE * 8)
    entries = array.array("Q")
    data = file.read((end - start) // mmap.PAGESIZE * 8)
    entries.frombytes(data[: len(data) // 8 * 8])
    return [start + number * mmap.PAGESIZE for number, entry in enumerate(entries) if entry & bits == bits]


def faults() -> int:
    """Return the number of minor page faults of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _packed(pages: Iterable[int]) -> bytes:
    """Encode sorted pages as ranges, in bytes."""
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
