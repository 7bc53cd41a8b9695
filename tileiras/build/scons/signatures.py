"""Rows of the signature database of SCons (`.sconsign.dblite`) for folders with many kernels.

SCons has one row for each folder, which it reads and writes as a whole; with one edited kernel among a thousand that
is half of the build time.  Here the artifacts of each kernel in such a folder have a row of their own, of the same
form, and kernel sources are not recorded: for a file without a builder, SCons only caches its digest, which is valid
while the file's mtime is unchanged.  All other files of the folder stay in its row.

An artifact recorded in both rows, by this version and another one, cannot wrongly pass as up to date: its content is
compared with the digest that its step recorded (`staleness`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import SCons.SConsign
import SCons.Script.Main


class _Place:
    """Stands in for a folder in SCons' database; its row holds the artifacts of one kernel."""

    def __init__(self, folder: Any, stem: str) -> None:
        self._folder = folder
        self._name = stem + ".*"
        """Not the name of a file, so the row cannot be that of a folder."""
        self.fs = folder.fs
        self.is_under = folder.is_under

    def get_tpath(self) -> str:
        return os.path.join(self._folder.get_tpath(), self._name)

    def get_internal_path(self) -> str:
        return os.path.join(self._folder.get_internal_path(), self._name)


class FolderSignatures:
    """The result of `Dir.sconsign()` for a folder with kernels, or with artifacts of several kernels."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder
        self._others: Any = folder._sconsign
        """The folder's own row, opened on first use."""
        self._rows: dict[str, Any] = {}
        """Rows by stem of the kernel's artifacts."""
        self._stems: dict[str, str] = {}
        """Stem by name of the artifact."""
        self._sources: dict[str, Any] = {}
        """The nodes of kernels' sources, by name."""

    @staticmethod
    def of(folder: Any) -> FolderSignatures:
        """The signatures of a folder's node, installed in the node on first use."""
        if not isinstance(folder._sconsign, FolderSignatures):
            folder._sconsign = FolderSignatures(folder)
        return folder._sconsign

    def add_artifacts(self, stem: str, nodes: Iterable[Any]) -> None:
        """Record a kernel's artifacts in a row of their own."""
        self._stems.update((node.name, stem) for node in nodes)

    def add_source(self, node: Any) -> None:
        """Exclude a file from the database, unless it has a builder."""
        self._sources[node.name] = node

    def _is_source(self, name: str) -> bool:
        node = self._sources.get(name)
        return node is not None and not node.has_builder()

    def _row(self, name: str) -> Any:
        stem = self._stems.get(name)
        # With SConsignFile(None) each folder has a database file of its own, and rows are not split.
        if stem is None or SCons.SConsign.ForDirectory is not SCons.SConsign.DB:
            if self._others is None:
                self._others = SCons.SConsign.ForDirectory(self._folder)
            return self._others
        if stem not in self._rows:
            self._rows[stem] = SCons.SConsign.DB(_Place(self._folder, stem))
        return self._rows[stem]

    # ---- called by SCons, which writes every opened row at its end ---------------------------------------------------

    def get_entry(self, name: str) -> Any:
        if self._is_source(name):
            raise KeyError(name)
        return self._row(name).get_entry(name)

    def set_entry(self, name: str, entry: Any) -> None:
        if not self._is_source(name):
            self._row(name).set_entry(name, entry)

    def store_info(self, name: str, node: Any) -> None:
        if not self._is_source(name):
            self._row(name).store_info(name, node)

    def merge(self) -> None:
        for row in [self._others, *self._rows.values()]:
            if row is not None:
                row.merge()


def note_artifacts(stem: str, nodes: Sequence[Any]) -> None:
    """Record a file's artifacts in a row of their own, limited to those in the folder of the first one.

    stem: their path without suffixes.  Artifacts in the folders of the file's entries stay in the rows of those
    folders.
    """
    folder = nodes[0].dir
    FolderSignatures.of(folder).add_artifacts(os.path.basename(stem), [node for node in nodes if node.dir is folder])


def note_source(node: Any) -> None:
    """Exclude a source file from the database; a copy in a variant directory is recorded as usual."""
    if node.srcnode() is node:
        FolderSignatures.of(node.dir).add_source(node)


@functools.cache
def install() -> None:
    """Report a database that cannot be written as an error of the build (code 2), instead of SCons' traceback."""
    SCons.SConsign.write = _told(SCons.SConsign.write)


def _told(write: Callable[[], None]) -> Callable[[], None]:
    def told() -> None:
        try:
            write()
        except OSError as error:
            reason = error.strerror or str(error)
            names = {str(getattr(database, "_file_name", "")): database for database in SCons.SConsign.DB_sync_list}
            for name, database in names.items():
                # Prevent a second attempt when the process ends, and remove the partial file.
                database._needs_sync = False
                with contextlib.suppress(OSError, AttributeError, TypeError):
                    os.unlink(database._tmp_name)
            name = error.filename or os.path.relpath(next(filter(None, names), ".sconsign.dblite"))
            message = f"unable to write '{name}': {reason}; the next build looks at everything anew"
            print(f"error: {message}", file=sys.stderr)
            SCons.Script.Main.exit_status = 2

    return told
