"""The file format of the ledger: records that replace rows by key, appended to one file.

A record has five lines: the version, the record's digest and its head; the keys of its rows; a word for each; the sizes
of their values, with a separator; the values.  All but the words are JSON.  A reader thus copies and parses no value
that it does not need.  The head may carry a note, which holds until the next record.  A record of another version, or
one that is torn or damaged, counts as absent.
A chained record counts only after the record that its writer had read last: rows and notes that describe the file as a
whole are lost if another process has written in between, so that their files are examined again.

The file is compacted, that is, written as one record, when the others would exceed SPARE and 1/SHARE of the first.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tileiras.support.files import read_if_there, write_atomically
from tileiras.support.named_tuple import NamedTuple

VERSION = 2
"""Version of the records, and of the rows of every file of the ledger."""

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
        self._reset()
        data = read_if_there(path) or b""
        starts, at = [], 0
        while at < len(data):
            if data[at] == ord("#"):
                starts.append(at)
            at = data.find(b"\n", at) + 1 or len(data)
        for start, end in itertools.pairwise([*starts, len(data)]):
            while data[end - 1] == ord("\n"):  # between two records, and at the end of the file
                end -= 1
            self._apply(data, start, end)

    def _reset(self) -> None:
        self._places: dict[str, tuple[bytes, int, int, str, int]] = {}
        """By key, in the order of the file: the bytes with a value, its place and size with a separator, its word, and
        the time of its record."""
        self._records: list[tuple[list[str], memoryview]] = []
        """The keys and values of each record."""
        self.note: dict[str, Any] | None = None
        """The note of the last record."""
        self.state = ""
        """Mark of the last record; empty without a record."""
        self._first = self._further = 0
        """Bytes of the first record, and of the others."""

    def _apply(self, data: bytes, start: int, end: int) -> None:
        """Apply a record if it is intact, of this version, and free or chained to the last one."""
        record = memoryview(data)[start:end]
        if self._first:
            self._further += len(record)
        else:
            self._first = len(record)
        at = data.find(b" ", start, end) + 1
        mark = data[start + 1 : at - 1]
        if not at or mark != _mark(record[at - start :]):
            return
        lines = []
        for _ in range(4):
            line_end = data.index(b"\n", at)
            lines.append(data[at:line_end])
            at = line_end + 1
        facts, keys, sizes = json.loads(lines[0]), json.loads(lines[1]), json.loads(lines[3])
        if facts["after"] in (None, self.state):
            starts = itertools.accumulate(sizes, initial=at + len(b"["))
            words = lines[2].decode().split("\t")
            rows = zip(itertools.repeat(data), starts, sizes, words, itertools.repeat(facts["time"]))
            self._places.update(zip(keys, rows))
            if len(DELETED.text) + 1 in sizes:
                for key in keys:
                    if self._text(key) == DELETED.text:
                        del self._places[key]
            self._records.append((keys, record[at - start :]))
            self.state, self.note = mark.decode(), facts["note"]

    def keys(self) -> list[str]:
        return list(self._places)

    def words(self) -> list[str]:
        return [word for _, _, _, word, _ in self._places.values()]

    def time(self, key: str) -> int:
        """The time of a row's record, in ns; 0 without the row."""
        place = self._places.get(key)
        return place[4] if place is not None else 0

    def _text(self, key: str) -> bytes:
        data, start, size, _, _ = self._places[key]
        return data[start : start + size - 1]

    @property
    def lines(self) -> dict[str, Line]:
        """All rows by key, in the order of the file."""
        return {key: Line(self._text(key), place[3], place[4]) for key, place in self._places.items()}

    def value(self, key: str) -> Any:
        """Parse the value of a row; None without the row."""
        return json.loads(self._text(key)) if key in self._places else None

    def values(self) -> dict[str, Any]:
        """Parse all values at once, which takes a third of the time of one after the other."""
        result: dict[str, Any] = {}
        for keys, values in self._records:
            result.update(zip(keys, json.loads(str(values, "ascii"))))
        return {key: result[key] for key in self._places}

    def naming(self, text: str) -> Iterator[str]:
        """Yield the keys of the rows whose values have a string."""
        needle = json.dumps(text)[1:-1].encode()
        for key, (data, start, size, _, _) in self._places.items():
            if data.find(needle, start, start + size) >= 0:
                yield key

    def append(self, lines: Mapping[str, Line], note: Any = None, chained: bool = False) -> None:
        """Replace, add or delete rows.  Raises OSError.

        There is no fsync: digests detect records that did not reach the disk.
        """
        record = _record(lines, note, self.state if chained else None)
        if not self.state or self._further + len(record) > max(SPARE, self._first // SHARE):
            rows = {**self.lines, **lines}
            self.write({key: line for key, line in rows.items() if line.text != DELETED.text}, note)
            return
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            # The leading line break ends an earlier record that is torn.
            whole = os.write(descriptor, b"\n" + record) == len(record) + 1
        finally:
            os.close(descriptor)
        if whole:
            self._apply(record, 0, len(record) - 1)

    def write(self, lines: Mapping[str, Line], note: Any = None) -> None:
        """Write the file with exactly these rows, in this order.  Raises OSError."""
        record = _record(lines, note, None)
        write_atomically(self.path, record, checked=True)
        self._reset()
        self._apply(record, 0, len(record) - 1)


def put(path: str, key: str, value: Any) -> None:
    """Set one row of a file, or delete it with None; a failure to write is ignored: the row counts as absent."""
    try:
        Log(path).append({key: Line(dump(value))})
    except OSError:
        pass


def dump(value: Any) -> bytes:
    """A value as the text of a row."""
    return json.dumps(value, separators=(",", ":")).encode()


def _record(lines: Mapping[str, Line], note: Any, after: str | None) -> bytes:
    texts = [line.text for line in lines.values()]
    content = b"\n".join((
        dump({"after": after, "time": time.time_ns(), "note": note}),
        dump(list(lines)),
        "\t".join(line.word for line in lines.values()).encode(),
        dump([len(text) + 1 for text in texts]),
        b"[%s]" % b",".join(texts),
    ))  # fmt: skip
    return b"#%s %s\n" % (_mark(content), content)


def _mark(content: bytes | memoryview) -> bytes:
    import xxhash

    return b"%d:%s" % (VERSION, xxhash.xxh3_128_hexdigest(content).encode())
