"""The file system of a folder, and the mounts below it."""

from __future__ import annotations

import os
import re

from tileiras.support.named_tuple import NamedTuple

LOCAL = ("ext4", "xfs", "btrfs", "tmpfs")
"""File systems that change only through this kernel, so that inotify reports every change.

Network and FUSE file systems change elsewhere.  The layers of an overlay may be modified underneath it, and the first
write to a file gives it another inode (copy-up).
"""

_ESCAPE = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """A line of /proc/self/mountinfo (proc(5))."""

    identifier: str
    point: str
    kind: str


def mounts() -> list[Mount]:
    """List the mounts in the order in which they were made; raises OSError."""
    result = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            words = line.split()
            point = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), words[4])
            kind = words[words.index(b"-", 6) + 1]
            result.append(Mount(words[0].decode(), os.fsdecode(point), os.fsdecode(kind)))
    return result


def around(folder: str, table: list[Mount]) -> tuple[Mount | None, list[Mount]]:
    """Return the mount that contains a folder, and the mounts below it; the path is a real path."""
    own: Mount | None = None
    below = []
    for mount in table:
        point = mount.point.rstrip("/") + "/"
        if (folder + "/").startswith(point):
            # The later of two mounts at one point hides the earlier.
            if own is None or len(mount.point) >= len(own.point):
                own = mount
        elif point.startswith(folder + "/"):
            below.append(mount)
    return own, below
