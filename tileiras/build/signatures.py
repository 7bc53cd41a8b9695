"""What SCons notes of files (`.sconsign.dblite`) in folders that many kernels share.

SCons has one row for each folder, which it reads and writes as a whole.  Of one edited kernel among a thousand that is
half of the build.  So a kernel's artifacts in such a folder have a row of their own, of the same form, and a kernel's
source has none: of a file that nothing builds, SCons only notes a digest to be believed later, as long as the file's
time is the same.  All other files of the folder stay in its row.

An artifact that is noted in both places, by this version and another one, cannot be taken for up to date wrongly: what
it holds is compared with what its step made (`standing`).
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
    """A folder, as SCons' database takes it, whose row is that of one kernel."""

    def __init__(self, folder: Any, stem: str) -> None:
        self._folder = folder
        self._name = stem + ".*"
        """No file's name, so that the row is none of a folder."""
        self.fs = folder.fs
        self.is_under = folder.is_under

    def get_tpath(self) -> str:
        return os.path.join(self._folder.get_tpath(), self._name)

    def get_internal_path(self) -> str:
        return os.path.join(self._folder.get_internal_path(), self._name)


class FolderSignatures:
    """What `Dir.sconsign()` returns for a folder with kernels, or with artifacts of several."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder
        self._others: Any = folder._sconsign
        """The folder's own row, once somebody has asked for it."""
        self._rows: dict[str, Any] = {}
        """By the name that a kernel's artifacts begin with."""
        self._stems: dict[str, str] = {}
        """These names by the artifacts'."""
        self._sources: dict[str, Any] = {}
        """The nodes of kernels' sources, by name."""

    @staticmethod
    def of(folder: Any) -> FolderSignatures:
        """Those of a folder's node, which has them from now on."""
        if not isinstance(folder._sconsign, FolderSignatures):
            folder._sconsign = FolderSignatures(folder)
        return folder._sconsign

    def add_artifacts(self, stem: str, nodes: Iterable[Any]) -> None:
        """Has a kernel's artifacts be noted apart from all other files."""
        self._stems.update((node.name, stem) for node in nodes)

    def add_source(self, node: Any) -> None:
        """Has nothing be noted of a file, unless it turns out that something builds it."""
        self._sources[node.name] = node

    def _is_source(self, name: str) -> bool:
        node = self._sources.get(name)
        return node is not None and not node.has_builder()

    def _row(self, name: str) -> Any:
        stem = self._stems.get(name)
        # With SConsignFile(None) each folder has a file with its own row.
        if stem is None or SCons.SConsign.ForDirectory is not SCons.SConsign.DB:
            if self._others is None:
                self._others = SCons.SConsign.ForDirectory(self._folder)
            return self._others
        if stem not in self._rows:
            self._rows[stem] = SCons.SConsign.DB(_Place(self._folder, stem))
        return self._rows[stem]

    # ---- what SCons calls; at its end it writes every row that was made ----------------------------------------------

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
    """Has SCons note a file's artifacts apart, as far as they are in the folder of the first one.

    stem: what these are called, up to their suffixes.  The others are in folders of the file's entries, and stay there.
    """
    folder = nodes[0].dir
    FolderSignatures.of(folder).add_artifacts(os.path.basename(stem), [node for node in nodes if node.dir is folder])


def note_source(node: Any) -> None:
    """Has SCons note nothing of a file that is read and not built; of a copy in a variant directory it does."""
    if node.srcnode() is node:
        FolderSignatures.of(node.dir).add_source(node)


@functools.cache
def install() -> None:
    """Has a database that cannot be written be an error of the build (code 2); SCons ends with a traceback."""
    SCons.SConsign.write = _told(SCons.SConsign.write)


def _told(write: Callable[[], None]) -> Callable[[], None]:
    def told() -> None:
        try:
            write()
        except OSError as error:
            reason = error.strerror or str(error)
            names = {str(getattr(database, "_file_name", "")): database for database in SCons.SConsign.DB_sync_list}
            for name, database in names.items():
                # It would try again when the process ends, and what it has written so far is of no use.
                database._needs_sync = False
                with contextlib.suppress(OSError, AttributeError, TypeError):
                    os.unlink(database._tmp_name)
            name = error.filename or os.path.relpath(next(filter(None, names), ".sconsign.dblite"))
            print(f"error: unable to write '{name}': {reason}; the next build looks at all anew", file=sys.stderr)
            SCons.Script.Main.exit_status = 2

    return told
