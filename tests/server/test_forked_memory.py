"""Waiting children of the service populate the pages that requests touch; their contents do not change."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import Service

from tests.processes import children, until

CHILD = """\
import array, mmap, os, sys
from tileiras.server import forked_memory

PAGE = mmap.PAGESIZE
data = mmap.mmap(-1, 2048 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(2048):
    data[page * PAGE : (page + 1) * PAGE] = bytes([page % 251]) * PAGE
import ctypes
start = ctypes.addressof(ctypes.c_char.from_buffer(data))
known = forked_memory.SharedPages()

def child(work):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, work())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        found = file.read()
    os.wait()
    return found

def write():
    known.meet()
    for page in range(0, 2048, 2):
        data[page * PAGE] = 255
    return known.met()

def pages(ranges):
    numbers = array.array("Q", ranges)
    return {n for a, b in zip(numbers[::2], numbers[1::2]) for n in range(a, b, PAGE)}

def copied():
    known.meet()
    same = all(data[page * PAGE] == page % 251 for page in range(2048))
    before = forked_memory.faults()
    for page in range(0, 2048, 2):
        data[page * PAGE] = 255
    return f"{same} {forked_memory.faults() - before}".encode()

written = pages(child(write))
print(len(written & {start + page * PAGE for page in range(0, 2048, 2)}),
      len(written & {start + page * PAGE for page in range(1, 2048, 2)}))
print(child(copied).decode())
known.learn(child(write))
print(child(copied).decode())
print(all(data[page * PAGE] == page % 251 for page in range(2048)))

with open(sys.argv[1], "wb") as file:
    file.write(b"1" * PAGE * 64 * 128)
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
known = forked_memory.SharedPages()

def read():
    before = forked_memory.faults()
    assert sum(mapped[place] for place in range(0, len(mapped), 64 * PAGE)) == 128 * ord("1")
    return forked_memory.faults() - before

def first():
    return str(read()).encode()

def again():
    known.meet()
    return str(read()).encode()

print(child(first).decode())
known.learn(child(lambda: (read(), write())[1]))
print(child(again).decode())
"""

RELEASE = tuple(map(int, os.uname().release.split(".")[:2]))


@pytest.mark.skipif(RELEASE < (5, 14), reason="the system has no MADV_POPULATE_WRITE")
def test_pages_that_a_child_has_met_are_met_by_the_next_one(tmp_path):
    words = [sys.executable, "-c", CHILD, str(tmp_path / "file")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found, unknown, known, mine, read_first, read_again = done.stdout.splitlines()
    assert found == "1024 0"
    same, faults = unknown.split()
    assert same == "True" and int(faults) >= 1024, "they would be copied without anybody's doing"
    same, faults = known.split()
    assert same == "True" and int(faults) < 32
    assert mine == "True"
    assert int(read_first) >= 8, "a child has pages of files without anybody's doing"
    assert int(read_again) <= int(read_first) // 4


REPORTS = """\
import array, mmap
from tileiras.server import forked_memory

def ranges(*numbers):
    return array.array("Q", [place * mmap.PAGESIZE for n in numbers for place in (n, n + 1)]).tobytes()

known = forked_memory.SharedPages()
for report in ((1, 3, 5), (1, 3, 8), (1, 10)):
    known.learn(ranges(*report))
print(len(known), known.ranges == ranges(1, 3))
for _ in range(forked_memory.REPORTS):
    known.learn(ranges(7))
print(len(known), known.ranges == ranges(7))
known.learn(ranges(*range(0, 4 * forked_memory.MOST_PAGES, 2)))
print(len(known), known.ranges == ranges(7))
"""


def test_pages_that_few_requests_meet_are_left_to_those():
    done = subprocess.run([sys.executable, "-c", REPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "True", "1", "True", "1", "True"]


FEWEST = 4 << 20
"""Minimum number of bytes that a compilation writes."""


def own_memory(number: int) -> int:
    """The bytes of a process that are not shared with another one."""
    lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))


@pytest.mark.skipif(RELEASE < (5, 14), reason="the system has no MADV_POPULATE_WRITE")
def test_spare_processes_are_ready_at_start_and_afterwards(own_service: Service, folder: Path):
    own_service.start()
    facts = own_service.facts()
    assert facts["pages"] > 1000, "the service does not know which pages requests meet"

    def ready() -> list[int]:
        """The waiting children with pages of their own; empty until all have some, except perhaps the guard."""
        try:
            found = [number for number in children(facts["pid"]) if own_memory(number) > FEWEST]
            return found if len(found) >= len(children(facts["pid"])) - 1 else []
        except OSError:  # one has ended meanwhile
            return []

    def ready_after_a_request() -> set[int]:
        answer = own_service.run(("k.mlir", "--gpu-name=sm_90", "--emit=ptx", "-o", "k.ptx"), folder)
        assert answer.code == 0
        time.sleep(0.5)
        return set(ready()).difference(spares)

    spares = until(ready, "no spare is ready")
    # The first children report the pages that they have touched and populate none; some spares wait for these reports.
    until(ready_after_a_request, "the spares that have answered go on, or none is ready any more")
