"""What a whole, failure-free build left behind, so that the next one need not declare what nobody touched.

A row is one source for one target: a signature over everything its stages depend on besides files, its products, and
every file that it reads or makes with size, time of change, inode and digest.  A kernel whose files are all as the row
says is clean.  A file whose times differ is compared by content, and so is one that was changed so shortly before the
manifest was written that a later change may have got the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from tileiras.files import RACY_NS, content_digest, write_atomically

FORMAT = 3

PATH = os.path.join(".tileiras", "manifest.json")
"""In a build directory."""

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

    def clean(self, key: str, signature: str, inputs: Iterable[str] | None = None) -> list[Any] | None:
        """The products, as `set` was given them, of a row of which nothing changed, else None.

        `inputs` are the files that the source reads, where they can be others than last time.
        """
        row = self._rows.get(key)
        if row is None or row["signature"] != signature:
            return None
        import time

        prefix, racy = self._prefix, self._time - RACY_NS
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
            return row["products"]
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
        self, key: str, signature: str, inputs: list[FileState], made: Iterable[str], products: Iterable[Any]
    ) -> None:
        """Makes a row of what was built.  `inputs` are as `observe` saw them before the build.

        Without a row when an input has changed since: what was made may be of either content.
        """
        made_states = self.observe(made)
        unchanged = made_states is not None and all(self._is_as(state) for state in inputs)
        if made_states is None or not unchanged:
            self._changed |= self._rows.pop(key, None) is not None
            return
        self._rows[key] = {
            "signature": signature,
            "products": list(products),
            "inputs": sorted(state[0] for state in inputs),
            "files": [*inputs, *made_states],
        }
        self._changed = True

    def _is_as(self, state: FileState) -> bool:
        try:
            status = os.stat(self._prefix + state[0])
        except OSError:
            return False
        return [status.st_size, *_times(status)] == state[1:5]

    def relative(self, path: str) -> str:
        """A file's path from the top; one that is elsewhere as a path through `..`."""
        if path.startswith(self._prefix):
            return path[len(self._prefix) :]
        return os.path.relpath(path, self._prefix)

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
            write_atomically(self.path, json.dumps(stored, separators=(",", ":")).encode())
        except OSError:
            pass  # the next build declares everything


def _times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino
