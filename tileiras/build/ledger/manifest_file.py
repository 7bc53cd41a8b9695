"""The file of a manifest and its journal: rows as lines of JSON, parsed on demand.

The file begins with a header line, which contains a digest of each of the two parts after it: a line with the
signatures of each row's products, and one line for each row.

Writing the file costs time in proportion to all rows.  If few rows change, the new rows are therefore appended to a
journal, in one record for each build with changes: a line with its digest, the digest of the state that it changes (the
file's, or that of the previous record), its time, and rows with their places.  A record that is torn, damaged or of
another state than that read so far is ignored: the next build then finds that files differ from the earlier rows, and
records them anew.  The journal is deleted when the file is written, at the latest when it has an eighth of its size.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping

from tileiras.support.files import read_if_there, write_atomically
from tileiras.support.named_tuple import NamedTuple

FORMAT = 5

JOURNAL = ".journal"
"""Suffix to the name of the file."""

SHARE = 8
"""The file is written when the journal would exceed 1/SHARE of the size of its rows."""


class Line(NamedTuple):
    """A row in its written form."""

    text: bytes
    signature: str
    """The concatenated signatures of its products, without white space."""


class Stored(NamedTuple):
    """A row that was found without parsing the others."""

    place: int
    """Its index among all rows."""
    text: bytes
    time: int
    """The time at which it was written, in ns."""


class ManifestFile:
    """The contents of a manifest's file and its journal."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._first, self._signatures, self._body = b"", b"", b""
        """The file's first line, its second, and the lines of all rows if already read."""
        self._time, self.count, self._body_digest = 0, 0, ""
        self.digest = ""
        """Digest of the state read or written last; empty if there is no manifest."""
        self._newer: dict[int, tuple[Line, int]] = {}
        """Rows of the journal with their times, by place."""
        self._journal_size = 0
        self._read()

    def _read(self) -> None:
        try:
            with open(self.path, "rb") as file:
                first, signatures = file.readline(), file.readline()
            head = json.loads(first)
            if head["format"] != FORMAT or head["signatures"] != _digest(signatures):
                return
            self._time, self.count, self._body_digest = int(head["time"]), int(head["rows"]), str(head["digest"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # no manifest: no kernel is known to be clean
        self._first, self._signatures = first, signatures
        self.digest = _digest(first)
        journal = read_if_there(self.path + JOURNAL) or b""
        self._journal_size = len(journal)
        for line in journal.splitlines():
            self._apply(line)

    def _apply(self, line: bytes) -> None:
        """Apply a record of the journal if it is intact and refers to the state read so far."""
        digest, _, said = line.partition(b" ")
        if digest.decode("ascii", "replace") != _digest(said):
            return
        record = json.loads(said)
        if record["after"] == self.digest:
            for place, signature, row in record["rows"]:
                self._newer[place] = Line(_text(row), signature), record["time"]
            self.digest = _digest(said)

    def signatures(self) -> list[str]:
        """The signature of each row's products, in the order of the rows."""
        found = self._signatures.decode().split()
        for place, (line, _) in self._newer.items():
            found[place] = line.signature
        return found

    # ---- rows --------------------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether there is a manifest and its rows are intact."""
        return self.digest != "" and (self._rows() != b"" or self.count == 0)

    def _rows(self) -> bytes:
        """The lines of all rows in the file; empty if they are damaged."""
        if not self._body and self.digest:
            try:
                with open(self.path, "rb") as file:
                    file.seek(len(self._first) + len(self._signatures))
                    body = file.read()
            except OSError:
                return b""
            self._body = body if _digest(body) == self._body_digest else b""
        return self._body

    def lines(self) -> list[bytes]:
        """All rows; empty if they are damaged."""
        lines = self._rows().splitlines()
        if lines:
            for place, (line, _) in self._newer.items():
                lines[place] = line.text
        return lines

    def time(self, place: int) -> int:
        """When the row at a place was written, in ns."""
        return self._newer[place][1] if place in self._newer else self._time

    def naming(self, word: str) -> Iterator[Stored]:
        """The rows that contain a string in any field; empty for a damaged manifest."""
        body, quoted = self._rows(), json.dumps(word).encode()
        at = body.find(quoted)
        while at >= 0:
            start = body.rfind(b"\n", 0, at) + 1
            end = body.find(b"\n", at)
            end = len(body) if end < 0 else end
            place = body.count(b"\n", 0, start)
            if place not in self._newer:
                yield Stored(place, body[start:end], self._time)
            at = body.find(quoted, end)
        if body:
            for place, (line, written) in self._newer.items():
                if quoted in line.text:
                    yield Stored(place, line.text, written)

    def beginning(self, key: str) -> Stored | None:
        """The row whose first field is `key`."""
        start = b"[" + json.dumps(key).encode() + b","
        return next((row for row in self.naming(key) if row.text.startswith(start)), None)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def replace(self, rows: Mapping[int, Line]) -> bool:
        """Replace rows by appending to the journal; returns False if the file has to be written instead.

        There is no fsync: the journal's digests detect records that did not reach the disk.
        """
        if not self.is_whole():
            return False
        now = time.time_ns()
        said = b'{"after":%s,"time":%d,"rows":[%s]}' % (
            json.dumps(self.digest).encode(), now,
            b",".join(
                b"[%d,%s,%s]" % (place, json.dumps(line.signature).encode(), line.text)
                for place, line in sorted(rows.items())
            ),
        )  # fmt: skip
        digest = _digest(said)
        # The leading newline terminates an earlier torn record.
        record = b"\n" + digest.encode() + b" " + said + b"\n"
        if (self._journal_size + len(record)) * SHARE > len(self._body):
            return False
        try:
            descriptor = os.open(self.path + JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                written = os.write(descriptor, record)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        self._journal_size += written
        if written < len(record):
            return False
        self._newer.update((place, (line, now)) for place, line in rows.items())
        self.digest = digest
        return True

    def write(self, rows: Iterable[Line]) -> None:
        """Write the file with exactly these rows and delete the journal.  Raises OSError."""
        given = list(rows)
        signatures = " ".join(line.signature for line in given).encode() + b"\n"
        body = b"\n".join(line.text for line in given)
        now = time.time_ns()
        head = {
            "format": FORMAT, "time": now, "rows": len(given), "signatures": _digest(signatures),
            "digest": _digest(body),
        }  # fmt: skip
        first = json.dumps(head).encode() + b"\n"
        write_atomically(self.path, first + signatures + body, checked=True)
        self._first, self._signatures, self._body = first, signatures, body
        self._time, self.count, self._body_digest = now, len(given), head["digest"]
        self._newer = {}
        self._journal_size = 0
        self.digest = _digest(first)
        # A journal that stays is ignored: its records refer to another state.
        try:
            os.unlink(self.path + JOURNAL)
        except OSError:
            pass


def _text(row: object) -> bytes:
    """A row as the text of its line."""
    return json.dumps(row, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    import xxhash

    return xxhash.xxh3_128_hexdigest(data)
