"""The state of a complete build without failures, so that the next build need not declare unchanged kernels.

A manifest covers one folder of kernels for one variant.  A row covers one source: a signature over all dependencies of
its stages besides files, its products, and every file that it reads or makes, with size, times, inode and digest.  A
kernel is clean if all its files match the row.  A file is compared by content if its times differ, or if it was changed
so shortly before the manifest was written that a later change may have got the same time.

Digests of artifacts are those of artifacts that the build made, or verified to be equal to those of an earlier run of
the same step: a row is written only if the files have these digests at that time.

Rows are read on demand, a few of them without the others, and written back as they were read unless they have changed
(`manifest_file`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import tileiras
from tileiras.build import NOTES
from tileiras.build.ledger.manifest_file import Line, ManifestFile
from tileiras.support.files import RACY_NS, content_digest
from tileiras.support.named_tuple import NamedTuple

FOLDER = os.path.join(NOTES, "manifests")
"""The folder of manifests in a build directory."""

MOST_SOUGHT = 16
"""Maximum number of rows that are searched in the file one by one; beyond it, all rows are read."""


class Row(NamedTuple):
    """The row of one source.  Paths are relative to the top folder."""

    key: str
    source: str
    signature: str
    products: list[list[str]]
    """Each product's path, and SCons' signature of its content."""
    entries: list[str]
    inputs: list[str]
    files: list[str]
    """All files that are read or made, including the inputs."""
    states: list[int]
    """Four numbers per file: size, mtime in ns, ctime in ns, inode.

    ctime is included because programs cannot set it, whereas many set mtime (cp -p, rsync).
    """
    digests: list[str]
    """xxh3_128 of each file's content."""
    reads: list[list[str]] = []
    """Titles and states of the rows of inputs that the source's modules read besides."""

    def stated(self) -> Iterator[list[Any]]:
        """Yield the products as SCons records a file: path, signature, size, time in seconds."""
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
        self._file = ManifestFile(path)
        self._all: dict[str, Row] | None = None
        """All rows in order; None until they are needed."""
        self._some: dict[str, Row | None] = {}
        """Rows that were looked up individually."""
        self._places: dict[str, int] = {}
        """Positions of rows in the file, by key."""
        self._lines: dict[str, bytes] = {}
        """Serialized rows of the file, by key, if all were read."""
        self._put_rows: dict[str, Row] = {}
        """Rows that differ from the file."""
        self._changed = self._reordered = False
        """Whether rows must be written, and whether more is needed than replacing rows in place."""

    @property
    def digest(self) -> str:
        """Digest of the manifest as last read or written; empty if absent."""
        return self._file.digest

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._all) if self._all is not None else self._file.count

    def signatures(self) -> list[str]:
        """Return the concatenated signatures of each row's products, in the order of the rows."""
        return self._file.signatures()

    # ---- rows --------------------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether the manifest exists and its rows can be read."""
        return self._file.is_whole()

    @property
    def _rows(self) -> dict[str, Row]:
        if self._all is None:
            lines = self._file.lines()
            self._all = {}
            try:
                for place, values in enumerate(json.loads(b"[" + b",".join(lines) + b"]")):
                    row = Row(*values)
                    self._all[row.key] = row
                    self._places[row.key], self._lines[row.key] = place, lines[place]
            except (ValueError, TypeError):
                self._all, self._lines, self._places = {}, {}, {}
            self._all.update(self._put_rows)
        return self._all

    def _row(self, key: str) -> Row | None:
        """Return one row, without reading all rows until `MOST_SOUGHT` rows have been looked up."""
        if self._all is None and key not in self._some and len(self._some) < MOST_SOUGHT:
            found = self._file.beginning(key)
            if found is not None:
                self._places[key] = found.place
            self._some[key] = Row(*json.loads(found.text)) if found is not None else None
        if self._all is None and key in self._some:
            return self._some[key]
        return self._rows.get(key)

    def rows(self) -> list[Row]:
        """Return all rows in order."""
        return list(self._rows.values())

    def naming(self, names: Iterable[str]) -> dict[str, list[tuple[int, Row]]]:
        """Map each file to the rows that contain it, with their positions; empty lists if the manifest is damaged.

        Other rows are not parsed.
        """
        found: dict[str, list[tuple[int, Row]]] = {}
        for name in names:
            stored = [(line.place, Row(*json.loads(line.text))) for line in self._file.naming(name)]
            found[name] = [(place, row) for place, row in stored if name in row.files]
        return found

    def clean(
        self, key: str, signature: str, inputs: Iterable[str] | None = None, changed: Set[str] | None = None
    ) -> Row | None:
        """Return the row of a kernel if it is unchanged, else None.

        `inputs` are the files that the source reads, if that set may have changed.  `changed` are the files that may
        have changed since the manifest was compared with them, if known: see `watch.tokens`.
        """
        row = self._row(key)
        if row is None or row.signature != signature:
            return None
        try:
            if inputs is not None and sorted(map(self.relative, inputs)) != row.inputs:
                return None
            if not self.still_reads(row.source, row.reads):
                return None
            if changed is not None and changed.isdisjoint(row.files):
                return row
            # Relative names take less time to resolve than names from the root.
            prefix = "" if os.getcwd() + os.sep == self._prefix else self._prefix
            states: list[int] = []
            for name in row.files:
                status = os.stat(prefix + name)
                states += (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            racy = self._file.time(self._places.get(key, -1)) - RACY_NS
            if states == row.states and max(states[1::4]) < racy and max(states[2::4]) < racy:
                return row
            return self._compared(row, states, prefix, racy)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _compared(self, row: Row, states: list[int], prefix: str, racy: int) -> Row | None:
        """Return the row with the current states of its files, if files that may have changed have the same content."""
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
                # Worth writing if a manifest written now spares the next build this comparison.
                self._changed |= max(now[1:3]) < settled
        found = row._replace(states=states)
        self._put(found)
        return found

    def _put(self, row: Row) -> None:
        if self._row(row.key) is None:
            self._reordered = True
        rows = self._some if self._all is None else self._all
        rows[row.key] = self._put_rows[row.key] = row

    def _drop(self, key: str) -> None:
        if self._rows.pop(key, None) is not None:
            self._put_rows.pop(key, None)
            self._changed = self._reordered = True

    def observe(self, paths: Iterable[str]) -> list[FileState] | None:
        """Return the current state of files; None if one cannot be read."""
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
        reads: Mapping[str, str] | None = None,
    ) -> bool:
        """Set the row of a built kernel; return whether it now has one.

        `inputs` are the states from `observe` before the build, `made` the digests of the files that it made or
        verified, by path, `reads` the states of the inputs that the source's modules read.  The row is dropped if an
        input has changed since, as the artifacts may be of either content, and if an artifact has another digest than
        in `made`, or its digest there is None.
        """
        made_states = self.observe(made)
        if (
            made_states is None
            or any(state[5] != digest for state, digest in zip(made_states, made.values(), strict=True))
            or self.observe(self._prefix + state[0] for state in inputs) != inputs
        ):
            self._drop(key)
            return False
        files = [*inputs, *made_states]
        self._put(
            Row(
                key, self.relative(source), signature, [list(product) for product in products], list(entries),
                sorted(state[0] for state in inputs), [state[0] for state in files],
                [number for state in files for number in state[1:5]], [state[5] for state in files],
                [[*item] for item in (reads or {}).items()],
            )
        )  # fmt: skip
        self._changed = True
        return True

    def entries(self, key: str) -> list[str] | None:
        """Return the entries of a kernel from its row; None without a row."""
        row = self._row(key)
        return row.entries if row is not None else None

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
        self._drop(key)

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
        wanted = [key for key in keys if key in self._rows]
        if wanted != list(self._rows):
            self._all = {key: self._rows[key] for key in wanted}
            self._put_rows = {key: row for key, row in self._put_rows.items() if key in self._all}
            self._changed = self._reordered = True

    def save(self) -> None:
        """Write the changed rows, if any."""
        if not self._changed:
            return
        new = {key: _line(row) for key, row in self._put_rows.items()}
        if self._reordered or not self._file.replace({self._places[key]: line for key, line in new.items()}):
            try:
                self._file.write(
                    new.get(key) or Line(self._lines[key], _signature(row)) for key, row in self._rows.items()
                )
            except OSError:
                return  # the next build declares everything
        # The rows in memory no longer match the file.
        self._all, self._some, self._places, self._lines, self._put_rows = None, {}, {}, {}, {}
        self._changed = self._reordered = False


def _line(row: Row) -> Line:
    return Line(json.dumps(row, separators=(",", ":")).encode(), _signature(row))


def _signature(row: Row) -> str:
    return "".join(product[1] for product in row.products)
