"""What a whole, failure-free build left behind, so that the next one need not declare what nobody touched.

A manifest is of one folder of kernels for one variant.  A row is one source: a signature over everything its stages
depend on besides files, its products, and every file that it reads or makes with size, time of change, inode and
digest.  A kernel whose files are all as the row says is clean.  A file whose times differ is compared by content, and
so is one that was changed so shortly before the manifest was written that a later change may have got the same time.

Digests of artifacts are those of what the build made, or found to be what the same step made before: a row is only
written when the files have them as it is written.

Rows are read when somebody needs them, few of them without the others, and written back as they were read unless they
have changed: `manifest_file` says how.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from tileiras.build import NOTES
from tileiras.build.manifest_file import Line, ManifestFile
from tileiras.files import RACY_NS, content_digest
from tileiras.named_tuple import NamedTuple

FOLDER = os.path.join(NOTES, "manifests")
"""In a build directory."""

MOST_SOUGHT = 16
"""Rows that are looked for in the file one by one; then all of them are read."""


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
    reads: list[list[str]] = []
    """What the source's modules read besides, as titles and states of rows of inputs."""

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
        self._file = ManifestFile(path)
        self._all: dict[str, Row] | None = None
        """All rows in order, where they were needed."""
        self._some: dict[str, Row | None] = {}
        """Rows that were looked for, where not all were needed."""
        self._places: dict[str, int] = {}
        """Of rows in the file, by key."""
        self._lines: dict[str, bytes] = {}
        """Rows as they stand in the file, by key, where all were read."""
        self._put_rows: dict[str, Row] = {}
        """Rows that are others than in the file."""
        self._changed = self._reordered = False
        """Whether there is something to write, and whether it is more than rows in the places of others."""

    @property
    def digest(self) -> str:
        """Of all that the manifest says, as it was read or written last; empty where there is none."""
        return self._file.digest

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._all) if self._all is not None else self._file.count

    def signatures(self) -> list[str]:
        """The signatures of each row's products, one behind the other, in the order of the rows."""
        return self._file.signatures()

    # ---- rows --------------------------------------------------------------------------------------------------------

    def is_whole(self) -> bool:
        """Whether there is a manifest whose rows can be read."""
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
        """One of them; not all are read for it, unless many are asked for."""
        if self._all is None and key not in self._some and len(self._some) < MOST_SOUGHT:
            found = self._file.beginning(key)
            if found is not None:
                self._places[key] = found.place
            self._some[key] = Row(*json.loads(found.text)) if found is not None else None
        if self._all is None and key in self._some:
            return self._some[key]
        return self._rows.get(key)

    def rows(self) -> list[Row]:
        """All of them, in order."""
        return list(self._rows.values())

    def naming(self, names: Iterable[str]) -> dict[str, list[tuple[int, Row]]]:
        """The rows that have a file, with their positions, for each file; none in a manifest that is damaged.

        No other rows are taken apart.
        """
        found: dict[str, list[tuple[int, Row]]] = {}
        for name in names:
            stored = [(line.place, Row(*json.loads(line.text))) for line in self._file.naming(name)]
            found[name] = [(place, row) for place, row in stored if name in row.files]
        return found

    def clean(
        self, key: str, signature: str, inputs: Iterable[str] | None = None, changed: Set[str] | None = None
    ) -> Row | None:
        """The row of a kernel of which nothing changed, else None.

        `inputs` are the files that the source reads, where they can be others than last time.  `changed` are the files
        that can have changed since the manifest was compared with them, where that is known: see `vouching`.
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
            # Names that the system need not follow from the root are found in less time.
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
        reads: Mapping[str, str] | None = None,
    ) -> bool:
        """Makes a row of what was built; whether it has one.

        `inputs` are as `observe` saw them before the build, `made` are the digests of what it made or verified, by
        path, `reads` the states of what the source's modules read.  Without a row when an input has changed since, for
        what was made may be of either content, and when an artifact is another one, or None for it is known.
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
        """The entries of a kernel as its row has them; None without one."""
        row = self._row(key)
        return row.entries if row is not None else None

    def still_reads(self, source: str, reads: Iterable[Sequence[str]]) -> bool:
        """Whether what the modules of a source read is as it was; raises ValueError for what is no row of inputs."""
        if not reads:
            return True
        from tileiras.inputs import kinds, with_title

        base = os.path.dirname(os.path.realpath(self.absolute(source)))
        return all(kinds.holds(with_title(title, state), base) for title, state in reads)

    def drop(self, key: str) -> None:
        """Has a kernel have no row."""
        self._drop(key)

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
            self._all = {key: self._rows[key] for key in wanted}
            self._put_rows = {key: row for key, row in self._put_rows.items() if key in self._all}
            self._changed = self._reordered = True

    def save(self) -> None:
        """Writes what is new in the manifest, if anything is."""
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
        # What was read is no longer what is written.
        self._all, self._some, self._places, self._lines, self._put_rows = None, {}, {}, {}, {}
        self._changed = self._reordered = False


def _line(row: Row) -> Line:
    return Line(json.dumps(row, separators=(",", ":")).encode(), _signature(row))


def _signature(row: Row) -> str:
    return "".join(product[1] for product in row.products)
