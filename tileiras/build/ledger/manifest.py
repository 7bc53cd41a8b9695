"""The state of a complete build without failures, so that the next build need not declare unchanged kernels.

A manifest covers one folder of kernels for one variant.  A row covers one source: a signature over all dependencies of
its stages besides files, its products, and every file that it reads or makes, with size, times, inode and digest.  A
kernel is clean if all its files match the row.  They are compared by content if a time differs, or if one was changed
so shortly before the row was written that a later change may have got the same time.

Digests of artifacts are those of artifacts that the build made, or verified to be equal to those of an earlier run of
the same step: a row is written only if the files have these digests at that time.

Rows are parsed on demand, and written back as they were read unless they have changed.  The note of the log's last
record is the lease of a monitor (`watch.lease`), which rows of another process make void.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import tileiras
from tileiras.build import NOTES
from tileiras.build.ledger.log import DELETED, Line, Log, dump
from tileiras.support.files import RACY_NS, content_digest
from tileiras.support.named_tuple import NamedTuple

FOLDER = os.path.join(NOTES, "trees")
"""The folder of manifests in a build directory."""

MOST_SOUGHT = 16
"""Number of rows that are parsed one by one before all are."""

DIGEST_SIZE = 32

SEPARATOR = "//"
"""Between the paths of a row, which are normalized and never have it: one string is parsed in less time than a list."""


class Row(NamedTuple):
    """The row of one source.  Paths are relative to the top folder."""

    key: str
    source: str
    signature: str
    products: list[list[str]]
    """Each product's path, and SCons' signature of its content."""
    entries: list[str]
    inputs: list[str]
    names: str
    """All files that are read or made, including the inputs, with SEPARATOR between them."""
    states: str
    """A digest of the states of all files: size, mtime in ns, ctime in ns and inode of each.

    ctime is included because programs cannot set it, whereas many set mtime (cp -p, rsync).
    """
    newest: int
    """The latest of these times."""
    digests: str
    """xxh3_128 of each file's content, DIGEST_SIZE hexadecimal digits per file."""
    reads: list[list[str]] = []
    """Titles and states of the rows of inputs that the source's modules read besides."""

    @property
    def files(self) -> list[str]:
        return self.names.split(SEPARATOR)

    def digest(self, index: int) -> str:
        """Return the digest of a file's content."""
        return self.digests[index * DIGEST_SIZE : (index + 1) * DIGEST_SIZE]


def _states(paths: Iterable[str]) -> list[int]:
    """Four numbers per file: size, mtime in ns, ctime in ns, inode; raises OSError."""
    states: list[int] = []
    for status in map(os.stat, paths):
        states += (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return states


def _digest_of(states: Sequence[int]) -> str:
    """Raises ValueError for a time that does not fit into 64 bits."""
    import xxhash

    try:
        return xxhash.xxh3_128_hexdigest(_words(len(states) // 4).pack(*states))
    except struct.error as error:
        raise ValueError(str(error)) from None


def _newest(states: Sequence[int]) -> int:
    return max(*states[1::4], *states[2::4])


@functools.cache
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{'qqqQ' * count}")


FileState = list[Any]
"""[path from the top, size, mtime in ns, ctime in ns, inode, digest], as in a row."""


class Manifest:
    """The manifest in a file; `top` is the folder that its paths start from."""

    def __init__(self, path: str, top: str) -> None:
        self.path = path
        self._prefix = top.rstrip(os.sep) + os.sep
        self.near: str | None = None
        """The path of the top folder from the working directory, if it takes less time to resolve."""
        self._log = Log(path)
        self._rows: dict[str, Row | None] = {}
        """Rows that were parsed or changed, by key; None for those without a row."""
        self._are_parsed = False
        self._changed: dict[str, Line] = {}
        """Rows to be written."""
        self._order: list[str] | None = None
        """The keys of all rows, if the file has to be written in this order."""

    @property
    def note(self) -> dict[str, Any] | None:
        """The note of the last record."""
        return self._log.note

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._keys())

    def signatures(self) -> list[str]:
        """Return the concatenated signatures of each row's products, in the order of the rows."""
        return self._log.words()

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _keys(self) -> list[str]:
        """The keys of all rows, in order."""
        if self._order is not None:
            return self._order
        if not self._changed:
            return self._log.keys()
        keys = dict.fromkeys([*self._log.keys(), *self._changed])
        return [key for key in keys if self._changed.get(key) is not DELETED]

    def row(self, key: str) -> Row | None:
        """Return the row of a kernel; None without a row."""
        if key not in self._rows:
            if len(self._rows) < MOST_SOUGHT:
                value = self._log.value(key)
                self._rows[key] = Row._make(value) if value is not None else None
            elif not self._are_parsed:
                self._are_parsed = True
                values = self._log.values()
                rows = zip(values, map(functools.partial(tuple.__new__, Row), values.values()))
                self._rows = {**dict(rows), **self._rows}
        return self._rows.get(key)

    def rows(self) -> list[Row]:
        """Return all rows in order."""
        return [row for row in map(self.row, self._keys()) if row is not None]

    def naming(self, names: Iterable[str]) -> dict[str, list[tuple[int, Row]]]:
        """Map each file to the rows that contain it, with their positions.

        Other rows are not parsed.
        """
        places = {key: place for place, key in enumerate(self._log.keys())}
        pairs = {name: [(places[key], self.row(key)) for key in self._log.naming(name)] for name in names}
        return {
            name: [(place, row) for place, row in rows if row is not None and name in row.files]
            for name, rows in pairs.items()
        }

    def clean(
        self, key: str, signature: str, inputs: Iterable[str] | None = None, changed: Set[str] | None = None
    ) -> Row | None:
        """Return the row of a kernel if it is unchanged, else None.

        `inputs` are the files that the source reads, if that set may have changed.  `changed` are the files that may
        have changed since the manifest was compared with them, if known: see `watch.lease`.
        """
        row = self._rows.get(key) or self.row(key)
        if row is None or row.signature != signature:
            return None
        try:
            if inputs is not None and sorted(map(self.relative, inputs)) != row.inputs:
                return None
            if row.reads and not self.still_reads(row.source, row.reads):
                return None
            files = row.files
            if changed is not None and changed.isdisjoint(files):
                return row
            prefix = self.near if self.near is not None else self._prefix
            paths = [prefix + name for name in files] if prefix else files
            states = _states(paths)
            digest = _digest_of(states)
            if digest == row.states and row.newest < self._log.time(key) - RACY_NS:
                return row
            return self._compare(row, paths, digest, _newest(states))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _compare(self, row: Row, paths: Sequence[str], states: str, newest: int) -> Row | None:
        """Return the row with the current states of its files, if all have the same content."""
        import time

        quiet_before = time.time_ns() - RACY_NS
        if any(content_digest(path) != row.digest(index) for index, path in enumerate(paths)):
            return None
        self._rows[row.key] = row = row._replace(states=states, newest=newest)
        # Worth writing if a manifest written now spares the next build this comparison.
        if newest < quiet_before:
            self._put(row)
        return row

    def _put(self, row: Row) -> None:
        self._rows[row.key] = row
        self._changed[row.key] = Line(dump(row), "".join(product[1] for product in row.products))

    def observe(self, paths: Iterable[str]) -> list[FileState] | None:
        """Return the current state of files; None if one cannot be read."""
        states = []
        try:
            for path in paths:
                name = self.relative(path)
                status = os.stat(path)
                times = status.st_mtime_ns, status.st_ctime_ns
                if max(times) >= 1 << 63:
                    return None  # does not fit into a row
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
        digests: Mapping[str, str | None],
        products: Iterable[Sequence[str]],
        entries: Sequence[str] = (),
        reads: Mapping[str, str] | None = None,
    ) -> bool:
        """Set the row of a built kernel; return whether it now has one.

        `inputs` are the states from `observe` before the build, `digests` the digests of the files that it made or
        verified, by path, `reads` the states of the inputs that the source's modules read.  The row is dropped if an
        input has changed since, as the artifacts may be of either content, and if an artifact has another digest than
        in `digests`, or its digest there is None.
        """
        made_states = self.observe(digests)
        if (
            made_states is None
            or any(state[5] != digest for state, digest in zip(made_states, digests.values(), strict=True))
            or self.observe(self._prefix + state[0] for state in inputs) != inputs
        ):
            self.drop(key)
            return False
        files = [*inputs, *made_states]
        states = [number for state in files for number in state[1:5]]
        self._put(
            Row(
                key, self.relative(source), signature, [list(product) for product in products], list(entries),
                sorted(state[0] for state in inputs), SEPARATOR.join(state[0] for state in files),
                _digest_of(states), _newest(states), "".join(state[5] for state in files),
                [[*item] for item in (reads or {}).items()],
            )
        )  # fmt: skip
        return True

    def still_reads(self, source: str, reads: Iterable[Sequence[str]]) -> bool:
        """Whether the inputs that a source's modules read are unchanged; raises ValueError for a malformed row."""
        if not reads:
            return True
        base = os.path.dirname(os.path.realpath(self.absolute(source)))
        return all(
            tileiras.inputs.kinds.holds(tileiras.inputs.with_title(title, state), base) for title, state in reads
        )

    def drop(self, key: str) -> None:
        """Remove the row of a kernel."""
        if self.row(key) is not None:
            self._rows[key], self._changed[key] = None, DELETED

    # ---- files -------------------------------------------------------------------------------------------------------

    def relative(self, path: str) -> str:
        """Return a file's path relative to the top folder, through `..` if it is outside."""
        if path.startswith(self._prefix):
            return path[len(self._prefix) :]
        return os.path.relpath(path, self._prefix)

    def absolute(self, name: str) -> str:
        """Return the path of a name from `relative`."""
        return os.path.normpath(self._prefix + name)

    def keep(self, keys: Iterable[str]) -> None:
        """Drop the rows of all other kernels, and sort the remaining rows in this order."""
        present = self._keys()
        names = set(present)
        order = [key for key in keys if key in names]
        if order != present:
            self._order = order

    def save(self, note: dict[str, Any] | None = None) -> None:
        """Write the changed rows, if any, and a note about all rows unless it is the present one."""
        if not self._changed and self._order is None and note in (None, self.note):
            return
        try:
            if self._order is None:
                self._log.append(self._changed, note, chained=True)
            else:
                lines = {**self._log.lines, **self._changed}
                self._log.write({key: lines[key] for key in self._order}, note)
        except OSError:
            return  # the next build declares everything
        self._changed, self._order = {}, None
