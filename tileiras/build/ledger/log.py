"""The file format of the ledger: records that replace rows by key, appended to one file.

A record is a line with the version, the record's digest and its head, and two lines for each row: its key with a word,
and its value.  It may carry a note, which holds until the next record.  A record of another version, or one that is
torn or damaged, counts as absent.
A chained record counts only after the record that its writer had read last: rows and notes that describe the file as a
whole are lost if another process has written in between, so that their files are examined again.

The file is compacted, that is, written as one record, when the others would exceed SPARE and 1/SHARE of the first.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tileiras.support.files import read_if_there, write_atomically
from tileiras.support.named_tuple import NamedTuple

VERSION = 2

SHARE = 8

SPARE = 16 << 10
"""Bytes that may be appended to any file."""


class Line(NamedTuple):
    """A row in its written form."""

    text: bytes
    """A value as JSON; null: the row is deleted."""
    word: str = ""
    """A word without white space that is read without the text."""
    time: int = 0
    """The time of its record, in ns."""


DELETED = Line(b"null")


class Log:
    """The rows of one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: dict[str, Line] = {}
        """By key, in the order of the file."""
        self.note: dict[str, Any] | None = None
        """The note of the last record."""
        self.state = ""
        """Mark of the last record; empty without a record."""
        self._first = self._further = 0
        """Bytes of the first record, and of the others."""
        # Split once: each copy of a large file takes as long as its digest.
        data = read_if_there(path) or b""
        lines = data.split(b"\n")
        sizes = list(itertools.accumulate(map(len, lines), initial=0))
        starts = [number for number, line in enumerate(lines) if line[:1] == b"#"]
        for start, end in itertools.pairwise([*starts, len(lines)]):
            while not lines[end - 1]:  # between two records, and at the end of the file
                end -= 1
            self._apply(memoryview(data)[sizes[start] + start : sizes[end] + end - 1], lines[start:end])

    def _apply(self, record: memoryview, lines: list[bytes]) -> None:
        """Apply a record if it is intact, of this version, and free or chained to the last one."""
        mark, _, head = lines[0][1:].partition(b" ")
        if self._first:
            self._further += len(record)
        else:
            self._first = len(record)
        if mark != _mark(record[len(lines[0]) - len(head) :]):
            return
        facts = json.loads(head)
        if facts["after"] in (None, self.state):
            # All at once: a manifest has a row for each kernel.
            words = b"\t".join(lines[1::2]).decode().split("\t")
            keys = json.loads(f"[{','.join(words[::2])}]")
            rows = zip(lines[2::2], words[1::2], itertools.repeat(facts["time"]))
            self._take(dict(zip(keys, map(functools.partial(tuple.__new__, Line), rows))))
            self.state, self.note = mark.decode(), facts["note"]

    def _take(self, lines: Mapping[str, Line]) -> None:
        self.lines.update(lines)
        for key, line in lines.items():
            if line.text == DELETED.text:
                del self.lines[key]

    def value(self, key: str) -> Any:
        """Parse the value of a row; None without the row."""
        line = self.lines.get(key)
        return json.loads(line.text) if line is not None else None

    def naming(self, text: str) -> Iterator[str]:
        """Yield the keys of the rows whose text has a string."""
        quoted = json.dumps(text)[1:-1].encode()
        return (key for key, line in self.lines.items() if quoted in line.text)

    def append(self, lines: Mapping[str, Line], note: Any = None, chained: bool = False) -> None:
        """Replace, add or delete rows.  Raises OSError.

        There is no fsync: digests detect records that did not reach the disk.
        """
        now = time.time_ns()
        mark, record = _record(lines.items(), note, self.state if chained else None, now)
        size = self._further + len(record)
        if not self.state or size > max(SPARE, self._first // SHARE):
            self._take(lines)
            self.write(self.lines, note)
            return
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            # The leading line break ends an earlier record that is torn.
            whole = os.write(descriptor, b"\n" + record) == len(record) + 1
        finally:
            os.close(descriptor)
        self._further = size
        if whole:
            self._take({key: line._replace(time=now) for key, line in lines.items()})
            self.state, self.note = mark, note

    def write(self, lines: Mapping[str, Line], note: Any = None) -> None:
        """Write the file with exactly these rows, in this order.  Raises OSError."""
        now = time.time_ns()
        mark, record = _record(lines.items(), note, None, now)
        write_atomically(self.path, record, checked=True)
        self.lines = {key: line._replace(time=now) for key, line in lines.items()}
        self.state, self.note, self._first, self._further = mark, note, len(record), 0


def put(path: str, key: str, value: Any) -> None:
    """Set one row of a file, or delete it with None; a failure to write is ignored: the row counts as absent."""
    try:
        Log(path).append({key: Line(dump(value))})
    except OSError:
        pass


def dump(value: Any) -> bytes:
    """A value as the text of a row."""
    return json.dumps(value, separators=(",", ":")).encode()


def _record(lines: Iterable[tuple[str, Line]], note: Any, after: str | None, now: int) -> tuple[str, bytes]:
    """The mark of a record, and its bytes."""
    rows = [dump({"after": after, "time": now, "note": note})]
    rows += [b"%s\t%s\n%s" % (json.dumps(key).encode(), line.word.encode(), line.text) for key, line in lines]
    content = b"\n".join(rows)
    mark = _mark(content)
    return mark.decode(), b"#%s %s\n" % (mark, content)


def _mark(content: bytes | memoryview) -> bytes:
    import xxhash

    return b"%d:%s" % (VERSION, xxhash.xxh3_128_hexdigest(content).encode())
