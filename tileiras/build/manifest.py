"""What a whole, failure-free build left behind, so that the next one need not declare what nobody touched.

A row is one source for one target: a signature over everything its stages depend on besides files, its products, and
every file that it reads or makes with size, time of change, inode and digest.  A kernel whose files are all as the row
says is clean.  A file whose times differ is compared by content, and so is one that was changed so shortly before the
manifest was written that a later change may have got the same time.

Digests of artifacts are those of what the build made, or found to be what the same step made before: a row is only
written when the files have them as it is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tileiras.build import NOTES
from tileiras.files import RACY_NS, content_digest, write_atomically

FORMAT = 4

PATH = os.path.join(NOTES, "manifest.json")
"""In a build directory."""

Row = dict[str, Any]
"""`signature`, `products` and `entries` as `set` was given them, the states of `files`, the names of the `inputs`."""

FileState = list[Any]
"""[path relative to the top, size, mtime in ns, ctime in ns, inode, xxh3_128 of the content].

The time of the inode's change is there because no program can set it back, as many do with the other (cp -p, rsync).
"""


class Manifest:
    """The manifest of one build directory; `top` is the folder that its paths start from."""

    def __init__(self, build: str, top: str) -> None:
        self.path = os.path.join(build, PATH)
        self._prefix = top.rstrip(os.sep) + os.sep
        self._rows: dict[str, dict[str, Any]] = {}
        self._time = 0
        self._changed = False
        try:
            with open(self.path, "rb") as file:
                stored = json.loads(file.read())
            if stored["format"] == FORMAT:
                self._rows, self._time = stored["rows"], stored["time"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing is known to be clean

    def clean(self, key: str, signature: str, inputs: Iterable[str] | None = None) -> Row | None:
        """The row of a kernel of which nothing changed, else None.

        `inputs` are the files that the source reads, where they can be others than last time.
        """
        row = self._rows.get(key)
        if row is None or row["signature"] != signature:
            return None
        import time

        racy = self._time - RACY_NS
        # Names that the system need not follow from the root are found in less time.
        prefix = "" if os.getcwd() + os.sep == self._prefix else self._prefix
        settled = time.time_ns() - RACY_NS
        try:
            if inputs is not None and sorted(map(self.relative, inputs)) != row["inputs"]:
                return None
            stat = os.stat
            for state in row["files"]:
                path, size, mtime, ctime, inode, digest = state
                status = stat(prefix + path)
                if status.st_size != size:
                    return None
                if (
                    status.st_mtime_ns != mtime
                    or status.st_ctime_ns != ctime
                    or status.st_ino != inode
                    or mtime >= racy
                    or ctime >= racy
                ):
                    if content_digest(prefix + path) != digest:
                        return None
                    # Worth writing when a manifest of now would spare the next build this look.
                    state[2:5] = _times(status)
                    self._changed |= max(state[2:4]) < settled
            return row
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def observe(self, paths: Iterable[str]) -> list[FileState] | None:
        """The state of files as it is now; None when one cannot be read."""
        states = []
        try:
            for path in paths:
                name = self.relative(path)
                status = os.stat(path)
                states.append([name, status.st_size, *_times(status), content_digest(path)])
        except OSError:
            return None
        return states

    def set(
        self,
        key: str,
        signature: str,
        inputs: list[FileState],
        made: Mapping[str, str | None],
        products: Iterable[Any],
        entries: Sequence[str] = (),
    ) -> None:
        """Makes a row of what was built.

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
            return
        self._rows[key] = {
            "signature": signature,
            "products": list(products),
            "inputs": sorted(state[0] for state in inputs),
            "files": [*inputs, *made_states],
            "entries": list(entries),
        }
        self._changed = True

    def entries(self, key: str) -> list[str] | None:
        """The entries of a kernel as its row has them; None without one."""
        row = self._rows.get(key)
        return row["entries"] if row is not None else None

    def relative(self, path: str) -> str:
        """A file's path from the top; one that is elsewhere as a path through `..`."""
        if path.startswith(self._prefix):
            return path[len(self._prefix) :]
        return os.path.relpath(path, self._prefix)

    def absolute(self, name: str) -> str:
        """The path of a file that `relative` gave the name of."""
        return os.path.normpath(self._prefix + name)

    def save(self) -> None:
        """Writes the manifest when anything in it is new; rows of sources that are gone are left out."""
        import time

        if not self._changed:
            return
        rows = {}
        for key, row in self._rows.items():
            if all(os.path.exists(self._prefix + name) for name in row["inputs"]):
                rows[key] = row
        stored = {"format": FORMAT, "time": time.time_ns(), "rows": rows}
        try:
            write_atomically(self.path, json.dumps(stored, separators=(",", ":")).encode(), checked=True)
        except OSError:
            pass  # the next build declares everything


def _times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino
