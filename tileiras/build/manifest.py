"""What a whole, failure-free build left behind, so that the next one need not declare what nobody touched.

A manifest is of one folder of kernels for one variant.  A row is one source: a signature over everything its stages
depend on besides files, its products, and every file that it reads or makes with size, time of change, inode and
digest.  A kernel whose files are all as the row says is clean.  A file whose times differ is compared by content, and
so is one that was changed so shortly before the manifest was written that a later change may have got the same time.

Digests of artifacts are those of what the build made, or found to be what the same step made before: a row is only
written when the files have them as it is written.

The file has a line that says what it is, with a digest of each of the two parts behind it: a line with the signatures
of all products, and a line for each row.  Rows are read when somebody needs them, one row without the others where a
file is known by name, and written back as they were read unless they have changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from tileiras.build import NOTES
from tileiras.files import RACY_NS, content_digest, write_atomically
from tileiras.named_tuple import NamedTuple

FORMAT = 5

FOLDER = os.path.join(NOTES, "manifests")
"""In a build directory."""


class Row(NamedTuple):
    """One source.  Paths start from the top."""

    key: str
    source: str
    signature: str
    products: list[list[str]]
    """Each as its path, and SCons' signature of its content."""
    entries: list[str]
    inputs: list[str]
    files: list[str]
    """Everything that is read or made, the inputs among them."""
    states: list[int]
    """Of each file four numbers: size, mtime in ns, ctime in ns, inode.

    The time of the inode's change is there because no program can set it back, as many do with the other (cp -p,
    rsync).
    """
    digests: list[str]
    """Of each file's content, xxh3_128."""

    def stated(self) -> Iterator[list[Any]]:
        """Products with what SCons notes of a file: path, signature, size, time in seconds."""
        for path, signature in self.products:
            at = 4 * self.files.index(path)
            yield [path, signature, self.states[at], self.states[at + 1] // 1_000_000_000]


FileState = list[Any]
"""[path from the top, size, mtime in ns, ctime in ns, inode, digest], as in a row."""


class Manifest:
    """The manifest in a file; `top` is the folder that its paths start from."""

    def __init__(self, path: str, top: str) -> None:
        self.path = path
        self._prefix = top.rstrip(os.sep) + os.sep
        self._loaded: dict[str, Row] | None = None
        self._lines: dict[str, bytes] = {}
        """Rows as they stand in the file, by key."""
        self._changed = False
        self._read = b""
        """The lines of all rows, where they were looked at before."""
        self._first, self._head = b"", {"time": 0, "rows": 0}
        self._signatures = b""
        self._read_head()

    def _read_head(self) -> None:
        try:
            with open(self.path, "rb") as file:
                first, signatures = file.readline(), file.readline()
            head = json.loads(first)
            if head["format"] == FORMAT and head["signatures"] == _digest(signatures):
                head["time"] + head["rows"] + len(head["digest"])  # TypeError where they are something else
                self._first, self._head, self._signatures = first, head, signatures
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing is known to be clean

    @property
    def digest(self) -> str:
        """Of all that the manifest says, as it was read or written last; empty where there is none."""
        return _digest(self._first) if self._first else ""

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._loaded) if self._loaded is not None else self._head["rows"]

    def signatures(self) -> list[str]:
        """The signatures of each row's products, one behind the other, in the order of the rows."""
        return self._signatures.decode().split()

    # ---- rows --------------------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether there is a manifest whose rows can be read."""
        self._read = self._body()
        return bool(self._first) and (self._read != b"" or self.count == 0)

    def _body(self) -> bytes:
        """The lines of all rows; none where they are damaged."""
        if self._read or not self._first:
            return self._read
        try:
            with open(self.path, "rb") as file:
                file.seek(len(self._first) + len(self._signatures))
                body = file.read()
        except OSError:
            return b""
        return body if _digest(body) == self._head["digest"] else b""

    @property
    def _rows(self) -> dict[str, Row]:
        if self._loaded is None:
            lines = self._body().splitlines()
            self._loaded = {}
            try:
                for line, values in zip(lines, json.loads(b"[" + b",".join(lines) + b"]"), strict=True):
                    row = Row(*values)
                    self._loaded[row.key] = row
                    self._lines[row.key] = line
            except (ValueError, TypeError):
                self._loaded, self._lines = {}, {}
        return self._loaded

    def rows(self) -> list[Row]:
        """All of them, in order."""
        return list(self._rows.values())

    def naming(self, names: Iterable[str]) -> dict[str, list[tuple[int, Row]]]:
        """The rows that have a file, with their positions, for each file; none in a manifest that is damaged.

        No other rows are taken apart.
        """
        body = self._body()
        found: dict[str, list[tuple[int, Row]]] = {name: [] for name in names}
        for name, rows in found.items():
            word = json.dumps(name).encode()
            at = body.find(word)
            while at >= 0:
                start = body.rfind(b"\n", 0, at) + 1
                end = body.find(b"\n", at)
                end = len(body) if end < 0 else end
                row = Row(*json.loads(body[start:end]))
                if name in row.files:
                    rows.append((body.count(b"\n", 0, start), row))
                at = body.find(word, end)
        return found

    def clean(
        self, key: str, signature: str, inputs: Iterable[str] | None = None, changed: Set[str] | None = None
    ) -> Row | None:
        """The row of a kernel of which nothing changed, else None.

        `inputs` are the files that the source reads, where they can be others than last time.  `changed` are the files
        that can have changed since the manifest was compared with them, where that is known: see `vouching`.
        """
        row = self._rows.get(key)
        if row is None or row.signature != signature:
            return None
        try:
            if inputs is not None and sorted(map(self.relative, inputs)) != row.inputs:
                return None
            if changed is not None and changed.isdisjoint(row.files):
                return row
            # Names that the system need not follow from the root are found in less time.
            prefix = "" if os.getcwd() + os.sep == self._prefix else self._prefix
            states: list[int] = []
            for name in row.files:
                status = os.stat(prefix + name)
                states += (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            racy = self._head["time"] - RACY_NS
            if states == row.states and max(states[1::4]) < racy and max(states[2::4]) < racy:
                return row
            return self._compared(row, states, prefix, racy)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _compared(self, row: Row, states: list[int], prefix: str, racy: int) -> Row | None:
        """A row with states of its files as they are now, if those that can have changed have the same content."""
        import time

        settled = time.time_ns() - RACY_NS
        for index, name in enumerate(row.files):
            at = 4 * index
            now, before = states[at : at + 4], row.states[at : at + 4]
            if now[0] != before[0]:
                return None
            if now != before or max(now[1:3]) >= racy:
                if content_digest(prefix + name) != row.digests[index]:
                    return None
                # Worth writing when a manifest of now would spare the next build this look.
                self._changed |= max(now[1:3]) < settled
        self._put(row._replace(states=states))
        return self._rows[row.key]

    def _put(self, row: Row) -> None:
        self._rows[row.key] = row
        self._lines.pop(row.key, None)

    def observe(self, paths: Iterable[str]) -> list[FileState] | None:
        """The state of files as it is now; None when one cannot be read."""
        states = []
        try:
            for path in paths:
                name = self.relative(path)
                status = os.stat(path)
                times = status.st_mtime_ns, status.st_ctime_ns
                states.append([name, status.st_size, *times, status.st_ino, content_digest(path)])
        except OSError:
            return None
        return states

    def set(
        self,
        key: str,
        source: str,
        signature: str,
        inputs: list[FileState],
        made: Mapping[str, str | None],
        products: Iterable[Sequence[str]],
        entries: Sequence[str] = (),
    ) -> bool:
        """Makes a row of what was built; whether it has one.

        `inputs` are as `observe` saw them before the build, `made` are the digests of what it made or verified, by
        path.  Without a row when an input has changed since, for what was made may be of either content, and when an
        artifact is another one, or None for it is known.
        """
        made_states = self.observe(made)
        if (
            made_states is None
            or any(state[5] != digest for state, digest in zip(made_states, made.values(), strict=True))
            or self.observe(self._prefix + state[0] for state in inputs) != inputs
        ):
            self._changed |= self._rows.pop(key, None) is not None
            return False
        files = [*inputs, *made_states]
        self._put(
            Row(
                key, self.relative(source), signature, [list(product) for product in products], list(entries),
                sorted(state[0] for state in inputs), [state[0] for state in files],
                [number for state in files for number in state[1:5]], [state[5] for state in files],
            )
        )  # fmt: skip
        self._changed = True
        return True

    def entries(self, key: str) -> list[str] | None:
        """The entries of a kernel as its row has them; None without one."""
        row = self._rows.get(key)
        return row.entries if row is not None else None

    # ---- files -------------------------------------------------------------------------------------------------------

    def relative(self, path: str) -> str:
        """A file's path from the top; one that is elsewhere as a path through `..`."""
        if path.startswith(self._prefix):
            return path[len(self._prefix) :]
        return os.path.relpath(path, self._prefix)

    def absolute(self, name: str) -> str:
        """The path of a file that `relative` gave the name of."""
        return os.path.normpath(self._prefix + name)

    def keep(self, keys: Iterable[str]) -> None:
        """Drops the rows of all other kernels, and has the others in this order."""
        wanted = [key for key in keys if key in self._rows]
        if wanted != list(self._rows):
            self._loaded = {key: self._rows[key] for key in wanted}
            self._changed = True

    def save(self) -> None:
        """Writes the manifest when anything in it is new."""
        import time

        if not self._changed:
            return
        rows = self._rows.values()
        lines = [self._lines.get(row.key) or json.dumps(row, separators=(",", ":")).encode() for row in rows]
        signatures = " ".join("".join(product[1] for product in row.products) for row in rows).encode() + b"\n"
        body = b"\n".join(lines)
        head = {
            "format": FORMAT, "time": time.time_ns(), "rows": len(lines), "signatures": _digest(signatures),
            "digest": _digest(body),
        }  # fmt: skip
        first = json.dumps(head).encode() + b"\n"
        try:
            write_atomically(self.path, first + signatures + body, checked=True)
        except OSError:
            return  # the next build declares everything
        self._first, self._head, self._signatures, self._read = first, head, signatures, body
        self._changed = False


def _digest(data: bytes) -> str:
    import xxhash

    return xxhash.xxh3_128_hexdigest(data)
