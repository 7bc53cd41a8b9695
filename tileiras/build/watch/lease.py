"""Skips stat() of files that the file-system monitor reports unchanged.

The note of a manifest is a lease: a point in time of one monitor (`watch.monitor`), after which a build wrote or
verified all rows.  While the same monitor runs, files match these rows unless the monitor names them.  A build
therefore queries the monitor before it checks any file, and notes the answer's point as the new lease once it has
compared all files that may have changed since the last one.

The other fields of a lease decide whether a tree must be listed: the signatures it was declared for, and its kernels.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras import processes
from tileiras.build import NOTES
from tileiras.build.ledger.manifest import Manifest
from tileiras.build.tuned import SUFFIX as TUNED
from tileiras.build.watch import monitor
from tileiras.stages.units import PYTHON, SUFFIXES
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.build.watch.monitor.client import Answer

SEEN = (*SUFFIXES, TUNED)
"""Suffixes of files in a folder of kernels whose content affects the build; of other files only the existence does."""

MARKS = ("SConstruct",)
"""Files that exclude their folder from the tree."""


class Lease(NamedTuple):
    """A manifest's rows match their files up to this point, without a look at them."""

    epoch: str
    number: int
    signatures: dict[str, str]
    """First stage -> the signature of all rows; empty if the tree must be listed anyway."""
    listed: str
    """A digest of the kernels."""
    reads: dict[str, list[list[str]]] = {}
    """Source -> the inputs that its modules read besides the tree, as in rows of the manifest."""


def read(manifest: Manifest) -> Lease | None:
    """Read the lease of a manifest; None without one."""
    return Lease(**manifest.note) if manifest.note is not None else None


def is_offered() -> bool:
    """Whether a provider of changes may run: the monitor, if the user has enabled it and the system supports it.

    Without one, `Changes.changed_since` would return None: the build examines all files.
    """
    return os.environ.get("TILEIRAS_SERVER") == "auto" and processes.sockets.supported()


class Changes:
    """The monitor's answer for one tree: its folder and the build directory, both absolute."""

    def __init__(self, folder: str, build: str, tokens: Sequence[Lease | None]) -> None:
        since: dict[str, int] = {}
        for token in tokens:
            if token is not None:
                since[token.epoch] = min(token.number, since.get(token.epoch, token.number))
        self._folder, self._build = folder, build
        self._roots = os.path.realpath(folder), os.path.realpath(build)
        self._since = since
        self.answer = self.ask()

    def ask(self) -> Answer | None:
        """Query the monitor; even if it cannot answer yet, it watches the folders from then on."""
        notes = os.path.join(self._roots[1], NOTES)
        return monitor.client.ask(notes, [(self._roots[0], SEEN), (self._roots[1], ())], self._since)

    def changed_since(self, token: Lease | None) -> list[str] | None:
        """Return the absolute paths of files that may have changed since a lease was written; None for all."""
        answer = self.answer
        if token is None or answer is None or answer.changed is None or token.epoch != answer.epoch:
            return None
        return [self._name(path) for path, number in sorted(answer.changed.items()) if number > token.number]

    def _name(self, path: str) -> str:
        """Convert a real path to the build's path.  The folder of kernels may be inside the build directory, or contain
        it."""
        for root, own in sorted(zip(self._roots, (self._folder, self._build), strict=True), reverse=True):
            if path.startswith(root + os.sep):
                return own + path[len(root) :]
        return path


def is_of_tree(path: str, folder: str) -> bool:
    """Whether a file may affect the set of kernels in a folder."""
    name = os.path.basename(path)
    return path.startswith(folder + os.sep) and (name.endswith(SEEN) or name in MARKS)


def is_text(path: str) -> bool:
    """Whether the path is a regular file with the suffix of a kernel other than a Python source."""
    try:
        kind = SUFFIXES.get(os.path.splitext(path)[1])
        return kind is not None and kind != PYTHON and stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False
